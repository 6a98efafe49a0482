"""AlterShareGroupOffsets: where a share group shall begin (API key 91)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Int16, Int32, Int64, Message, String, Struct, Uuid


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""
    partitions: Sequence[AlterShareGroupOffsetsRequestPartition] = ()


class AlterShareGroupOffsetsRequest(Message, key=91, first=0, last=0, flexible=0):
    group_id: String = ""
    topics: Sequence[AlterShareGroupOffsetsRequestTopic] = ()


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = NO_UUID
    partitions: Sequence[AlterShareGroupOffsetsResponsePartition] = ()


class AlterShareGroupOffsetsResponse(Message, key=91, first=0, last=0, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    responses: Sequence[AlterShareGroupOffsetsResponseTopic] = ()
