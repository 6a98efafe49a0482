"""ElectLeaders: ask for an election of partition leaders (API key 43)."""

from collections.abc import Sequence

from runnel.codec.declare import Int8, Int16, Int32, Message, String, Struct, field


class TopicPartitions(Struct):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class ElectLeadersRequest(Message, key=43, first=0, last=2, flexible=2):
    election_type: Int8 = field(default=0, since=1)
    topic_partitions: Sequence[TopicPartitions] | None = ()
    timeout_ms: Int32 = 60_000


class PartitionResult(Struct):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReplicaElectionResult(Struct):
    topic: String = ""
    partition_result: Sequence[PartitionResult] = ()


class ElectLeadersResponse(Message, key=43, first=0, last=2, flexible=2):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=1)
    replica_election_results: Sequence[ReplicaElectionResult] = ()
