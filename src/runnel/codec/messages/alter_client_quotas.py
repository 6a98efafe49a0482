"""AlterClientQuotas: limits to set or remove (API key 49)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Float64, Int16, Int32, Message, String, Struct


class EntityData(Struct):
    entity_type: String = ""
    entity_name: String | None = ""


class OpData(Struct):
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


class EntryData(Struct):
    entity: Sequence[EntityData] = ()
    ops: Sequence[OpData] = ()


class AlterClientQuotasRequest(Message, key=49, first=0, last=1, flexible=1):
    entries: Sequence[EntryData] = ()
    validate_only: Bool = False


class EntryDataAnswer(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    entity: Sequence[EntityData] = ()


class AlterClientQuotasResponse(Message, key=49, first=0, last=1, flexible=1):
    throttle_time_ms: Int32 = 0
    entries: Sequence[EntryDataAnswer] = ()
