"""PushTelemetry: a client's metrics (API key 72)."""

from runnel.codec.declare import NO_UUID, Bool, Bytes, Int8, Int16, Int32, Message, Uuid


class PushTelemetryRequest(Message, key=72, first=0, last=0, flexible=0):
    client_instance_id: Uuid = NO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


class PushTelemetryResponse(Message, key=72, first=0, last=0, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
