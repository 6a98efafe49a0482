"""InitProducerId: an id and epoch for an idempotent or transactional producer (API key 22)."""

from runnel.codec.declare import Bool, Int16, Int32, Int64, Message, String, field


class InitProducerIdRequest(Message, key=22, first=0, last=6, flexible=2):
    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = field(default=-1, since=3)
    producer_epoch: Int16 = field(default=-1, since=3)
    enable2_pc: Bool = field(default=False, since=6)
    keep_prepared_txn: Bool = field(default=False, since=6)


class InitProducerIdResponse(Message, key=22, first=0, last=6, flexible=2):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = field(default=-1, since=6)
    ongoing_txn_producer_epoch: Int16 = field(default=-1, since=6)
