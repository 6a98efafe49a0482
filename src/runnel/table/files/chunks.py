"""Rows of one chunk become columns for each file that they belong to, and what must be kept beside them.

    divide(opened, range, work, lookup) -> Divided: parts for files, what lies beside, and what is wanted

With `wants` the table lacks columns for what was met; the rest of the answer is then of no use.

A row is *odd* when the table has it in another way than the stream (a timestamp that is out of bounds) or not at all
(its value cannot be read). Odd rows are kept whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.codec.batches import BatchHead
from runnel.errors import Refused
from runnel.table.files.casts import recast
from runnel.table.files.columns import COLUMNS_MAX, RECORD_COLUMNS, Column, Wants
from runnel.table.files.facts import Aborted, Range, Work
from runnel.table.files.partitions import split
from runnel.table.files.rules import Values
from runnel.table.files.trail import Beside, join_beside, odd_of, originals_of
from runnel.table.records import Opened
from runnel.table.shapes import Shape
from runnel.table.values import FRAME_BYTES, Columns, Group, Lookup, Writer, read_inferred, read_known, read_values

SAMPLE = 1000
"""Values that are looked at to tell whether a topic's values have frames."""
SAMPLE_FRAMES_MAX = 64
_TIME_MIN, _TIME_MAX = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999, which every engine knows
_TIME_TYPE = pa.timestamp("us", "UTC")
_HEADERS_TYPE = next(column for column in RECORD_COLUMNS if column.name == "headers").arrow_type()


@dataclass(frozen=True, slots=True)
class Part:
    """Rows for one file: columns of their values, then the record's own, in the order of their offsets."""

    columns: tuple[Column, ...]
    rows: pa.RecordBatch
    partition: tuple[Any, ...]
    writer: Writer | None = None
    inferred: Shape | None = None
    style: int = 0


@dataclass(frozen=True, slots=True)
class Divided:
    parts: tuple[Part, ...] = ()
    beside: Beside | None = None
    wants: Wants | None = None


def is_aborted(aborted: Sequence[Aborted]) -> Callable[[BatchHead, int], bool]:
    """Whether a batch belongs to a transaction that was broken off."""

    def asked(head: BatchHead, first: int) -> bool:
        return any(each.producer == head.producer and each.first <= first <= each.last for each in aborted)

    return asked


def divide(opened: Opened, of: Range, work: Work, lookup: Lookup | None) -> Divided:
    """See the module."""
    rows = opened.rows
    if of.start > of.first and rows.num_rows:
        rows = rows.filter(pc.greater_equal(rows.column("offset"), of.start))
    aside = tuple(each for each in opened.aside if each.last >= of.start)
    values = rows.column("value")
    how = _how(values, work, lookup)
    if how is Values.RAW:
        if work.columns.raw is None:
            return Divided(wants=Wants(Values.RAW))
        whole = _Rows(rows, of.partition, work, None)
        odd = whole.odd_times()
        return Divided(whole.parts((work.columns.raw,), [values]), join_beside([], odd, aside))
    read, inferred, wants = _read(values, how, work, lookup)
    return Divided(wants=wants) if wants else _divide_read(rows, of, work, read, inferred, aside)


def _how(values: pa.Array, work: Work, lookup: Lookup | None) -> Values:
    asked = work.rules.values
    if asked is Values.AUTO:
        known = work.columns.values
        if known in (None, Values.RAW):
            return Values.SCHEMA if lookup is not None and _are_framed(values, lookup) else Values.RAW
        return Values.SCHEMA if known is Values.SCHEMA else Values.RAW
    return asked


def _are_framed(values: pa.Array, lookup: Lookup) -> bool:
    """Whether at least half of the first values name a schema that the registry knows."""
    sample = values.drop_null().slice(0, SAMPLE)
    if not len(sample):
        return False
    framed = pc.and_(pc.starts_with(sample, b"\0"), pc.greater_equal(pc.binary_length(sample), FRAME_BYTES))
    if 2 * (pc.sum(framed).as_py() or 0) < len(sample):
        return False
    known = 0
    counts = pc.value_counts(pc.binary_slice(sample.filter(framed), 1, FRAME_BYTES))
    for each in counts.slice(0, SAMPLE_FRAMES_MAX).to_pylist():
        try:
            lookup(int.from_bytes(each["values"], "big"))
        except Refused:
            continue
        known += each["counts"]
    return 2 * known >= len(sample)


def _read(
    values: pa.Array, how: Values, work: Work, lookup: Lookup | None
) -> tuple[Columns, Shape | None, Wants | None]:
    """The values as columns of their own schemas, and what the table does not know of these."""
    columns = work.columns
    if how is Values.JSON:
        if columns.is_closed and columns.inferred is not None:
            return read_known(values, columns.inferred), columns.inferred, None
        read, shape = read_inferred(values, columns.inferred)
        wants = Wants(Values.JSON, inferred=shape) if columns.resolve(shape) is None else None
        return read, shape, wants
    assert lookup is not None, "values with schemas need a lookup of schemas"
    met: Lookup | Writer = lookup
    if work.rules.schema_id is not None:
        writer = lookup(work.rules.schema_id)
        met = Writer(writer.format, writer.id, writer.schema, writer.references, framed=False)
    read = read_values(values, met)
    unknown = [
        group.writer
        for group in read.groups
        if (group.writer.id, group.writer.indexes) not in columns.passed and columns.resolve(group.shape) is None
    ]
    return read, None, Wants(Values.SCHEMA, tuple(unknown)) if unknown else None


def _divide_read(
    rows: pa.RecordBatch, of: Range, work: Work, read: Columns, inferred: Shape | None, aside: tuple[Any, ...]
) -> Divided:
    parts: list[Part] = []
    originals: list[pa.RecordBatch] = []
    odd: list[pa.RecordBatch] = []
    unreadable = dict(read.unreadable)
    for group in read.groups:
        columns = work.columns.resolve(group.shape)
        if columns is None:
            why = f"its schema would make the table wider than {COLUMNS_MAX} columns"
            unreadable.update(dict.fromkeys(group.places.to_pylist(), why))
            continue
        mine = _Rows(_taken(rows, group.places), of.partition, work, group.writer.id)
        odd += mine.odd_times()
        originals += _originals(mine.rows, group)
        parts += mine.parts(columns, _columns_of(group), group.writer, inferred, group.style)
    if len(read.nulls):
        mine = _Rows(_taken(rows, read.nulls), of.partition, work, None)
        odd += mine.odd_times()
        parts += mine.parts((), [])
    if unreadable:
        places = sorted(unreadable)
        why = pa.array([unreadable[place] for place in places], pa.string())
        odd.append(odd_of(rows.take(pa.array(places, pa.int64())), why))
    return Divided(tuple(parts), join_beside(originals, odd, aside))


def _taken(rows: pa.RecordBatch, places: pa.Int64Array) -> pa.RecordBatch:
    return rows if len(places) == rows.num_rows else rows.take(places)


def _originals(rows: pa.RecordBatch, group: Group) -> list[pa.RecordBatch]:
    kept = group.originals
    if kept.null_count == len(kept):
        return []
    present = pc.is_valid(kept)
    return [originals_of(rows.column("offset").filter(present), kept.filter(present))]


def _columns_of(group: Group) -> list[pa.Array]:
    return [group.rows.field(n) for n in range(group.rows.type.num_fields)]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some rows of a chunk whose values all have the same writer."""

    rows: pa.RecordBatch
    partition: int
    work: Work
    schema_id: int | None

    def odd_times(self) -> list[pa.RecordBatch]:
        """Rows whose timestamps no table can hold."""
        times = self.rows.column("time")
        if not len(times):
            return []
        found = pc.min_max(times).as_py()
        if found["min"] >= _TIME_MIN and found["max"] <= _TIME_MAX:
            return []
        rows = self.rows.filter(pc.invert(_holds(times)))
        return [odd_of(rows, pa.nulls(rows.num_rows, pa.string()))]

    def parts(
        self,
        columns: tuple[Column, ...],
        values: list[pa.Array],
        writer: Writer | None = None,
        inferred: Shape | None = None,
        style: int = 0,
    ) -> tuple[Part, ...]:
        count = self.rows.num_rows
        if not count:
            return ()
        arrays = [
            recast(array, column.arrow_type(in_files=True)) for array, column in zip(values, columns, strict=True)
        ]
        every = (*columns, *RECORD_COLUMNS)
        schema = pa.schema([column.arrow_field(in_files=True) for column in every])
        batch = pa.RecordBatch.from_arrays([*arrays, *self._record_columns()], schema=schema)
        place_of = {column.id: n for n, column in enumerate(every)}

        def column_of(number: int) -> pa.Array | None:
            return batch.column(place_of[number]) if number in place_of else None

        fields = self.work.columns.partition_fields(self.work.rules)
        return tuple(
            Part(columns, batch if places is None else batch.take(places), partition, writer, inferred, style)
            for partition, places in split(count, column_of, fields)
        )

    def _record_columns(self) -> list[pa.Array]:
        rows = self.rows
        count = rows.num_rows
        times = rows.column("time")
        present = pc.and_(_holds(times), pc.not_equal(times, -1))
        micros = pc.multiply(pc.if_else(present, times, None), 1000).view(_TIME_TYPE)
        schema_id = pa.nulls(count, pa.int32()) if self.schema_id is None else _same(self.schema_id, count)
        headers = recast(rows.column("headers"), _HEADERS_TYPE)
        return [_same(self.partition, count), rows.column("offset"), micros, rows.column("key"), headers, schema_id]


def _holds(times: pa.Array) -> pa.Array:
    return pc.and_(pc.greater_equal(times, _TIME_MIN), pc.less_equal(times, _TIME_MAX))


def _same(number: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(number, pa.int32()), count)
