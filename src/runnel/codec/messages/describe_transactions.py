"""DescribeTransactions: state of transactions (API key 65)."""

from collections.abc import Sequence

from runnel.codec.declare import Int16, Int32, Int64, Message, String, Struct


class DescribeTransactionsRequest(Message, key=65, first=0, last=0, flexible=0):
    transactional_ids: Sequence[String] = ()


class TopicData(Struct):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class TransactionState(Struct):
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: Sequence[TopicData] = ()


class DescribeTransactionsResponse(Message, key=65, first=0, last=0, flexible=0):
    throttle_time_ms: Int32 = 0
    transaction_states: Sequence[TransactionState] = ()
