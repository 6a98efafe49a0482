"""UnregisterBroker: a broker that will not come back (API key 64)."""

from runnel.codec.declare import Int16, Int32, Message, String


class UnregisterBrokerRequest(Message, key=64, first=0, last=0, flexible=0):
    broker_id: Int32 = 0


class UnregisterBrokerResponse(Message, key=64, first=0, last=0, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
