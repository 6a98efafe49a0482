"""Chunks become sealed batches again, as consumers get them: the same offsets, times, keys, values and headers.

    TrailReader.restore   a chunk's Parquet bytes and what lies beside it -> sealed batches
    read_letters          what of a group goes to the dead-letter topic

Restoring is pure; whoever reads the objects (read/, a driver) brings the bytes.
"""

from collections.abc import AsyncIterator, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runnel.codec.compression import Compression
from runnel.errors import Corrupt
from runnel.model import ObjectName
from runnel.table.batches import Sealed, seal_rows, with_aside
from runnel.table.files.casts import recast
from runnel.table.files.columns import FIELD_ID, RECORD_COLUMNS
from runnel.table.files.facts import Group
from runnel.table.files.trail import NO_WRITER, Beside, Chunk, Section, Trail, joined, unpack_beside, unpack_trail
from runnel.table.records import HEADERS, ROWS, Aside
from runnel.table.shapes import arrow_type
from runnel.table.values import write_values
from runnel.world.objects.seam import Buffer, ObjectStore

_RECORD = len(RECORD_COLUMNS)
BATCH_BYTES_MAX = 256 << 10
"""Of records, unfolded; a consumer that asks for little gets at least one batch."""


@dataclass(frozen=True, slots=True)
class Letter:
    """A record that no table can have, whole, and why. Of a poisoned batch the sealed bytes are the value."""

    partition: int
    stream: int
    offset: int
    last: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    why: str


class TrailReader:
    """A trail with its footers parsed as they are needed."""

    def __init__(self, name: str, trail: Trail) -> None:
        self.name = name
        self.trail = trail
        self._footers: dict[int, pq.FileMetaData] = {}

    def ranges(self, number: int) -> list[tuple[str, int, int]]:
        """The (object, place, length) of all bytes that a chunk needs; first its sections, then what is kept of it."""
        chunk = self.trail.chunks[number]
        found = [(self.trail.files[each.file].name, each.place, each.length) for each in chunk.sections]
        if chunk.kept_length:
            found.append((self.trail.kept, chunk.kept, chunk.kept_length))
        return found

    def restore(
        self,
        number: int,
        data: Sequence[Buffer],
        *,
        batch_bytes_max: int = BATCH_BYTES_MAX,
    ) -> list[Sealed]:
        """The sealed batches of a chunk; `data` are the bytes of `ranges(number)`."""
        chunk = self.trail.chunks[number]
        beside = Beside()
        if chunk.kept_length:
            beside = unpack_beside(self.trail.kept, data[len(chunk.sections)])
        try:
            parts = [
                self._rows(section, body, beside.originals) for section, body in zip(chunk.sections, data, strict=False)
            ]
        except (pa.ArrowException, OSError) as bad:
            raise Corrupt(f"chunk {number} of {self.name} cannot be read: {bad}") from bad
        rows = _merged(parts, beside.odd)
        batches = seal_rows(
            rows, chunk.stretch_list(), compression=Compression(chunk.codec), batch_bytes_max=batch_bytes_max
        )
        return with_aside(batches, beside.aside) if beside.aside else batches

    def table_rows(
        self, number: int, data: Sequence[Buffer], wanted: Container[int] | None = None
    ) -> list[pa.RecordBatch]:
        """The rows that the table has of a chunk, as it has them, section by section; fields carry their ids.

        With `wanted`, only the columns with these ids.
        """
        try:
            return [
                self._table_rows(section, body, wanted)
                for section, body in zip(self.trail.chunks[number].sections, data, strict=False)
            ]
        except (pa.ArrowException, OSError) as bad:
            raise Corrupt(f"chunk {number} of {self.name} cannot be read: {bad}") from bad

    def last_id(self, number: int) -> int:
        """The largest id of the columns that a chunk's rows have."""
        found = [0]
        for section in self.trail.chunks[number].sections:
            schema = self._footer(section.file).schema.to_arrow_schema()
            found += [int(kind.metadata[FIELD_ID]) for kind in schema]
        return max(found)

    def _table_rows(self, section: Section, body: Buffer, wanted: Container[int] | None = None) -> pa.RecordBatch:
        file = self.trail.files[section.file]
        window = _Window(body, section.place, file.size)
        parquet = pq.ParquetFile(
            pa.PythonFile(window, mode="r"), metadata=self._footer(section.file), page_checksum_verification=True
        )
        names = None
        if wanted is not None:
            names = [kind.name for kind in parquet.schema_arrow if int(kind.metadata[FIELD_ID]) in wanted]
        table = parquet.read_row_group(section.group, columns=names, use_threads=False)
        rows: pa.RecordBatch = table.combine_chunks().to_batches()[0]
        return rows

    def _rows(self, section: Section, body: Buffer, originals: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of one section, as they were opened."""
        batch = self._table_rows(section, body)
        own = batch.num_columns - _RECORD
        _, offsets, micros, keys, headers, _ = batch.columns[own:]
        times = pc.fill_null(pc.divide(micros.view(pa.int64()), 1000), -1)
        if section.writer == NO_WRITER:
            values = batch.column(0) if own else pa.nulls(batch.num_rows, pa.binary())
        else:
            values = self._values(section, batch.columns[:own], offsets, originals)
        return pa.RecordBatch.from_arrays([offsets, times, keys, values, recast(headers, HEADERS)], schema=ROWS)

    def _values(
        self, section: Section, columns: list[pa.Array], offsets: pa.Array, originals: pa.RecordBatch
    ) -> pa.Array:
        entered = self.trail.writers[section.writer]
        shape = entered.shape()
        count = len(offsets)
        if shape.is_hollow:
            rows = pa.array([{}] * count, pa.struct([]))
        else:
            wanted = arrow_type(shape)
            kids = [recast(column, kind.type) for column, kind in zip(columns, wanted, strict=True)]
            rows = pa.Array.from_buffers(wanted, count, [None], children=kids)
        kept = pa.nulls(count, pa.binary())
        if originals.num_rows:
            places = pc.index_in(offsets, value_set=originals.column("offset"))
            kept = originals.column("value").take(places)
        return write_values(entered.writer(), shape, rows, section.style, kept)

    def _footer(self, number: int) -> pq.FileMetaData:
        footer = self._footers.get(number)
        if footer is None:
            footer = pq.read_metadata(pa.BufferReader(b"PAR1" + self.trail.files[number].footer))
            self._footers[number] = footer
        return footer


def _merged(parts: list[pa.RecordBatch], odd: pa.RecordBatch) -> pa.RecordBatch:
    """All rows in the order of their offsets; odd rows take the place of those that the table has."""
    if odd.num_rows:
        taken = odd.column("offset")
        parts = [part.filter(pc.invert(pc.is_in(part.column("offset"), value_set=taken))) for part in parts]
        parts.append(pa.RecordBatch.from_arrays(odd.columns[: len(ROWS)], schema=ROWS))
    if len(parts) == 1:
        return parts[0]
    return joined(parts, ROWS)


class _Window:
    """A file of which only some bytes are there, for a reader that asks for no others."""

    closed = False

    def __init__(self, data: Buffer, place: int, size: int) -> None:
        self._data = memoryview(data)
        self._place = place
        self._size = size
        self._at = 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + (0 if whence == 0 else self._at if whence == 1 else self._size)
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, length: int = -1) -> memoryview:
        start = self._at - self._place
        stop = len(self._data) if length < 0 else start + length
        if not 0 <= start <= stop <= len(self._data):
            raise OSError(f"bytes {self._at}…{self._at + length} are outside of what was read")
        self._at += stop - start
        return self._data[start:stop]

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing is ever written."""

    def close(self) -> None:
        self.closed = True


async def read_trail(objects: ObjectStore, name: str) -> TrailReader:
    """A trail out of the store."""
    return TrailReader(name, unpack_trail(name, await objects.read(ObjectName(name))))


async def read_letters(objects: ObjectStore, group: Group) -> AsyncIterator[Letter]:
    """What of a group goes to the dead-letter topic, stream by stream, in the order of offsets."""
    if not group.letters:
        return
    trail = (await read_trail(objects, group.trail)).trail
    partitions = {run.stream: run.partition for run in group.runs}
    for chunk in trail.chunks:
        if chunk.letters:
            data = await objects.read(ObjectName(trail.kept), chunk.kept, chunk.kept_length)
            for letter in letters_of(unpack_beside(trail.kept, data), chunk, partitions.get(chunk.stream, -1)):
                yield letter


def letters_of(beside: Beside, chunk: Chunk, partition: int) -> Iterator[Letter]:
    """The letters of one chunk, in the order of their offsets."""
    letters = [_letter_of(row, chunk.stream, partition) for row in beside.odd.to_pylist() if row["why"] is not None]
    letters += [_letter_of_batch(each, chunk.stream, partition) for each in beside.aside if each.is_poisoned]
    yield from sorted(letters, key=lambda letter: letter.offset)


def _letter_of(row: dict[str, Any], stream: int, partition: int) -> Letter:
    headers = tuple((each["key"], each["value"]) for each in row["headers"])
    return Letter(
        partition, stream, row["offset"], row["offset"], row["time"], row["key"], row["value"], headers, row["why"]
    )


def _letter_of_batch(aside: Aside, stream: int, partition: int) -> Letter:
    return Letter(partition, stream, aside.first, aside.last, -1, None, aside.batch, (), aside.why)


async def objects_of(objects: ObjectStore, trail: str) -> list[ObjectName]:
    """All objects of a group, the trail last: what may be deleted once no table and no extent refers to any of it."""
    reader = await read_trail(objects, trail)
    names = [file.name for file in reader.trail.files]
    names += [reader.trail.kept] if reader.trail.kept else []
    return [ObjectName(name) for name in (*names, trail)]
