"""The sweep: objects that nothing refers to go, those that something refers to, or still may, stay.

These are write-ahead objects and what is published beside streams; both have their age in their names.

An object may be missing from every shard's state and yet be wanted: its writer may be slow, and its entry on the way.
So the sweep first enters its *horizon* in the ledger of every data shard. From that entry on, a commit of an object
stamped earlier is refused (`HorizonPassed`), and whoever sent its records sends them again. After that,
"stamped before the horizon, and in no shard's state at or after the horizon's entry" can never become false.

Readers may still be on their way to an object that has just lost its last reference. So an object goes only when two
sweeps, `grace` apart, have both found it without references; a reader that is slower than that finds its object gone,
catches up and looks again.

    cost   one LIST per thousand objects and sweep; when there is something to remove, one entry per data shard
"""

from collections.abc import Awaitable, Callable
from typing import Any

from runnel.errors import Fenced, Refused
from runnel.log.names import BODY_PREFIX, PREFIX, stamp_of
from runnel.metadata.entry import Update
from runnel.metadata.follower import Follower
from runnel.metadata.updates import EnterHorizon
from runnel.model import ObjectName, ShardId
from runnel.world.objects import ObjectStore
from runnel.world.telemetry import get_log
from runnel.world.world import World

log = get_log("sweep")

CANDIDATES_MAX = 200_000
"""Objects without references that one sweeper remembers; more are met again by a later sweep."""


class Sweep:
    """One per node; only one node of a cluster need run it, several do no harm."""

    def __init__(
        self,
        objects: ObjectStore,
        follower_of: Callable[[ShardId], Follower],
        propose: Callable[[ShardId, Update], Awaitable[Any]],
        *,
        shards: int,
        world: World,
        grace_ms: int,
    ) -> None:
        self._objects = objects
        self._follower_of = follower_of
        self._propose = propose
        self._shards = shards
        self._world = world
        self._grace_ms = grace_ms
        self._unreferenced_since: dict[ObjectName, int] = {}
        self._deleted = world.metrics.counter(
            "runnel_objects_swept_total", "Objects that nothing referred to, removed."
        )

    async def run(self) -> list[ObjectName]:
        """One sweep; the names that were removed."""
        now = self._world.clock.now_ms()
        horizon = now - self._grace_ms
        suspects = self._unreferenced(await self._stamped_before(horizon))
        if not suspects:
            self._unreferenced_since.clear()
            return []
        for number in range(1, self._shards + 1):
            await self._enter(ShardId(number), horizon)
        since: dict[ObjectName, int] = {}
        ripe: list[ObjectName] = []
        for name in self._unreferenced(suspects):
            first_seen = self._unreferenced_since.get(name)
            if first_seen is not None and now - first_seen >= self._grace_ms:
                ripe.append(name)
            elif len(since) < CANDIDATES_MAX:
                since[name] = now if first_seen is None else first_seen
        self._unreferenced_since = since
        if ripe:
            await self._objects.delete(ripe)
            self._deleted.add(len(ripe))
            log.info("swept", objects=len(ripe), waiting=len(since))
        return ripe

    def _unreferenced(self, names: list[ObjectName]) -> list[ObjectName]:
        """Those that no shard refers to, as far as this node has applied."""
        followers = [self._follower_of(ShardId(number)) for number in range(1, self._shards + 1)]
        for follower in followers:
            if follower.stopped is not None:  # it may refer to anything
                raise follower.stopped
        tables = [follower.state.objects for follower in followers]
        return [name for name in names if not any(name in table for table in tables)]

    async def _stamped_before(self, horizon: int) -> list[ObjectName]:
        names = []
        for prefix in (PREFIX, BODY_PREFIX):
            async for facts in self._objects.list(prefix):
                try:
                    stamp = stamp_of(facts.name)
                except Refused:
                    continue  # not ours to judge
                if stamp >= horizon:
                    break  # names are in order of their stamps
                names.append(facts.name)
        return names

    async def _enter(self, shard: ShardId, horizon: int) -> None:
        """Return when this node has applied a horizon of at least `horizon` in a shard.

        Always through the ledger, never by looking at the local state alone: the entry's place in the ledger is what
        makes the state at that place complete.
        """
        try:
            await self._propose(shard, EnterHorizon(horizon))
        except (Refused, Fenced):
            log.debug("horizon_ahead", shard=shard)  # another sweeper's later horizon serves as well
