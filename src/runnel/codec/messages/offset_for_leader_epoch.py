"""OffsetForLeaderEpoch: where an epoch ended (API key 23)."""

from collections.abc import Sequence

from runnel.codec.declare import Int16, Int32, Int64, Message, String, Struct, field


class OffsetForLeaderPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Struct):
    topic: String = ""
    partitions: Sequence[OffsetForLeaderPartition] = ()


class OffsetForLeaderEpochRequest(Message, key=23, first=2, last=4, flexible=4):
    replica_id: Int32 = field(default=-2, since=3)
    topics: Sequence[OffsetForLeaderTopic] = ()


class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: String = ""
    partitions: Sequence[EpochEndOffset] = ()


class OffsetForLeaderEpochResponse(Message, key=23, first=2, last=4, flexible=4):
    throttle_time_ms: Int32 = 0
    topics: Sequence[OffsetForLeaderTopicResult] = ()
