"""AddOffsetsToTxn: a group whose offsets a transaction commits (API key 25)."""

from runnel.codec.declare import Int16, Int32, Int64, Message, String


class AddOffsetsToTxnRequest(Message, key=25, first=0, last=4, flexible=3):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


class AddOffsetsToTxnResponse(Message, key=25, first=0, last=4, flexible=3):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
