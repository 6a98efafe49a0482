"""ListConfigResources: things that have settings (in version 0: client metrics alone) (API key 74)."""

from collections.abc import Sequence

from runnel.codec.declare import Int8, Int16, Int32, Message, String, Struct, field


class ListConfigResourcesRequest(Message, key=74, first=0, last=1, flexible=0):
    resource_types: Sequence[Int8] = field(default=(), since=1)


class ConfigResource(Struct):
    resource_name: String = ""
    resource_type: Int8 = field(default=16, since=1)


class ListConfigResourcesResponse(Message, key=74, first=0, last=1, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: Sequence[ConfigResource] = ()
