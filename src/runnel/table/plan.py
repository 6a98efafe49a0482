"""Which offsets become files next, and who writes them. Pure.

    Backlog          what one partition has that its table has not
    Bounds           how large tasks and rounds may be, and when a small backlog is worth a file
    plan(backlogs)   -> tasks for executors: large partitions are cut, small ones share a task

A range is a run of offsets of one partition that one executor writes. It begins where the table ends and ends where an
extent ends, because extents are swapped whole. Progress is kept in the ledger with each commit, so a plan
begins where the last commit stopped, whoever makes it.

A table that brings a task's worth of bytes since its last commit is due; one that brings less waits until it does, at
most `age_ms_max`. Partitions that bring a task's worth are cut into several tasks, those that bring less share tasks,
and files with them, so that a thousand quiet partitions make a few files and not a thousand.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from runnel.table.files.facts import Range, Slice

K = TypeVar("K")
MiB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Backlog:
    """All that a partition has and its table has not, as whole extents. `waiting_ms` says for how long the first has waited."""

    table: bytes
    partition: int
    stream: int
    slices: tuple[Slice, ...]
    start: int = 0
    """Records before it were deleted meanwhile."""
    waiting_ms: int = 0

    @property
    def bytes(self) -> int:
        return sum(each.length for each in self.slices)


@dataclass(frozen=True, slots=True)
class Task:
    """What one executor does in one go: ranges of one table, in order of partition and offset."""

    table: bytes
    ranges: tuple[Range, ...]

    @property
    def bytes(self) -> int:
        return sum(each.length for each in self.ranges)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """`task_bytes` bounds an executor's memory, `round_bytes` the time between two commits."""

    task_bytes: int = 32 * MiB
    task_slices: int = 2048
    """Objects that a task reads from, at most."""
    round_bytes: int = 4096 * MiB
    age_ms_max: int = 0


def plan(backlogs: Iterable[Backlog], bounds: Bounds) -> list[Task]:
    """Tasks for one round, tables side by side, each backlog from its front."""
    by_table: dict[bytes, list[Backlog]] = {}
    for backlog in backlogs:
        if backlog.slices:
            by_table.setdefault(backlog.table, []).append(backlog)
    by_table = {table: mine for table, mine in by_table.items() if is_due(mine, bounds)}
    shares = _shares({table: sum(each.bytes for each in due) for table, due in by_table.items()}, bounds.round_bytes)
    tasks: list[Task] = []
    for table, due in by_table.items():
        tasks += _pack(table, due, shares[table], bounds)
    return tasks


def is_due(backlogs: Sequence[Backlog], bounds: Bounds) -> bool:
    """Whether a table's backlogs are worth a commit: there is a task's worth, or something has waited long enough."""
    enough = sum(each.bytes for each in backlogs) >= bounds.task_bytes
    return enough or max(each.waiting_ms for each in backlogs) >= bounds.age_ms_max


def _shares(wanted: dict[K, int], total: int) -> dict[K, int]:
    """Each one's part of a round: what it wants, or as much as any other that wants more."""
    shares: dict[K, int] = {}
    left = total
    for index, (key, size) in enumerate(sorted(wanted.items(), key=lambda pair: pair[1])):
        shares[key] = min(size, left // (len(wanted) - index))
        left -= shares[key]
    return shares


def _pack(table: bytes, due: Sequence[Backlog], share: int, bounds: Bounds) -> list[Task]:
    tasks: list[Task] = []
    shared: list[Range] = []
    shared_bytes = shared_slices = 0
    partitions = _shares({each.partition: each.bytes for each in due}, share)
    for backlog in sorted(due, key=lambda each: each.partition):
        for each in _cut(backlog, partitions[backlog.partition], bounds):
            size, slices = each.length, len(each.slices)
            if size >= bounds.task_bytes or slices >= bounds.task_slices:
                tasks.append(Task(table, (each,)))
                continue
            if shared and (shared_bytes + size > bounds.task_bytes or shared_slices + slices > bounds.task_slices):
                tasks.append(Task(table, tuple(shared)))
                shared, shared_bytes, shared_slices = [], 0, 0
            shared.append(each)
            shared_bytes += size
            shared_slices += slices
    if shared:
        tasks.append(Task(table, tuple(shared)))
    return tasks


def _cut(backlog: Backlog, share: int, bounds: Bounds) -> Iterator[Range]:
    """The front of a backlog in ranges of about equal size; at least one slice, so that every round moves everyone."""
    taken = 0
    count = 0
    for each in backlog.slices:
        if count and taken + each.length > share:
            break
        taken += each.length
        count += 1
    target = taken / max(1, -(-taken // bounds.task_bytes))
    gathered: list[Slice] = []
    size = 0
    for each in backlog.slices[:count]:
        full = size + each.length / 2 > target or size + each.length > bounds.task_bytes
        if gathered and (full or len(gathered) >= bounds.task_slices):
            yield _range(backlog, gathered)
            gathered, size = [], 0
        gathered.append(each)
        size += each.length
    yield _range(backlog, gathered)


def _range(backlog: Backlog, slices: Sequence[Slice]) -> Range:
    return Range(stream=backlog.stream, partition=backlog.partition, slices=tuple(slices), start=backlog.start)
