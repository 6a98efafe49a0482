"""A piece of a topic becomes Arrow record batches: what an executor does, or a prompt.

    for batch in read_piece(scan, piece): ...

Bytes are fetched by ranges, some megabytes at a time, opened by column, and read by the schemas that their values name;
no Python runs per record. Rows of write-ahead objects and of Parquet files come out alike, in the order of their offsets
and under the columns that were settled when the cut was made: a column that came later is left out, one that a row does
not have is null. Rows whose values cannot be read are left out, as the topic's table leaves them out.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import NotThere, Refused, Unavailable
from runnel.lake.scan import Piece, Scan
from runnel.metadata.objects import FileKind
from runnel.model import ObjectName
from runnel.read.plan import Part
from runnel.table.files.chunks import divide, is_aborted
from runnel.table.files.columns import FIELD_ID, OFFSET, RECORD_COLUMNS, TableColumns
from runnel.table.files.facts import Range, Slice, Work
from runnel.table.files.restore import TrailReader, read_trail
from runnel.table.records import Opened, Run, open_runs
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.open import open_store
from runnel.world.objects.seam import Buffer, ObjectStore

PORTION_BYTES = 8 << 20
"""Sealed batches that are fetched together."""
UNFOLDED_BYTES_MAX = 16 << 20
TRIES_MAX = 3
"""How often a piece is looked for again."""
OFFSET_ID = next(column.id for column in RECORD_COLUMNS if column.name == OFFSET)
GROWTHS_MAX = 100
"""How often a piece may meet schemas that were not known when it was planned."""


Again = Callable[[Piece], Piece]
"""Where the rows of a piece lie now; asked when an object is not where it was."""


def read_piece(scan: Scan, piece: Piece, again: Again | None = None) -> Iterator[pa.RecordBatch]:
    """All rows of a piece; waits for bytes.

    Between a cut and its reading, a table may come by and a sweep after it: `again` says where to look then.
    """
    yield from _read(piece, _Reading(scan, piece), again)


def learned(scan: Scan, sample: Piece) -> TableColumns:
    """The columns of a topic after the values of a sample were met."""
    reading = _Reading(scan, sample)
    for _ in _read(sample, reading, None):
        pass
    return reading.columns


def _read(piece: Piece, reading: "_Reading", again: Again | None) -> Iterator[pa.RecordBatch]:
    with asyncio.Runner() as runner:
        objects = open_store(reading.scan.store, clock=SystemClock(), chance=Chance())
        try:
            waiting = list(_portions(piece.parts))
            tries = 0
            while waiting:
                try:
                    found = runner.run(_fetch(objects, waiting[0], piece, reading.table_columns))
                except NotThere as gone:
                    tries += 1
                    if again is None or tries > TRIES_MAX:
                        raise Unavailable(
                            f"rows {piece.first} to {piece.end - 1} of partition {piece.partition} of "
                            f"'{reading.scan.topic}' lie elsewhere by now ({gone}): start the query again"
                        ) from None
                    left = replace(piece, first=max(piece.first, waiting[0][0].first))
                    piece = again(left)
                    reading.goes_on(piece)
                    waiting = list(_portions(piece.parts))
                    continue
                del waiting[0]
                yield from reading.rows(found)
        finally:
            runner.run(objects.close())


def _portions(parts: Sequence[Part]) -> Iterator[list[Part]]:
    mine: list[Part] = []
    size = 0
    for part in parts:
        if mine and size + part.length > PORTION_BYTES:
            yield mine
            mine, size = [], 0
        mine.append(part)
        size += part.length
    if mine:
        yield mine


class TableIds(NamedTuple):
    """Columns that are the table's own, by their ids: up to which, and which of them are wanted."""

    last: int
    wanted: frozenset[int]


Found = list[Run | list[pa.RecordBatch]]
"""Sealed batches that must be opened and read, or rows of one stretch of offsets as the table has them."""


async def _fetch(objects: ObjectStore, parts: Sequence[Part], piece: Piece, table: TableIds | None) -> Found:
    """What some parts hold, in order."""
    by_object: dict[str, list[Part]] = {}
    for part in parts:
        if part.kind == FileKind.WAL:
            by_object.setdefault(part.name, []).append(part)
    answers = await asyncio.gather(
        *(
            objects.read_ranges(ObjectName(name), [(part.place, part.length) for part in mine])
            for name, mine in by_object.items()
        )
    )
    bodies: dict[Part, Buffer] = {}
    for mine, buffers in zip(by_object.values(), answers, strict=True):
        bodies.update(zip(mine, buffers, strict=True))
    found: Found = []
    trails: dict[str, TrailReader] = {}
    for part in parts:
        if part.kind == FileKind.WAL:
            found.append(Run(part.first, bodies[part]))
            continue
        if part.name not in trails:
            trails[part.name] = await read_trail(objects, part.name)
        found += await _compacted(objects, trails[part.name], part, piece, table)
    return found


async def _compacted(
    objects: ObjectStore, trail: TrailReader, part: Part, piece: Piece, table: TableIds | None
) -> Found:
    """Chunks of Parquet files: rows as they are where the columns are those of the scan, else batches made again."""
    found: Found = []
    for number in trail.trail.chunks_of(part.place, max(part.first, piece.first), min(part.end, piece.end)):
        ranges = trail.ranges(number)
        data: list[Buffer] = list(
            await asyncio.gather(*(objects.read(ObjectName(name), place, length) for name, place, length in ranges))
        )
        if table is not None and trail.last_id(number) <= table.last:
            found.append(trail.table_rows(number, data, table.wanted))
        else:
            found += [Run(sealed.first, sealed.data) for sealed in trail.restore(number, data)]
    return found


def _ids(schema: pa.Schema) -> list[int]:
    return [int(kind.metadata[FIELD_ID]) for kind in schema]


class _Reading:
    """Opens and reads portions, one after another."""

    def __init__(self, scan: Scan, piece: Piece) -> None:
        self.scan = scan
        self.columns = scan.columns
        self._schema = scan.schema()
        self._wanted = scan.handed_over
        self.table_columns = (
            TableIds(scan.table_ids, frozenset({OFFSET_ID, *(column.id for column in self._wanted)}))
            if scan.table_ids
            else None
        )
        self.goes_on(piece)

    def goes_on(self, piece: Piece) -> None:
        """What follows is read for this piece."""
        self._piece = piece
        only = tuple(Slice(part.name, part.place, part.length, part.first, part.end) for part in piece.parts)
        self._range = Range(
            stream=piece.stream, partition=piece.partition, slices=only, start=piece.first, aborted=piece.aborted
        )

    def rows(self, found: Found) -> Iterator[pa.RecordBatch]:
        runs: list[Run] = []
        for each in (*found, None):
            if isinstance(each, Run):
                runs.append(each)
                continue
            yield from self._opened(runs)
            runs = []
            if each is not None:
                yield from self._as_they_are(each)

    def _opened(self, runs: Iterable[Run]) -> Iterator[pa.RecordBatch]:
        aborted = is_aborted(self._piece.aborted)
        for opened in open_runs(runs, is_aborted=aborted, unfolded_bytes_max=UNFOLDED_BYTES_MAX):
            batch = self._read(self._within(opened))
            if batch is not None:
                yield batch

    def _as_they_are(self, sections: Sequence[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of Parquet files, section by section: only names and types may have to change."""
        parts = []
        for rows in sections:
            inside = rows.filter(self._inside(rows.column(OFFSET)))
            if inside.num_rows:
                parts.append(self._handed_over(inside, _ids(rows.schema)))
        if parts:
            yield _in_order(parts)

    def _within(self, opened: Opened) -> Opened:
        return Opened(opened.rows.filter(self._inside(opened.rows.column("offset"))), (), ())

    def _inside(self, offsets: pa.Array) -> pa.Array:
        return pc.and_(pc.greater_equal(offsets, self._piece.first), pc.less(offsets, self._piece.end))

    def _read(self, opened: Opened) -> pa.RecordBatch | None:
        if not opened.rows.num_rows:
            return None
        for _ in range(GROWTHS_MAX):
            work = Work(
                topic=self.scan.topic, folder="", ranges=(), rules=self.scan.rules, columns=self.columns, stamp=0
            )
            divided = divide(opened, self._range, work, self.scan.schemas.writer)
            if divided.wants is None:
                parts = [
                    self._handed_over(part.rows, [column.id for column in (*part.columns, *RECORD_COLUMNS)])
                    for part in divided.parts
                ]
                return _in_order(parts) if parts else None
            grown: TableColumns = self.columns.with_wants(divided.wants)
            if grown == self.columns:
                break
            self.columns = grown
        raise Refused(f"values of '{self.scan.topic}' change their schema too often to be read in one piece")

    def _handed_over(self, rows: pa.RecordBatch, ids: Sequence[int]) -> tuple[pa.RecordBatch, pa.Array]:
        """Rows under the columns that were settled, and their offsets. `ids` are those of the columns of `rows`."""
        place_of = {id_: place for place, id_ in enumerate(ids)}
        arrays = []
        for column, kind in zip(self._wanted, self._schema, strict=True):
            place = place_of.get(column.id)
            if place is None:
                arrays.append(pa.nulls(rows.num_rows, kind.type))
                continue
            try:
                arrays.append(_fitted(rows.column(place), kind.type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as wide:
                raise Refused(
                    f"column '{column.name}' of '{self.scan.topic}' has become wider while it was read ({wide}): "
                    "start the query again"
                ) from None
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema), rows.column(place_of[OFFSET_ID])


def _fitted(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same values under the names and types that were settled; kids that came later are left out."""
    if array.type.equals(wanted):
        return array
    if pa.types.is_struct(wanted):
        names = [array.type.field(n).name for n in range(array.type.num_fields)]
        kids = []
        for kind in wanted:
            known = names.index(kind.name) if kind.name in names else None
            kids.append(pa.nulls(len(array), kind.type) if known is None else _fitted(array.field(known), kind.type))
        return pa.StructArray.from_arrays(kids, fields=list(wanted), mask=pc.is_null(array))
    if pa.types.is_list(wanted):
        values = _fitted(array.values, wanted.value_type)
        return pa.Array.from_buffers(wanted, len(array), array.buffers()[:2], offset=array.offset, children=[values])
    return pc.cast(array, wanted)


def _in_order(parts: Sequence[tuple[pa.RecordBatch, pa.Array]]) -> pa.RecordBatch:
    """Rows of all parts by their offsets."""
    if len(parts) == 1:
        return parts[0][0]
    table = pa.Table.from_batches([batch for batch, _ in parts]).combine_chunks()
    offsets = pa.chunked_array([offsets for _, offsets in parts])
    batch: pa.RecordBatch = table.take(pc.sort_indices(offsets)).combine_chunks().to_batches()[0]
    return batch
