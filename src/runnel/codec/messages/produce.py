"""Produce: record batches to append, and where they landed (API key 0).

Versions 0 to 2 are spoken so that they can be refused in their own words: Kafka 4 advertises them, because old
librdkafka asks for them before it trusts the broker with any newer one, and answers UNSUPPORTED_VERSION.
"""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Int16, Int32, Int64, Message, Records, String, Struct, Uuid, field


class PartitionProduceData(Struct):
    index: Int32 = 0
    records: Records | None = None


class TopicProduceData(Struct):
    name: String = field(default="", until=12)
    topic_id: Uuid = field(default=NO_UUID, since=13)
    partition_data: Sequence[PartitionProduceData] = ()


class ProduceRequest(Message, key=0, first=0, last=13, flexible=9):
    transactional_id: String | None = field(default=None, since=3)
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: Sequence[TopicProduceData] = ()


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = field(default=-1, since=2)
    log_start_offset: Int64 = field(default=-1, since=5)
    record_errors: Sequence[BatchIndexAndErrorMessage] = field(default=(), since=8)
    error_message: String | None = field(default=None, since=8)
    current_leader: LeaderIdAndEpoch | None = field(default=None, since=10, tag=0)


class TopicProduceResponse(Struct):
    name: String = field(default="", until=12)
    topic_id: Uuid = field(default=NO_UUID, since=13)
    partition_responses: Sequence[PartitionProduceResponse] = ()


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class ProduceResponse(Message, key=0, first=0, last=13, flexible=9):
    responses: Sequence[TopicProduceResponse] = ()
    throttle_time_ms: Int32 = field(default=0, since=1)
    node_endpoints: Sequence[NodeEndpoint] = field(default=(), since=10, tag=0)
