"""Where subscriptions are made, looked at, and worked on: by any node, judged where their updates are applied.

    desk.create, find, delete, link, unlink      the life of a subscription
    desk.claim, ack                              what workers do, also in answer to a webhook
    desk.wake                                    a wake: the next generation, told to the webhook or the wake stream

Who wakes a subscription also tells of it. Should he die over it, the lease lapses and the waker (waker.py) wakes anew.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from runnel.api.durable.service import StreamService
from runnel.api.streams.answers import Appended
from runnel.api.streams.asks import AppendAsk
from runnel.api.streams.offsets import mint, parse
from runnel.api.subscriptions.patterns import fits
from runnel.api.subscriptions.post import post
from runnel.api.subscriptions.signing import Signer, find_seed
from runnel.errors import AlreadyThere, Fenced, NotThere, Refused, RunnelError, Unavailable
from runnel.metadata.buckets import HASHED_WHOLE
from runnel.metadata.producers import Verdict
from runnel.metadata.subscriptions import Link, Subscription, Wanted
from runnel.metadata.updates import (
    AckSubscription,
    ClaimSubscription,
    DropSubscription,
    LapseSubscription,
    LinkStreams,
    PutSubscription,
    WakeSubscription,
)
from runnel.metadata.updates.subscriptions import AlreadyClaimed
from runnel.model import ShardId, shard_of_name
from runnel.world.telemetry import get_log

log = get_log("subscriptions")

PREFIX = f"{HASHED_WHOLE}/"
TOLD_MAX = 1_000
"""Streams that one notification tells of; those with something new come first."""
RETRY_SECONDS = 1.0
RETRY_SECONDS_MAX = 60.0
POST_SECONDS = 30.0


class NothingToDo(Fenced):
    """No stream has anything new."""


class OffsetInvalid(Refused):
    """No place that could be acknowledged."""


class Claimed(NamedTuple):
    subscription: Subscription
    generation: int
    wake: str
    token: str


class Desk:
    """See the module.

    `base` is the address under which this cluster is called back, without a slash at its end; `local` allows webhooks
    on this machine.
    """

    def __init__(self, service: StreamService, *, local: bool = False) -> None:
        self.service = service
        self.engine = service.engine
        self.world = service.world
        self.base = ""
        self.local = local
        self.failures: dict[str, int] = {}
        self._signer: Signer | None = None

    async def signer(self) -> Signer:
        if self._signer is None:
            seed = await find_seed(self.engine.objects, self.world)
            try:
                self._signer = Signer(seed, self.world)
            except ModuleNotFoundError:
                raise Refused("this server has no webhooks: pip install 'runnel[webhooks]'") from None
        return self._signer

    # --- looking

    def shard_of(self, name: str) -> ShardId:
        return shard_of_name(f"subscription/{name}", self.engine.cluster.shards)

    def data_shards(self) -> Iterator[ShardId]:
        return (ShardId(number) for number in range(1, self.engine.cluster.shards + 1))

    def known(self, name: str) -> Subscription | None:
        return self.engine.shards.follower(self.shard_of(name)).state.subscriptions.get(name)

    async def find(self, name: str) -> Subscription:
        await self.engine.catch_up(self.shard_of(name))
        subscription = self.known(name)
        if subscription is None:
            raise NotThere("there is no such subscription")
        return subscription

    async def see_all(self) -> None:
        """Let the ends of all streams be known here."""
        await asyncio.gather(*(self.engine.catch_up(shard) for shard in self.data_shards()))

    def end_of(self, path: str) -> int:
        stream = self.service.known(PREFIX + path)
        return 0 if stream is None else stream.end

    def pending(self, subscription: Subscription) -> dict[str, int]:
        """Streams with something new, and where they end. One that ends before its place was made anew."""
        found = {}
        for path, link in subscription.links.items():
            end = self.end_of(path)
            if end and end != link.acked:
                found[path] = end
        return found

    def unlinked(self, subscription: Subscription) -> set[str]:
        """Streams that the pattern fits and that were made since. It is held against the names of all streams."""
        pattern = subscription.wanted.pattern
        found: set[str] = set()
        if pattern is None:
            return found
        start = PREFIX + pattern.partition("*")[0].partition("%")[0]
        for shard in self.data_shards():
            for name in self.engine.shards.follower(shard).state.names:
                path = name[len(PREFIX) :]
                if name.startswith(start) and path not in subscription.links and fits(pattern, path):
                    found.add(path)
        return found

    def told(self, subscription: Subscription) -> list[dict[str, Any]]:
        """The streams of a subscription, those with something new first."""
        rows = []
        for path, link in subscription.links.items():
            end = self.end_of(path)
            rows.append({
                "path": path,
                "link_type": "explicit" if link.explicit else "glob",
                "acked_offset": "-1" if link.acked < 0 else mint(link.acked),
                "tail_offset": mint(end),
                "has_pending": bool(end) and end != link.acked,
            })  # fmt: skip
        return sorted(rows, key=_pending_first)

    # --- coming and going

    async def create(self, name: str, wanted: Wanted) -> tuple[Subscription, bool]:
        """Make a subscription, or find it as it is wanted; whether it is new."""
        if wanted.kind == "webhook":
            await self.signer()
        await self.see_all()
        subscription = Subscription(name, wanted, self.world.clock.now_ms(), self._first_links(wanted))
        try:
            await self.engine.propose(self.shard_of(name), PutSubscription(subscription))
        except AlreadyThere:
            existing = await self.find(name)
            if existing.wanted != wanted:
                raise
            return existing, False
        return await self.find(name), True

    def _first_links(self, wanted: Wanted) -> dict[str, Link]:
        """A subscription begins at the tails of what is there."""
        links = {path: Link(self.end_of(path), explicit=True) for path in wanted.streams}
        if wanted.pattern is not None:
            for shard in self.data_shards():
                for name in list(self.engine.shards.follower(shard).state.names):
                    path = name[len(PREFIX) :]
                    if name.startswith(PREFIX) and self.service.known(name) is not None and fits(wanted.pattern, path):
                        links.setdefault(path, Link(self.end_of(path))).by_pattern = True
        return links

    async def delete(self, name: str) -> None:
        await self.engine.propose(self.shard_of(name), DropSubscription(name))

    async def link(self, name: str, paths: list[str]) -> None:
        await self.see_all()
        put = {path: self.end_of(path) for path in paths}
        await self.engine.propose(self.shard_of(name), LinkStreams(name, put))

    async def unlink(self, name: str, path: str) -> None:
        await self.engine.propose(self.shard_of(name), LinkStreams(name, {}, [path]))

    # --- waking

    async def wake(self, name: str, new: Iterable[str] = ()) -> bool:
        """Wake a subscription if something is new and nobody is at it; whether it was this node that did.

        `new` are streams that its pattern fits; those that are not linked yet become so.
        """
        subscription = self.known(name)
        if subscription is None or subscription.wake:
            return False
        news = self.pending(subscription)
        found = {path for path, end in news.items() if end < subscription.links[path].acked}
        for path in new:
            if path not in subscription.links and (end := self.end_of(path)):
                news[path] = end
                found.add(path)
        if not news:
            return False
        wake = f"w_{self.world.chance.randbytes(12).hex()}"
        wanted = subscription.wanted
        lease = self._lease(wanted) if wanted.kind == "webhook" else 0
        update = WakeSubscription(name, subscription.generation, wake, news, sorted(found), lease)
        try:
            generation = await self.engine.propose(self.shard_of(name), update)
        except (Fenced, NotThere):
            return False  # somebody was faster
        self.tell(name, generation, wake)
        return True

    def _lease(self, wanted: Wanted) -> int:
        return self.world.clock.now_ms() + wanted.lease_ms

    def tell(self, name: str, generation: int, wake: str) -> None:
        """Tell of a wake, in the background."""
        self.world.tasks.spawn(self._tell(name, generation, wake), name=f"wake {name[:80]}")

    async def _tell(self, name: str, generation: int, wake: str) -> None:
        try:
            while (subscription := self._current(name, generation, wake)) is not None:
                if subscription.wanted.kind == "pull-wake":
                    await self._write(subscription)
                    return
                if await self._deliver(subscription):
                    return
        except RunnelError as error:
            log.warning("wake_not_told", subscription=name, error=str(error))

    def _current(self, name: str, generation: int, wake: str) -> Subscription | None:
        subscription = self.known(name)
        if subscription is None or (subscription.generation, subscription.wake) != (generation, wake):
            return None
        return subscription

    async def _write(self, subscription: Subscription) -> None:
        """An event in the wake stream."""
        event = {
            "type": "wake",
            "subscription_id": subscription.id,
            "stream": next(iter(subscription.snapshot), ""),
            "generation": subscription.generation,
            "ts": self.world.clock.now_ms(),
        }
        given: asyncio.Future[Appended | RunnelError] = asyncio.get_running_loop().create_future()
        ask = AppendAsk(
            json.dumps(event).encode(), "application/json", close=False, producer=None, seq=None, record_match=None
        )
        self.service.append(f"{PREFIX}{subscription.wanted.wake_stream}", ask, None, given.set_result)
        outcome = await given
        if isinstance(outcome, RunnelError):
            raise outcome
        if outcome.verdict is not Verdict.ACCEPTED:
            raise Refused(f"the wake stream took no event: {outcome.verdict.name.lower()}")

    async def _deliver(self, subscription: Subscription) -> bool:
        """Call the webhook; False after a pause if it should be called again."""
        signer = await self.signer()
        name, generation, wake = subscription.id, subscription.generation, subscription.wake
        wanted = subscription.wanted
        assert wanted.webhook is not None, "a webhook subscription has an address"
        notice = {
            "subscription_id": name,
            "wake_id": wake,
            "generation": generation,
            "streams": self.told(subscription)[:TOLD_MAX],
            "callback_url": self.address(name, "callback"),
            "callback_token": signer.token(name, generation),
        }
        body = json.dumps(notice, separators=(",", ":")).encode()
        headers = {"content-type": "application/json", "webhook-signature": signer.signature(body)}
        try:
            status, answer = await post(
                wanted.webhook, body, headers, seconds=min(POST_SECONDS, wanted.lease_ms / 1000), local=self.local
            )
            _check_status(status)
        except (Unavailable, Refused) as error:
            await self._pause(subscription, str(error))
            return False
        self.failures.pop(name, None)
        if _says_done(answer) and (current := self._current(name, generation, wake)) is not None:
            acks = {path: end for path, end in current.snapshot.items() if end >= current.links[path].acked}
            await self._ack(AckSubscription(name, generation, wake, acks, True, 0))
            await self.wake(name)
        return True

    async def _pause(self, subscription: Subscription, why: str) -> None:
        """Wait before the next try, and keep the wake alive over it."""
        failures = self.failures[subscription.id] = self.failures.get(subscription.id, 0) + 1
        pause = min(RETRY_SECONDS * 2 ** min(failures - 1, 10), RETRY_SECONDS_MAX)
        pause *= self.world.chance.uniform(0.8, 1.2)
        log.info("webhook_failed", subscription=subscription.id, error=why, again_s=round(pause, 1))
        lease = self._lease(subscription.wanted) + int(pause * 1000)
        await self._ack(AckSubscription(subscription.id, subscription.generation, subscription.wake, {}, False, lease))
        await asyncio.sleep(pause)

    def address(self, name: str, action: str) -> str:
        return f"{self.base}/v1/stream/__ds/subscriptions/{name}/{action}"

    # --- working

    async def claim(self, name: str, worker: str) -> Claimed:
        signer = await self.signer()
        await self.see_all()
        subscription = await self.find(name)
        if subscription.wanted.kind != "pull-wake":
            raise Refused("only pull-wake subscriptions are claimed")
        await self.lapse(subscription)
        if subscription.holder:
            raise AlreadyClaimed(subscription.holder, subscription.generation)
        if not subscription.wake and not await self.wake(name) and not (await self.find(name)).wake:
            raise NothingToDo("no stream has anything new")
        subscription = await self.find(name)
        generation, wake = subscription.generation, subscription.wake
        lease = self._lease(subscription.wanted)
        await self.engine.propose(self.shard_of(name), ClaimSubscription(name, generation, wake, worker, lease))
        return Claimed(subscription, generation, wake, signer.token(name, generation))

    async def ack(self, name: str, token: str, asked: dict[str, Any], *, release: bool = False) -> bool:
        """Acknowledge places, and with `done` (or a release) end the wake; whether it woke again at once."""
        generation = (await self.signer()).generation_in(token, name)
        subscription = await self.find(name)
        wake = asked.get("wake_id")
        if generation != asked.get("generation") or not isinstance(wake, str):
            raise Fenced("that wake is over")
        acks = {} if release else await self._places(subscription, asked.get("acks") or [])
        done = release or asked.get("done") is True
        lease = 0 if done else self._lease(subscription.wanted)
        await self._ack(AckSubscription(name, generation, wake, acks, done, lease))
        if not done:
            return False
        await self.see_all()
        await self.wake(name)
        after = self.known(name)
        return after is not None and bool(after.wake)  # also if another node was faster to wake it

    async def _ack(self, update: AckSubscription) -> None:
        await self.engine.propose(self.shard_of(update.name), update)

    async def _places(self, subscription: Subscription, given: Any) -> dict[str, int]:
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            raise Refused("acks is a list of objects with a stream and an offset")
        acks = {}
        for each in given:
            path, offset = each.get("stream", each.get("path")), each.get("offset")
            if not isinstance(path, str) or not isinstance(offset, str):
                raise Refused("an ack names a stream and an offset")
            path = path.strip("/")
            link = subscription.links.get(path)
            if link is None:
                raise OffsetInvalid(f"'{path[:80]}' is no stream of this subscription")
            try:
                record = parse(offset).record
            except Refused as error:
                raise OffsetInvalid(str(error)) from None
            if record > self.end_of(path):
                await self.see_all()
            if not link.acked <= record <= self.end_of(path):
                raise OffsetInvalid(f"'{path[:80]}' is acknowledged from {link.acked} up to {self.end_of(path)}")
            acks[path] = record
        return acks

    async def lapse(self, subscription: Subscription) -> None:
        """End a wake whose lease is over."""
        until = subscription.lease_until_ms
        if subscription.wake and until and self.world.clock.now_ms() >= until:
            name = subscription.id
            try:
                await self.engine.propose(
                    self.shard_of(name), LapseSubscription(name, subscription.generation, subscription.wake)
                )
            except (Fenced, NotThere):
                log.debug("lapsed_elsewhere", subscription=name)


def _check_status(status: int) -> None:
    if not 200 <= status < 300:
        raise Unavailable(f"the webhook answered {status}")


def _pending_first(row: dict[str, Any]) -> bool:
    return not row["has_pending"]


def _says_done(answer: bytes) -> bool:
    try:
        told = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(told, dict) and told.get("done") is True
