"""EndTxn: commit or abort a transaction (API key 26)."""

from runnel.codec.declare import Bool, Int16, Int32, Int64, Message, String, field


class EndTxnRequest(Message, key=26, first=0, last=5, flexible=3):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


class EndTxnResponse(Message, key=26, first=0, last=5, flexible=3):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field(default=-1, since=5)
    producer_epoch: Int16 = field(default=-1, since=5)
