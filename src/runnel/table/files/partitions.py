"""Which file a row belongs to, besides its schema: the partitions of a table.

    read_partition("day(timestamp), country")   -> PartitionBy: a transform and a column's name, as a setting has it
    fields_of(by, find)                          -> PartitionField: the same, with the column
    split(columns, fields)                       -> for each partition its values and its rows

Values are as Iceberg has them: years, months, days and hours since 1970, or the field itself. `delta_column` and
`delta_values` say the same to Delta, which knows columns alone: a day becomes the column `timestamp_day`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import Refused

if TYPE_CHECKING:
    from runnel.table.files.columns import Column

IDENTITY = "identity"
_TIMES = ("year", "month", "day", "hour")
_ONE = re.compile(r"(?:(\w+)\(\s*([^()\s]+)\s*\)|([^()\s,]+))")
_FIELDS_MAX = 8
_FIELD_IDS_FROM = 1000  # where Iceberg's partition fields begin
_FIELD_TYPES = frozenset({"boolean", "int", "long", "date", "string"})


@dataclass(frozen=True, slots=True)
class PartitionBy:
    """A transform and the name of the column it is applied to."""

    transform: str
    column: str


@dataclass(frozen=True, slots=True)
class PartitionField:
    """`source` is the column's id, `type` its type; `id` and `name` are the partition field's own."""

    id: int
    name: str
    transform: str
    source: int
    column: str
    type: str
    delta_column: str
    """Delta's column of these values; Delta knows columns by the names that they have in files."""

    @property
    def delta_type(self) -> str:
        """What Delta's column of this name holds."""
        if self.transform == IDENTITY:
            return self.type
        return "date" if self.transform == "day" else "int"

    def delta_value(self, value: Any) -> str | None:
        """The value as Delta writes partition values."""
        if value is None:
            return None
        if self.transform == "day" or (self.transform == IDENTITY and self.type == "date"):
            return date.fromordinal(value + 719_163).isoformat()
        if self.transform == "year":
            return str(value + 1970)
        if isinstance(value, bool):
            return str(value).lower()
        return str(value)


def read_partition(text: str) -> tuple[PartitionBy, ...]:
    found: list[PartitionBy] = []
    for part in (piece.strip() for piece in text.split(",")):
        if not part:
            continue
        match = _ONE.fullmatch(part)
        transform = (match[1] or IDENTITY).lower() if match else ""
        if match is None or transform not in (IDENTITY, *_TIMES):
            raise Refused(
                f"setting table.partition has '{part}': write year(C), month(C), day(C), hour(C) or the name of a field"
            )
        found.append(PartitionBy(transform, match[2] or match[3]))
    if len(found) > _FIELDS_MAX or len(set(found)) < len(found):
        raise Refused(f"setting table.partition names a field twice, or more than {_FIELDS_MAX}")
    return tuple(found)


def fields_of(by: Sequence[PartitionBy], find: Callable[[str], "Column | None"]) -> tuple[PartitionField, ...]:
    """The fields that can be partitioned by: those whose columns exist and are of a type that allows it."""
    fields: list[PartitionField] = []
    for each in by:
        column = find(each.column)
        if column is None:
            continue
        times = ("date", "timestamp", "timestamptz") if each.transform != "hour" else ("timestamp", "timestamptz")
        if column.type not in (times if each.transform != IDENTITY else _FIELD_TYPES):
            continue
        ending = "" if each.transform == IDENTITY else f"_{each.transform}"
        number = _FIELD_IDS_FROM + len(fields)
        names = column.name + ending, column.file_name + ending
        fields.append(PartitionField(number, names[0], each.transform, column.id, column.name, column.type, names[1]))
    return tuple(fields)


def split(
    count: int, column_of: Callable[[int], pa.Array | None], fields: Sequence[PartitionField]
) -> list[tuple[tuple[Any, ...], pa.Array | None]]:
    """For each partition among `count` rows its values and the rows' places; None for all rows.

    `column_of` gives the column with an id, None where these rows have no such column.
    """
    if not fields or not count:
        return [((), None)]
    keys = [_transformed(column_of(field.source), field, count) for field in fields]
    if all(key.null_count == count or pc.count_distinct(key, mode="all").as_py() == 1 for key in keys):
        return [(tuple(key[0].as_py() for key in keys), None)]
    names = [f"k{n}" for n in range(len(keys))]
    table = pa.table([*keys, pa.array(range(count), pa.int64())], names=[*names, "row"])
    grouped = table.group_by(names, use_threads=False).aggregate([("row", "list")])
    return [
        (tuple(grouped.column(name)[n].as_py() for name in names), grouped.column("row_list")[n].values)
        for n in range(grouped.num_rows)
    ]


def _transformed(column: pa.Array | None, field: PartitionField, count: int) -> pa.Array:
    """The partition value of every row."""
    if column is None:
        return pa.nulls(count, pa.int32())
    if field.transform == IDENTITY:
        return column.view(pa.int32()) if field.type == "date" else column
    if field.transform in ("day", "hour"):
        if field.type == "date":
            return column.view(pa.int32())
        return _floor_divide(column.view(pa.int64()), 86_400_000_000 if field.transform == "day" else 3_600_000_000)
    years = pc.subtract(pc.year(column), 1970)
    if field.transform == "year":
        return pc.cast(years, pa.int32())
    return pc.cast(pc.add(pc.multiply(years, 12), pc.subtract(pc.month(column), 1)), pa.int32())


def _floor_divide(numbers: pa.Array, by: int) -> pa.Array:
    """Rounded down, below zero as well."""
    quotient = pc.divide(numbers, by)
    is_above = pc.greater(pc.multiply(quotient, by), numbers)
    return pc.cast(pc.if_else(is_above, pc.subtract(quotient, 1), quotient), pa.int32())
