"""The protocol at the addresses of buckets, with records by their numbers where a stream holds JSON."""

from collections.abc import Sequence
from dataclasses import replace

from runnel.api.answer import Answer
from runnel.api.buckets import answers, records
from runnel.api.buckets.addresses import Address, address
from runnel.api.buckets.answers import announce
from runnel.api.buckets.attributes import parse_attributes
from runnel.api.buckets.records import record_ask
from runnel.api.buckets.service import READ_BYTES_MAX, BucketService, traits_of
from runnel.api.buckets.tails import RecordTails
from runnel.api.durable.making import described
from runnel.api.durable.routes import StreamRoutes, address_of, writer_of
from runnel.api.durable.service import first_offset
from runnel.api.messages import Request, Response
from runnel.api.streams import answers as protocol
from runnel.api.streams import asks, json_mode, words
from runnel.api.streams.answers import Appended, Range
from runnel.api.streams.asks import Live, integer
from runnel.api.streams.content_types import DEFAULT, is_json
from runnel.api.streams.names import path_in
from runnel.api.streams.offsets import START
from runnel.errors import Refused, RunnelError

WAIT_MS_MAX = 60_000


class BucketStreams:
    """Handlers for one stream, whose address has been found."""

    def __init__(self, service: BucketService, protocol_routes: StreamRoutes, tails: RecordTails) -> None:
        self._service = service
        self._protocol = protocol_routes
        self._tails = tails

    async def put(self, request: Request, respond: Answer, at: Address) -> None:
        ask = asks.create_ask(request)
        if words.ATTRIBUTES in request.headers:
            ask = replace(ask, attributes=parse_attributes(request.headers[words.ATTRIBUTES].encode("latin-1")))
        source = None if ask.fork is None else source_name(ask.fork.source)
        created = await self._service.create(at.name, ask, source)
        stream = created.stream
        response = protocol.created_answer(stream, new=created.new, location=address_of(request))
        json = is_json(stream.content_type)
        announce(respond, at, json=json)
        if json:
            made = len(json_mode.split(ask.body)) if ask.body and created.new else 0
            start, following = str(stream.next_offset - made), str(stream.next_offset)
            response.headers = {**response.headers, words.RECORD_START: start, words.RECORD_NEXT: following}
        respond(response)

    def post(self, request: Request, respond: Answer, at: Address) -> None:
        ask = asks.append_ask(request)
        known = self._service.streams.known(at.name)
        json = is_json(traits_of(known).content_type if known is not None else ask.content_type or DEFAULT)
        if ask.record_match is not None and not json:
            raise Refused("Stream-Record-Match is for streams of application/json: use Stream-Seq")
        self._service.room(at.name)
        announce(respond, at, json=json)

        def done(outcome: Appended | RunnelError) -> None:
            if isinstance(outcome, RunnelError):
                response = answers.answer_of(outcome)
            else:
                response = answers.appended(ask, outcome, json=json)
            respond(response)

        writer = writer_of(respond, self._service.engine)
        self._service.streams.append(at.name, ask, writer, done)

    async def head(self, _: Request, respond: Answer, at: Address) -> None:
        stream = await self._service.streams.find(at.name)
        response = answers.described(protocol.described_answer(described(stream)), stream)
        announce(respond, at, json=is_json(traits_of(stream).content_type))
        respond(response)

    async def delete(self, _: Request, respond: Answer, at: Address) -> None:
        await self._service.streams.delete(at.name)
        respond(Response(204, words.BROWSER))

    async def get(self, request: Request, respond: Answer, at: Address) -> None:
        ask = record_ask(request)
        live = asks.live_of(request)
        known = self._service.streams.known(at.name)
        if known is None:
            known = await self._service.streams.find(at.name)
        announce(respond, at, json=is_json(traits_of(known).content_type))
        if ask is None:
            most, lines = request.ask("max_bytes"), records.NDJSON in request.headers.get("accept", "")
            if live is Live.NO and (most is not None or lines):
                await self._read_some(request, respond, at, most, lines=lines)
            else:
                await self._protocol.get(request, respond, at.name)
            return
        stream, first = await self._service.find_first(at.name, ask)
        if live is Live.SSE:
            await self._tails.events(stream, first, ask, respond)
            return
        if live is Live.LONG_POLL:
            found = await self._tails.poll(stream, first, ask, self._patience(request))
        else:
            found = await self._service.records(stream, first, most=ask.most)
        if live is Live.LONG_POLL and not found.values:
            respond(answers.nothing_new(found))
        else:
            respond(answers.read(found, envelope=ask.envelope))

    async def _read_some(
        self, request: Request, respond: Answer, at: Address, most: str | None, *, lines: bool
    ) -> None:
        """A catch-up read of so many bytes at most, but one record at least; or JSON as lines."""
        ask = asks.read_ask(request)
        bytes_max = READ_BYTES_MAX if most is None else integer("max_bytes", most)
        if not bytes_max:
            raise Refused("max_bytes is at least 1")
        stream = await self._service.streams.find(at.name)
        self._service.streams.named.touch(stream)
        earliest = ask.offset_text == START
        first = stream.end if ask.place is None else first_offset(stream, ask.place, earliest=earliest)
        found = await self._service.records(stream, first)
        found = found._replace(values=_within(found.values, bytes_max))
        traits = traits_of(stream)
        json = is_json(traits.content_type)
        body = b"".join(found.values)
        if json:
            body = records.lines(found.values) if lines else json_mode.join(found.values)
        told = Range(
            stream=stream.id,
            start=ask.offset_text,
            next_offset=found.following,
            content_type=records.NDJSON if json and lines else traits.content_type,
            up_to_date=found.up_to_date,
            closed=found.closed,
        )
        none_match = ask.if_none_match if not lines else None
        respond(protocol.read_answer(told, body, cursor=None, if_none_match=none_match, etag=not lines))

    def _patience(self, request: Request) -> float:
        asked = request.ask("timeout_ms")
        if asked is None:
            return self._tails.limits.long_poll_seconds
        wait = integer("timeout_ms", asked, WAIT_MS_MAX)
        if not wait:
            raise Refused(f"timeout_ms is 1 to {WAIT_MS_MAX}")
        return wait / 1000


def _within(values: Sequence[bytes], bytes_max: int) -> Sequence[bytes]:
    size = 0
    for index, value in enumerate(values):
        size += len(value)
        if size > bytes_max:
            return values[: max(index, 1)]
    return values


def source_name(header: str) -> str:
    """The engine's name of the stream that a fork inherits from, in any bucket."""
    match path_in(header).removeprefix("/").split("/"):
        case [bucket, stream]:
            return address(bucket, stream).name
        case [bucket, affinity, stream]:
            return address(bucket, stream, affinity).name
    raise Refused(f"Stream-Forked-From is {header[:80]!r}, not the path of a stream (/bucket/stream)")
