"""Metadata: brokers, topics, partitions and who leads them (API key 3)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Bool, Int16, Int32, Message, String, Struct, Uuid, field


class MetadataRequestTopic(Struct):
    topic_id: Uuid = field(default=NO_UUID, since=10)
    name: String | None = field(default="", nullable=10)


class MetadataRequest(Message, key=3, first=0, last=13, flexible=9):
    topics: Sequence[MetadataRequestTopic] | None = field(default=(), nullable=1)
    allow_auto_topic_creation: Bool = field(default=True, since=4)
    include_cluster_authorized_operations: Bool = field(default=False, since=8, until=10)
    include_topic_authorized_operations: Bool = field(default=False, since=8)


class MetadataResponseBroker(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = field(default=None, since=1)


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = field(default=-1, since=7)
    replica_nodes: Sequence[Int32] = ()
    isr_nodes: Sequence[Int32] = ()
    offline_replicas: Sequence[Int32] = field(default=(), since=5)


class MetadataResponseTopic(Struct):
    error_code: Int16 = 0
    name: String | None = field(default="", nullable=12)
    topic_id: Uuid = field(default=NO_UUID, since=10)
    is_internal: Bool = field(default=False, since=1)
    partitions: Sequence[MetadataResponsePartition] = ()
    topic_authorized_operations: Int32 = field(default=-2_147_483_648, since=8)


class MetadataResponse(Message, key=3, first=0, last=13, flexible=9):
    throttle_time_ms: Int32 = field(default=0, since=3)
    brokers: Sequence[MetadataResponseBroker] = ()
    cluster_id: String | None = field(default=None, since=2)
    controller_id: Int32 = field(default=-1, since=1)
    topics: Sequence[MetadataResponseTopic] = ()
    cluster_authorized_operations: Int32 = field(default=-2_147_483_648, since=8, until=10)
    error_code: Int16 = field(default=0, since=13)
