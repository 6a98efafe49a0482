"""ListOffsets: the offset at a time, or at the earliest, latest or largest timestamp (API key 2)."""

from collections.abc import Sequence

from runnel.codec.declare import Int8, Int16, Int32, Int64, Message, String, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Int32 = field(default=-1, since=4)
    timestamp: Int64 = 0


class ListOffsetsTopic(Struct):
    name: String = ""
    partitions: Sequence[ListOffsetsPartition] = ()


class ListOffsetsRequest(Message, key=2, first=1, last=11, flexible=6):
    replica_id: Int32 = 0
    isolation_level: Int8 = field(default=0, since=2)
    topics: Sequence[ListOffsetsTopic] = ()
    timeout_ms: Int32 = field(default=0, since=10)


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = field(default=-1, since=4)


class ListOffsetsTopicResponse(Struct):
    name: String = ""
    partitions: Sequence[ListOffsetsPartitionResponse] = ()


class ListOffsetsResponse(Message, key=2, first=1, last=11, flexible=6):
    throttle_time_ms: Int32 = field(default=0, since=2)
    topics: Sequence[ListOffsetsTopicResponse] = ()
