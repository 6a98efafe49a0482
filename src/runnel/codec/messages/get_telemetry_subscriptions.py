"""GetTelemetrySubscriptions: which of its metrics a client should push (API key 71)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Bool, Int8, Int16, Int32, Message, String, Uuid


class GetTelemetrySubscriptionsRequest(Message, key=71, first=0, last=0, flexible=0):
    client_instance_id: Uuid = NO_UUID


class GetTelemetrySubscriptionsResponse(Message, key=71, first=0, last=0, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = NO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: Sequence[Int8] = ()
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: Sequence[String] = ()
