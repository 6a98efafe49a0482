"""The engine: a lakehouse of streams in one object, with or without a server around it.

    async with Engine(objects="file:///tmp/lake", ledger="sqlite:///tmp/lake/ledger.db") as engine:
        topic = await engine.topics.create("orders")
        stream = topic.streams[0]
        await engine.append_records(stream, [Record(b"key", b"value")])
        async for record in engine.records(stream):
            ...

Doors use `submit` (a ticket with many batches, answered by a callback in the turn of the apply) and `read` (many
streams at once); the rest is comfort.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

from runnel.codec.batches import check_batches
from runnel.codec.compression import Compression
from runnel.codec.records import Record, build_batch, read_records
from runnel.engine.buckets import Buckets
from runnel.engine.cluster import SHARDS, find_cluster
from runnel.engine.group_offsets import GroupOffsets
from runnel.engine.membership import Membership, Presence
from runnel.engine.named import NamedStreams
from runnel.engine.retention import Retention
from runnel.engine.shards import Shards
from runnel.engine.snapshots import Snapshots
from runnel.engine.sweep import Sweep
from runnel.engine.topics import Topics
from runnel.engine.upkeep import Upkeep, UpkeepLimits
from runnel.errors import NotThere, Refused, RunnelError, Unavailable, Uncertain
from runnel.ingest.flush import Flusher, FlushLimits
from runnel.ingest.gather import Ingest, IngestLimits
from runnel.ingest.ticket import Answer, Ticket
from runnel.ingest.window import Producer
from runnel.metadata.buckets import placement_of
from runnel.metadata.encoding import NewerVersion
from runnel.metadata.entry import Update
from runnel.metadata.follower import Follower, FollowerLimits
from runnel.metadata.ledger import Ledger
from runnel.metadata.proposer import Proposer, ProposerLimits
from runnel.metadata.state import ShardState
from runnel.metadata.stream import Traits
from runnel.metadata.updates import DrawNumbers, Found, OpenStream, TruncateStreams
from runnel.model import ROOT, ShardId, StreamId, shard_of, shard_of_name
from runnel.read.fetch import Fetcher
from runnel.read.reader import UNBOUNDED, Ask, Read, Reader
from runnel.world.blocks import BlockPool
from runnel.world.objects import ObjectStore
from runnel.world.objects.cache import ObjectCache
from runnel.world.telemetry import get_log
from runnel.world.world import World, real_world

log = get_log("engine")
T = TypeVar("T")

PRODUCER_IDS_DRAWN = 1000
"""Producer ids are drawn from the root shard a thousand at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLimits:
    """Every bound of the engine; the settings fill it in for a server."""

    ingest: IngestLimits = field(default_factory=IngestLimits)
    flush: FlushLimits = field(default_factory=FlushLimits)
    follower: FollowerLimits = field(default_factory=FollowerLimits)
    proposer: ProposerLimits = field(default_factory=ProposerLimits)
    upkeep: UpkeepLimits = field(default_factory=UpkeepLimits)
    open_patience_s: float = 10.0
    """How long each step of opening is tried while store or ledger cannot be reached."""
    cache_bytes_max: int = 128 * 1024 * 1024
    free_blocks_bytes_max: int = 32 * 1024 * 1024
    loading_bytes_max: int = 64 * 1024 * 1024
    """Bytes on their way from the store for reads; more reads wait."""
    ahead_bytes_max: int = 32 * 1024 * 1024
    """Bytes on their way from the store before anyone has asked for them."""
    ahead_bytes_per_stream: int = 8 * 1024 * 1024


class Engine:
    """Streams on an object store and a ledger. Use it as an async context manager, in one event loop."""

    def __init__(
        self,
        *,
        objects: str | ObjectStore = "memory://",
        ledger: str | Ledger = "memory:",
        world: World | None = None,
        limits: EngineLimits | None = None,
        shards: int = SHARDS,
        presence: Presence | None = None,
        eager: bool = True,
    ) -> None:
        """`shards` matters for a new cluster only. With a `presence` the engine is a node that others see.

        An eager engine follows every shard from the start; another one follows a shard when something asks for it.
        """
        self.limits = limits or EngineLimits()
        self.membership: Membership | None = None
        self._objects_given = objects
        self._ledger_given = ledger
        self._world_given = world
        self._shards_wanted = shards
        self._presence = presence
        self._eager = eager
        self._own: list[ObjectStore | Ledger] = []
        self._producer_ids: list[int] = []
        self._drawing: asyncio.Lock = asyncio.Lock()
        self._lone_producer = Producer()
        self._upkeep_task: asyncio.Task[None] | None = None
        self._open = False

    # --- coming and going

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Find or found the cluster, follow its shards, and be ready for appends and reads."""
        assert not self._open, "the engine is open"
        self.world = self._world_given or real_world(_report_death)
        try:
            await self._open_parts()
        except BaseException:
            await self._close_parts()
            raise
        self._open = True
        self.world.metrics.gauge(
            "runnel_shards_stopped",
            "Shards that cannot be followed: see `runnel doctor`.",
            read=lambda: len(self._stopped()),
        )

    async def _open_parts(self) -> None:
        world, limits = self.world, self.limits
        self.objects = await self._open_objects()
        self.ledger = await self._open_ledger()
        self.cluster = await self._patiently(
            lambda: find_cluster(self.objects, world.chance.fork("cluster"), self._shards_wanted)
        )
        self.shards = Shards(self._make_follower, self.cluster.shards)
        self.proposer = Proposer(self.ledger, self.shards.follower, world, limits.proposer)
        await self._patiently(lambda: self.shards.follow([ROOT]))
        await self._patiently(self._agree_on_the_cluster)
        if self._eager:
            all_shards = [ShardId(number) for number in range(1, self.cluster.shards + 1)]
            await self._patiently(lambda: self.shards.follow(all_shards))
        self.pool = BlockPool(limits.free_blocks_bytes_max)
        self.cache = ObjectCache(limits.cache_bytes_max, self.pool)
        if self._presence is not None:
            self.membership = Membership(self._presence, self.shards.follower(ROOT), self.propose, world)
            await self._patiently(self.membership.join)
        flusher = Flusher(
            self.objects,
            self.proposer,
            self.shards.follower,
            shards=self.cluster.shards,
            cache=self.cache,
            pool=self.pool,
            world=world,
            limits=limits.flush,
            writer=self.membership.id if self.membership is not None else -1,
        )
        self.ingest = Ingest(flusher, world, limits.ingest)
        fetcher = Fetcher(
            self.objects,
            self.cache,
            world,
            loading_bytes_max=limits.loading_bytes_max,
            ahead_bytes_max=limits.ahead_bytes_max,
        )
        self.reader = Reader(fetcher, self.shards.of_stream, ahead_bytes=limits.ahead_bytes_per_stream)
        self.topics = Topics(self.propose, lambda: self.root, self.cluster.shards, world.chance.fork("topics"))
        self.buckets = Buckets(self.propose, self.shards, world)
        self.snapshots = Snapshots(self.objects, self.propose, self.shards, world)
        self.named = NamedStreams(
            self.propose, lambda ticket: self.submit(ticket, self._lone_producer), self.shards, world
        )
        self.sweep = Sweep(
            self.objects,
            self.shards.follower,
            self.propose,
            shards=self.cluster.shards,
            world=world,
            grace_ms=limits.upkeep.sweep_grace_ms,
        )
        self.retention = Retention(
            self.topics, self.shards.follower, self.propose, shards=self.cluster.shards, world=world
        )
        group_offsets = GroupOffsets(
            self.shards.follower,
            self.propose,
            shards=self.cluster.shards,
            world=world,
            kept_ms=limits.upkeep.offsets_kept_ms,
        )
        self.upkeep = Upkeep(
            self.sweep,
            self.retention,
            self.topics,
            self.named,
            group_offsets,
            self.shards.follower,
            self.propose,
            shards=self.cluster.shards,
            world=world,
            limits=limits.upkeep,
            is_mine=lambda: self.membership is None or self.membership.is_first(),
        )
        if self._eager:
            self._upkeep_task = world.tasks.spawn(self.upkeep.run(), name="upkeep")

    async def _patiently(self, step: Callable[[], Awaitable[T]]) -> T:
        """A step of opening, tried for a while: a store that asks to slow down is no reason to give up."""
        clock, pause = self.world.clock, 0.05
        deadline = clock.monotonic() + self.limits.open_patience_s
        while True:
            try:
                return await step()
            except (Unavailable, Uncertain) as error:
                if clock.monotonic() + pause > deadline:
                    raise
                log.warning("opening_takes_longer", error=str(error), again_s=pause)
                await asyncio.sleep(pause)
                pause = min(2 * pause, 1.0)

    async def _open_objects(self) -> ObjectStore:
        if not isinstance(self._objects_given, str):
            return self._objects_given
        from runnel.world.objects.open import open_store  # noqa: PLC0415  only who names a store by URL pays for it

        store = open_store(self._objects_given, clock=self.world.clock, chance=self.world.chance.fork("objects"))
        self._own.append(store)
        return store

    async def _open_ledger(self) -> Ledger:
        if not isinstance(self._ledger_given, str):
            return self._ledger_given
        from runnel.metadata.ledger.open import open_ledger  # noqa: PLC0415  as above

        world = self.world
        ledger = await open_ledger(
            self._ledger_given,
            objects=self.objects,
            clock=world.clock,
            chance=world.chance.fork("ledger"),
            tasks=world.tasks,
        )
        self._own.append(ledger)
        return ledger

    async def _agree_on_the_cluster(self) -> None:
        if not self.root.cluster_id:
            await self.propose(ROOT, Found(self.cluster.id, self.cluster.shards))
        if self.root.cluster_id != self.cluster.id:
            raise Refused(
                f"the object store belongs to cluster {self.cluster.id}, the ledger to {self.root.cluster_id}: "
                "name a ledger and a store that belong together"
            )

    def _make_follower(self, shard: ShardId) -> Follower:
        return Follower(
            shard,
            self.cluster.shards,
            ledger=self.ledger,
            objects=self.objects,
            world=self.world,
            limits=self.limits.follower,
        )

    async def close(self) -> None:
        """Flush what is gathered, answer everyone, leave."""
        if self._open:
            self._open = False
            await self.ingest.drain()
            if self.membership is not None:
                await self.membership.leave()
        await self._close_parts()

    async def _close_parts(self) -> None:
        if self._upkeep_task is not None:
            self._upkeep_task.cancel()
            await asyncio.wait([self._upkeep_task])
        for name in ("proposer", "shards"):
            part = getattr(self, name, None)
            if part is not None:
                await part.close()
        if self._world_given is None:
            await self.world.tasks.close()
        for part in reversed(self._own):
            await part.close()
        self._own.clear()

    # --- the truth

    @property
    def root(self) -> ShardState:
        """Topics, nodes and settings as far as they are applied here; `catch_up` brings them up to now."""
        return self.shards.follower(ROOT).state

    async def catch_up(self, shard: ShardId = ROOT) -> None:
        await self.shards.follow([shard])
        await self.shards.follower(shard).catch_up()

    async def propose(self, shard: ShardId, update: Update) -> Any:
        """Let an update become part of the truth; its result, or the refusal it met."""
        await self.shards.follow([shard])
        return await self.proposer.propose(shard, update)

    def trouble(self) -> str | None:
        """Why some shard cannot be followed any more."""
        return next((str(follower.stopped) for follower in self._stopped()), None)

    def vital_trouble(self) -> str | None:
        """Why this engine can do nothing any more: without the root nobody finds anything."""
        return next((str(follower.stopped) for follower in self._stopped() if follower.shard == ROOT), None)

    def needs_upgrade(self) -> str | None:
        """Why others, which are newer, should be asked instead. (A damaged shard is damaged for everyone.)"""
        return next(
            (str(follower.stopped) for follower in self._stopped() if isinstance(follower.stopped, NewerVersion)), None
        )

    def _stopped(self) -> list[Follower]:
        return [follower for follower in self.shards if follower.stopped is not None]

    def occupancy(self) -> dict[str, tuple[int, int]]:
        """Everything in memory that grows with use: how much of it there is, and the most that there may be."""
        limits = self.limits
        fetcher = self.reader.fetcher
        return {
            "bytes of appends under way": (self.ingest.inflight_bytes, self.ingest.inflight_bytes_bound),
            "bytes of objects cached": (self.cache.size, limits.cache_bytes_max),
            "bytes of free blocks": (self.pool.free_bytes, limits.free_blocks_bytes_max),
            "bytes on their way for reads": (fetcher.loading.taken, limits.loading_bytes_max),
            "bytes read ahead": (fetcher.ahead_bytes, limits.ahead_bytes_max),
            "proposals without an answer": (self.proposer.unanswered, limits.proposer.waiting_max),
        }

    def stream_of(self, topic: str, partition: int) -> StreamId:
        known = self.topics.get(topic)
        if known is None:
            raise NotThere(f"topic '{topic}' does not exist")
        if not 0 <= partition < len(known.streams):
            raise NotThere(f"topic '{topic}' has partitions 0 to {len(known.streams) - 1}, not {partition}")
        return StreamId(known.streams[partition])

    async def open_stream(self, traits: Traits, *, closed: bool = False) -> StreamId:
        """Make a stream with a name of its own; `AlreadyThere` if it exists."""
        return StreamId(await self.propose(self.shard_of_stream_name(traits.name), OpenStream(traits, closed)))

    def shard_of_stream_name(self, name: str) -> ShardId:
        return shard_of_name(placement_of(name), self.cluster.shards)

    def shard_of_name(self, name: str) -> ShardId:
        return shard_of_name(name, self.cluster.shards)

    async def truncate(self, starts: dict[StreamId, int]) -> dict[int, int]:
        """Let streams begin at an offset; their starts as they are now. A start never moves back."""
        by_shard: dict[ShardId, dict[int, int]] = {}
        for stream, start in starts.items():
            by_shard.setdefault(shard_of(stream, self.cluster.shards), {})[stream] = start
        done: dict[int, int] = {}
        for shard, wanted in by_shard.items():
            done |= await self.propose(shard, TruncateStreams(wanted))
        return done

    async def draw_producer_id(self) -> int:
        """A producer id that nobody else has."""
        async with self._drawing:
            if not self._producer_ids:
                first = await self.propose(ROOT, DrawNumbers("producer", PRODUCER_IDS_DRAWN))
                self._producer_ids = list(range(first + PRODUCER_IDS_DRAWN - 1, first - 1, -1))
            return self._producer_ids.pop()

    # --- appending

    def submit(self, ticket: Ticket, producer: Producer | None) -> None:
        """Take in a request with batches that were checked; see ingest/ticket.py. The doors' way."""
        self.ingest.offer(ticket, producer)

    def submit_together(self, ticket: Ticket) -> None:
        """Take in a request whose batches, for streams of one shard, are appended all or none."""
        self.ingest.offer_together(ticket)

    async def append(self, stream: StreamId, batches: bytes | bytearray | memoryview) -> Answer:
        """Append a run of sealed batches (one batch, mostly); durable when it returns. Refusals are raised."""
        await self.shards.follow([shard_of(stream, self.cluster.shards)])
        ticket, answers = Ticket.awaited()
        view = memoryview(batches)
        at = 0
        for head in check_batches(view, 0, len(view)):
            body = view[at : at + head.size]
            ticket.add(stream, body, head.records, head.max_timestamp, head.producer, head.epoch, head.sequence)
            at += head.size
        if not ticket.batches:
            raise Refused("nothing to append")
        self.submit(ticket, self._lone_producer)
        return worst_of(await answers)

    async def append_records(
        self, stream: StreamId, records: Iterable[Record], *, compression: Compression = Compression.NONE
    ) -> Answer:
        """Append records as one batch; those without a time get this one."""
        now = self.world.clock.now_ms()
        stamped = [record if record.timestamp >= 0 else record._replace(timestamp=now) for record in records]
        return await self.append(stream, build_batch(stamped, compression=compression))

    # --- reading

    async def read(self, stream: StreamId, offset: int, *, bytes_max: int = 1024 * 1024, wait_s: float = 0.0) -> Read:
        """Sealed batches from an offset on; with `wait_s`, waits that long for something to be there."""
        await self.shards.follow([shard_of(stream, self.cluster.shards)])
        (read,) = await self.reader.read([Ask(stream, offset, bytes_max)])
        nothing_yet = read.error is None and not read.data and not read.closed
        if nothing_yet and wait_s > 0 and await self.reader.wait([(stream, offset)], wait_s):
            (read,) = await self.reader.read([Ask(stream, offset, bytes_max)], fresh=False)
        if read.error is not None:
            raise read.error
        return read

    async def read_many(self, asks: Sequence[Ask], *, fresh: bool = True, bytes_max: int = UNBOUNDED) -> list[Read]:
        """Sealed batches of many streams, `bytes_max` together; see read/reader.py."""
        await self.shards.follow({shard_of(ask.stream, self.cluster.shards) for ask in asks})
        return await self.reader.read(asks, fresh=fresh, bytes_max=bytes_max)

    async def records(self, stream: StreamId, offset: int = 0, *, follow: bool = False) -> AsyncIterator[Record]:
        """Records one by one, for people and tests; with `follow`, waits for more at the end."""
        while True:
            read = await self.read(stream, offset, wait_s=60.0 if follow else 0.0)
            if read.data:
                for record in read_records(read.data):
                    if record.offset >= offset:
                        yield record
                offset = read.next
            elif read.closed or not follow:
                return

    async def wait(self, stream: StreamId, offset: int, timeout_s: float) -> bool:
        """Whether something is readable at an offset, now or within a time."""
        await self.shards.follow([shard_of(stream, self.cluster.shards)])
        return await self.reader.wait([(stream, offset)], timeout_s)

    async def bounds(self, stream: StreamId) -> tuple[int, int]:
        """The first offset that can be read and the one that comes next, as of now."""
        (bounds,) = (await self.bounds_of([stream])).values()
        if isinstance(bounds, RunnelError):
            raise bounds
        return bounds

    async def bounds_of(self, streams: Iterable[StreamId]) -> dict[StreamId, tuple[int, int] | RunnelError]:
        """The same for many streams, or why it cannot be told; each shard's tail is looked at once."""
        by_shard: dict[ShardId, list[StreamId]] = {}
        for stream in streams:
            by_shard.setdefault(shard_of(stream, self.cluster.shards), []).append(stream)

        async def look(shard: ShardId) -> RunnelError | None:
            try:
                await self.catch_up(shard)
            except RunnelError as error:
                return error
            return None

        found: dict[StreamId, tuple[int, int] | RunnelError] = {}
        errors = await asyncio.gather(*map(look, by_shard))
        for (shard, wanted), error in zip(by_shard.items(), errors, strict=True):
            known = {} if error is not None else self.shards.follower(shard).state.streams
            for stream in wanted:
                here = known.get(stream)
                if here is not None:
                    found[stream] = here.start, here.end
                else:
                    found[stream] = error or NotThere(f"stream {stream} does not exist")
        return found

    async def offset_at(self, stream: StreamId, stamp_ms: int) -> tuple[int, int] | None:
        """The (offset, timestamp) of the first record at or after a time; None when there is none."""
        await self.shards.follow([shard_of(stream, self.cluster.shards)])
        return await self.reader.first_at(stream, stamp_ms)


def worst_of(answers: Sequence[Answer]) -> Answer:
    """The first answer of a run, if all of it was accepted or is there already; else the refusal, raised."""
    for answer in answers:
        if answer.error is not None:
            raise answer.error
        if answer.first < 0:
            facts = "".join(f", {key} {value}" for key, value in (answer.facts or {}).items())
            raise Refused(f"append refused: {answer.verdict.name.lower().replace('_', ' ')}{facts}")
    return answers[0]


def _report_death(name: str, error: BaseException) -> None:
    """Without a server around it, an engine can only say that a part of it has died."""
    log.error("task_died", task=name, error=repr(error), kind="known" if isinstance(error, RunnelError) else "bug")
