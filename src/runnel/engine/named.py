"""Streams with names of their own: found, made, forked and removed, across the shards that they touch.

A stream lives in the shard that its name hashes to, a fork in its own and not in its source's. So a fork is made in two
steps: its source is held first, then it is opened; and removed in two: it goes first, then its hold is given back, and
with the last hold a source that was deleted goes too, and so on up the line. Whatever a dying node leaves half-way is
finished by `mend`.

`known` looks at what is applied here; `find` looks at the ledger's tail first.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from runnel.engine.shards import Shards
from runnel.engine.topic_names import ID_PREFIX, stream_behind
from runnel.errors import AlreadyThere, Fenced, NotThere, RunnelError, Uncertain
from runnel.ingest.ticket import Ticket
from runnel.metadata.buckets import placement_of
from runnel.metadata.entry import Update
from runnel.metadata.producers import Verdict
from runnel.metadata.stream import Fork, Stream, Traits, touch_slack_ms
from runnel.metadata.updates import (
    DeleteTopic,
    ForgetTopic,
    HoldSource,
    OpenStream,
    ReleaseSource,
    RemoveStream,
    TouchStream,
)
from runnel.metadata.updates.commit import Guard
from runnel.metadata.updates.lives import Removed
from runnel.model import ROOT, ShardId, StreamId, shard_of, shard_of_name, stream_drawn_in
from runnel.world.telemetry import get_log
from runnel.world.world import World

log = get_log("named")

HOLD_GRACE_MS = 600_000
"""So long after a hold was taken, its fork exists or never will: every patience on the way is shorter."""

AT_ONCE = 2_000
"""Streams that upkeep looks at before it lets others go on."""

Propose = Callable[[ShardId, Update], Awaitable[Any]]
Submit = Callable[[Ticket], None]


class Body(NamedTuple):
    """A sealed batch that a stream is born with."""

    batch: bytes
    records: int
    stamp: int


class NamedStreams:
    """See the module."""

    def __init__(self, propose: Propose, submit: Submit, shards: Shards, world: World) -> None:
        self._propose = propose
        self._submit = submit
        self._shards = shards
        self._world = world

    def shard_of(self, name: str) -> ShardId:
        """Where the stream of this name lives."""
        return shard_of_name(placement_of(name), self._shards.count)

    # --- looking

    def known(self, name: str) -> Stream | None:
        """The stream of this name as far as it is applied here; it may be leaving or over."""
        state = self._shards.follower(self.shard_of(name)).state
        number = state.names.get(name)
        return None if number is None else state.streams[number]

    def usable(self, name: str) -> Stream | None:
        """The same, if it can be used: it is not over, and not only held by its forks."""
        try:
            stream = self.known(name)
        except RunnelError:
            return None  # its shard is not followed here
        if stream is None or self.is_over(stream) or (stream.traits is not None and stream.traits.leaving):
            return None
        return stream

    async def find(self, name: str) -> Stream | None:
        """The stream of this name, now. One whose time is over is removed on the way."""
        shard = self.shard_of(name)
        await self._shards.follow([shard])
        await self._shards.follower(shard).catch_up()
        stream = self.known(name)
        if stream is not None and self.is_over(stream):
            await self.remove(StreamId(stream.id), expired=True)
            stream = self.known(name)
        return stream

    def is_over(self, stream: Stream) -> bool:
        """Whether a stream's time is over; then it does not exist, though it may still be here."""
        traits = stream.traits
        if traits is None or traits.leaving:
            return False
        deadline = traits.deadline_ms()
        return deadline is not None and self._world.clock.now_ms() >= deadline

    def touch(self, stream: Stream) -> None:
        """A stream was read: its life begins anew. What comes soon after the last use is not worth an entry."""
        traits = stream.traits
        if traits is None or traits.ttl_s is None:
            return
        now = self._world.clock.now_ms()
        if now - max(traits.born_ms, traits.touched_ms) > touch_slack_ms(traits.ttl_s):
            self._world.tasks.spawn(self._touch(StreamId(stream.id)), name="touch stream")

    async def _touch(self, stream: StreamId) -> None:
        try:
            await self._propose(shard_of(stream, self._shards.count), TouchStream(int(stream)))
        except RunnelError as error:
            log.warning("touch_failed", stream=stream, error=str(error))

    # --- making

    async def open(self, traits: Traits, *, closed: bool = False, body: Body | None = None) -> StreamId:
        """Make a stream, with its first records if there are any, in one entry; `AlreadyThere` if the name is taken."""
        shard = self.shard_of(traits.name)
        if body is None:
            return StreamId(await self._propose(shard, OpenStream(traits, closed)))
        await self._shards.follow([shard])
        stream = stream_drawn_in(shard, self._world.chance.getrandbits(60), self._shards.count)
        ticket, answers = Ticket.awaited()
        guard = Guard(open=traits, close=closed)
        ticket.add_guarded(stream, body.batch, body.records, body.stamp, guard=guard)
        self._submit(ticket)
        (answer,) = await answers
        if answer.error is not None:
            raise answer.error
        if answer.verdict is Verdict.NAME_TAKEN:
            raise AlreadyThere(f"stream '{traits.name}' exists")
        assert answer.verdict is Verdict.ACCEPTED, f"the first append to a stream met {answer.verdict!r}"
        return stream

    async def fork(
        self, traits: Traits, source: Stream, offset: int, *, asked: tuple[str | None, int], closed: bool = False,
        body: Body | None = None,
    ) -> StreamId:  # fmt: skip
        """Make a stream that inherits the records of another before an offset."""
        token = self._world.chance.randbytes(16)
        shard = shard_of(StreamId(source.id), self._shards.count)
        assert source.traits is not None, "only streams with names have forks"
        start = await self._propose(shard, HoldSource(source.id, token, traits.name, offset))
        fork = Fork(source.id, offset, token, source.traits.name, *asked, start)
        traits.fork = fork
        try:
            return await self.open(traits, closed=closed, body=body)
        except Uncertain:
            raise  # it may exist: `mend` finds out
        except RunnelError:
            await self._release(fork)
            raise

    # --- removing

    async def remove(self, stream: StreamId, *, expired: bool = False) -> None:
        """Let a stream go; `NotThere` if it is gone already."""
        try:
            removed = await self._propose(shard_of(stream, self._shards.count), RemoveStream(int(stream), expired))
        except NotThere:
            if expired:
                return
            raise
        await self._go_up(removed)
        if removed is not None:
            await self._drop_topic(ID_PREFIX + stream.to_bytes(8, "big"))

    async def _drop_topic(self, topic_id: bytes) -> None:
        """A stream that was made a topic like any is gone: so is the topic."""
        name = self._shards.follower(ROOT).state.topic_names.get(topic_id)
        if name is not None:
            with suppress(NotThere, Fenced):
                await self._propose(ROOT, DeleteTopic(name, topic_id))
            await self._propose(ROOT, ForgetTopic(topic_id))

    async def _release(self, fork: Fork) -> None:
        await self._go_up(Removed(gone=True, fork=fork))

    async def _go_up(self, removed: Removed | None) -> None:
        while removed is not None and removed.gone and removed.fork is not None:
            fork = removed.fork
            shard = shard_of(StreamId(fork.source), self._shards.count)
            removed = await self._propose(shard, ReleaseSource(fork.source, fork.token))

    # --- upkeep

    async def mend(self) -> int:
        """Remove streams whose time is over, and give back holds whose forks never came or are gone; how many."""
        mended = await self._drop_topics_without_streams()
        before = self._world.clock.now_ms() - HOLD_GRACE_MS
        for number in range(1, self._shards.count + 1):
            follower = self._shards.follower(ShardId(number))
            for place, known in enumerate(list(follower.state.names.values())):
                if not place % AT_ONCE:
                    await asyncio.sleep(0)  # there may be millions
                stream = follower.state.streams.get(known)
                if stream is None or stream.traits is None:
                    continue
                if self.is_over(stream):
                    await self.remove(StreamId(stream.id), expired=True)
                    mended += 1
                for token, hold in list(stream.traits.holds.items()):
                    if hold.since_ms < before and not await self._is_borne(token, hold.name):
                        await self._release(Fork(stream.id, hold.upto, token))
                        mended += 1
        return mended

    async def _drop_topics_without_streams(self) -> int:
        gone = []
        for topic in self._shards.follower(ROOT).state.topics.values():
            number = stream_behind(topic.id)
            if number is not None and number not in self._shards.of_stream(number).state.streams:
                gone.append(topic.id)
        for topic_id in gone:
            await self._drop_topic(topic_id)
        return len(gone)

    async def _is_borne(self, token: bytes, name: str) -> bool:
        return _bears(self.known(name), token) or _bears(await self.find(name), token)


def _bears(stream: Stream | None, token: bytes) -> bool:
    fork = stream.traits.fork if stream is not None and stream.traits is not None else None
    return fork is not None and fork.token == token
