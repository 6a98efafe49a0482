"""Durable streams by their names, whatever address they have: made, appended to, read, described and removed.

    service.append(name, ask, writer, done)     done(Appended), in the turn of the apply; errors are told the same way
    await service.create(name, ask, source)     Created
    await service.read(name, ask)               Found, with a chunk of records
    await service.describe(name), service.delete(name)

A name is the engine's: bucket, slash, path. What a request may not do is an error from below or one of those here; the
addresses turn them into answers (`answer_of`).

A read that says that it has reached the tail has looked at the ledger first, so it knows of every append that was
acknowledged anywhere before it came. See chunks.py for what readers share.
"""

from collections.abc import Callable
from typing import Any

from runnel.api.durable.chunks import CHUNK_BYTES_MAX, Chunk, Chunks, Found, StreamGone
from runnel.api.durable.making import Created, Maker, described, traits_of
from runnel.api.durable.payload import chunk_of, sealed, values_in
from runnel.api.durable.trouble import WrongType
from runnel.api.streams.answers import Appended, Described
from runnel.api.streams.asks import AppendAsk, CreateAsk
from runnel.api.streams.content_types import is_json, same_type
from runnel.api.streams.offsets import Place
from runnel.engine import Engine
from runnel.engine.named import Body
from runnel.errors import NotThere, Refused, RunnelError
from runnel.ingest.ticket import Answer as Landed
from runnel.ingest.ticket import Ticket
from runnel.ingest.window import Producer
from runnel.metadata.producers import Verdict
from runnel.metadata.stream import Stream
from runnel.metadata.updates.commit import Guard
from runnel.model import StreamId
from runnel.read.reader import Read
from runnel.world.telemetry import get_log

log = get_log("durable")


class Writer:
    """What the engine's window knows of one connection."""

    __slots__ = ("_engine", "producer")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.producer = Producer()

    def gone(self) -> None:
        self._engine.ingest.gone(self.producer)


def render(stream: Stream, read: Read) -> Chunk:
    """Records as the protocol's readers get them."""
    return chunk_of(read.data, read.offset, read.next, json=is_json(traits_of(stream).content_type))


class StreamService:
    """See the module. One per node."""

    def __init__(self, engine: Engine, *, chunk_bytes_max: int = CHUNK_BYTES_MAX) -> None:
        self.engine = engine
        self.world = engine.world
        self.named = engine.named
        self.maker = Maker(engine)
        self.chunks = Chunks(engine, render, bytes_max=chunk_bytes_max)

    # --- looking

    def known(self, name: str) -> Stream | None:
        """The stream as far as it is applied here, if it can be used."""
        return self.named.usable(name)

    async def find(self, name: str) -> Stream:
        """The stream, now; `StreamGone` when only its forks hold it."""
        stream = await self.named.find(name)
        if stream is None:
            raise NotThere("there is no such stream")
        if traits_of(stream).leaving:
            raise StreamGone("the stream is deleted; forks read from it")
        return stream

    async def describe(self, name: str) -> Described:
        return described(await self.find(name))

    # --- making

    async def create(self, name: str, ask: CreateAsk, source: str | None = None) -> Created:
        """Make a stream, or find it as it is wanted. `source` is the engine's name of what a fork inherits from."""
        return await self.maker.create(name, ask, source)

    # --- removing

    async def delete(self, name: str) -> None:
        stream = await self.find(name)
        await self.named.remove(StreamId(stream.id))

    # --- appending

    def append(
        self, name: str, ask: AppendAsk, writer: Writer | None, done: Callable[[Appended | RunnelError], None]
    ) -> None:
        """Append, close, or both. `done` is told what became of it, perhaps before this returns."""
        stream = self.known(name)
        if stream is None:
            self.world.tasks.spawn(self._append_later(name, ask, writer, done), name="find stream")
        else:
            self._append(stream, ask, writer, done)

    async def _append_later(
        self, name: str, ask: AppendAsk, writer: Writer | None, done: Callable[[Appended | RunnelError], None]
    ) -> None:
        try:
            stream = await self.find(name)
        except RunnelError as error:
            done(error)
        else:
            self._append(stream, ask, writer, done)

    def _append(
        self, stream: Stream, ask: AppendAsk, writer: Writer | None, done: Callable[[Appended | RunnelError], None]
    ) -> None:
        try:
            ticket = Ticket(lambda given: done(tell(given[0])))
            tell = self.add_append(ticket, stream, ask)
            self.engine.submit(ticket, writer.producer if writer is not None else None)
        except RunnelError as error:
            done(error)

    def add_append(self, ticket: Ticket, stream: Stream, ask: AppendAsk) -> Callable[[Landed], Appended | RunnelError]:
        """Put an append on a ticket; what tells of its outcome."""
        traits = traits_of(stream)
        number, producer = stream.id, ask.producer
        if ask.body:
            if ask.content_type is None or not same_type(ask.content_type, traits.content_type):
                if not stream.closed:
                    raise WrongType(traits.content_type, stream.end)
                values: Any = [ask.body]  # the ledger will say that it is closed
            else:
                values = values_in(ask.body, json=is_json(traits.content_type))
                if not values:
                    raise Refused("the array is empty: send at least one message")
            body = sealed(values, self.world.clock.now_ms())
        else:
            body = Body(b"", 0, self.world.clock.now_ms())
        guard = None
        if ask.close or ask.seq is not None or ask.record_match is not None:
            guard = Guard(close=ask.close, sequence=ask.seq, next_offset=ask.record_match)
        if producer is not None:
            ticket.add_guarded(
                number, *body, name=producer.name, epoch=producer.epoch, sequence=producer.seq, guard=guard
            )
        elif guard is not None:
            ticket.add_guarded(number, *body, guard=guard)
        else:
            ticket.add(number, *body)
        return lambda landed: self._told(number, ask, landed, body.records)

    def _told(self, number: int, ask: AppendAsk, landed: Landed, records: int) -> Appended | RunnelError:
        first, verdict, facts, error = landed
        if error is not None:
            return error
        if verdict is Verdict.ACCEPTED:
            return Appended(
                verdict=verdict, next_offset=first + records, first=first, records=records, closed=ask.close
            )
        stream = self.engine.shards.of_stream(StreamId(number)).state.streams.get(number)
        if stream is None or verdict is Verdict.STREAM_UNKNOWN:
            return NotThere("there is no such stream")
        if traits_of(stream).leaving:
            return StreamGone("the stream is deleted; forks read from it")
        facts = facts or {}
        return Appended(
            verdict=verdict,
            next_offset=stream.end,
            first=first if first >= 0 else None,
            records=records,
            closed=stream.closed,
            epoch=facts.get("epoch"),
            last=facts.get("last"),
        )

    # --- reading

    async def read(self, name: str, place: Place | None, *, earliest: bool = False) -> Found:
        """A chunk from a place on; None is the tail as it is now. `earliest` takes what there still is."""
        stream = self.known(name)
        if stream is None or place is None or place.record < stream.start or place.record >= stream.end:
            stream = await self.find(name)
        self.named.touch(stream)
        if place is None:
            return self.at_tail(stream)
        offset = first_offset(stream, place, earliest=earliest)
        chunk = await self.chunks.load(stream, offset)
        if chunk.next >= stream.end:
            stream = await self.find(name)  # it will be said that this is the tail
            if chunk.next < stream.end:
                chunk = await self.chunks.load(stream, offset)
        return Found(stream, chunk, stream.end, stream.closed)

    def at_tail(self, stream: Stream) -> Found:
        body = b"[]" if is_json(traits_of(stream).content_type) else b""
        return Found(stream, Chunk(stream.end, stream.end, body, 0), stream.end, stream.closed)


def first_offset(stream: Stream, place: Place, *, earliest: bool) -> int:
    """Where a read begins; refused where the stream has no such place."""
    if earliest:
        return stream.start
    if place.byte:
        raise Refused("that is no offset of this stream")
    if place.record < stream.start:
        raise StreamGone("that part of the stream is gone")
    if place.record > stream.end:
        raise Refused("the stream ends before that offset")
    return place.record
