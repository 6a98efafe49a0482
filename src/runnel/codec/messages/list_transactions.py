"""ListTransactions: the transactions there are (API key 66)."""

from collections.abc import Sequence

from runnel.codec.declare import Int16, Int32, Int64, Message, String, Struct, field


class ListTransactionsRequest(Message, key=66, first=0, last=2, flexible=0):
    state_filters: Sequence[String] = ()
    producer_id_filters: Sequence[Int64] = ()
    duration_filter: Int64 = field(default=-1, since=1)
    transactional_id_pattern: String | None = field(default=None, since=2)


class TransactionState(Struct):
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


class ListTransactionsResponse(Message, key=66, first=0, last=2, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: Sequence[String] = ()
    transaction_states: Sequence[TransactionState] = ()
