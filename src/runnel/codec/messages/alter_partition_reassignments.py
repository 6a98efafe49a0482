"""AlterPartitionReassignments: move partitions between brokers (API key 45)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int16, Int32, Message, String, Struct, field


class ReassignablePartition(Struct):
    partition_index: Int32 = 0
    replicas: Sequence[Int32] | None = None


class ReassignableTopic(Struct):
    name: String = ""
    partitions: Sequence[ReassignablePartition] = ()


class AlterPartitionReassignmentsRequest(Message, key=45, first=0, last=1, flexible=0):
    timeout_ms: Int32 = 60_000
    allow_replication_factor_change: Bool = field(default=True, since=1)
    topics: Sequence[ReassignableTopic] = ()


class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReassignableTopicResponse(Struct):
    name: String = ""
    partitions: Sequence[ReassignablePartitionResponse] = ()


class AlterPartitionReassignmentsResponse(Message, key=45, first=0, last=1, flexible=0):
    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = field(default=True, since=1)
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: Sequence[ReassignableTopicResponse] = ()
