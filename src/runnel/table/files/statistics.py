"""What Iceberg and Delta want to know of a file's columns, out of its Parquet footer.

Bounds are kept as Iceberg writes them (its single-value encoding, texts cut after 16 characters, an upper bound rounded
up) and turned into Delta's JSON when that is asked for: both formats say the same of the same file.
"""

import json
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from struct import Struct
from typing import Any

import pyarrow.parquet as pq

from runnel.table.files.columns import RECORD_COLUMNS, Column, TableColumns
from runnel.table.files.facts import ColumnFacts, FileFacts

BOUNDED_COLUMNS_MAX = 100
"""Columns of values whose bounds are written; the record's own always have theirs."""
BOUND_LENGTH = 16
"""Characters of a text's bounds, or bytes: Iceberg's default."""
_INT, _LONG, _FLOAT, _DOUBLE = Struct("<i"), Struct("<q"), Struct("<f"), Struct("<d")
_RECORD_IDS = frozenset(leaf.id for column in RECORD_COLUMNS for leaf in column.leaves())


def column_facts(columns: Sequence[Column], footer: pq.FileMetaData) -> tuple[ColumnFacts, ...]:
    """Facts of the leaf columns of a file that has these columns in this order."""
    leaves = [leaf for column in columns for leaf in column.leaves()]
    assert len(leaves) == footer.num_columns, f"{len(leaves)} columns, {footer.num_columns} in the file"
    bounded = 0
    facts: list[ColumnFacts] = []
    for n, leaf in enumerate(leaves):
        is_bounded = leaf.id in _RECORD_IDS or bounded < BOUNDED_COLUMNS_MAX
        chunks = [footer.row_group(group).column(n) for group in range(footer.num_row_groups)]
        is_repeated = footer.schema.column(n).max_repetition_level > 0
        facts.append(_facts_of(leaf, chunks, bounds=is_bounded and not is_repeated))
        bounded += leaf.id not in _RECORD_IDS
    return tuple(facts)


def _facts_of(leaf: Column, chunks: Sequence[Any], *, bounds: bool) -> ColumnFacts:
    lows: list[Any] = []
    highs: list[Any] = []
    nulls = 0
    is_known = bounds
    for chunk in chunks:
        found = chunk.statistics
        if found is not None and found.has_null_count:
            nulls += found.null_count
        if not is_known:
            continue
        if found is not None and found.has_min_max:
            lows.append(_ordered(leaf, found.min_raw))
            highs.append(_ordered(leaf, found.max_raw))
        elif found is None or found.null_count != chunk.num_values:
            is_known = False  # values without bounds: too long ones, or nothing but NaN
    size = sum(chunk.total_compressed_size for chunk in chunks)
    values = sum(chunk.num_values for chunk in chunks)
    if not is_known or not lows:
        return ColumnFacts(leaf.id, size, values, nulls)
    return ColumnFacts(leaf.id, size, values, nulls, _single(leaf, min(lows)), _single(leaf, max(highs), up=True))


def _ordered(leaf: Column, raw: Any) -> Any:
    """A bound as the footer has it, as something whose order is the column's."""
    if leaf.type.startswith("decimal"):
        return raw if isinstance(raw, int) else int.from_bytes(raw, "big", signed=True)
    return raw.encode() if isinstance(raw, str) else raw


def _single(leaf: Column, value: Any, *, up: bool = False) -> bytes | None:
    """A value as Iceberg writes single values."""
    match leaf.type.partition("(")[0]:
        case "boolean":
            return b"\1" if value else b"\0"
        case "int" | "date":
            return _INT.pack(value)
        case "long" | "timestamp" | "timestamptz":
            return _LONG.pack(value)
        case "float":
            return _FLOAT.pack(value)
        case "double":
            return _DOUBLE.pack(value)
        case "decimal":
            return int(value).to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
        case "string":
            return _cut_text(value.decode(), up=up)
        case _:
            return _cut_bytes(value, up=up)


def _cut_text(text: str, *, up: bool) -> bytes | None:
    """At most 16 characters; an upper bound has its last one raised, and there is none if that cannot be."""
    if len(text) <= BOUND_LENGTH or not up:
        return text[:BOUND_LENGTH].encode()
    for at in range(BOUND_LENGTH - 1, -1, -1):
        following = ord(text[at]) + 1
        following = 0xE000 if following == 0xD800 else following
        if following <= 0x10FFFF:
            return (text[:at] + chr(following)).encode()
    return None


def _cut_bytes(data: bytes, *, up: bool) -> bytes | None:
    if len(data) <= BOUND_LENGTH or not up:
        return data[:BOUND_LENGTH]
    kept = data[:BOUND_LENGTH].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def row_group_places(footer: pq.FileMetaData) -> list[tuple[int, int]]:
    """Where the bytes of each row group begin, and how many there are."""
    return [_place_of(footer.row_group(n)) for n in range(footer.num_row_groups)]


def _place_of(group: Any) -> tuple[int, int]:
    starts: list[int] = []
    stop = 0
    for n in range(group.num_columns):
        column = group.column(n)
        start = column.data_page_offset
        if column.has_dictionary_page and column.dictionary_page_offset:
            start = min(start, column.dictionary_page_offset)
        starts.append(start)
        stop = max(stop, start + column.total_compressed_size)
    return min(starts), stop - min(starts)


def delta_stats(file: FileFacts, columns: TableColumns) -> str:
    """The `stats` of an add action: rows, and bounds and nulls of the columns at the top whose order Delta shares."""
    by_id = {each.id: each for each in file.columns}
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for column in columns.all:
        facts = by_id.get(column.id)
        if column.kids:
            continue
        nulls[column.file_name] = file.records if facts is None else facts.nulls
        if facts is None or facts.lower is None or facts.upper is None:
            continue
        low, high = _delta_value(column, facts.lower, up=False), _delta_value(column, facts.upper, up=True)
        if low is not None and high is not None:
            lows[column.file_name], highs[column.file_name] = low, high
    return json.dumps({"numRecords": file.records, "minValues": lows, "maxValues": highs, "nullCount": nulls})


def _delta_value(column: Column, bound: bytes, *, up: bool) -> Any:
    """JSON for a bound, None where Delta has no such bound or orders values otherwise."""
    kind = column.type.partition("(")[0]
    match kind:
        case "string":
            return bound.decode()
        case "int" | "long":
            return int.from_bytes(bound, "little", signed=True)
        case "float" | "double":
            (value,) = (_FLOAT if kind == "float" else _DOUBLE).unpack(bound)
            return value if math.isfinite(value) else None
        case "date":
            return _day(int.from_bytes(bound, "little", signed=True))
        case "timestamp" | "timestamptz":
            # Readers of Delta go by milliseconds; a bound may only become wider.
            micros = int.from_bytes(bound, "little", signed=True)
            text = _moment(-(-micros // 1000) if up else micros // 1000)
            return text and text + ("Z" if kind == "timestamptz" else "")
        case _:
            return None


def _day(days: int) -> str | None:
    try:
        return date.fromordinal(719_163 + days).isoformat()
    except (ValueError, OverflowError):
        return None


def _moment(millis: int) -> str | None:
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    except OverflowError:
        return None
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] if moment.year >= 1000 else None
