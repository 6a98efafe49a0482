"""DescribeQuorum: state of the metadata quorum (API key 55)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Int16, Int32, Int64, Message, String, Struct, Uint16, Uuid, field


class PartitionData(Struct):
    partition_index: Int32 = 0


class TopicData(Struct):
    topic_name: String = ""
    partitions: Sequence[PartitionData] = ()


class DescribeQuorumRequest(Message, key=55, first=0, last=2, flexible=0):
    topics: Sequence[TopicData] = ()


class ReplicaState(Struct):
    replica_id: Int32 = 0
    replica_directory_id: Uuid = field(default=NO_UUID, since=2)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = field(default=-1, since=1)
    last_caught_up_timestamp: Int64 = field(default=-1, since=1)


class PartitionDataAnswer(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(default="", since=2)
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: Sequence[ReplicaState] = ()
    observers: Sequence[ReplicaState] = ()


class TopicDataAnswer(Struct):
    topic_name: String = ""
    partitions: Sequence[PartitionDataAnswer] = ()


class Listener(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0


class Node(Struct):
    node_id: Int32 = 0
    listeners: Sequence[Listener] = ()


class DescribeQuorumResponse(Message, key=55, first=0, last=2, flexible=0):
    error_code: Int16 = 0
    error_message: String | None = field(default="", since=2)
    topics: Sequence[TopicDataAnswer] = ()
    nodes: Sequence[Node] = field(default=(), since=2)
