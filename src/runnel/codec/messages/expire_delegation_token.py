"""ExpireDelegationToken: a token ends (API key 40)."""

from runnel.codec.declare import Bytes, Int16, Int32, Int64, Message


class ExpireDelegationTokenRequest(Message, key=40, first=1, last=2, flexible=2):
    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(Message, key=40, first=1, last=2, flexible=2):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
