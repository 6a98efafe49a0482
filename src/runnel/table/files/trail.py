r"""The trail of a group of files: from offsets back to rows. One object, read whole, kept in memory by readers.

    magic "RUNNELT\n" 8, version 2, zeros 2, CRC-32C 4 of everything behind it, then zstd of msgpack of `Trail`

It names the Parquet files and carries their footers, so that a reader asks the store for rows alone. It carries the
schemas that values were written by, so that nobody has to ask a registry for them. And it lists the chunks.

The object `kept` beside it has, for the chunks that need it, what is no part of the table's rows: see `Beside`.

Readers know every version there ever was; only the newest is written. New fields go last.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Any

import msgspec
import pyarrow as pa
from crc32c import crc32c

from runnel.codec.compression import Compression, compress, decompress
from runnel.errors import Corrupt, RunnelError
from runnel.table.files.columns import inferred_json, inferred_of
from runnel.table.records import ROWS, Aside, Stretch
from runnel.table.shapes import Format, Shape
from runnel.table.values import Writer, shape_of

MAGIC = b"RUNNELT\n"
VERSION = 1
_HEAD = Struct("<8sHxxI")
TRAIL_BYTES_MAX = 256 << 20
"""Unfolded. Chunks are megabytes, so a trail that is larger than this is none."""
NO_WRITER = -1
"""Rows whose values are binary as they are: raw topics, and values that are null."""


class TrailFile(msgspec.Struct, array_like=True):
    """A Parquet file of the group."""

    name: str
    size: int
    footer: bytes


class TrailWriter(msgspec.Struct, array_like=True):
    """A schema that values were written by; `inferred` in place of a schema's text for JSON without one."""

    format: int
    id: int
    schema: str
    references: list[tuple[str, str]]
    indexes: list[int]
    framed: bool
    inferred: Any = None

    @classmethod
    def of(cls, writer: Writer, inferred: Shape | None = None) -> "TrailWriter":
        return cls(
            int(writer.format),
            writer.id,
            writer.schema,
            list(writer.references),
            list(writer.indexes),
            writer.framed,
            None if inferred is None else inferred_json(inferred),
        )

    def writer(self) -> Writer:
        references = tuple((name, text) for name, text in self.references)
        return Writer(Format(self.format), self.id, self.schema, references, tuple(self.indexes), self.framed)

    def shape(self) -> Shape:
        return shape_of(self.writer()) if self.inferred is None else inferred_of(self.inferred)


class Section(msgspec.Struct, array_like=True):
    """Rows of one chunk in one file: its row group, where that lies, who wrote the values, and in which JSON style."""

    file: int
    group: int
    place: int
    length: int
    writer: int = NO_WRITER
    style: int = 0


class Chunk(msgspec.Struct, array_like=True):
    """Some of a stream's rows, from `first` up to `end`. `kept` and `kept_length` are bytes of the kept object."""

    stream: int
    first: int
    end: int
    stamp: int
    sections: list[Section]
    stretches: list[tuple[int, int, int, int, int]]
    kept: int = 0
    kept_length: int = 0
    letters: int = 0
    size: int = 0
    """About what its batches take when they are made again."""
    codec: int = 0
    """The compression of the batches that it was made of, and will be restored to."""

    def stretch_list(self) -> list[Stretch]:
        return [Stretch(*each) for each in self.stretches]


class Trail(msgspec.Struct, array_like=True):
    """See the module."""

    topic: str
    files: list[TrailFile]
    writers: list[TrailWriter]
    chunks: list[Chunk]
    kept: str = ""
    kept_size: int = 0

    def chunks_of(self, place: int, first: int, end: int) -> list[int]:
        """The numbers of the chunks from `place` on that hold offsets of a run from `first` up to `end`."""
        if not 0 <= place < len(self.chunks):
            raise Corrupt(f"there is no chunk {place}, only {len(self.chunks)}")
        stream = self.chunks[place].stream
        stop = place
        while stop < len(self.chunks) and self.chunks[stop].stream == stream and self.chunks[stop].first < end:
            stop += 1
        begin = bisect_right([chunk.end for chunk in self.chunks[place:stop]], first) + place
        return list(range(begin, stop))


def pack_trail(trail: Trail) -> bytes:
    body = compress(msgspec.msgpack.encode(trail), Compression.ZSTD)
    return _HEAD.pack(MAGIC, VERSION, crc32c(body)) + body


def unpack_trail(name: str, data: bytes | bytearray | memoryview) -> Trail:
    """The trail in an object's bytes, or `Corrupt`."""
    view = memoryview(data)
    if len(view) < _HEAD.size:
        raise Corrupt(f"{name} is cut off: {len(view)} bytes are too few for a trail")
    magic, version, checksum = _HEAD.unpack_from(view)
    if magic != MAGIC:
        raise Corrupt(f"{name} does not begin like a trail")
    if version > VERSION:
        raise Corrupt(f"{name} has format {version}, this program knows {VERSION}: upgrade runnel")
    if crc32c(view[_HEAD.size :]) != checksum:
        raise Corrupt(f"{name} fails its checksum")
    try:
        return msgspec.msgpack.decode(
            decompress(view[_HEAD.size :], Compression.ZSTD, largest=TRAIL_BYTES_MAX), type=Trail
        )
    except (msgspec.DecodeError, RunnelError) as bad:
        raise Corrupt(f"{name} is not a trail: {bad}") from None


# --- what lies beside the rows

_ORIGINALS = pa.schema([pa.field("offset", pa.int64(), nullable=False), pa.field("value", pa.binary())])
_ODD = pa.schema([*ROWS, pa.field("why", pa.string())])
BESIDE_BYTES_MAX = 1 << 30
_BESIDE_HEAD = Struct("<IQQQ")


def _none(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


@dataclass(frozen=True, slots=True)
class Beside:
    """What is kept of one chunk.

    Values that encoding does not give again; whole rows that are not as the table has them (`why` says what makes one
    unreadable, null for rows that are in the table, too); batches that stay sealed.
    """

    originals: pa.RecordBatch = field(default_factory=lambda: _none(_ORIGINALS))
    odd: pa.RecordBatch = field(default_factory=lambda: _none(_ODD))
    aside: tuple[Aside, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.originals.num_rows and not self.odd.num_rows and not self.aside

    @property
    def letters(self) -> int:
        """How many letters come of it: one for a row, one for a poisoned batch."""
        unreadable: int = self.odd.num_rows - self.odd.column("why").null_count
        return unreadable + sum(1 for each in self.aside if each.is_poisoned)


def originals_of(offsets: pa.Array, values: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([offsets, values], schema=_ORIGINALS)


def odd_of(rows: pa.RecordBatch, why: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*rows.columns, why], schema=_ODD)


def joined(parts: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """One batch of all rows of some, in the order of their offsets."""
    table = pa.Table.from_batches(parts, schema=schema).sort_by("offset").combine_chunks()
    return table.to_batches()[0] if table.num_rows else _none(schema)


def join_beside(originals: Sequence[pa.RecordBatch], odd: Sequence[pa.RecordBatch], aside: tuple[Aside, ...]) -> Beside:
    return Beside(joined(originals, _ORIGINALS), joined(odd, _ODD), aside)


def pack_beside(beside: Beside) -> bytes:
    """The bytes that are kept: a checksum, three lengths, and the parts as zstd."""
    parts = [
        compress(_ipc(beside.originals), Compression.ZSTD),
        compress(_ipc(beside.odd), Compression.ZSTD),
        compress(
            msgspec.msgpack.encode([(each.first, each.last, each.why, each.batch) for each in beside.aside]),
            Compression.ZSTD,
        ),
    ]
    body = b"".join(parts)
    return _BESIDE_HEAD.pack(crc32c(body), *map(len, parts)) + body


def unpack_beside(name: str, data: bytes | bytearray | memoryview) -> Beside:
    view = memoryview(data)
    checksum, *lengths = _BESIDE_HEAD.unpack_from(view)
    body = view[_BESIDE_HEAD.size :]
    if len(body) != sum(lengths) or crc32c(body) != checksum:
        raise Corrupt(f"{name} fails a checksum")
    parts = []
    at = 0
    for length in lengths:
        parts.append(decompress(body[at : at + length], Compression.ZSTD, largest=BESIDE_BYTES_MAX))
        at += length
    aside = msgspec.msgpack.decode(parts[2], type=list[tuple[int, int, str, bytes]])
    return Beside(_of_ipc(parts[0]), _of_ipc(parts[1]), tuple(Aside(*each) for each in aside))


def _ipc(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _of_ipc(data: bytes | memoryview) -> pa.RecordBatch:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_next_batch()
