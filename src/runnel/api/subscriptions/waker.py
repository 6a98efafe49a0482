"""Notices that streams of subscriptions have something new, and that leases are over; on one node of the cluster.

Every node listens to what is applied; only the first among the living (the one that does upkeep, too) acts on it. A node
that has just become the first looks at everything once, because it may have slept through something.
"""

import asyncio
from collections.abc import Callable, Iterator

from runnel.api.subscriptions.desk import PREFIX, Desk
from runnel.api.subscriptions.patterns import fits
from runnel.errors import RunnelError
from runnel.metadata.state import Applied
from runnel.metadata.subscriptions import Subscription
from runnel.metadata.updates import (
    AckSubscription,
    ClaimSubscription,
    DropSubscription,
    LapseSubscription,
    LinkStreams,
    PutSubscription,
    WakeSubscription,
)
from runnel.model import StreamId
from runnel.world.telemetry import get_log

log = get_log("subscriptions")

LOOK_SECONDS = 5.0
"""How often a node asks whether it has become the first, and looks for leases it was not told of."""

SUBSCRIPTION_UPDATES = (
    AckSubscription, ClaimSubscription, DropSubscription, LapseSubscription, LinkStreams, PutSubscription,
    WakeSubscription,
)  # fmt: skip


class Waker:
    """See the module."""

    def __init__(self, desk: Desk, is_mine: Callable[[], bool]) -> None:
        self._desk = desk
        self._is_mine = is_mine
        self._something = asyncio.Event()
        self._touched: set[int] = set()
        self._changed: set[str] = set()
        self._by_path: dict[str, set[str]] = {}
        self._by_pattern: dict[str, set[str]] = {}
        self._any = False
        self._acting = False
        for shard in desk.data_shards():
            desk.engine.shards.follower(shard).on_applied(self._heard)
        self._index()
        self._task = desk.world.tasks.spawn(self._run(), name="subscriptions")

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])

    # --- listening: on the way of every apply, so nothing is done here

    def _heard(self, applied: Applied) -> None:
        for update in applied.entry.updates:
            if isinstance(update, SUBSCRIPTION_UPDATES):
                name = update.subscription.id if isinstance(update, PutSubscription) else update.name
                self._changed.add(name)
                self._any = True
                self._something.set()
        if self._any and applied.touched:
            self._touched |= applied.touched
            self._something.set()

    # --- acting

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._pause()):
                    await self._something.wait()
            except TimeoutError:
                pass
            self._something.clear()
            touched, self._touched = self._touched, set()
            changed, self._changed = self._changed, set()
            if changed:
                self._index()
            if not self._is_mine():
                self._acting = False
                continue
            try:
                await self._look(touched, changed)
            except RunnelError as error:
                log.warning("subscriptions_not_looked_at", error=str(error))
                self._acting = False  # look at everything the next time

    def _pause(self) -> float:
        """Until the next lease is over."""
        now = self._desk.world.clock.now_ms()
        leases = [each.lease_until_ms for each in self._all() if each.wake and each.lease_until_ms]
        return max(0.01, min([LOOK_SECONDS, *((until - now) / 1000 for until in leases)]))

    def _all(self) -> Iterator[Subscription]:
        for shard in self._desk.data_shards():
            yield from self._desk.engine.shards.follower(shard).state.subscriptions.values()

    def _index(self) -> None:
        """Which subscriptions a stream concerns."""
        self._by_path, self._by_pattern = {}, {}
        for each in self._all():
            for path in each.links:
                self._by_path.setdefault(path, set()).add(each.id)
            if each.wanted.pattern is not None:
                self._by_pattern.setdefault(each.wanted.pattern, set()).add(each.id)
        self._any = bool(self._by_path or self._by_pattern)

    async def _look(self, touched: set[int], changed: set[str]) -> None:
        concerned = set(changed)
        for number in touched:
            concerned |= self._concerned(number)
        if not self._acting:
            self._acting = True
            for each in list(self._all()):
                concerned.add(each.id)
                if each.wake and not each.holder and each.wanted.kind == "pull-wake":
                    self._desk.tell(each.id, each.generation, each.wake)  # perhaps nobody was told
        now = self._desk.world.clock.now_ms()
        over = [each for each in list(self._all()) if each.wake and 0 < each.lease_until_ms <= now]
        for each in over:
            await self._desk.lapse(each)
            concerned.add(each.id)
        for name in sorted(concerned):
            await self._desk.wake(name)

    def _concerned(self, number: int) -> set[str]:
        stream = self._desk.engine.shards.of_stream(StreamId(number)).state.streams.get(number)
        if stream is None or stream.traits is None or not stream.traits.name.startswith(PREFIX):
            return set()
        path = stream.traits.name[len(PREFIX) :]
        found = set(self._by_path.get(path, ()))
        for pattern, names in self._by_pattern.items():
            if not names <= found and fits(pattern, path):
                found |= names
        return found
