"""Committed offsets that nobody needs any more go: of groups long without members, and of topics that were deleted."""

from collections.abc import Awaitable, Callable
from typing import Any

from runnel.metadata.entry import Update
from runnel.metadata.follower import Follower
from runnel.metadata.updates import DeleteOffsets, ExpireOffsets
from runnel.metadata.updates.groups import has_expired
from runnel.model import ROOT, ShardId
from runnel.world.telemetry import get_log
from runnel.world.world import World

log = get_log("upkeep")


class GroupOffsets:
    """One per node; only one node of a cluster need run it, several do no harm."""

    def __init__(
        self,
        follower_of: Callable[[ShardId], Follower],
        propose: Callable[[ShardId, Update], Awaitable[Any]],
        *,
        shards: int,
        world: World,
        kept_ms: int,
    ) -> None:
        self._follower_of = follower_of
        self._propose = propose
        self._shards = shards
        self._world = world
        self._kept_ms = kept_ms

    async def tidy(self) -> None:
        """Everything once."""
        before = self._world.clock.now_ms() - self._kept_ms
        for number in range(1, self._shards + 1):
            groups = self._follower_of(ShardId(number)).state.groups
            if any(has_expired(group, before) for group in groups.values()):
                gone = await self._propose(ShardId(number), ExpireOffsets(before))
                log.info("offsets_expired", shard=number, groups_gone=len(gone))
        await self._forget_topics()

    async def _forget_topics(self) -> None:
        """Offsets of topics that are no more.

        The groups are looked at before the root shard is brought up to now: a topic that somebody has committed offsets
        of was made before that, so one that is missing then was deleted.
        """
        committed = [
            (ShardId(number), group.name, {topic: list(partitions) for topic, partitions in group.offsets.items()})
            for number in range(1, self._shards + 1)
            for group in self._follower_of(ShardId(number)).state.groups.values()
            if group.offsets
        ]
        if not committed:
            return
        root = self._follower_of(ROOT)
        await root.catch_up()
        for shard, group, offsets in committed:
            dead = {topic: rows for topic, rows in offsets.items() if topic not in root.state.topic_names}
            if dead:
                await self._propose(shard, DeleteOffsets(group, dead))
