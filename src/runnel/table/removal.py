"""What streams have lost goes out of their tables, and then out of the store.

Records go by retention, by DeleteRecords, and with their topic. Tables follow in whole *groups* of files (see files/):

    1  a group is dead when all of its offsets lie before the starts of their streams; the ledger is told first how far
       each partition was taken out (`Table.starts`), so that nobody publishes such files again
    2  the formats let go of its files; doing it again changes nothing
    3  when `grace` has passed, its objects are deleted: queries that began before may end

*Orphans*, groups that no commit has, go the same way without 1 and 2. Work that failed left them, or a planner that lost
its lease. They are known by the commits before and after their stamp; the horizon that is entered first keeps a planner
who sleeps from committing them later.

The tables of a deleted topic are dropped at once, and all that lies in their folder goes when the grace has passed.

Only the planner removes, and never while a table is in the middle of a commit.

    cost   a LIST of each table's folder, a GET for each trail that no extent points at
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from runnel.errors import Fenced, NotThere, Refused
from runnel.metadata.tables import Table
from runnel.metadata.updates import EnterHorizon, ForgetTable, NoteTable
from runnel.model import ROOT, ObjectName
from runnel.table.catalogs.seam import TableFormat, Target
from runnel.table.files.facts import FileFacts, Written, parse_file_name
from runnel.table.files.restore import read_trail
from runnel.table.lease import Lease
from runnel.table.manifest import read_manifest
from runnel.table.truth import Truth
from runnel.world.telemetry import get_log

log = get_log("table")

GRACE_MS = 3_600_000
SKEW_MS = 600_000
"""By how much the clocks of two planners may differ."""
WALK_MAX = 20_000
"""Commits that are looked through for one group before it is left alone."""
KNOWN_MAX = 100_000
"""Groups of which the offsets are remembered."""
DELETED_AT_ONCE = 1000

Ends = dict[int, int]
"""By stream, the offset behind the last one of a group."""


@dataclass(slots=True)
class Removed:
    """What one run did to one table."""

    groups: int = 0
    files: int = 0
    objects: int = 0


@dataclass(slots=True)
class _Group:
    """Objects of one group, as the store has them."""

    trail: str
    stamp: int
    names: list[ObjectName] = field(default_factory=list)

    @property
    def has_trail(self) -> bool:
        return ObjectName(self.trail) in self.names

    @property
    def files(self) -> list[str]:
        return [name for name in self.names if name.endswith(".parquet")]


def still_there(written: Written, starts: Mapping[int, int]) -> tuple[FileFacts, ...]:
    """The files of a commit that were not taken out of their table since: `starts` are the table's, by partition."""
    gone = {
        group.trail
        for group in written.groups
        if group.runs and all(run.end <= starts.get(run.partition, 0) for run in group.runs)
    }
    return tuple(file for file in written.files if file.trail not in gone)


class Removal:
    """Made once per planner; see the module. `formats` are those that can be reached here."""

    def __init__(self, truth: Truth, lease: Lease, formats: Sequence[TableFormat], *, grace_ms: int = GRACE_MS) -> None:
        self._truth = truth
        self._lease = lease
        self._formats = formats
        self._grace_ms = grace_ms
        self._ends: dict[str, Ends] = {}
        self._dead_since: dict[str, int] = {}
        self._dropped: set[bytes] = set()

    async def run(self, table: Table) -> Removed:
        """Take out of one table what its streams have lost. The lease must be ours."""
        removed = Removed()
        topic = self._truth.root.topics.get(table.name)
        if table.pending is not None or topic is None or topic.id != table.id:
            return removed
        now = self._truth.world.clock.now_ms()
        dead: list[_Group] = []
        orphans: list[_Group] = []
        for group in await self._groups(table):
            if self._is_referred_to(group.trail, topic.streams):
                continue
            ends = await self._ends_of(group) if group.has_trail else None
            if ends is not None and all(self._start_of(stream) >= end for stream, end in ends.items()):
                dead.append(group)
            elif group.stamp < now - self._grace_ms and await self._is_orphan(table, group):
                orphans.append(group)
        if dead:
            await self._take_out(table, dead, {stream: number for number, stream in enumerate(topic.streams)}, now)
            removed.groups = len(dead)
            removed.files = sum(len(group.files) for group in dead)
        removed.objects = await self._delete([*dead, *orphans], now)
        return removed

    async def take_back(self) -> None:
        """Tables whose topics are gone: drop them, delete what they had, forget them."""
        now = self._truth.world.clock.now_ms()
        for table in list(self._truth.root.tables.values()):
            if table.id in self._truth.root.topic_names or table.pending is not None:
                continue
            if table.id not in self._dropped:
                await asyncio.gather(*(asyncio.to_thread(each.drop, _target(table)) for each in self._formats))
                self._dropped.add(table.id)
                log.info("table_dropped", table=table.name)
            if now - self._dead_since.setdefault(table.folder, now) < self._grace_ms:
                continue
            names = [facts.name async for facts in self._truth.objects.list(f"{table.folder}/")]
            for at in range(0, len(names), DELETED_AT_ONCE):
                await self._truth.objects.delete(names[at : at + DELETED_AT_ONCE])
            await self._truth.propose(ROOT, ForgetTable(self._lease.epoch, table.id))
            self._dropped.discard(table.id)
            self._dead_since.pop(table.folder, None)

    # --- what there is

    async def _groups(self, table: Table) -> list[_Group]:
        found: dict[str, _Group] = {}
        async for facts in self._truth.objects.list(f"{table.folder}/data/"):
            parsed = parse_file_name(facts.name)
            if parsed is not None:
                stamp, trail = parsed
                found.setdefault(trail, _Group(trail, stamp)).names.append(facts.name)
        return list(found.values())

    def _is_referred_to(self, trail: str, streams: Iterable[int]) -> bool:
        return any(trail in self._truth.state_of(stream).objects for stream in streams)

    async def _ends_of(self, group: _Group) -> Ends | None:
        known = self._ends.get(group.trail)
        if known is None:
            try:
                trail = (await read_trail(self._truth.objects, group.trail)).trail
            except NotThere:
                return None
            known = {}
            for chunk in trail.chunks:
                known[chunk.stream] = max(chunk.end, known.get(chunk.stream, 0))
            while len(self._ends) >= KNOWN_MAX:
                del self._ends[next(iter(self._ends))]
            self._ends[group.trail] = known
        return known

    def _start_of(self, stream_id: int) -> int:
        """The first offset that a stream has; beyond all of them when it is gone."""
        stream = self._truth.state_of(stream_id).streams.get(stream_id)
        return (1 << 63) - 1 if stream is None else stream.start

    async def _is_orphan(self, table: Table, group: _Group) -> bool:
        """Whether no commit has a group: none of those that were stamped when its work was, or after."""
        name = table.recent[-1].manifest if table.recent else ""
        for _ in range(WALK_MAX):
            if not name:
                return True
            manifest = read_manifest(name, bytes(await self._truth.objects.read(ObjectName(name))))
            if any(each.trail == group.trail for each in manifest.written.groups):
                return False
            if manifest.stamp < group.stamp - SKEW_MS:
                return True
            name = manifest.previous
        return False

    # --- what is done

    async def _take_out(self, table: Table, dead: Sequence[_Group], partitions: Mapping[int, int], now: int) -> None:
        starts = dict(table.starts)
        for group in dead:
            for stream, end in self._ends[group.trail].items():
                if stream in partitions:
                    starts[partitions[stream]] = max(end, starts.get(partitions[stream], 0))
        if starts != table.starts:
            await self._truth.propose(ROOT, NoteTable(self._lease.epoch, table.id, starts=starts))
        names = frozenset(name for group in dead for name in group.files)
        fresh = [group for group in dead if group.trail not in self._dead_since]
        if fresh:  # the others were taken out when they were first met
            counts = await asyncio.gather(
                *(asyncio.to_thread(each.remove, _target(table), names, now) for each in self._formats)
            )
            log.info("files_taken_out", table=table.name, groups=len(fresh), files=max(counts, default=0))

    async def _delete(self, groups: Sequence[_Group], now: int) -> int:
        """Delete the objects of groups that have been dead for long enough; how many went."""
        ripe = [group for group in groups if now - self._dead_since.setdefault(group.trail, now) >= self._grace_ms]
        if not ripe:
            return 0
        try:
            await self._truth.propose(ROOT, EnterHorizon(now - self._grace_ms))
        except (Refused, Fenced):
            log.debug("horizon_ahead")
        names = [name for group in ripe for name in sorted(group.names, reverse=True)]  # trails go before their files
        for at in range(0, len(names), DELETED_AT_ONCE):
            await self._truth.objects.delete(names[at : at + DELETED_AT_ONCE])
        for group in ripe:
            self._dead_since.pop(group.trail, None)
            self._ends.pop(group.trail, None)
        return len(names)


def _target(table: Table) -> Target:
    return Target(table.name, table.id, table.folder, dict(table.facts))
