"""OffsetCommit: a group remembers how far it has read (API key 8)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Int16, Int32, Int64, Message, String, Struct, Uuid, field


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(default=-1, since=6)
    committed_metadata: String | None = ""


class OffsetCommitRequestTopic(Struct):
    name: String = field(default="", until=9)
    topic_id: Uuid = field(default=NO_UUID, since=10)
    partitions: Sequence[OffsetCommitRequestPartition] = ()


class OffsetCommitRequest(Message, key=8, first=2, last=10, flexible=8):
    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    retention_time_ms: Int64 = field(default=-1, until=4)
    group_instance_id: String | None = field(default=None, since=7)
    topics: Sequence[OffsetCommitRequestTopic] = ()


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: String = field(default="", until=9)
    topic_id: Uuid = field(default=NO_UUID, since=10)
    partitions: Sequence[OffsetCommitResponsePartition] = ()


class OffsetCommitResponse(Message, key=8, first=2, last=10, flexible=8):
    throttle_time_ms: Int32 = field(default=0, since=3)
    topics: Sequence[OffsetCommitResponseTopic] = ()
