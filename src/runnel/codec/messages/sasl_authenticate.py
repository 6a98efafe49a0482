"""SaslAuthenticate: one step of authentication (API key 36)."""

from runnel.codec.declare import Bytes, Int16, Int64, Message, String, field


class SaslAuthenticateRequest(Message, key=36, first=0, last=2, flexible=2):
    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(Message, key=36, first=0, last=2, flexible=2):
    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = field(default=0, since=1)
