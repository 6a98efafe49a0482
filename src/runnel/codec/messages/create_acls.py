"""CreateAcls: access rules to add (API key 30)."""

from collections.abc import Sequence

from runnel.codec.declare import Int8, Int16, Int32, Message, String, Struct


class AclCreation(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Message, key=30, first=1, last=3, flexible=2):
    creations: Sequence[AclCreation] = ()


class AclCreationResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""


class CreateAclsResponse(Message, key=30, first=1, last=3, flexible=2):
    throttle_time_ms: Int32 = 0
    results: Sequence[AclCreationResult] = ()
