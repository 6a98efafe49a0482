"""What keeps a cluster tidy, done now and then by one of its nodes.

Sweeps, silent producers, half-deleted topics and forks, streams whose time is over, retention.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from runnel.engine.group_offsets import GroupOffsets
from runnel.engine.named import NamedStreams
from runnel.engine.retention import Retention
from runnel.engine.sweep import Sweep
from runnel.engine.topics import Topics
from runnel.errors import Corrupt, Fenced, Refused, Unavailable, Uncertain
from runnel.metadata.entry import Update
from runnel.metadata.follower import Follower
from runnel.metadata.updates import ExpireProducers
from runnel.model import ShardId
from runnel.world.telemetry import get_log
from runnel.world.world import World

log = get_log("upkeep")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepLimits:
    sweep_every_ms: int = 300_000
    sweep_grace_ms: int = 3_600_000
    producers_kept_ms: int = 7 * 86_400_000
    offsets_kept_ms: int = 7 * 86_400_000
    retention_check_ms: int = 300_000


class Upkeep:
    """Runs in the background while `is_mine` says that this node is the one to do it."""

    def __init__(
        self,
        sweep: Sweep,
        retention: Retention,
        topics: Topics,
        named: NamedStreams,
        group_offsets: GroupOffsets,
        follower_of: Callable[[ShardId], Follower],
        propose: Callable[[ShardId, Update], Awaitable[Any]],
        *,
        shards: int,
        world: World,
        limits: UpkeepLimits,
        is_mine: Callable[[], bool],
    ) -> None:
        self._sweep = sweep
        self._retention = retention
        self._topics = topics
        self._named = named
        self._group_offsets = group_offsets
        self._follower_of = follower_of
        self._propose = propose
        self._shards = shards
        self._world = world
        self._limits = limits
        self._is_mine = is_mine
        self._written = world.metrics.counter("runnel_upkeep_rounds_total", "Rounds of upkeep done by this node.")

    async def run(self) -> None:
        """Rounds, one after another, for ever. A round without anything to do makes no requests but a LIST."""
        clock = self._world.clock
        sweep_at = clock.monotonic() + self._pause(self._limits.sweep_every_ms)
        retention_at = clock.monotonic() + self._pause(self._limits.retention_check_ms)
        while True:
            await asyncio.sleep(max(0.0, min(sweep_at, retention_at) - clock.monotonic()))
            now = clock.monotonic()
            if now >= retention_at:
                retention_at = now + self._pause(self._limits.retention_check_ms)
                if self._is_mine():
                    await self._do([self._retention.run])
            if now >= sweep_at:
                sweep_at = now + self._pause(self._limits.sweep_every_ms)
                if self._is_mine():
                    await self.round()

    def _pause(self, every_ms: int) -> float:
        """Seconds, spread a little so that nodes do not march in step."""
        return every_ms * self._world.chance.uniform(0.9, 1.1) / 1000

    async def round(self) -> None:
        """Everything once."""
        await self._do(
            [
                self._retention.run,
                self._sweep.run,
                self._topics.finish_leaving,
                self._named.mend,
                self._expire_producers,
                self._group_offsets.tidy,
            ]
        )
        self._written.add()

    async def _do(self, duties: Sequence[Callable[[], Awaitable[Any]]]) -> None:
        for duty in duties:
            try:
                await duty()
            except (Unavailable, Uncertain, Fenced, Refused, Corrupt) as error:
                log.warning("upkeep_failed", duty=getattr(duty, "__qualname__", "?"), error=str(error))

    async def _expire_producers(self) -> None:
        before = self._world.clock.now_ms() - self._limits.producers_kept_ms
        for number in range(1, self._shards + 1):
            shard = ShardId(number)
            if _has_silent_producers(self._follower_of(shard), before):
                await self._propose(shard, ExpireProducers(before))


def _has_silent_producers(follower: Follower, before_ms: int) -> bool:
    return any(
        producer.seen_ms < before_ms
        for stream in follower.state.streams.values()
        for producer in (stream.producers or {}).values()
    )
