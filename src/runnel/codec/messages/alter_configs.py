"""AlterConfigs: all settings of a resource at once (API key 33)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int8, Int16, Int32, Message, String, Struct


class AlterableConfig(Struct):
    name: String = ""
    value: String | None = ""


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Sequence[AlterableConfig] = ()


class AlterConfigsRequest(Message, key=33, first=0, last=2, flexible=2):
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: Bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class AlterConfigsResponse(Message, key=33, first=0, last=2, flexible=2):
    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()
