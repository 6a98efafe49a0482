"""AddPartitionsToTxn: partitions that a transaction writes to (API key 24)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int16, Int32, Int64, Message, String, Struct, field


class AddPartitionsToTxnTopic(Struct):
    name: String = ""
    partitions: Sequence[Int32] = ()


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False
    topics: Sequence[AddPartitionsToTxnTopic] = ()


class AddPartitionsToTxnRequest(Message, key=24, first=0, last=5, flexible=3):
    v3_and_below_transactional_id: String = field(default="", until=3)
    v3_and_below_producer_id: Int64 = field(default=0, until=3)
    v3_and_below_producer_epoch: Int16 = field(default=0, until=3)
    v3_and_below_topics: Sequence[AddPartitionsToTxnTopic] = field(default=(), until=3)
    transactions: Sequence[AddPartitionsToTxnTransaction] = field(default=(), since=4)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: String = ""
    results_by_partition: Sequence[AddPartitionsToTxnPartitionResult] = ()


class AddPartitionsToTxnResult(Struct):
    transactional_id: String = ""
    topic_results: Sequence[AddPartitionsToTxnTopicResult] = ()


class AddPartitionsToTxnResponse(Message, key=24, first=0, last=5, flexible=3):
    throttle_time_ms: Int32 = 0
    results_by_topic_v3_and_below: Sequence[AddPartitionsToTxnTopicResult] = field(default=(), until=3)
    error_code: Int16 = field(default=0, since=4)
    results_by_transaction: Sequence[AddPartitionsToTxnResult] = field(default=(), since=4)
