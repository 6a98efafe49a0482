"""DescribeProducers: producers that write to partitions (API key 61)."""

from collections.abc import Sequence

from runnel.codec.declare import Int16, Int32, Int64, Message, String, Struct


class TopicRequest(Struct):
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


class DescribeProducersRequest(Message, key=61, first=0, last=0, flexible=0):
    topics: Sequence[TopicRequest] = ()


class ProducerState(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: Sequence[ProducerState] = ()


class TopicResponse(Struct):
    name: String = ""
    partitions: Sequence[PartitionResponse] = ()


class DescribeProducersResponse(Message, key=61, first=0, last=0, flexible=0):
    throttle_time_ms: Int32 = 0
    topics: Sequence[TopicResponse] = ()
