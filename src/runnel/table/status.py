"""How far tables are, and what is in their way: what `runnel table status` shows.

Lag is told by the ledger alone. Each format is asked, too, so that a table that somebody dropped, or a catalog that is
away, is known before the next commit meets it.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from runnel.errors import RunnelError
from runnel.metadata.tables import Step, Table
from runnel.metadata.topics import Topic
from runnel.table.catalogs.seam import TableFormat, Target
from runnel.table.pipeline import backlog_of, check_topics, wants_table
from runnel.table.truth import Truth

LOOK_S = 10.0
LOOKS_AT_ONCE = 8


@dataclass(slots=True)
class TableStatus:
    """One table; `lag_s` is the age of the oldest record that it has not."""

    topic: str
    formats: tuple[str, ...]
    lag_offsets: int = 0
    lag_s: float = 0.0
    lag_bytes: int = 0
    rows: int = 0
    bytes: int = 0
    source_bytes: int = 0
    commit: int = 0
    pending: int | None = None
    pending_steps: tuple[str, ...] = ()
    ends: dict[int, int] = field(default_factory=dict)
    recent: list[dict[str, Any]] = field(default_factory=list)
    known_as: dict[str, dict[str, Any]] = field(default_factory=dict)
    trouble: list[str] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """Bytes of the batches to bytes of the files."""
        return round(self.source_bytes / self.bytes, 2) if self.bytes else None


@dataclass(slots=True)
class Status:
    planner: str
    planner_alive: bool
    tables: list[TableStatus]


class Look:
    """See the module."""

    def __init__(self, truth: Truth, formats: Sequence[TableFormat]) -> None:
        self._truth = truth
        self._formats = {each.name: each for each in formats}

    async def status(self, only: frozenset[str] | None = None) -> Status:
        await self._truth.refresh()
        check_topics(self._truth, only)
        root = self._truth.root
        before = (root.planner.epoch, root.planner.renewals)
        watched = self._truth.world.clock.monotonic()
        topics = [
            topic
            for _, topic in sorted(root.topics.items())
            if (wants_table(self._truth, topic) or topic.id in root.tables) and (only is None or topic.name in only)
        ]
        gate = asyncio.Semaphore(LOOKS_AT_ONCE)

        async def one(topic: Topic) -> TableStatus:
            async with gate:
                return await self._table(topic)

        tables = await asyncio.gather(*(one(topic) for topic in topics))
        return Status(root.planner.holder, await self._is_alive(before, watched), list(tables))

    async def _is_alive(self, before: tuple[int, int], since: float) -> bool:
        """Whether the planner has renewed its lease lately; a fresh one by its own clock is believed."""
        planner = self._truth.root.planner
        if not planner.holder:
            return False
        now_ms = self._truth.world.clock.now_ms()
        if 0 <= now_ms - planner.seen_ms < planner.lease_ms:
            return True
        left = planner.lease_ms / 1000 - (self._truth.world.clock.monotonic() - since)
        if left > 0:
            await asyncio.sleep(left)
            await self._truth.refresh()
        planner = self._truth.root.planner
        return (planner.epoch, planner.renewals) != before

    async def _table(self, topic: Topic) -> TableStatus:
        now_ms = self._truth.world.clock.now_ms()
        formats = self._truth.rules(topic).table_formats
        status = TableStatus(topic.name, formats)
        table = self._truth.root.tables.get(topic.id)
        for partition, stream in enumerate(topic.streams):
            end = table.ends.get(partition, 0) if table is not None else 0
            backlog = backlog_of(self._truth.state_of(stream), topic.id, partition, stream, end, now_ms)
            if backlog is not None:
                first = max(end, backlog.slices[0].first, backlog.start)
                status.lag_offsets += backlog.slices[-1].end - first
                status.lag_bytes += backlog.bytes
                status.lag_s = max(status.lag_s, backlog.waiting_ms / 1000)
        if table is not None:
            self._say_commits(status, table, now_ms)
            await self._ask_formats(status, table)
        return status

    def _say_commits(self, status: TableStatus, table: Table, now_ms: int) -> None:
        status.rows, status.bytes, status.source_bytes = table.rows, table.bytes, table.source_bytes
        status.commit = table.number
        status.ends = dict(table.ends)
        if table.pending is not None:
            status.pending = table.pending.number
            status.pending_steps = tuple(
                step.name.lower() for step in Step if not table.pending.steps & step and step.name
            )
        status.recent = [
            {
                "commit": each.number,
                "seconds_ago": round((now_ms - each.at_ms) / 1000, 1),
                "files": each.files,
                "rows": each.rows,
                "bytes": each.bytes,
            }
            for each in reversed(table.recent)
        ]
        if table.trouble:
            status.trouble.append(table.trouble)

    async def _ask_formats(self, status: TableStatus, table: Table) -> None:
        done = table.number - (table.pending is not None)
        for name in status.formats:
            target = Target(table.name, table.id, table.folder, dict(table.facts))
            try:
                async with asyncio.timeout(LOOK_S):
                    known = await asyncio.to_thread(self._formats[name].look, target)
            except TimeoutError:
                status.trouble.append(f"{name} gave no answer within {LOOK_S:.0f} s: see that its catalog runs")
            except RunnelError as error:
                if str(error) not in "; ".join(status.trouble):
                    status.trouble.append(str(error))
            else:
                if known is None:
                    continue
                status.known_as[name] = {"table": known.name, "commit": known.commit, **known.facts}
                if known.commit < done:
                    status.trouble.append(
                        f"the {name} table is at commit {known.commit}, not {done}: somebody has put back an older state; "
                        f"'runnel table rebuild {table.name}' makes it again from its files"
                    )
