"""Reading streams.

A read looks at the local state first. Only when that has nothing at the offset (or the offset seems out of range) is the
ledger's tail asked, once for all who ask at that time: so whatever was acknowledged anywhere before the read began is
found, and a consumer that is behind costs the ledger nothing.

Real offsets are written into the copy that goes out; what is stored never changes.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from runnel.codec.batches import patch_offsets, read_head, seek_offset, seek_time
from runnel.codec.records import build_batch, first_at_or_after, read_batch
from runnel.errors import Corrupt, NotThere, Refused, RunnelError
from runnel.metadata.follower import Follower
from runnel.metadata.objects import FileKind
from runnel.metadata.stream import Fork, Stream
from runnel.model import StreamId
from runnel.read.fetch import Fetcher, Loaded
from runnel.read.plan import CHUNK, Part, Plan, plan_read, plan_time
from runnel.world.objects import Buffer

TRAILS_MAX = 16
"""Trails that one read makes known, one after another, before it answers with what it has."""
REPLANS_MAX = 3
"""How often a read begins again because an object went away under it."""
UNBOUNDED = 1 << 62
NOTHING = Plan([], [])


class OffsetOutOfRange(Refused):
    """The offset is before the first or behind the last record. `start` and `end` say where the stream is."""

    def __init__(self, stream: int, offset: int, start: int, end: int) -> None:
        super().__init__(f"offset {offset} of stream {stream} is outside {start}…{end}")
        self.start = start
        self.end = end


class StreamUnknown(NotThere):
    """There is no such stream (any more)."""


@dataclass(slots=True)
class Read:
    """What a read brought: sealed batches with real offsets, and where the stream stands.

    The first batch may begin before the offset that was asked for, as in Kafka; `next` is the offset behind the last.
    """

    stream: int
    offset: int
    data: bytearray
    next: int
    start: int
    end: int
    closed: bool
    error: RunnelError | None = None


class Ask(NamedTuple):
    stream: StreamId
    offset: int
    bytes_max: int


class Reader:
    """Reads for one node. `follower_of` finds (or begins to follow) the shard of a stream."""

    def __init__(
        self, fetcher: Fetcher, follower_of: Callable[[StreamId], Follower], *, ahead_bytes: int = 8 * 1024 * 1024
    ) -> None:
        self.fetcher = fetcher
        self._follower_of = follower_of
        self._ahead_bytes = ahead_bytes

    async def read(self, asks: Sequence[Ask], *, fresh: bool = True, bytes_max: int = UNBOUNDED) -> list[Read]:
        """Read from many streams at once. What goes wrong with one of them is in its `error`.

        `bytes_max` bounds all together: the first that has something gives at least one batch, later ones what fits.
        """
        away = await self.look_at_tails(asks) if fresh else {}
        for _ in range(REPLANS_MAX):
            plans, loaded = await self._load_all(asks, bytes_max)
            swept = {
                self._follower_of(StreamId(plan.source)): None  # in order, so that a simulation repeats itself
                for _, plan, buffers in _dealt(asks, plans, loaded)
                if isinstance(plan, Plan) and any(isinstance(each, NotThere) for each in buffers)
            }
            if not swept:
                break
            for follower in swept:  # gone since we looked: the index says where those records are now
                await follower.catch_up()
        reads = []
        left = bytes_max
        for ask, plan, buffers in _dealt(asks, plans, loaded):
            read = self._answer(ask, plan, buffers, left, at_least_one=left == bytes_max)
            left -= len(read.data)
            if away and not read.data:  # what seems to be the end, or beyond it, may not be
                read.error = away.get(self._follower_of(ask.stream), read.error)
            reads.append(read)
        return reads

    async def _load_all(self, asks: Sequence[Ask], bytes_max: int) -> tuple[list[Plan | RunnelError], list[Loaded]]:
        """Plans, and what they bring; where a plan ended with a trail that was not known, it is made again."""
        for _ in range(TRAILS_MAX):
            plans = self._plan_all(asks, bytes_max)
            loading = [part for plan in plans if isinstance(plan, Plan) for part in plan.parts]
            loaded = await self.fetcher.load(loading) if loading else []
            if not any(
                part.kind == FileKind.PARQUET and not isinstance(data, RunnelError)
                for part, data in zip(loading, loaded, strict=True)
            ):
                break
        return plans, loaded

    def at_hand(self, asks: Sequence[Ask], *, bytes_max: int = UNBOUNDED) -> list[Read] | None:
        """The same in this turn, if all of it is in memory; None if not. Nobody is asked what is new."""
        reads = []
        left = bytes_max
        for ask in asks:
            plan = self._plan(ask, left, must=left == bytes_max)
            buffers: Sequence[Loaded] = ()
            if isinstance(plan, Plan) and plan.parts:
                found = self.fetcher.at_hand(plan.parts)
                if found is None:
                    return None
                buffers = found
            read = self._answer(ask, plan, buffers, left, at_least_one=left == bytes_max)
            left -= len(read.data)
            reads.append(read)
        return reads

    def nothing(self, ask: Ask) -> Read:
        """A read that brings nothing, and says where the stream stands as far as it is known here."""
        return self._answer(ask, NOTHING, (), 0, at_least_one=False)

    def must_look(self, asks: Iterable[Ask]) -> bool:
        """Whether some ask finds nothing in what is known here, so that a tail has to be looked at first."""
        return bool(self._behind(asks))

    async def look_at_tails(self, asks: Iterable[Ask]) -> dict[Follower, RunnelError]:
        """Look at the tail of every shard in which some ask finds nothing; and of which shards it cannot be seen."""
        behind = sorted(self._behind(asks), key=lambda each: each.shard)
        if len(behind) == 1:
            errors = [await _catch_up(behind[0])]
        else:
            errors = await asyncio.gather(*map(_catch_up, behind))
        return {follower: error for follower, error in zip(behind, errors, strict=True) if error is not None}

    def _behind(self, asks: Iterable[Ask]) -> set[Follower]:
        behind = set()
        for stream_id, offset, _ in asks:
            follower = self._follower_of(stream_id)
            stream = follower.state.streams.get(stream_id)
            if stream is None or not stream.start <= offset < stream.end:
                if follower.stopped is None:
                    behind.add(follower)
            else:
                behind.update(self._sources_behind(stream, offset))
        return behind

    def _sources_behind(self, stream: Stream, offset: int) -> Iterator[Follower]:
        """The shard that does not yet know here all that a fork inherits, if there is one."""
        while (fork := _inherited(stream, offset)) is not None:
            follower = self._follower_of(StreamId(fork.source))
            source = follower.state.streams.get(fork.source)
            if source is None or source.end < fork.offset:
                if follower.stopped is None:
                    yield follower
                return
            stream = source

    def available(self, ask: Ask) -> int:
        """About how many bytes a read would bring, as far as they are applied here; -1 if it would be an error."""
        follower = self._follower_of(ask.stream)
        stream = follower.state.streams.get(ask.stream)
        if stream is None or follower.stopped is not None or not stream.start <= ask.offset <= stream.end:
            return -1
        fork = _inherited(stream, ask.offset)
        if fork is not None:
            return max(1, self.available(ask._replace(stream=StreamId(fork.source))))
        extents = stream.extents
        if extents is None or ask.offset >= stream.end:
            return 0
        at = extents.find(ask.offset)
        return min(ask.bytes_max, stream.size - extents.totals[at] + extents.lengths[at])

    def start_of(self, stream_id: StreamId) -> int:
        """The first readable offset as far as it is applied here; -1 where nothing is known of the stream."""
        stream = self._follower_of(stream_id).state.streams.get(stream_id)
        return -1 if stream is None else stream.start

    def _plan_all(self, asks: Sequence[Ask], bytes_max: int) -> list[Plan | RunnelError]:
        """Plans whose parts are worth about `bytes_max` together."""
        plans = []
        left = bytes_max
        for ask in asks:
            plan = self._plan(ask, left, must=left == bytes_max)
            if isinstance(plan, Plan):
                left -= min(ask.bytes_max, left, sum([part.length for part in plan.parts]))
            plans.append(plan)
        return plans

    def _plan(self, ask: Ask, left: int, *, must: bool) -> Plan | RunnelError:
        """What to fetch for one ask within what is left; something in any case if it `must`. Ahead is read, too."""
        follower = self._follower_of(ask.stream)
        try:
            stream = self._stream(follower, ask.stream)
        except RunnelError as error:
            return error
        if not stream.start <= ask.offset <= stream.end:
            return OffsetOutOfRange(ask.stream, ask.offset, stream.start, stream.end)
        bytes_max = min(ask.bytes_max, left)
        if ask.offset == stream.end or (bytes_max <= 0 and not must):
            return NOTHING
        until = None
        while (fork := _inherited(stream, ask.offset)) is not None:
            until = fork.offset if until is None else min(until, fork.offset)
            follower = self._follower_of(StreamId(fork.source))
            try:
                stream = self._stream(follower, StreamId(fork.source))
            except RunnelError as error:
                return error
            if ask.offset < stream.start:
                return OffsetOutOfRange(ask.stream, ask.offset, stream.start, stream.end)
        chunks_of = self.fetcher.rows.chunks_of
        plan = plan_read(follower.state, stream.id, ask.offset, bytes_max, self._ahead_bytes, until, chunks_of)
        if plan.ahead:
            self.fetcher.read_ahead(plan.ahead)
        return plan

    def _answer(
        self, ask: Ask, plan: Plan | RunnelError, buffers: Sequence[Loaded], left: int, *, at_least_one: bool
    ) -> Read:
        stream = self._follower_of(ask.stream).state.streams.get(ask.stream)
        error = plan if isinstance(plan, RunnelError) else None
        if stream is None:
            error = error or StreamUnknown(f"stream {ask.stream} does not exist")
            return Read(ask.stream, ask.offset, bytearray(), ask.offset, -1, -1, False, error)
        data, behind = bytearray(), ask.offset
        if buffers and isinstance(plan, Plan):
            error = next((each for each in buffers if isinstance(each, RunnelError)), None)
            if isinstance(error, NotThere):
                error = Corrupt(f"stream {ask.stream} refers to objects that are not in the store")
            if error is None:
                room = min(ask.bytes_max, left)
                try:
                    data, behind = _cut(
                        plan.parts, cast("Sequence[Buffer]", buffers), ask.offset, room, at_least_one=at_least_one
                    )
                    if plan.until is not None and behind > plan.until:
                        data, behind = _cut_records(data, plan.until)
                except Corrupt as corrupt:
                    error = corrupt
        return Read(ask.stream, ask.offset, data, behind, stream.start, stream.end, stream.closed, error)

    def _stream(self, follower: Follower, stream_id: StreamId) -> Stream:
        if follower.stopped is not None:
            raise follower.stopped
        stream = follower.state.streams.get(stream_id)
        if stream is None:
            raise StreamUnknown(f"stream {stream_id} does not exist")
        return stream

    # --- where things are in time

    async def first_at(self, stream_id: StreamId, stamp_ms: int, *, fresh: bool = True) -> tuple[int, int] | None:
        """The (offset, timestamp) of the first record at or after a time, in the order of offsets."""
        follower = self._follower_of(stream_id)
        if fresh:
            await follower.catch_up()
        for _ in range(REPLANS_MAX):
            stream = self._stream(follower, stream_id)
            fork = _inherited(stream, stream.start)
            if fork is not None:
                inherited = await self.first_at(StreamId(fork.source), stamp_ms)
                if inherited is not None and stream.start <= inherited[0] < fork.offset:
                    return inherited
            try:
                return await self._first_in_parts(
                    plan_time(follower.state, stream_id, stamp_ms), stamp_ms, stream.start
                )
            except NotThere:
                await follower.catch_up()  # swept since we looked
        raise Corrupt(f"stream {stream_id} refers to objects that are not in the store")

    async def _first_in_parts(self, parts: Iterable[Part], stamp_ms: int, start: int) -> tuple[int, int] | None:
        for part in parts:
            (data,) = await self.fetcher.load([part])
            if isinstance(data, RunnelError):
                raise data
            if part.kind == FileKind.PARQUET:
                chunks = self.fetcher.rows.chunks_since(part, stamp_ms)
                found = await self._first_in_parts(chunks, stamp_ms, start)
            else:
                found = _first_in(part, memoryview(data), stamp_ms, start)
            if found is not None:
                return found
        return None

    async def latest_stamp(self, stream_id: StreamId, *, fresh: bool = True) -> tuple[int, int] | None:
        """The (offset, timestamp) of the first record with the largest timestamp."""
        follower = self._follower_of(stream_id)
        if fresh:
            await follower.catch_up()
        extents = self._stream(follower, stream_id).extents
        # Where the start lies inside the first extent, the record that its largest time is of may be gone.
        for stamp in sorted(set(extents.stamps), reverse=True) if extents is not None else ():
            found = await self.first_at(stream_id, stamp, fresh=False)
            if found is not None:
                return found
        return None

    # --- waiting

    async def wait(self, positions: Iterable[tuple[StreamId, int]], timeout_s: float) -> bool:
        """Return True as soon as one of the streams has something at its offset, or changes otherwise; else False."""
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def wake(_: int) -> None:
            if not woken.done():
                woken.set_result(None)

        watched = []
        try:
            for stream_id, offset in positions:
                follower = self._follower_of(stream_id)
                stream = follower.state.streams.get(stream_id)
                if stream is None or stream.end > offset or stream.closed or follower.stopped is not None:
                    return True
                follower.watch(stream_id, wake)
                watched.append((follower, stream_id))
            await asyncio.wait_for(woken, timeout_s)
        except TimeoutError:
            return False
        finally:
            for follower, stream_id in watched:
                follower.unwatch(stream_id, wake)
        return True


async def _catch_up(follower: Follower) -> RunnelError | None:
    try:
        await follower.catch_up()
    except RunnelError as error:
        return error
    return None


def _dealt(
    asks: Sequence[Ask], plans: Sequence[Plan | RunnelError], loaded: Sequence[Loaded]
) -> Iterator[tuple[Ask, Plan | RunnelError, Sequence[Loaded]]]:
    """Each ask with its plan and what was loaded for it."""
    at = 0
    for ask, plan in zip(asks, plans, strict=True):
        count = len(plan.parts) if isinstance(plan, Plan) else 0
        yield ask, plan, loaded[at : at + count]
        at += count


def _inherited(stream: Stream, offset: int) -> Fork | None:
    """From where a stream has its record at an offset, if it is a fork and the record is not its own."""
    fork = stream.traits.fork if stream.traits is not None else None
    return fork if fork is not None and offset < fork.offset else None


def _cut_records(data: bytearray, until: int) -> tuple[bytearray, int]:
    """What lies before an offset that may fall inside a batch: that one batch is written anew."""
    view = memoryview(data)
    at = 0
    while at < len(view):
        head = read_head(view, at)
        if head.base_offset + head.last_offset_delta >= until:
            batch = view[at : at + head.size]
            kept = [record for record in read_batch(batch, head, head.base_offset) if record.offset < until]
            rest = build_batch(kept, base_offset=head.base_offset, leader_epoch=0) if kept else b""
            return bytearray(bytes(view[:at]) + rest), until
        at += head.size
    return data, until


def _cut(
    parts: Sequence[Part], buffers: Sequence[Buffer], offset: int, bytes_max: int, *, at_least_one: bool
) -> tuple[bytearray, int]:
    """Whole batches from the one with `offset` on, and the offset behind them.

    No more than `bytes_max`, but for one batch where there must be one. One copy is made, into which real offsets are
    written.
    """
    out = bytearray()
    next_offset = offset
    for part, data in zip(parts, buffers, strict=True):
        view = memoryview(data)
        if part.kind == CHUNK:
            begin, first = _seek_own(view, offset)
        else:
            begin, first = (0, part.first) if part.first >= offset else seek_offset(view, part.first, offset)
        room = bytes_max - len(out)
        end = len(view)
        if end - begin > room:
            end = _fit(view, begin, room, at_least_one=at_least_one and not out)
        if end > begin:
            at = len(out)
            out += view[begin:end]
            if part.kind != CHUNK:
                next_offset = patch_offsets(memoryview(out), first, start=at, leader_epoch=0)
            else:  # such batches have their real offsets, and may leave holes
                next_offset = part.end if end == len(view) else read_head(view, end).base_offset
        if end < len(view):
            break
    return out, next_offset


def _seek_own(view: memoryview, offset: int, at: int = 0) -> tuple[int, int]:
    """Where the first batch with an offset from `offset` on begins, by the batches' own offsets, and its first offset."""
    while at < len(view):
        head = read_head(view, at)
        if head.base_offset + head.last_offset_delta >= offset:
            return at, head.base_offset
        at += head.size
    return at, offset


def _fit(view: memoryview, begin: int, room: int, *, at_least_one: bool) -> int:
    """The end of the last whole batch that fits into `room` bytes from `begin`."""
    at = begin
    while at < len(view):
        stop = at + read_head(view, at).size
        if stop - begin > room and not (at_least_one and at == begin):
            break
        at = stop
    return at


def _first_in(part: Part, view: memoryview, stamp_ms: int, start: int) -> tuple[int, int] | None:
    at, first = 0, part.first
    while (found := seek_time(view, first, stamp_ms, start=at)) is not None:
        at, first = found
        head = read_head(view, at)
        if part.kind == CHUNK:
            first = head.base_offset
        if first + head.last_offset_delta >= start:
            try:
                record = first_at_or_after(view[at : at + head.size], head, first, stamp_ms, start)
            except Refused:  # its producer sealed what is no records: the batch as a whole is all that can be told
                return max(first, start), head.max_timestamp
            if record is not None:
                return record.offset, record.timestamp
        at += head.size
        first += head.last_offset_delta + 1
    return None
