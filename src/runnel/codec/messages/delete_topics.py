"""DeleteTopics: topics to remove, by name or id (API key 20)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Int16, Int32, Message, String, Struct, Uuid, field


class DeleteTopicState(Struct):
    name: String | None = None
    topic_id: Uuid = NO_UUID


class DeleteTopicsRequest(Message, key=20, first=1, last=6, flexible=4):
    topic_names: Sequence[String] = field(default=(), until=5)
    topics: Sequence[DeleteTopicState] = field(default=(), since=6)
    timeout_ms: Int32 = 0


class DeletableTopicResult(Struct):
    name: String | None = field(default="", nullable=6)
    topic_id: Uuid = field(default=NO_UUID, since=6)
    error_code: Int16 = 0
    error_message: String | None = field(default=None, since=5)


class DeleteTopicsResponse(Message, key=20, first=1, last=6, flexible=4):
    throttle_time_ms: Int32 = 0
    responses: Sequence[DeletableTopicResult] = ()
