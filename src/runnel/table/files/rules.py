"""What a topic's settings say of its rows: how values are read, and how files are partitioned.

table.values      auto      framed values whose schema the registry knows are read by it, other topics stay raw
                  raw       keys and values are binary columns
                  schema    framed values, by the schemas that their frames name
                  schema:7  values without frames, all by schema 7
                  json      JSON without schemas: columns as the values show them, more as more is seen
table.partition   empty, or a list such as `day(timestamp), country`: year, month, day or hour of a time, or a field
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from runnel.errors import Refused
from runnel.table.files.partitions import PartitionBy, read_partition


class Values(Enum):
    """How values are read."""

    AUTO = "auto"
    RAW = "raw"
    SCHEMA = "schema"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRules:
    """See the module. `schema_id` is that of values without frames."""

    values: Values = Values.AUTO
    schema_id: int | None = None
    partition: tuple[PartitionBy, ...] = ()


VALUES, PARTITION = "table.values", "table.partition"


def row_rules(settings: Mapping[str, str]) -> RowRules:
    """The rules in a topic's settings; `Refused` with the name of what is wrong."""
    values, schema_id = read_values_rule(settings.get(VALUES, Values.AUTO.value))
    return RowRules(values=values, schema_id=schema_id, partition=read_partition(settings.get(PARTITION, "")))


def read_values_rule(text: str) -> tuple[Values, int | None]:
    word, colon, number = text.strip().lower().partition(":")
    try:
        values = Values(word)
        schema_id = int(number) if colon else None
    except ValueError:
        values, schema_id = Values.AUTO, -1
    if (schema_id is not None and not 0 < schema_id < 1 << 31) or (colon and values is not Values.SCHEMA):
        raise Refused(f"setting {VALUES} is '{text}', none of auto, raw, schema, schema:ID, json")
    return values, schema_id
