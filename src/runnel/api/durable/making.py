"""Streams are made as they are asked for, or found as they are wanted, forks among them."""

from dataclasses import dataclass

from runnel.api.durable.chunks import Chunk, StreamGone, raise_of
from runnel.api.durable.payload import sealed, values_in
from runnel.api.durable.trouble import Different
from runnel.api.streams.answers import Described
from runnel.api.streams.asks import CreateAsk, ForkAsk
from runnel.api.streams.content_types import DEFAULT, is_json, same_type
from runnel.api.streams.offsets import Place
from runnel.codec.records import read_records
from runnel.engine import Engine
from runnel.engine.named import Body
from runnel.errors import AlreadyThere, NotThere, Refused
from runnel.metadata.stream import Fork, Stream, Traits
from runnel.model import StreamId, shard_of
from runnel.read.reader import Ask
from runnel.world.telemetry import get_log

log = get_log("durable")


@dataclass(frozen=True, slots=True)
class Created:
    stream: Described
    new: bool


class Maker:
    """See the module."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._named = engine.named
        self._world = engine.world

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
        if self._named.known(name) is None:
            return None  # if it exists elsewhere, the ledger will say so
        stream = await self._named.find(name)
        if stream is None:
            return None
        if traits_of(stream).leaving:
            raise Different("a stream of this name was deleted, and forks still read from it")
        why = difference(stream, ask, source)
        if why is not None:
            raise Different(f"the stream exists with {why}")
        self._named.touch(stream)
        return Created(described(stream), new=False)

    async def _open(self, name: str, ask: CreateAsk) -> StreamId:
        traits = self._traits_for(name, ask, ask.content_type or DEFAULT)
        return await self._named.open(traits, closed=ask.closed, body=self._first(ask.body, traits))

    def _traits_for(self, name: str, ask: CreateAsk, content_type: str) -> Traits:
        now = self._world.clock.now_ms()
        if ask.expires_ms is not None and ask.expires_ms <= now and ask.fork is None:
            log.debug("stream_born_expired", stream=name)
        return Traits(name, content_type, now, ask.ttl_seconds, ask.expires_ms, now, attributes=ask.attributes)

    def _first(self, body: bytes, traits: Traits) -> Body | None:
        if not body:
            return None
        values = values_in(body, json=is_json(traits.content_type))
        return sealed(values, traits.born_ms) if values else None

    async def _fork(self, name: str, ask: CreateAsk, fork: ForkAsk, source_name: str) -> StreamId:
        source = await self._named.find(source_name)
        if source is None:
            raise NotThere("there is no such stream to fork")
        inherited = traits_of(source)
        if inherited.leaving:
            raise Different("the source is deleted; only its forks still read from it")
        if ask.content_type is not None and not same_type(ask.content_type, inherited.content_type):
            raise Different(f"the source's content type is {inherited.content_type}")
        traits = self._traits_for(name, ask, ask.content_type or inherited.content_type)
        if ask.ttl_seconds is None and ask.expires_ms is None:
            traits.ttl_s, traits.expires_ms = inherited.ttl_s, inherited.expires_ms
        offset, prefix = await self._cut(source, fork, json=is_json(traits.content_type))
        first = self._first(ask.body, traits)
        if prefix:
            values = [prefix] if first is None else [prefix, *values_in(ask.body, json=False)]
            first = sealed(values, traits.born_ms)
        asked = (fork.offset_text, fork.sub_offset)
        try:
            return await self._named.fork(traits, source, offset, asked=asked, closed=ask.closed, body=first)
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
            chunk = await self._first_record(source, record)
            if left < len(chunk.body):
                return record, chunk.body[:left]
            left -= len(chunk.body)
            record = chunk.next
            if not left:
                return record, b""
        raise Refused("Stream-Fork-Sub-Offset is beyond the source's end")

    async def _first_record(self, stream: Stream, offset: int) -> Chunk:
        """The record at an offset alone."""
        (read,) = await self._engine.read_many([Ask(StreamId(stream.id), offset, 1)])
        raise_of(read)
        first = next(record for record in read_records(read.data) if record.offset >= offset)
        return Chunk(offset, first.offset + 1, first.value or b"", 1)

    def _stream(self, number: StreamId) -> Stream:
        stream = self._engine.shards.follower(shard_of(number, self._engine.cluster.shards)).state.streams.get(number)
        if stream is None:
            raise NotThere("the stream was removed in the meantime")
        return stream


def described(stream: Stream) -> Described:
    traits = traits_of(stream)
    return Described(
        stream=stream.id,
        next_offset=stream.end,
        content_type=traits.content_type,
        closed=stream.closed,
        ttl_seconds=traits.ttl_s,
        expires_ms=traits.expires_ms,
    )


def difference(stream: Stream, ask: CreateAsk, source: str | None) -> str | None:
    """In what a stream is not as it is wanted."""
    traits = traits_of(stream)
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


def _same_place(fork: Fork, ask: ForkAsk) -> bool:
    if fork.asked_offset is not None:
        return fork.asked_offset == ask.offset_text
    return ask.offset is not None and ask.offset == (fork.offset, 0)  # it began at what was the tail then


def traits_of(stream: Stream) -> Traits:
    assert stream.traits is not None, "a stream that was found by its name has traits"
    return stream.traits
