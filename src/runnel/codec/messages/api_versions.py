"""ApiVersions: which APIs in which versions are spoken here (API key 18)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int16, Int32, Int64, Message, String, Struct, field


class ApiVersionsRequest(Message, key=18, first=0, last=4, flexible=3):
    client_software_name: String = field(default="", since=3)
    client_software_version: String = field(default="", since=3)


class ApiVersion(Struct):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Struct):
    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Struct):
    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(Message, key=18, first=0, last=4, flexible=3):
    error_code: Int16 = 0
    api_keys: Sequence[ApiVersion] = ()
    throttle_time_ms: Int32 = field(default=0, since=1)
    supported_features: Sequence[SupportedFeatureKey] = field(default=(), since=3, tag=0)
    finalized_features_epoch: Int64 = field(default=-1, since=3, tag=1)
    finalized_features: Sequence[FinalizedFeatureKey] = field(default=(), since=3, tag=2)
    zk_migration_ready: Bool = field(default=False, since=3, tag=3)
