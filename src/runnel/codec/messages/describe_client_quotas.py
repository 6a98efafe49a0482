"""DescribeClientQuotas: limits by user, client id and address (API key 48)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Float64, Int8, Int16, Int32, Message, String, Struct


class ComponentData(Struct):
    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


class DescribeClientQuotasRequest(Message, key=48, first=0, last=1, flexible=1):
    components: Sequence[ComponentData] = ()
    strict: Bool = False


class EntityData(Struct):
    entity_type: String = ""
    entity_name: String | None = ""


class ValueData(Struct):
    key: String = ""
    value: Float64 = 0.0


class EntryData(Struct):
    entity: Sequence[EntityData] = ()
    values: Sequence[ValueData] = ()


class DescribeClientQuotasResponse(Message, key=48, first=0, last=1, flexible=1):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: Sequence[EntryData] | None = ()
