"""OffsetFetch: how far groups have read (API key 9)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Bool, Int16, Int32, Int64, Message, String, Struct, Uuid, field


class OffsetFetchRequestTopics(Struct):
    name: String = field(default="", until=9)
    topic_id: Uuid = field(default=NO_UUID, since=10)
    partition_indexes: Sequence[Int32] = ()


class OffsetFetchRequestGroup(Struct):
    group_id: String = ""
    member_id: String | None = field(default=None, since=9)
    member_epoch: Int32 = field(default=-1, since=9)
    topics: Sequence[OffsetFetchRequestTopics] | None = ()


class OffsetFetchRequestTopic(Struct):
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


class OffsetFetchRequest(Message, key=9, first=1, last=10, flexible=6):
    group_id: String = field(default="", until=7)
    topics: Sequence[OffsetFetchRequestTopic] | None = field(default=(), until=7, nullable=2)
    groups: Sequence[OffsetFetchRequestGroup] = field(default=(), since=8)
    require_stable: Bool = field(default=False, since=7)


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Struct):
    name: String = field(default="", until=9)
    topic_id: Uuid = field(default=NO_UUID, since=10)
    partitions: Sequence[OffsetFetchResponsePartitions] = ()


class OffsetFetchResponseGroup(Struct):
    group_id: String = ""
    topics: Sequence[OffsetFetchResponseTopics] = ()
    error_code: Int16 = 0


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(default=-1, since=5)
    metadata: String | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Struct):
    name: String = ""
    partitions: Sequence[OffsetFetchResponsePartition] = ()


class OffsetFetchResponse(Message, key=9, first=1, last=10, flexible=6):
    throttle_time_ms: Int32 = field(default=0, since=3)
    topics: Sequence[OffsetFetchResponseTopic] = field(default=(), until=7)
    error_code: Int16 = field(default=0, since=2, until=7)
    groups: Sequence[OffsetFetchResponseGroup] = field(default=(), since=8)
