"""UpdateFeatures: levels of features of the whole cluster (API key 57)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int8, Int16, Int32, Message, String, Struct, field


class FeatureUpdateKey(Struct):
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Bool = field(default=False, until=0)
    upgrade_type: Int8 = field(default=1, since=1)


class UpdateFeaturesRequest(Message, key=57, first=0, last=2, flexible=0):
    timeout_ms: Int32 = 60_000
    feature_updates: Sequence[FeatureUpdateKey] = ()
    validate_only: Bool = field(default=False, since=1)


class UpdatableFeatureResult(Struct):
    feature: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class UpdateFeaturesResponse(Message, key=57, first=0, last=2, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Sequence[UpdatableFeatureResult] = field(default=(), until=1)
