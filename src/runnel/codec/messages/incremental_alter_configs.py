"""IncrementalAlterConfigs: settings to set, delete, append to or subtract from (API key 44)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int8, Int16, Int32, Message, String, Struct


class AlterableConfig(Struct):
    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Sequence[AlterableConfig] = ()


class IncrementalAlterConfigsRequest(Message, key=44, first=0, last=1, flexible=1):
    resources: Sequence[AlterConfigsResource] = ()
    validate_only: Bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class IncrementalAlterConfigsResponse(Message, key=44, first=0, last=1, flexible=1):
    throttle_time_ms: Int32 = 0
    responses: Sequence[AlterConfigsResourceResponse] = ()
