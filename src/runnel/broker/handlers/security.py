"""Who may do what: SASL (17, 36), access rules (29, 30, 31), delegation tokens (38 to 41), SCRAM users (50, 51).

There are neither logins nor access rules yet. Each is answered as Kafka answers it where they are not configured, so
that tools say what is missing instead of hanging.
"""

from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from runnel.codec.messages.create_acls import AclCreationResult, CreateAclsResponse
from runnel.codec.messages.create_delegation_token import CreateDelegationTokenResponse
from runnel.codec.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse
from runnel.codec.messages.describe_acls import DescribeAclsResponse
from runnel.codec.messages.describe_delegation_token import DescribeDelegationTokenResponse
from runnel.codec.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from runnel.codec.messages.expire_delegation_token import ExpireDelegationTokenResponse
from runnel.codec.messages.renew_delegation_token import RenewDelegationTokenResponse
from runnel.codec.messages.sasl_authenticate import SaslAuthenticateResponse
from runnel.codec.messages.sasl_handshake import SaslHandshakeResponse

NO_LOGINS = "this listener takes no logins: use security.protocol=PLAINTEXT"
NO_RULES = "there are no access rules here: no authorizer is configured"
NO_USERS = "users cannot be kept here: there are no logins yet"
NO_TOKENS = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def handlers(_: Broker) -> Mapping[int, Handler]:
    return {
        17: sasl_handshake,
        29: describe_acls,
        30: create_acls,
        31: delete_acls,
        36: sasl_authenticate,
        38: lambda _: CreateDelegationTokenResponse(error_code=NO_TOKENS),
        39: lambda _: RenewDelegationTokenResponse(error_code=NO_TOKENS),
        40: lambda _: ExpireDelegationTokenResponse(error_code=NO_TOKENS),
        41: lambda _: DescribeDelegationTokenResponse(error_code=NO_TOKENS),
        50: describe_scram,
        51: alter_scram,
    }


def sasl_handshake(_: Call) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def sasl_authenticate(_: Call) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=NO_LOGINS)


def describe_acls(_: Call) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_RULES)


def create_acls(call: Call) -> CreateAclsResponse:
    result = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_RULES)
    return CreateAclsResponse(results=[result] * len(call.request.creations))


def delete_acls(call: Call) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_RULES)
    return DeleteAclsResponse(filter_results=[result] * len(call.request.filters))


def describe_scram(call: Call) -> DescribeUserScramCredentialsResponse:
    code = ErrorCode.RESOURCE_NOT_FOUND
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[
            DescribeUserScramCredentialsResult(
                user=user.name, error_code=code, error_message=f"there is no user '{user.name}'"
            )
            for user in call.request.users or ()
        ],
    )


def alter_scram(call: Call) -> AlterUserScramCredentialsResponse:
    gone = {
        each.name: (ErrorCode.RESOURCE_NOT_FOUND, f"there is no user '{each.name}'") for each in call.request.deletions
    }
    made = {each.name: (ErrorCode.UNSUPPORTED_SASL_MECHANISM, NO_USERS) for each in call.request.upsertions}
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
            for user, (code, message) in (gone | made).items()
        ]
    )
