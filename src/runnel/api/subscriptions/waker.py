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
        self._paths: dict[str, list[str]] = {}
        self._patterns: dict[str, str] = {}
        self._leases: dict[str, int] = {}
        self._new: dict[str, set[str]] = {}
        """Streams that a pattern fits and that are not linked yet, by subscription."""
        self._any = False
        self._acting = False
        for shard in desk.data_shards():
            desk.engine.shards.follower(shard).on_applied(self._heard)
        for each in list(self._all()):
            self._learn(each.id)
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
            for name in changed:
                self._learn(name)
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
        return max(0.01, min([LOOK_SECONDS, *((until - now) / 1000 for until in self._leases.values())]))

    def _all(self) -> Iterator[Subscription]:
        for shard in self._desk.data_shards():
            yield from self._desk.engine.shards.follower(shard).state.subscriptions.values()

    def _learn(self, name: str) -> None:
        """What concerns a subscription now: the streams it is linked to, its pattern, its lease."""
        for path in self._paths.pop(name, ()):
            self._by_path[path].discard(name)
            if not self._by_path[path]:
                del self._by_path[path]
        self._patterns.pop(name, None)
        self._leases.pop(name, None)
        subscription = self._desk.known(name)
        if subscription is None:
            self._new.pop(name, None)
        else:
            self._paths[name] = list(subscription.links)
            for path in subscription.links:
                self._by_path.setdefault(path, set()).add(name)
            if subscription.wanted.pattern is not None:
                self._patterns[name] = subscription.wanted.pattern
            if subscription.wake and subscription.lease_until_ms:
                self._leases[name] = subscription.lease_until_ms
        self._any = bool(self._paths)

    async def _look(self, touched: set[int], changed: set[str]) -> None:
        concerned = set(changed)
        for number in touched:
            concerned |= self._concerned(number)
        if not self._acting:
            self._acting = True
            for each in list(self._all()):
                concerned.add(each.id)
                self._new.setdefault(each.id, set()).update(self._desk.unlinked(each))
                if each.wake and not each.holder and each.wanted.kind == "pull-wake":
                    self._desk.tell(each.id, each.generation, each.wake)  # perhaps nobody was told
                await asyncio.sleep(0)  # a pattern is held against all names there are
        now = self._desk.world.clock.now_ms()
        for name in [name for name, until in self._leases.items() if until <= now]:
            subscription = self._desk.known(name)
            if subscription is not None:
                await self._desk.lapse(subscription)
            concerned.add(name)
        for name in sorted(concerned):
            if await self._desk.wake(name, self._new.get(name, ())):
                self._new.pop(name, None)

    def _concerned(self, number: int) -> set[str]:
        stream = self._desk.engine.shards.of_stream(StreamId(number)).state.streams.get(number)
        if stream is None or stream.traits is None or not stream.traits.name.startswith(PREFIX):
            return set()
        path = stream.traits.name[len(PREFIX) :]
        found = set(self._by_path.get(path, ()))
        for name, pattern in self._patterns.items():
            if name not in found and fits(pattern, path):
                self._new.setdefault(name, set()).add(path)
                found.add(name)
        return found
