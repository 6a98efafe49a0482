"""CreateDelegationToken: a token to act for someone (API key 38)."""

from collections.abc import Sequence

from runnel.codec.declare import Bytes, Int16, Int32, Int64, Message, String, Struct, field


class CreatableRenewers(Struct):
    principal_type: String = ""
    principal_name: String = ""


class CreateDelegationTokenRequest(Message, key=38, first=1, last=3, flexible=2):
    owner_principal_type: String | None = field(default="", since=3)
    owner_principal_name: String | None = field(default="", since=3)
    renewers: Sequence[CreatableRenewers] = ()
    max_lifetime_ms: Int64 = 0


class CreateDelegationTokenResponse(Message, key=38, first=1, last=3, flexible=2):
    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = field(default="", since=3)
    token_requester_principal_name: String = field(default="", since=3)
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0
