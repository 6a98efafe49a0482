"""DescribeConfigs: settings with their sources, synonyms and documentation (API key 32)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int8, Int16, Int32, Message, String, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: Sequence[String] | None = ()


class DescribeConfigsRequest(Message, key=32, first=1, last=4, flexible=4):
    resources: Sequence[DescribeConfigsResource] = ()
    include_synonyms: Bool = False
    include_documentation: Bool = field(default=False, since=3)


class DescribeConfigsSynonym(Struct):
    name: String = ""
    value: String | None = ""
    source: Int8 = 0


class DescribeConfigsResourceResult(Struct):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: Sequence[DescribeConfigsSynonym] = ()
    config_type: Int8 = field(default=0, since=3)
    documentation: String | None = field(default="", since=3)


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Sequence[DescribeConfigsResourceResult] = ()


class DescribeConfigsResponse(Message, key=32, first=1, last=4, flexible=4):
    throttle_time_ms: Int32 = 0
    results: Sequence[DescribeConfigsResult] = ()
