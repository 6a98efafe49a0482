"""DescribeUserScramCredentials: which SCRAM credentials users have (API key 50)."""

from collections.abc import Sequence

from runnel.codec.declare import Int8, Int16, Int32, Message, String, Struct


class UserName(Struct):
    name: String = ""


class DescribeUserScramCredentialsRequest(Message, key=50, first=0, last=0, flexible=0):
    users: Sequence[UserName] | None = ()


class CredentialInfo(Struct):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: Sequence[CredentialInfo] = ()


class DescribeUserScramCredentialsResponse(Message, key=50, first=0, last=0, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Sequence[DescribeUserScramCredentialsResult] = ()
