"""GetTelemetrySubscriptions (71), PushTelemetry (72): metrics that clients would send of themselves (KIP-714).

Nobody has subscribed to any, so clients are given an identity, told that nothing is wanted, and ask again in a while.
What is pushed all the same was subscribed to elsewhere: the client is sent back to ask.
"""

from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.codec.declare import NO_UUID
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from runnel.codec.messages.push_telemetry import PushTelemetryResponse

ASK_AGAIN_MS = 300_000
TELEMETRY_BYTES_MAX = 1 << 20
COMPRESSIONS = (4, 3, 1, 2)
"""Zstandard, LZ4, gzip, Snappy, as Kafka prefers them."""


def handlers(broker: Broker) -> Mapping[int, Handler]:
    def get_subscriptions(call: Call) -> GetTelemetrySubscriptionsResponse:
        client = call.request.client_instance_id
        return GetTelemetrySubscriptionsResponse(
            client_instance_id=broker.world.chance.randbytes(16) if client == NO_UUID else client,
            accepted_compression_types=COMPRESSIONS,
            push_interval_ms=ASK_AGAIN_MS,
            telemetry_max_bytes=TELEMETRY_BYTES_MAX,
            delta_temporality=True,
        )

    def push(call: Call) -> PushTelemetryResponse:
        if call.request.client_instance_id == NO_UUID:
            return PushTelemetryResponse(error_code=ErrorCode.INVALID_REQUEST)
        if len(call.request.metrics) > TELEMETRY_BYTES_MAX:
            return PushTelemetryResponse(error_code=ErrorCode.TELEMETRY_TOO_LARGE)
        return PushTelemetryResponse(error_code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID)

    return {71: get_subscriptions, 72: push}
