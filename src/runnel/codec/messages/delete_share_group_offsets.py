"""DeleteShareGroupOffsets: a share group forgets topics (API key 92)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Int16, Int32, Message, String, Struct, Uuid


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""


class DeleteShareGroupOffsetsRequest(Message, key=92, first=0, last=0, flexible=0):
    group_id: String = ""
    topics: Sequence[DeleteShareGroupOffsetsRequestTopic] = ()


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = NO_UUID
    error_code: Int16 = 0
    error_message: String | None = None


class DeleteShareGroupOffsetsResponse(Message, key=92, first=0, last=0, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: Sequence[DeleteShareGroupOffsetsResponseTopic] = ()
