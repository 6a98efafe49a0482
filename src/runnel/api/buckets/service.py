"""Streams in buckets: what they have beyond the protocol, on the engine.

The streams themselves are those of `api/durable`; this adds buckets that really exist, records by their numbers,
snapshots with what may go in their favour, attributes, and appends to several streams at once.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from runnel.api.buckets.records import RecordAsk, first_record
from runnel.api.buckets.transactions import Operation
from runnel.api.durable.chunks import StreamGone
from runnel.api.durable.making import Created
from runnel.api.durable.payload import as_json
from runnel.api.durable.service import StreamService
from runnel.api.streams.answers import Appended
from runnel.api.streams.asks import CreateAsk
from runnel.api.streams.content_types import is_json
from runnel.api.streams.offsets import Place
from runnel.codec.records import read_records
from runnel.errors import NotThere, Refused, RunnelError
from runnel.ingest.ticket import Ticket
from runnel.metadata.buckets import bucket_of
from runnel.metadata.producers import Verdict
from runnel.metadata.stream import Snapshot, Stream, Traits
from runnel.metadata.updates import RetainStream, SetAttributes
from runnel.model import ShardId, StreamId, shard_of
from runnel.read.reader import Ask, OffsetOutOfRange, StreamUnknown

READ_BYTES_MAX = 1 << 20
PURGED_AT_ONCE = 64


class NotRecords(Refused):
    """Records are counted in streams of JSON only."""


class Records(NamedTuple):
    """Some whole records of a stream, and how far the stream reaches."""

    first: int
    values: Sequence[bytes]
    start: int
    end: int
    closed: bool

    @property
    def following(self) -> int:
        return self.first + len(self.values)

    @property
    def up_to_date(self) -> bool:
        return self.following >= self.end


class TransactionFailed(Exception):
    """None of the operations happened; `index` is the one to blame, `outcome` what was said of it."""

    def __init__(self, index: int, outcome: Appended | RunnelError) -> None:
        super().__init__(f"operation {index}")
        self.index = index
        self.outcome = outcome


class BucketService:
    """See the module. One per node, beside its StreamService."""

    def __init__(self, streams: StreamService) -> None:
        self.streams = streams
        self.engine = streams.engine
        self.world = streams.world
        self.buckets = streams.engine.buckets

    # --- streams

    async def create(self, name: str, ask: CreateAsk, source: str | None) -> Created:
        """Make a stream in a bucket that exists, or find it as it is wanted."""
        bucket = await self.buckets.find(bucket_of(name))
        if self.streams.known(name) is None:
            self.buckets.room_for_stream(bucket)
        return await self.streams.create(name, ask, source)

    def room(self, name: str) -> None:
        """Raise `OverLimit` if no more bytes may go into this stream's bucket."""
        bucket = self.buckets.known(bucket_of(name))
        if bucket is not None:
            self.buckets.room_for_bytes(bucket)

    async def purge(self, bucket: str) -> tuple[int, int]:
        """Remove all streams of a bucket; how many, and from how many shards."""
        removed = 0
        shards: set[int] = set()
        while (page := await self.buckets.page(bucket, most=PURGED_AT_ONCE)).streams:
            outcomes = await asyncio.gather(*(self._remove(stream) for _, stream in page.streams))
            shards.update(self._shard(stream) for _, stream in page.streams)
            removed += sum(outcomes)
            if not any(outcomes):
                break  # forks elsewhere hold what is left
        return removed, len(shards)

    async def _remove(self, stream: Stream) -> bool:
        try:
            await self.streams.named.remove(StreamId(stream.id))
        except NotThere:
            return False
        return True

    # --- attributes and snapshots

    async def set_attributes(self, name: str, attributes: bytes) -> None:
        stream = await self.streams.find(name)
        if traits_of(stream).attributes != attributes:
            await self.engine.propose(self._shard(stream), SetAttributes(stream.id, attributes))

    async def publish(
        self, name: str, place: Place, body: bytes, content_type: str, match: str | None
    ) -> tuple[Stream, Snapshot]:
        stream = await self.streams.find(name)
        number = StreamId(stream.id)
        snapshot = await self.engine.snapshots.publish(number, _whole(place), body, content_type, match=match)
        return stream, snapshot

    async def retain(self, name: str, place: Place) -> Stream:
        stream = await self.streams.find(name)
        await self.engine.propose(self._shard(stream), RetainStream(stream.id, _whole(place)))
        return stream

    async def snapshot(self, name: str, place: Place | None = None) -> tuple[Stream, Snapshot]:
        """The newest snapshot; with a place, only if it stands there."""
        stream = await self.streams.find(name)
        snapshot = traits_of(stream).snapshot
        if snapshot is None:
            raise NotThere("the stream has no snapshot")
        if place is not None and place != Place(snapshot.offset):
            raise NotThere(f"there is no snapshot at this offset, the newest is at record {snapshot.offset}")
        return stream, snapshot

    # --- records

    async def records(
        self, stream: Stream, first: int, *, most: int | None = None, bytes_max: int = READ_BYTES_MAX
    ) -> Records:
        """Whole records from one on: one at least if there is any, at most `most`, some `bytes_max` bytes."""
        (read,) = await self.engine.read_many([Ask(StreamId(stream.id), first, bytes_max)])
        match read.error:
            case None:
                pass
            case OffsetOutOfRange():
                raise StreamGone("that part of the stream is gone")
            case StreamUnknown():
                raise NotThere("there is no such stream")
            case error:
                raise error
        json = is_json(traits_of(stream).content_type)
        values = [
            as_json(record.value) if json else record.value or b""
            for record in read_records(read.data)
            if record.offset >= first
        ]
        return Records(first, values if most is None else values[:most], read.start, read.end, read.closed)

    async def find_first(self, name: str, ask: RecordAsk) -> tuple[Stream, int]:
        """The stream, now, and the record at which the reading begins."""
        stream = await self.streams.find(name)
        if not is_json(traits_of(stream).content_type):
            raise NotRecords("records are counted in streams of application/json only: read by offset")
        self.streams.named.touch(stream)
        return stream, first_record(ask, stream.start, stream.end)

    # --- several streams at once

    async def commit(self, placement: str, operations: Sequence[Operation]) -> list[Appended]:
        """Append to streams of one affinity key, all or none; `TransactionFailed` says what stood in the way."""
        ticket, answers = Ticket.awaited()
        tellers = []
        for index, operation in enumerate(operations):
            try:
                stream = await self.streams.find(f"{placement}/{operation.stream}")
                tellers.append(self.streams.add_append(ticket, stream, operation.ask))
            except RunnelError as error:
                raise TransactionFailed(index, error) from error
        self.engine.submit_together(ticket)
        landed = await answers
        outcomes = [tell(each) for tell, each in zip(tellers, landed, strict=True)]
        to_blame = [
            index
            for index, each in enumerate(landed)
            if each.error is not None or (each.first < 0 and each.verdict is not Verdict.OTHERS_REFUSED)
        ]
        if to_blame:
            raise TransactionFailed(to_blame[0], outcomes[to_blame[0]])
        return [outcome for outcome in outcomes if isinstance(outcome, Appended)]

    def _shard(self, stream: Stream) -> ShardId:
        return shard_of(StreamId(stream.id), self.engine.cluster.shards)


def traits_of(stream: Stream) -> Traits:
    assert stream.traits is not None, "a stream with a name has traits"
    return stream.traits


def _whole(place: Place) -> int:
    if place.byte:
        raise Refused("the offset lies inside a record: name one where a record begins")
    return place.record
