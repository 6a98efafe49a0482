"""RenewDelegationToken: a token lives longer (API key 39)."""

from runnel.codec.declare import Bytes, Int16, Int32, Int64, Message


class RenewDelegationTokenRequest(Message, key=39, first=1, last=2, flexible=2):
    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(Message, key=39, first=1, last=2, flexible=2):
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
