"""The table service: rounds once, or for as long as somebody wants.

    sync    until every table has what its stream had when it was asked for; for a prompt or a timer
    watch   for ever, a round every so often; for a node

Only one planner works at a time. A sync that finds another one at work waits for it to get as far; one that does not
move for a while, because it waits for more, has its lease taken for as long as the sync lasts.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from runnel.errors import Fenced, NotThere, Unavailable, Uncertain
from runnel.table.lease import Lease
from runnel.table.pipeline import Pipeline, Round, check_topics, wants_table
from runnel.table.truth import Truth
from runnel.world.telemetry import get_log

log = get_log("table")

LOOK_S = 0.5
TIDY_EVERY_MS = 3_600_000
PAUSE_S_MAX = 30.0
PATIENCE_S = 30.0
"""How long a sync watches another planner without seeing it move."""

Targets = dict[bytes, dict[int, int]]


@dataclass(slots=True)
class Synced:
    """What a sync came to. `by` is who did it, when that was not us."""

    round: Round
    seconds: float = 0.0
    by: str = ""


class Service:
    """A planner at work; see the module."""

    def __init__(
        self, truth: Truth, lease: Lease, pipeline: Pipeline, *, look_s: float = LOOK_S, patience_s: float = PATIENCE_S
    ) -> None:
        self._truth = truth
        self._lease = lease
        self._pipeline = pipeline
        self._look_s = look_s
        self._patience_s = patience_s

    async def sync(self, only: frozenset[str] | None = None, waiting: Callable[[str], None] | None = None) -> Synced:
        """Bring tables up to where the streams are now. `waiting` is called when another planner is waited for."""
        clock = self._truth.world.clock
        began = clock.monotonic()
        await self._truth.refresh()
        check_topics(self._truth, only)
        targets = self._targets(only)
        total = Round()
        other = ""
        seen, since = self._ends(targets), began
        while not self._reached(targets):
            ends = self._ends(targets)
            if ends != seen:
                seen, since = ends, clock.monotonic()
            if not await self._lease.take(from_the_living=clock.monotonic() - since > self._patience_s):
                other = self._lease.other
                if waiting is not None:
                    waiting(other)
                if total.trouble:
                    break
                await asyncio.sleep(self._look_s)
                total.trouble = self._told(targets)
                continue
            total.trouble = {}
            try:
                done = await self._pipeline.round(only=only)
            except Fenced:
                continue  # somebody took over; let us see how far they get
            add(total, done)
            if not done.commits:
                break
        return Synced(total, clock.monotonic() - began, other if not total.tasks else "")

    async def rebuild(self, topic: str, waiting: Callable[[str], None] | None = None) -> Round:
        """Make a topic's tables again where they are gone from their catalogs, from their files."""
        while not await self._lease.take():
            if waiting is not None:
                waiting(self._lease.other)
            await asyncio.sleep(self._look_s)
        known = self._truth.root.topics.get(topic)
        if known is None:
            raise NotThere(f"topic '{topic}' does not exist")
        return await self._pipeline.rebuild(known)

    def _ends(self, targets: Targets) -> list[tuple[dict[int, int], bool]]:
        """How far tables are, to see whether somebody moves them."""
        known = (self._truth.root.tables.get(topic) for topic in targets)
        return [(dict(table.ends), table.pending is None) for table in known if table is not None]

    def _told(self, targets: Targets) -> dict[str, str]:
        """The trouble of tables that another planner is at work on: waiting for them would be in vain."""
        known = (self._truth.root.tables.get(topic) for topic in targets)
        return {table.name: table.trouble for table in known if table is not None and table.trouble}

    def _targets(self, only: frozenset[str] | None) -> Targets:
        targets: Targets = {}
        for topic in self._truth.root.topics.values():
            if wants_table(self._truth, topic) and (only is None or topic.name in only):
                ends = {}
                for partition, stream in enumerate(topic.streams):
                    known = self._truth.state_of(stream).streams.get(stream)
                    ends[partition] = known.end if known is not None and known.extents is not None else 0
                targets[topic.id] = ends
        return targets

    def _reached(self, targets: Targets) -> bool:
        tables = self._truth.root.tables
        for topic, ends in targets.items():
            table = tables.get(topic)
            if table is None:
                if any(ends.values()):
                    return False
                continue
            if table.pending is not None or any(table.ends.get(number, 0) < end for number, end in ends.items()):
                return False
        return True

    async def watch(self, *, every_ms: int, age_ms_max: int, on_round: Callable[[Round], None] | None = None) -> None:
        """Rounds until cancelled. What fails is tried again, with longer and longer pauses while everything fails."""
        pause = every_ms / 1000
        clock = self._truth.world.clock
        tidied = clock.monotonic()
        while True:
            try:
                if await self._lease.take():
                    done = await self._pipeline.round(age_ms_max=age_ms_max)
                    pause = every_ms / 1000
                    if on_round is not None:
                        on_round(done)
                    if clock.monotonic() - tidied > TIDY_EVERY_MS / 1000:
                        tidied = clock.monotonic()
                        await self._pipeline.tidy()
            except Fenced as error:
                log.warning("planning_lost", error=str(error))
            except (Unavailable, Uncertain) as error:
                pause = min(PAUSE_S_MAX, max(1.0, pause * 2))
                log.warning("round_failed", error=str(error), again_s=pause)
            await asyncio.sleep(pause)


def add(total: Round, one: Round) -> None:
    """Let one round count into several."""
    total.commits += one.commits
    total.rows += one.rows
    total.bytes += one.bytes
    total.source_bytes += one.source_bytes
    total.files += one.files
    total.letters += one.letters
    total.tasks += one.tasks
    total.trouble = one.trouble
