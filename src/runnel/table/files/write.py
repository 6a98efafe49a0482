"""Work becomes Parquet files and their trails. This is what an executor runs; no Spark is needed for it.

    written = await write_files(work, objects, lookup, chance=chance)

Slices are fetched in portions, each object once, the next portion while this one is worked on. Runs of slices become
chunks, chunks go into the open files of a group, and a group that is large enough is put into the store: its Parquet
files and what is kept beside them first, its trail last, because the trail is what makes them a group.

Files grow in a scratch folder, not in memory. Nothing that is written counts until a commit names it, so work that
fails half-way is simply done again, under new names; the store's orphans are a sweep's business.

    cost   GET: one for each object and portion; PUT: one for each file, one or two more for a group
"""

import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from os import SEEK_END
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from runnel.codec.batches import read_head
from runnel.codec.compression import Compression
from runnel.errors import AlreadyThere, Corrupt, Unavailable, Uncertain
from runnel.model import ObjectName
from runnel.table.files.chunks import Divided, Part, divide, is_aborted
from runnel.table.files.columns import RECORD_COLUMNS, Column, Wants
from runnel.table.files.facts import (
    FileFacts,
    Group,
    Range,
    Run,
    Sizes,
    Slice,
    Span,
    Work,
    Written,
    kept_name,
    parquet_name,
    stem_of,
    together,
    trail_name,
)
from runnel.table.files.statistics import column_facts, row_group_places
from runnel.table.files.trail import (
    NO_WRITER,
    Chunk,
    Section,
    Trail,
    TrailFile,
    TrailWriter,
    pack_beside,
    pack_trail,
)
from runnel.table.records import Opened, open_runs
from runnel.table.records import Run as Batches
from runnel.table.values import Lookup
from runnel.world.chance import Chance
from runnel.world.objects.seam import Buffer, ObjectStore

FETCHES_MAX = 8
"""Objects that are read at once."""
PUTS_MAX = 8
"""Objects that are put at once."""
PUT_TRIES_MAX = 4
OPEN_MAX = 100
"""Files of a group that are written to; with more partitions or schemas, those that wait longest are shut."""
UNFOLDS_TO = 2
"""How much larger rows are thought to be than their batches, before the first chunk tells."""
_FAST_CODECS = (Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
PLAIN_COLUMNS = frozenset({"key", "value", "offset", "timestamp"})
"""Columns without a dictionary: nearly every value is another."""


async def write_files(
    work: Work, objects: ObjectStore, lookup: Lookup | None, *, chance: Chance, scratch: Path | None = None
) -> Written:
    """Write all of some work, or find out what the table must learn first (`Written.wants`).

    `lookup` gives the writer of a schema id, as `Schemas.writer` does; without it no value is read by a schema.
    `scratch` is where files grow; by default where the system keeps temporary files.
    """
    with ExitStack() as stack:
        try:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="runnel-table-", dir=scratch)))
            return await _Writing(work, objects, lookup, chance, folder).run()
        except OSError as trouble:
            place = scratch or tempfile.gettempdir()
            raise Unavailable(f"files of a table cannot be made in {place}: {trouble}: see that it has room") from None


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Slices of one range that are fetched together."""

    of: Range
    slices: tuple[Slice, ...]


def portions(work: Work) -> Iterator[list[_Stretch]]:
    """All slices in order, cut into portions."""
    portion: list[_Stretch] = []
    size = 0
    for of in work.ranges:
        begin = 0
        for at, each in enumerate(of.slices):
            if size and size + each.length > work.sizes.portion_bytes:
                if at > begin:
                    portion.append(_Stretch(of, of.slices[begin:at]))
                yield portion
                portion, size, begin = [], 0, at
            size += each.length
        portion.append(_Stretch(of, of.slices[begin:]))
    if portion:
        yield portion


class _Writing:
    """One run of `write_files`."""

    def __init__(self, work: Work, objects: ObjectStore, lookup: Lookup | None, chance: Chance, folder: Path) -> None:
        self._work = work
        self._objects = objects
        self._lookup = lookup
        self._chance = chance
        self._folder = folder
        self._gets = 0
        self._ratio: float = UNFOLDS_TO
        self._group: _OpenGroup | None = None
        self._done: list[Written] = []
        self._wants: Wants | None = None

    async def run(self) -> Written:
        try:
            waiting = list(portions(self._work))
            loaded = await self._fetch(waiting[0]) if waiting else []
            for number, portion in enumerate(waiting):
                following = waiting[number + 1] if number + 1 < len(waiting) else []
                _, coming = await asyncio.gather(self._write_portion(portion, loaded), self._fetch(following))
                loaded = coming
            if self._wants is not None:
                return Written(wants=self._wants, gets=self._gets)
            await self._finish()
        finally:
            if self._group is not None:
                self._group.close()
        source = sum(of.length for of in self._work.ranges)
        return together([*self._done, Written(gets=self._gets, source_bytes=source)])

    # --- reading slices

    async def _fetch(self, portion: Sequence[_Stretch]) -> list[list[Buffer]]:
        """The bytes of all slices of a portion, each object in one call."""
        by_object: dict[str, list[tuple[int, int]]] = {}
        for part in portion:
            for each in part.slices:
                by_object.setdefault(each.name, []).append((each.place, each.length))
        found: dict[tuple[str, int, int], Buffer] = {}
        room = asyncio.Semaphore(FETCHES_MAX)

        async def bring(name: str, ranges: list[tuple[int, int]]) -> None:
            async with room:
                for asked, data in zip(ranges, await self._read(name, ranges), strict=True):
                    found[(name, *asked)] = data

        await asyncio.gather(*(bring(name, ranges) for name, ranges in by_object.items()))
        self._gets += len(by_object)
        return [[found[each.name, each.place, each.length] for each in part.slices] for part in portion]

    async def _read(self, name: str, ranges: list[tuple[int, int]]) -> list[Buffer]:
        read = await self._objects.read_ranges(ObjectName(name), ranges)
        for (place, length), data in zip(ranges, read, strict=True):
            if len(data) != length:
                raise Corrupt(f"{name} gave {len(data)} of {length} bytes at {place}")
        return read

    # --- writing rows

    async def _write_portion(self, portion: Sequence[_Stretch], loaded: Sequence[Sequence[Buffer]]) -> None:
        for part, buffers in zip(portion, loaded, strict=True):
            at = 0
            while at < len(part.slices):
                stop = self._cut(part.slices, at)
                await self._write_run(part.of, part.slices[at:stop], buffers[at:stop])
                at = stop

    def _cut(self, slices: Sequence[Slice], at: int) -> int:
        """Where a run of slices ends that unfolds to about one chunk."""
        room = self._work.sizes.chunk_bytes / self._ratio
        stop = at + 1
        size = slices[at].length
        while stop < len(slices) and size + slices[stop].length <= room:
            size += slices[stop].length
            stop += 1
        return stop

    async def _write_run(self, of: Range, slices: Sequence[Slice], buffers: Sequence[Buffer]) -> None:
        """One run of slices, which the ledger will see as one extent: a chunk, or several if it unfolds to more."""
        await asyncio.to_thread(self._add_run, of, slices, buffers)
        group = self._group
        if group is not None and group.is_full(self._work.sizes):
            await self._finish()

    def _add_run(self, of: Range, slices: Sequence[Slice], buffers: Sequence[Buffer]) -> None:
        batches = [Batches(each.first, data) for each, data in zip(slices, buffers, strict=True)]
        pieces = open_runs(
            batches, is_aborted=is_aborted(of.aborted), unfolded_bytes_max=2 * self._work.sizes.chunk_bytes
        )
        unfolded = 0
        first, end = slices[0].first, slices[-1].end
        place = -1
        codec = codec_of(buffers[0])
        upcoming = next(pieces, None)
        while upcoming is not None:
            opened, upcoming = upcoming, next(pieces, None)
            unfolded += opened.rows.nbytes
            divided = divide(opened, of, self._work, self._lookup)
            if divided.wants is not None:
                self._wants = divided.wants if self._wants is None else self._wants | divided.wants
            if self._wants is not None or self._work.is_a_look:
                continue
            if self._group is None:
                self._group = _OpenGroup(self._work, self._folder, self._chance.getrandbits(64))
            stop = end if upcoming is None else _next_offset(opened)
            number = self._group.add(of, first, stop, opened, divided, codec)
            place = number if place < 0 else place
            first = stop
        length = sum(each.length for each in slices)
        self._ratio = max(0.2, unfolded / max(1, length))
        if self._group is not None and place >= 0:
            self._group.add_run(Run(of.stream, of.partition, slices[0].first, end, place))

    async def _finish(self) -> None:
        group, self._group = self._group, None
        if group is None:
            return
        try:
            if self._wants is not None:
                return
            bodies, trail, written = await asyncio.to_thread(group.finish)
            room = asyncio.Semaphore(PUTS_MAX)

            async def put(name: ObjectName, body: Path | bytes) -> None:
                async with room:
                    if isinstance(body, bytes):
                        await self._put(name, body)
                    else:
                        with pa.memory_map(str(body)) as mapped:
                            await self._put(name, memoryview(mapped.read_buffer()))

            await asyncio.gather(*(put(*each) for each in bodies))
            await self._put(*trail)
            self._done.append(written)
        finally:
            group.close()

    async def _put(self, name: ObjectName, body: Buffer) -> None:
        """Put an object; nobody else uses its name, so what is there after an uncertain try is our own."""
        was_uncertain = False
        for _ in range(PUT_TRIES_MAX):
            try:
                await self._objects.put_new(name, body)
            except AlreadyThere:
                if not was_uncertain:
                    raise
            except Uncertain:
                was_uncertain = True
                continue
            return
        raise Unavailable(f"{name} could not be put for certain in {PUT_TRIES_MAX} tries")


def codec_of(batches: Buffer) -> Compression:
    """The compression that restored batches get: that of the first one, which its consumers know how to unfold.

    Gzip is too slow to be made again for every reader.
    """
    found = read_head(memoryview(batches)).compression
    known = found in _FAST_CODECS
    return Compression(found) if known else Compression.NONE


def _next_offset(opened: Opened) -> int:
    """The offset behind all that was opened."""
    last = -1
    if opened.rows.num_rows:
        last = opened.rows.column("offset")[-1].as_py()
    if opened.stretches:
        last = max(last, opened.stretches[-1].last)
    return max([last, *(each.last for each in opened.aside)]) + 1


class _OpenGroup:
    """A group of files on its way."""

    def __init__(self, work: Work, folder: Path, unique: int) -> None:
        self._work = work
        self._folder = folder
        self._stem = stem_of(work.folder, work.stamp, unique)
        self._files: list[_OpenFile] = []
        self._open: dict[tuple[Any, ...], _OpenFile] = {}
        self._writers: list[TrailWriter] = []
        self._chunks: list[Chunk] = []
        self._kept: list[bytes] = []
        self._kept_size = 0
        self._runs: list[Run] = []

    def is_full(self, sizes: Sizes) -> bool:
        size = self._kept_size + sum(file.size for file in self._files)
        return size >= sizes.group_bytes_max or len(self._files) >= sizes.files_max

    def add(self, of: Range, first: int, end: int, opened: Opened, divided: Divided, codec: Compression) -> int:
        """Enter a chunk; its number."""
        times = opened.rows.column("time")
        stamps = [read_head(memoryview(each.batch)).max_timestamp for each in opened.aside]
        stamp = max([pc.max(times).as_py() if len(times) else -1, *stamps])
        sections = [self._section(of, part) for part in divided.parts]
        stretches = [
            (each.first, each.last, each.attributes, each.producer, each.epoch)
            for each in opened.stretches
            if each.attributes
        ]
        size = opened.rows.nbytes + sum(len(each.batch) for each in opened.aside)
        size = size // UNFOLDS_TO if codec else size
        chunk = Chunk(of.stream, first, end, stamp, sections, stretches, size=size, codec=codec)
        beside = divided.beside
        if beside is not None and not beside.is_empty:
            data = pack_beside(beside)
            chunk.kept, chunk.kept_length, chunk.letters = self._kept_size, len(data), beside.letters
            self._kept.append(data)
            self._kept_size += len(data)
        self._chunks.append(chunk)
        return len(self._chunks) - 1

    def add_run(self, run: Run) -> None:
        self._runs.append(run)

    def _section(self, of: Range, part: Part) -> Section:
        writer = self._writer_of(part)
        key = (writer, part.partition, tuple(column.id for column in part.columns))
        file = self._open.pop(key, None)
        if file is None:
            if len(self._open) >= OPEN_MAX:
                self._open.pop(next(iter(self._open))).shut()
            file = _OpenFile(len(self._files), part, self._folder, self._work)
            self._files.append(file)
        self._open[key] = file  # the one that was written to last goes last
        file.write(of, part.rows)
        return Section(file.number, file.groups - 1, 0, 0, writer, part.style)

    def _writer_of(self, part: Part) -> int:
        if part.writer is None:
            return NO_WRITER
        writer = TrailWriter.of(part.writer, part.inferred)
        if writer not in self._writers:
            self._writers.append(writer)
        return self._writers.index(writer)

    def finish(self) -> tuple[list[tuple[ObjectName, Path | bytes]], tuple[ObjectName, bytes], Written]:
        """Names and bodies of all objects, the trail apart, and the facts. Bodies that are files last until `close`."""
        trail = trail_name(self._stem)
        bodies: list[tuple[ObjectName, Path | bytes]] = []
        facts: list[FileFacts] = []
        files: list[TrailFile] = []
        places: list[list[tuple[int, int]]] = []
        for file in self._files:
            name = parquet_name(self._stem, file.number)
            metadata = file.shut()
            bodies.append((name, file.path))
            facts.append(file.facts(name, trail, metadata))
            files.append(TrailFile(name, file.size, footer_of(file.path)))
            places.append(row_group_places(metadata))
        for chunk in self._chunks:
            for section in chunk.sections:
                section.place, section.length = places[section.file][section.group]
        kept = ""
        if self._kept:
            kept = kept_name(self._stem)
            bodies.append((ObjectName(kept), b"".join(self._kept)))
        packed = pack_trail(Trail(self._work.topic, files, self._writers, self._chunks, kept, self._kept_size))
        letters = sum(chunk.letters for chunk in self._chunks)
        group = Group(
            trail=trail,
            kept=kept,
            runs=tuple(self._runs),
            letters=letters,
            size=len(packed) + self._kept_size,
        )
        written = Written(
            files=tuple(facts),
            groups=(group,),
            records=sum(file.records for file in facts),
            letters=letters,
            puts=len(bodies) + 1,
        )
        return bodies, (trail, packed), written

    def close(self) -> None:
        """Let go of files."""
        for file in self._files:
            file.close()


def footer_of(path: Path) -> bytes:
    """The last bytes of a Parquet file, with its footer, their length and the magic."""
    with path.open("rb") as file:
        file.seek(-8, SEEK_END)
        length = int.from_bytes(file.read(4), "little") + 8
        file.seek(-length, SEEK_END)
        return file.read()


@dataclass(slots=True)
class _SpanSoFar:
    first: int
    last: int
    records: int


@dataclass(slots=True)
class _OpenFile:
    """One Parquet file on its way, in the scratch folder."""

    number: int
    part: Part
    folder: Path
    work: Work
    groups: int = 0
    schema: pa.Schema = field(init=False)
    path: Path = field(init=False)
    _size: int = 0
    _sink: pa.NativeFile = field(init=False)
    _writer: pq.ParquetWriter = field(init=False)
    _spans: dict[tuple[int, int], _SpanSoFar] = field(default_factory=dict)
    _stamp: int = -1
    _footers: list[pq.FileMetaData] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.schema = self.part.rows.schema
        with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".parquet", delete=False) as made:
            self.path = Path(made.name)
        self._sink = pa.OSFile(str(self.path), "wb")
        self._writer = pq.ParquetWriter(
            self._sink,
            self.schema,
            version="2.6",
            compression="zstd",
            compression_level=_levels(self.part.columns, self.work.sizes),
            use_dictionary=_with_dictionary(self.part.columns),
            write_statistics=True,
            store_schema=False,
            write_page_checksum=True,
            metadata_collector=self._footers,
        )

    @property
    def size(self) -> int:
        """Bytes so far; all of them once it is shut."""
        return self._size if self._sink.closed else int(self._sink.tell())

    def write(self, of: Range, rows: pa.RecordBatch) -> None:
        """Rows as one row group."""
        self._writer.write_table(pa.Table.from_batches([rows]), row_group_size=rows.num_rows)
        self.groups += 1
        offsets = rows.column("offset")
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        span = self._spans.setdefault((of.stream, of.partition), _SpanSoFar(first, last, 0))
        span.last = last
        span.records += rows.num_rows
        micros = rows.column("timestamp").view(pa.int64())
        if micros.null_count < len(micros):
            self._stamp = max(self._stamp, pc.max(micros).as_py() // 1000)

    def shut(self) -> pq.FileMetaData:
        """Nothing more is written; the footer."""
        if not self._sink.closed:
            self._writer.close()
            self._size = self._sink.tell()
            self._sink.close()
        return self._footers[0]

    def facts(self, name: str, trail: str, metadata: pq.FileMetaData) -> FileFacts:
        writer = self.part.writer
        return FileFacts(
            name=name,
            trail=trail,
            size=self.size,
            records=metadata.num_rows,
            spans=tuple(
                Span(stream, partition, span.first, span.last, span.records)
                for (stream, partition), span in self._spans.items()
            ),
            stamp=self._stamp,
            columns=column_facts((*self.part.columns, *RECORD_COLUMNS), metadata),
            partition=self.part.partition,
            schema_ids=() if writer is None else (writer.id,),
            row_groups=tuple(place for place, _ in row_group_places(metadata)),
        )

    def close(self) -> None:
        """Let go of it, whatever has become of it: what was wrong was said when it happened."""
        with suppress(OSError, RuntimeError, pa.ArrowException):
            self.shut()
        with suppress(OSError):
            self._sink.close()
        self.path.unlink(missing_ok=True)


def _levels(columns: Sequence[Column], sizes: Sizes) -> dict[str, int]:
    """How hard each leaf column is compressed, by its path."""
    levels: dict[str, int] = {}
    for column in (*columns, *RECORD_COLUMNS):
        is_raw = column.is_raw or column in RECORD_COLUMNS
        levels |= dict.fromkeys(_paths(column), sizes.raw_zstd_level if is_raw else sizes.zstd_level)
    return levels


def _with_dictionary(columns: Sequence[Column]) -> list[str]:
    """Paths of the leaf columns that get a dictionary."""
    found: list[str] = []
    for column in (*columns, *RECORD_COLUMNS):
        if column.is_raw or (column in RECORD_COLUMNS and column.name in PLAIN_COLUMNS):
            continue
        found += _paths(column)
    return found


def _paths(column: Column) -> Iterator[str]:
    if not column.kids:
        yield column.file_name
    for kid in column.kids:
        between = "." if column.type == "struct" else ".list." if column.type == "list" else ".key_value."
        for path in _paths(kid):
            yield column.file_name + between + path
