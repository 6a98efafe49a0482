"""The pipeline: rounds of finish, plan, work, commit. One planner does them; executors do the work.

    finish   what others (or we, before a crash) left pending is completed
    plan     what streams have and tables have not becomes tasks (plan.py)
    work     executors write files (files/write.py); which executors is the workers' business
    commit   table by table (commit.py)

Trouble with one table is written down in the ledger and keeps nobody else from going on. Nothing is ever taken from a
stream that its table does not have: a table that cannot go on only falls behind.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from runnel.errors import Corrupt, NotThere, Refused, RunnelError, Unavailable, Uncertain
from runnel.log.names import parse_wal_name
from runnel.metadata.objects import FileKind
from runnel.metadata.state import ShardState
from runnel.metadata.tables import Table
from runnel.metadata.topic_settings import nearest
from runnel.metadata.topics import Topic
from runnel.metadata.updates import NoteTable, OpenTable
from runnel.model import ROOT, ObjectName
from runnel.table.commit import Commits, Reached, Trouble, nothing
from runnel.table.files.columns import TableColumns, Wants
from runnel.table.files.facts import Range, Sizes, Slice, Work, Written, together
from runnel.table.files.rules import RowRules, row_rules
from runnel.table.lease import Lease
from runnel.table.manifest import read_manifest
from runnel.table.plan import Backlog, Bounds, Task, plan
from runnel.table.removal import Removal
from runnel.table.truth import Truth
from runnel.world.telemetry import get_log

log = get_log("table")

LEARNING_ROUNDS_MAX = 8
"""How often work is done again because it met schemas that the table had not."""
LOOK_BYTES = 1 << 20
"""Of its stream are looked at to find out how the values of a new table are written."""
COMMITS_AT_ONCE = 8
SLICES_MAX = 100_000
"""Extents of one partition that are looked at in one round."""

Outcome = Written | RunnelError


class Workers(Protocol):
    """Whoever does the work. Results come in any order, each with the number of its work."""

    def run(self, works: Sequence[Work]) -> AsyncIterator[tuple[int, Outcome]]:
        """Do all; a work that failed gives its error, and does not keep others from being done."""

    async def close(self) -> None:
        """Let go of everything."""


@dataclass(slots=True)
class Round:
    """What one round did."""

    commits: int = 0
    rows: int = 0
    bytes: int = 0
    source_bytes: int = 0
    files: int = 0
    letters: int = 0
    tasks: int = 0
    trouble: dict[str, str] = field(default_factory=dict)
    """By topic, why its table does not go on."""


Progress = Callable[[int, int], None]
"""Bytes of the streams that were worked through, and of all that are to be."""


class Pipeline:
    """Made once per planner; see the module."""

    def __init__(
        self,
        truth: Truth,
        lease: Lease,
        commits: Commits,
        workers: Workers,
        *,
        bounds: Bounds,
        sizes: Sizes | None = None,
        progress: Progress | None = None,
        reached: Reached = nothing,
        removal: Removal | None = None,
    ) -> None:
        self._truth = truth
        self._lease = lease
        self._removal = removal
        self._commits = commits
        self._workers = workers
        self._bounds = bounds
        self._sizes = sizes or Sizes()
        self._progress = progress or (lambda _done, _all: None)
        self._reached = reached
        self._columns: dict[bytes, tuple[int, TableColumns]] = {}

    async def round(self, *, age_ms_max: int = 0, only: frozenset[str] | None = None) -> Round:
        """Everything that is due once. With `only`, of these topics. The lease must be ours."""
        result = Round()
        await self._truth.refresh()
        await self._finish_pending(result)
        if self._removal is not None:
            await self._removal.take_back()
        await self._open_tables(only)
        bounds = replace(self._bounds, age_ms_max=age_ms_max)
        tasks = plan(self._backlogs(only, result), bounds)
        if tasks:
            await self._work_and_commit(tasks, result)
        await self._note(result)
        return result

    # --- finishing

    async def _finish_pending(self, result: Round) -> None:
        pending = [table for table in self._truth.root.tables.values() if table.pending is not None]
        await self._for_each(pending, self._finish, result)

    async def _finish(self, table: Table, _: Round) -> None:
        await self._commits.finish(table, self._formats_of(table))

    def _formats_of(self, table: Table) -> tuple[str, ...]:
        """The formats that a table's topic has; none once the topic is gone."""
        name = self._truth.root.topic_names.get(table.id)
        return () if name is None else self._truth.rules(self._truth.root.topics[name]).table_formats

    async def _for_each(
        self, tables: Iterable[Table], do: Callable[[Table, Round], Awaitable[None]], result: Round
    ) -> None:
        """Some tables at once; each one's trouble is its own."""
        gate = asyncio.Semaphore(COMMITS_AT_ONCE)

        async def one(table: Table) -> None:
            async with gate:
                try:
                    await do(table, result)
                except Trouble as trouble:
                    result.trouble[table.name] = trouble.text
                except (Refused, Unavailable, Uncertain, Corrupt) as error:
                    result.trouble[table.name] = str(error)

        ended = await asyncio.gather(*(one(table) for table in tables), return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error

    # --- what there is to do

    async def _open_tables(self, only: frozenset[str] | None) -> None:
        root = self._truth.root
        for topic in list(root.topics.values()):
            if not wants_table(self._truth, topic) or (only is not None and topic.name not in only):
                continue
            if topic.id not in root.tables:
                starts = {}
                for partition, stream in enumerate(topic.streams):
                    known = self._truth.state_of(stream).streams.get(stream)
                    starts[partition] = known.start if known is not None else 0
                folder = f"tables/{topic.name}-{topic.id.hex()[:8]}"
                await self._truth.propose(ROOT, OpenTable(self._lease.epoch, topic.id, topic.name, folder, starts))

    def _backlogs(self, only: frozenset[str] | None, result: Round) -> list[Backlog]:
        root = self._truth.root
        now = self._truth.world.clock.now_ms()
        found: list[Backlog] = []
        for topic in root.topics.values():
            table = root.tables.get(topic.id)
            if table is None or table.pending is not None or topic.name in result.trouble:
                continue
            if not wants_table(self._truth, topic) or (only is not None and topic.name not in only):
                continue
            for partition, stream in enumerate(topic.streams):
                backlog = backlog_of(
                    self._truth.state_of(stream), topic.id, partition, stream, table.ends.get(partition, 0), now
                )
                if backlog is not None:
                    found.append(backlog)
        return found

    # --- doing it

    async def _work_and_commit(self, tasks: Sequence[Task], result: Round) -> None:
        by_table: dict[bytes, list[Task]] = {}
        for task in tasks:
            by_table.setdefault(task.table, []).append(task)
        total = sum(task.bytes for task in tasks)
        done = 0
        self._progress(0, total)
        stamp = self._truth.world.clock.now_ms()
        batches: dict[bytes, _Batch] = {}
        for table, mine in by_table.items():
            try:
                known = await self._known(table)
            except Refused as error:  # what the topic's settings say of rows makes no sense
                result.trouble[self._truth.root.tables[table].name] = str(error)
            else:
                batches[table] = _Batch(self._truth.root.tables[table], mine, *known, stamp)
        result.tasks += len(tasks)
        await self._look([batch for batch in batches.values() if batch.columns.values is None])
        for _ in range(LEARNING_ROUNDS_MAX):
            places = [(batch, number) for batch in batches.values() for number in batch.open]
            if not places:
                break
            works = [batch.work(number, self._sizes) for batch, number in places]
            wants: dict[bytes, Wants] = {}
            async for index, outcome in self._workers.run(works):
                batch, number = places[index]
                if isinstance(outcome, Written) and outcome.wants is not None:
                    before = wants.get(batch.table.id)
                    wants[batch.table.id] = outcome.wants if before is None else before | outcome.wants
                    continue
                batch.settle(number, outcome)
                done += batch.tasks[number].bytes
                self._progress(done, total)
            for table, wanted in wants.items():
                await self._learn(batches[table], wanted)
        self._reached("files")
        await self._for_each(
            [batch.table for batch in batches.values()],
            lambda table, into: self._commit(batches[table.id], into),
            result,
        )

    async def _look(self, batches: "Sequence[_Batch]") -> None:
        """Let tables that know nothing of their values learn from the first few, not from all of them.

        What goes wrong is not told: the work itself meets it again.
        """
        works = [batch.look(self._sizes) for batch in batches]
        if not works:
            return
        async for index, outcome in self._workers.run(works):
            if isinstance(outcome, Written) and outcome.wants is not None:
                await self._learn(batches[index], outcome.wants)

    async def _known(self, table: bytes) -> tuple[TableColumns, RowRules, dict[str, str]]:
        """What a table's columns are so far, and what the topic's settings say of rows."""
        known = self._truth.root.tables[table]
        topic = self._truth.root.topics[known.name]
        settings = {name: text for name, text in topic.settings.items() if name.startswith("table.")}
        kept = self._columns.get(table)
        if kept is None or kept[0] != known.number:
            columns = TableColumns()
            last = known.recent[-1].manifest if known.recent else ""
            if last:
                manifest = read_manifest(last, bytes(await self._truth.objects.read(ObjectName(last))))
                columns = manifest.columns
            self._columns[table] = kept = (known.number, columns)
        return kept[1], row_rules(settings), settings

    async def _learn(self, batch: "_Batch", wants: Wants) -> None:
        batch.columns = batch.columns.with_wants(wants)
        # Kept at once in memory alone: files with these ids exist only once the commit's manifest does.
        self._columns[batch.table.id] = (batch.table.number, batch.columns)

    async def _commit(self, batch: "_Batch", result: Round) -> None:
        usable = batch.usable()
        table = batch.table
        if usable:
            written = together(usable)
            formats = self._formats_of(table)
            await self._commits.begin(table, written, batch.columns, batch.settings, formats, batch.stamp)
            self._columns[table.id] = (table.number, batch.columns)
            result.commits += 1
            result.rows += written.records
            result.letters += written.letters
            result.bytes += written.size
            result.source_bytes += written.source_bytes
            result.files += len(written.files)
            await self._commits.finish(table, formats)
        failed = batch.failures()
        if failed:
            raise failed[0]

    async def rebuild(self, topic: Topic) -> Round:
        """Make a topic's tables again where they are gone. The lease must be ours."""
        result = Round()
        await self._truth.refresh()
        table = self._truth.root.tables.get(topic.id)
        if table is None:
            raise NotThere(f"topic '{topic.name}' has no table yet")

        async def again(table: Table, into: Round) -> None:
            await self._commits.rebuild(table, self._formats_of(table))
            if table.pending is not None:
                await self._finish(table, into)

        await self._for_each([table], again, result)
        await self._note(result)
        return result

    async def tidy(self) -> None:
        """Upkeep of the formats, table by table."""
        now = self._truth.world.clock.now_ms()
        tables = [table for table in self._truth.root.tables.values() if table.id in self._truth.root.topic_names]
        ignored = Round()
        if self._removal is not None:
            await self._for_each(tables, self._remove, ignored)
        await self._for_each(tables, lambda table, _: self._commits.tidy(table, self._formats_of(table), now), ignored)
        for name, why in ignored.trouble.items():
            log.warning("table_not_tidied", table=name, why=why)

    async def _remove(self, table: Table, _: Round) -> None:
        assert self._removal is not None, "somebody removes"
        await self._removal.run(table)

    async def _note(self, result: Round) -> None:
        """Trouble that is new, or over, is told to everyone through the ledger."""
        for table in list(self._truth.root.tables.values()):
            text = result.trouble.get(table.name, "")
            if text != table.trouble:
                if text:
                    log.warning("table_in_trouble", table=table.name, why=text)
                await self._truth.propose(ROOT, NoteTable(self._lease.epoch, table.id, trouble=text))


class _Batch:
    """The tasks of one table in one round."""

    def __init__(
        self,
        table: Table,
        tasks: Sequence[Task],
        columns: TableColumns,
        rules: RowRules,
        settings: dict[str, str],
        stamp: int,
    ) -> None:
        self.table = table
        self.tasks = tasks
        self.columns = columns
        self.settings = settings
        self.stamp = stamp
        self._rules = rules
        self._outcomes: dict[int, Outcome] = {}

    @property
    def open(self) -> list[int]:
        return [number for number in range(len(self.tasks)) if number not in self._outcomes]

    def work(self, number: int, sizes: Sizes) -> Work:
        return self._work(self.tasks[number].ranges, sizes)

    def look(self, sizes: Sizes) -> Work:
        """At the front of the first range."""
        front = self.tasks[0].ranges[0]
        count, size = 1, front.slices[0].length
        while count < len(front.slices) and size + front.slices[count].length <= LOOK_BYTES:
            size += front.slices[count].length
            count += 1
        return replace(self._work((replace(front, slices=front.slices[:count]),), sizes), is_a_look=True)

    def _work(self, ranges: tuple[Range, ...], sizes: Sizes) -> Work:
        return Work(
            topic=self.table.name,
            folder=f"{self.table.folder}/data",
            ranges=ranges,
            rules=self._rules,
            columns=self.columns,
            stamp=self.stamp,
            sizes=sizes,
        )

    def settle(self, number: int, outcome: Outcome) -> None:
        self._outcomes[number] = outcome

    def failures(self) -> list[RunnelError]:
        found = [each for each in self._outcomes.values() if isinstance(each, RunnelError)]
        if self.open:
            found.append(Unavailable(f"the values of topic '{self.table.name}' show new schemas again and again"))
        return found

    def usable(self) -> list[Written]:
        """What can be committed: work before which, in each of its partitions, no other is missing."""
        usable: list[Written] = []
        left = set(range(len(self.tasks)))
        moved = True
        while moved:
            moved = False
            for number in sorted(left):
                outcome = self._outcomes.get(number)
                if isinstance(outcome, Written) and not self._is_after_another(number, left):
                    usable.append(outcome)
                    left.remove(number)
                    moved = True
        return usable

    def _is_after_another(self, number: int, left: set[int]) -> bool:
        """Whether a task that is not used yet has earlier offsets of the same partitions."""
        firsts = {each.partition: each.first for each in self.tasks[number].ranges}
        return any(
            each.partition in firsts and each.first < firsts[each.partition]
            for other in left - {number}
            for each in self.tasks[other].ranges
        )


def wants_table(truth: Truth, topic: Topic) -> bool:
    """Whether a topic is to have a table; what a cluster keeps for itself begins with an underscore."""
    return not topic.name.startswith("_") and bool(truth.rules(topic).table_formats)


def check_topics(truth: Truth, only: Iterable[str] | None) -> None:
    """Topics that somebody named exist and are to have a table, or `Refused` with the nearest that does."""
    root = truth.root
    for name in only or ():
        topic = root.topics.get(name)
        if topic is None:
            raise NotThere(f"topic '{name}' does not exist{nearest(name, root.topics)}")
        if not wants_table(truth, topic) and topic.id not in root.tables:
            raise Refused(f"topic '{name}' has no table: its setting table.formats is empty")


def backlog_of(
    state: ShardState, table: bytes, partition: int, stream_id: int, end: int, now_ms: int
) -> Backlog | None:
    """What a stream has from `end` on; None when that is nothing."""
    stream = state.streams.get(stream_id)
    if stream is None or stream.extents is None or stream.end <= end:
        return None
    extents = stream.extents
    slices: list[Slice] = []
    for index in range(extents.find(max(end, extents.floor)), len(extents)):
        extent = extents[index]
        if state.objects.kinds[extent.slot] != FileKind.WAL or len(slices) == SLICES_MAX:
            break
        name = state.objects.names[extent.slot]
        slices.append(Slice(name, extent.place, extent.length, extent.first, extent.end, extent.stamp))
    if not slices:
        return None
    written_ms, _ = parse_wal_name(slices[0].name)
    return Backlog(table, partition, stream_id, tuple(slices), stream.start, max(0, now_ms - written_ms))
