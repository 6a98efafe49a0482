"""DescribeClientQuotas (48), AlterClientQuotas (49): there are none, and none can be set.

A quota that is taken and not enforced would be a lie, so setting one is refused; removing one is done already.
"""

from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.alter_client_quotas import AlterClientQuotasResponse, EntryDataAnswer
from runnel.codec.messages.describe_client_quotas import DescribeClientQuotasResponse

NO_QUOTAS = "clients are not slowed down here: there are no quotas"


def handlers(_: Broker) -> Mapping[int, Handler]:
    return {48: describe, 49: alter}


def describe(_: Call) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_message=None, entries=[])


def alter(call: Call) -> AlterClientQuotasResponse:
    answers = []
    for entry in call.request.entries:
        sets = any(not operation.remove for operation in entry.ops)
        code, message = (ErrorCode.POLICY_VIOLATION, NO_QUOTAS) if sets else (ErrorCode.NONE, None)
        answers.append(EntryDataAnswer(error_code=code, error_message=message, entity=entry.entity))
    return AlterClientQuotasResponse(entries=answers)
