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
from dataclasses import dataclass
from typing import Any

from runnel.api.durable.chunks import CHUNK_BYTES_MAX, Chunk, Chunks, Found, StreamGone, raise_of
from runnel.api.durable.payload import chunk_of, sealed, values_in
from runnel.api.messages import Response
from runnel.api.problems import problem_of
from runnel.api.streams import answers, words
from runnel.api.streams.answers import Appended, Described
from runnel.api.streams.asks import AppendAsk, CreateAsk, ForkAsk
from runnel.api.streams.content_types import DEFAULT, is_json, same_type
from runnel.api.streams.offsets import Place
from runnel.codec.records import read_records
from runnel.engine import Engine
from runnel.engine.named import Body
from runnel.errors import AlreadyThere, NotThere, Refused, RunnelError
from runnel.ingest.ticket import Answer as Landed
from runnel.ingest.ticket import Ticket
from runnel.ingest.window import Producer
from runnel.metadata.producers import Verdict
from runnel.metadata.stream import Fork, Stream, Traits
from runnel.metadata.updates.commit import Guard
from runnel.model import StreamId, shard_of
from runnel.read.reader import Ask, Read
from runnel.world.telemetry import get_log

log = get_log("durable")


class Different(AlreadyThere):
    """The stream exists, and is not as it is wanted."""


class WrongType(Refused):
    """The append is not of the stream's content type."""

    def __init__(self, wanted: str, end: int) -> None:
        super().__init__(f"the stream's content type is {wanted}")
        self.wanted = wanted
        self.end = end


def answer_of(error: RunnelError) -> Response:
    """The protocol's answer to whatever went wrong."""
    match error:
        case StreamGone():
            return answers.gone()
        case WrongType():
            return answers.type_mismatch(error.wanted, error.end)
        case NotThere():
            return answers.missing()
        case AlreadyThere():
            return answers.refused(error, 409)
        case Refused():
            return answers.refused(error)
    response = problem_of(error)
    return Response(response.status, {**response.headers, **words.BROWSER}, response.body)


class Writer:
    """What the engine's window knows of one connection."""

    __slots__ = ("_engine", "producer")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.producer = Producer()

    def gone(self) -> None:
        self._engine.ingest.gone(self.producer)


@dataclass(frozen=True, slots=True)
class Created:
    stream: Described
    new: bool


def render(stream: Stream, read: Read) -> Chunk:
    """Records as the protocol's readers get them."""
    return chunk_of(read.data, read.offset, read.next, json=is_json(_traits(stream).content_type))


class StreamService:
    """See the module. One per node."""

    def __init__(self, engine: Engine, *, chunk_bytes_max: int = CHUNK_BYTES_MAX) -> None:
        self.engine = engine
        self.world = engine.world
        self.named = engine.named
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
        if _traits(stream).leaving:
            raise StreamGone("the stream is deleted; forks read from it")
        return stream

    async def describe(self, name: str) -> Described:
        return described(await self.find(name))

    # --- making

    async def create(self, name: str, ask: CreateAsk, source: str | None = None) -> Created:
        """Make a stream, or find it as it is wanted. `source` is the engine's name of what a fork inherits from."""
        for _ in range(2):
            if (known := await self._existing(name, ask, source)) is not None:
                return known
            try:
                if ask.fork is None:
                    number = await self._open(name, ask)
                else:
                    assert source is not None, "a fork has a source"
                    number = await self._fork(name, ask, ask.fork, source)
            except AlreadyThere:
                continue  # somebody was faster: is it what we want?
            stream = self._stream(number)
            return Created(described(stream), new=True)
        raise Different("the stream was made and removed again meanwhile: try again")

    async def _existing(self, name: str, ask: CreateAsk, source: str | None) -> Created | None:
        if self.named.known(name) is None:
            return None  # if it exists elsewhere, the ledger will say so
        stream = await self.named.find(name)
        if stream is None:
            return None
        if _traits(stream).leaving:
            raise Different("a stream of this name was deleted, and forks still read from it")
        why = _difference(stream, ask, source)
        if why is not None:
            raise Different(f"the stream exists with {why}")
        self.named.touch(stream)
        return Created(described(stream), new=False)

    async def _open(self, name: str, ask: CreateAsk) -> StreamId:
        traits = self._traits_of(name, ask, ask.content_type or DEFAULT)
        return await self.named.open(traits, closed=ask.closed, body=self._first(ask.body, traits))

    def _traits_of(self, name: str, ask: CreateAsk, content_type: str) -> Traits:
        now = self.world.clock.now_ms()
        if ask.expires_ms is not None and ask.expires_ms <= now and ask.fork is None:
            log.debug("stream_born_expired", stream=name)
        return Traits(name, content_type, now, ask.ttl_seconds, ask.expires_ms, now, attributes=ask.attributes)

    def _first(self, body: bytes, traits: Traits) -> Body | None:
        if not body:
            return None
        values = values_in(body, json=is_json(traits.content_type))
        return sealed(values, traits.born_ms) if values else None

    async def _fork(self, name: str, ask: CreateAsk, fork: ForkAsk, source_name: str) -> StreamId:
        source = await self.named.find(source_name)
        if source is None:
            raise NotThere("there is no such stream to fork")
        inherited = _traits(source)
        if inherited.leaving:
            raise Different("the source is deleted; only its forks still read from it")
        if ask.content_type is not None and not same_type(ask.content_type, inherited.content_type):
            raise Different(f"the source's content type is {inherited.content_type}")
        traits = self._traits_of(name, ask, ask.content_type or inherited.content_type)
        if ask.ttl_seconds is None and ask.expires_ms is None:
            traits.ttl_s, traits.expires_ms = inherited.ttl_s, inherited.expires_ms
        offset, prefix = await self._cut(source, fork, json=is_json(traits.content_type))
        first = self._first(ask.body, traits)
        if prefix:
            values = [prefix] if first is None else [prefix, *values_in(ask.body, json=False)]
            first = sealed(values, traits.born_ms)
        asked = (fork.offset_text, fork.sub_offset)
        try:
            return await self.named.fork(traits, source, offset, asked=asked, closed=ask.closed, body=first)
        except (NotThere, AlreadyThere):
            raise
        except Refused as error:
            raise Different(str(error)) from None

    async def _cut(self, source: Stream, fork: ForkAsk, *, json: bool) -> tuple[int, bytes]:
        """The first record that is the fork's own, and the piece of a record that lies before the cut."""
        end = source.end
        place = fork.offset if fork.offset is not None else Place(end)
        if place.record > end or place.byte:
            raise Refused("Stream-Fork-Offset is beyond the source's end")
        if place.record < source.start:
            raise StreamGone("that part of the source is gone")
        if not fork.sub_offset:
            return place.record, b""
        if json:
            if place.record + fork.sub_offset > end:
                raise Refused("Stream-Fork-Sub-Offset is beyond the source's end")
            return place.record + fork.sub_offset, b""
        return await self._cut_bytes(source, place.record, fork.sub_offset)

    async def _cut_bytes(self, source: Stream, record: int, left: int) -> tuple[int, bytes]:
        while record < source.end:
            chunk = await self.first_record(source, record)
            if left < len(chunk.body):
                return record, chunk.body[:left]
            left -= len(chunk.body)
            record = chunk.next
            if not left:
                return record, b""
        raise Refused("Stream-Fork-Sub-Offset is beyond the source's end")

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
        traits = _traits(stream)
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
        if _traits(stream).leaving:
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
        body = b"[]" if is_json(_traits(stream).content_type) else b""
        return Found(stream, Chunk(stream.end, stream.end, body, 0), stream.end, stream.closed)

    async def first_record(self, stream: Stream, offset: int) -> Chunk:
        """The record at an offset alone."""
        (read,) = await self.engine.read_many([Ask(StreamId(stream.id), offset, 1)])
        raise_of(read)
        first = next(record for record in read_records(read.data) if record.offset >= offset)
        return Chunk(offset, first.offset + 1, first.value or b"", 1)

    def _stream(self, number: StreamId) -> Stream:
        stream = self.engine.shards.follower(shard_of(number, self.engine.cluster.shards)).state.streams.get(number)
        if stream is None:
            raise NotThere("the stream was removed in the meantime")
        return stream


def described(stream: Stream) -> Described:
    traits = _traits(stream)
    return Described(
        stream=stream.id,
        next_offset=stream.end,
        content_type=traits.content_type,
        closed=stream.closed,
        ttl_seconds=traits.ttl_s,
        expires_ms=traits.expires_ms,
    )


def _traits(stream: Stream) -> Traits:
    assert stream.traits is not None, "a stream that was found by its name has traits"
    return stream.traits


def _same_place(fork: Fork, ask: ForkAsk) -> bool:
    if fork.asked_offset is not None:
        return fork.asked_offset == ask.offset_text
    return ask.offset is not None and ask.offset == (fork.offset, 0)  # it began at what was the tail then


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


def _difference(stream: Stream, ask: CreateAsk, source: str | None) -> str | None:
    """In what a stream is not as it is wanted."""
    traits = _traits(stream)
    fork = traits.fork
    if ask.content_type is not None and not same_type(ask.content_type, traits.content_type):
        return f"content type {traits.content_type}"
    if ask.attributes != traits.attributes:
        return "other attributes"
    if stream.closed != ask.closed:
        return "another end: it is closed" if stream.closed else "no end: it is open"
    if (fork is None) != (ask.fork is None):
        return "another source"
    inherits = ask.fork is not None and ask.ttl_seconds is None and ask.expires_ms is None
    if not inherits and (ask.ttl_seconds, ask.expires_ms) != (traits.ttl_s, traits.expires_ms):
        return "another life"
    if fork is not None and ask.fork is not None:
        if fork.source_name != source or fork.asked_sub != ask.fork.sub_offset:
            return "another source, or another place in it"
        if ask.fork.offset_text is not None and not _same_place(fork, ask.fork):
            return "another place in its source"
    return None
