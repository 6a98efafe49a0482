"""FindCoordinator (10): which broker to ask about a group or a transactional id."""

from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.find_coordinator import Coordinator, FindCoordinatorResponse

BATCHED_FROM = 4
GROUP, TRANSACTION = 0, 1


def handlers(broker: Broker) -> Mapping[int, Handler]:
    def found(kind: int, key: str) -> Coordinator:
        if kind not in (GROUP, TRANSACTION):
            error = ErrorCode.INVALID_REQUEST
            return Coordinator(key=key, node_id=-1, port=-1, error_code=error, error_message=error.text)
        node, host, port, _ = broker.routing.coordinator(key)
        return Coordinator(key=key, node_id=node, host=host, port=port, error_message=None)

    def find_coordinator(call: Call) -> FindCoordinatorResponse:
        request = call.request
        if call.version >= BATCHED_FROM:
            return FindCoordinatorResponse(
                coordinators=[found(request.key_type, key) for key in dict.fromkeys(request.coordinator_keys)]
            )
        told = found(request.key_type, request.key)
        return FindCoordinatorResponse(
            error_code=told.error_code,
            error_message=told.error_message,
            node_id=told.node_id,
            host=told.host,
            port=told.port,
        )

    return {10: find_coordinator}
