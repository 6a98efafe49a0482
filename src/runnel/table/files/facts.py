"""What a piece of work is told, and what it gives back. All of it can be pickled; what is entered can be packed.

A driver plans, executors write, the driver commits:

    work = Work(topic=..., folder=table.folder, ranges=(...), rules=row_rules(settings), columns=known, stamp=now_ms)
    written = asyncio.run(write_files(work, objects, lookup))           # on an executor (files/write.py)
    if written.wants:                                                   # schemas that the table has not met yet
        known = known.with_wants(written.wants)                         # on the driver; keep it, then the work again
    else:
        journal = pack_written(written)                                 # TableCommit.manifest's bytes
        ReplaceExtents(*written.replacement(), stamp=None)              # files and runs, per shard
        iceberg: data file of each FileFacts (`lower`, `upper`, ... by field id), partition = file.partition
        delta: add action of each FileFacts with `delta_stats(file, known)` (files/statistics.py)

Nothing is published by writing: files that no commit names are orphans. All names carry the stamp of their work
(`parse_file_name`), so that a sweep can tell old from young.

When extents of a trail have all gone (retention, DeleteRecords, a deleted topic), the files of its group are to be
taken out of the tables; `FileFacts.trail` says which they are, and `objects_of(trail)` lists all objects that may be
deleted then.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from runnel.metadata.updates.extents import RUN
from runnel.model import ObjectName

if TYPE_CHECKING:
    from runnel.table.files.columns import TableColumns, Wants
    from runnel.table.files.rules import RowRules

TRAIL_SUFFIX, KEPT_SUFFIX, PARQUET_SUFFIX = ".trail", ".kept", ".parquet"
_NAME = re.compile(r"(.*)/([0-9a-f]{12})-([0-9a-f]{16})(?:-(\d+))?\.(trail|kept|parquet)")


# --- what work is told


@dataclass(frozen=True, slots=True)
class Slice:
    """Sealed batches of one stream inside a write-ahead object: an extent, with its object's name."""

    name: str
    place: int
    length: int
    first: int
    end: int
    stamp: int = -1


@dataclass(frozen=True, slots=True)
class Aborted:
    """A transaction that was broken off: its producer, its first offset, and its last."""

    producer: int
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Whole extents of one partition, in order and without holes. Rows before `start` were deleted meanwhile."""

    stream: int
    partition: int
    slices: tuple[Slice, ...]
    start: int = 0
    aborted: tuple[Aborted, ...] = ()

    @property
    def first(self) -> int:
        return self.slices[0].first

    @property
    def end(self) -> int:
        return self.slices[-1].end

    @property
    def length(self) -> int:
        return sum(each.length for each in self.slices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Bounds of one piece of work. Its memory is about two portions, a few chunks and what one group keeps."""

    group_bytes_max: int = 128 << 20
    """Parquet bytes after which a group of files is finished and another begun."""
    chunk_bytes: int = 16 << 20
    """Unfolded bytes of the rows of a chunk."""
    portion_bytes: int = 32 << 20
    """Bytes of write-ahead objects that are fetched together, one request per object."""
    files_max: int = 200
    """Files of one group; a group that has come to so many, by partitions or schemas, is finished early."""
    zstd_level: int = 2
    """On page views 2 makes smaller files than 3 and 6, which is slower by a third; on random words larger ones by a fifth."""
    raw_zstd_level: int = 3
    """Of the columns that hold keys and values as they are: long bytes, for which more effort brings little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Ranges of one topic to be written. Ranges of small streams may be packed together; they come in order."""

    topic: str
    folder: str
    ranges: tuple[Range, ...]
    rules: "RowRules"
    columns: "TableColumns"
    stamp: int
    sizes: Sizes = field(default_factory=Sizes)
    is_a_look: bool = False
    """Only to find out what the table must learn: nothing is written."""


# --- what it gives back


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One leaf column of a file, by its field id.

    `lower` and `upper` are as Iceberg writes single values, None where they are not known. `values` counts nulls, too.
    """

    id: int
    size: int
    values: int
    nulls: int
    lower: bytes | None = None
    upper: bytes | None = None


@dataclass(frozen=True, slots=True)
class Span:
    """Rows of one partition in a file: both offsets inclusive; rows of other files may lie between them."""

    stream: int
    partition: int
    first: int
    last: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One Parquet file."""

    name: str
    trail: str
    """The trail of its group, which the ledger's extents point at."""
    size: int
    records: int
    spans: tuple[Span, ...]
    stamp: int
    """The largest timestamp, in milliseconds; -1 for none."""
    columns: tuple[ColumnFacts, ...]
    partition: tuple[Any, ...] = ()
    """A value for each of `TableColumns.partition_fields(rules)`, as Iceberg has it (days since 1970, say)."""
    schema_ids: tuple[int, ...] = ()
    row_groups: tuple[int, ...] = ()
    """Where each row group begins, in bytes: Iceberg's split offsets."""


@dataclass(frozen=True, slots=True)
class Run:
    """Offsets from `first` up to `end` are chunks of a trail from `place` on."""

    stream: int
    partition: int
    first: int
    end: int
    place: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One group of files: its trail, what the ledger is to be told, and what else there is."""

    trail: str
    kept: str = ""
    """The object with what lies beside the rows; empty when there is nothing."""
    runs: tuple[Run, ...] = ()
    letters: int = 0
    """Records that cannot be read, for the dead-letter topic: `read_letters(trail)` gives them (files/restore.py)."""
    size: int = 0
    """Of the trail and the kept object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What work gives back. With `wants` nothing was written: the table must learn these first."""

    files: tuple[FileFacts, ...] = ()
    groups: tuple[Group, ...] = ()
    records: int = 0
    """Rows in the table."""
    letters: int = 0
    source_bytes: int = 0
    """Bytes of sealed batches that were read."""
    gets: int = 0
    puts: int = 0
    wants: "Wants | None" = None

    @property
    def size(self) -> int:
        """Bytes of all Parquet files."""
        return sum(file.size for file in self.files)

    @property
    def ends(self) -> dict[int, int]:
        """Per partition, the offset behind the last that was written."""
        ends: dict[int, int] = {}
        for run in self._runs():
            ends[run.partition] = max(ends.get(run.partition, 0), run.end)
        return ends

    @property
    def firsts(self) -> dict[int, int]:
        """Per partition, the first offset that was written."""
        firsts: dict[int, int] = {}
        for run in self._runs():
            firsts[run.partition] = min(firsts.get(run.partition, run.first), run.first)
        return firsts

    def _runs(self) -> Iterable[Run]:
        return (run for group in self.groups for run in group.runs)

    def replacement(self, streams: Iterable[int] | None = None) -> tuple[list[str], bytes]:
        """`files` and `runs` of a ReplaceExtents; of some streams alone, those of one shard."""
        wanted = None if streams is None else frozenset(streams)
        files: list[str] = []
        runs: list[tuple[int, int, int, int, int]] = []
        for group in self.groups:
            mine = [run for run in group.runs if wanted is None or run.stream in wanted]
            runs += [(run.stream, run.first, run.end, len(files), run.place) for run in mine]
            files += [group.trail] if mine else []
        return files, b"".join(RUN.pack(*run) for run in sorted(runs))


def together(parts: Iterable[Written]) -> Written:
    """What several pieces of work gave, as one."""
    every = tuple(parts)
    return Written(
        files=tuple(file for part in every for file in part.files),
        groups=tuple(group for part in every for group in part.groups),
        records=sum(part.records for part in every),
        letters=sum(part.letters for part in every),
        source_bytes=sum(part.source_bytes for part in every),
        gets=sum(part.gets for part in every),
        puts=sum(part.puts for part in every),
    )


class _Journal(msgspec.Struct, array_like=True):
    """New fields go last."""

    version: int
    files: tuple[FileFacts, ...]
    groups: tuple[Group, ...]
    counts: tuple[int, int, int, int, int]


JOURNAL_VERSION = 1


def pack_written(written: Written) -> bytes:
    """The bytes from which whoever comes next can finish a commit."""
    assert written.wants is None, "what is wanted is no part of a commit"
    counts = (written.records, written.letters, written.source_bytes, written.gets, written.puts)
    return msgspec.msgpack.encode(_Journal(JOURNAL_VERSION, written.files, written.groups, counts))


def unpack_written(data: bytes) -> Written:
    """The other way."""
    journal = msgspec.msgpack.decode(data, type=_Journal)
    records, letters, source_bytes, gets, puts = journal.counts
    return Written(
        files=journal.files,
        groups=journal.groups,
        records=records,
        letters=letters,
        source_bytes=source_bytes,
        gets=gets,
        puts=puts,
    )


# --- names


def stem_of(folder: str, stamp: int, unique: int) -> str:
    """What the names of a group's objects begin with."""
    return f"{folder}/{stamp:012x}-{unique:016x}"


def trail_name(stem: str) -> ObjectName:
    return ObjectName(stem + TRAIL_SUFFIX)


def kept_name(stem: str) -> ObjectName:
    return ObjectName(stem + KEPT_SUFFIX)


def parquet_name(stem: str, number: int) -> ObjectName:
    return ObjectName(f"{stem}-{number:03}{PARQUET_SUFFIX}")


def parse_file_name(name: str) -> tuple[int, str] | None:
    """The stamp of a table's object and the trail of its group; None for names of other things."""
    match = _NAME.fullmatch(name)
    return None if match is None else (int(match[2], 16), f"{match[1]}/{match[2]}-{match[3]}{TRAIL_SUFFIX}")
