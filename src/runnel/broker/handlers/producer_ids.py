"""InitProducerId (22): numbers for idempotent producers.

Transactions are not served yet: whoever comes with a transactional id is refused with the code that clients take as
final, so that they fail at once and say so.
"""

from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.problems import NO_TRANSACTIONS, code_of
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.init_producer_id import InitProducerIdResponse
from runnel.errors import RunnelError


def handlers(broker: Broker) -> Mapping[int, Handler]:
    async def init_producer_id(call: Call) -> InitProducerIdResponse:
        if call.request.transactional_id is not None:
            code = NO_TRANSACTIONS if call.request.transactional_id else ErrorCode.INVALID_REQUEST
            return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
        # As in Kafka: without a transactional id every producer gets a new number, whatever it had before.
        try:
            number = await broker.engine.draw_producer_id()
        except RunnelError as error:
            return InitProducerIdResponse(error_code=code_of(error), producer_id=-1, producer_epoch=-1)
        return InitProducerIdResponse(producer_id=number, producer_epoch=0)

    return {22: init_producer_id}
