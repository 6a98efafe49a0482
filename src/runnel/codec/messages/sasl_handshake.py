"""SaslHandshake: which way to authenticate (API key 17)."""

from collections.abc import Sequence

from runnel.codec.declare import Int16, Message, String


class SaslHandshakeRequest(Message, key=17, first=0, last=1):
    mechanism: String = ""


class SaslHandshakeResponse(Message, key=17, first=0, last=1):
    error_code: Int16 = 0
    mechanisms: Sequence[String] = ()
