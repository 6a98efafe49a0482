"""Any partition of any topic, read-only: `/v1/topic/{topic}/{partition}`, for pages and scripts that watch Kafka.

    ?offset=    a number, -1 (the beginning, also when it is left out) or now (the tail)
    ?format=    json: every record with its key, value, headers, time and offset; raw: the values as they are
    ?live=      long-poll or sse, as for streams

Events carry the record's offset as their id, so a browser's EventSource comes back by itself where it was
(`Last-Event-ID`). An event `tail` says that there is nothing more for now, `end` that there never will be.
"""

import re
from binascii import b2a_base64
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec

from runnel.api.answer import Answer
from runnel.api.durable.chunks import Chunk, Chunks, Found, StreamGone
from runnel.api.durable.service import StreamService
from runnel.api.durable.tails import Tails
from runnel.api.durable.trouble import answer_of
from runnel.api.durable.views import Where
from runnel.api.messages import Request, Response
from runnel.api.routes import Found as Parts
from runnel.api.routes import Routes
from runnel.api.streams import answers, caching, sse, words
from runnel.api.streams.asks import Live, live_of
from runnel.codec.records import Record, read_records
from runnel.engine.topic_names import stream_name
from runnel.errors import NotThere, Refused, RunnelError
from runnel.metadata.stream import Stream
from runnel.model import ROOT, StreamId, shard_of
from runnel.read.reader import Read
from runnel.world.telemetry import get_log

log = get_log("api")

PATTERN = "/v1/topic/{topic}/{partition}"
KEPT_BYTES_MAX = 8 << 20
_OFFSET = re.compile(r"[0-9]{1,18}\Z")


@dataclass(frozen=True, slots=True)
class TopicAsk:
    """A range of a partition. `offset` None means the tail, -1 the beginning."""

    offset: int | None
    live: Live
    view: str


def topic_ask(request: Request) -> TopicAsk:
    view = request.ask("format") or "json"
    if view not in {"json", "raw"}:
        raise Refused(f"format is {view[:40]!r}, not json or raw")
    text = request.ask("offset")
    last = request.headers.get("last-event-id", "")
    live = live_of(request) if request.method != "HEAD" else Live.NO  # nobody waits for nothing
    if live is Live.SSE and _OFFSET.match(last):
        return TopicAsk(int(last) + 1, live, view)  # a browser that comes back sends its first address again
    return TopicAsk(_offset(text), live, view)


def _offset(text: str | None) -> int | None:
    if text is None or text == "-1":
        return -1
    if text == "now":
        return None
    if not _OFFSET.match(text):
        raise Refused(f"offset is {text[:40]!r}, not a number, -1 or now")
    return int(text)


# --- what readers get


def render_json(_: Stream, read: Read) -> Chunk:
    lines = [_as_json(record) for record in read_records(read.data) if record.offset >= read.offset]
    return Chunk(read.offset, read.next, b"\n".join(lines), len(lines))


def render_raw(_: Stream, read: Read) -> Chunk:
    """Lines of offset and value, so that a value may hold anything; `raw_values` takes them apart again."""
    pieces = []
    for record in read_records(read.data):
        if record.offset >= read.offset:
            value = record.value or b""
            pieces.append(b"%d %d\n%b" % (record.offset, len(value), value))
    return Chunk(read.offset, read.next, b"".join(pieces), len(pieces))


def raw_values(body: bytes) -> list[tuple[int, bytes]]:
    values = []
    at = 0
    while at < len(body):
        line = body.index(b"\n", at)
        offset, length = body[at:line].split(b" ")
        at = line + 1 + int(length)
        values.append((int(offset), body[line + 1 : at]))
    return values


def _as_json(record: Record) -> bytes:
    return msgspec.json.encode({
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _told(record.key),
        "value": _told(record.value),
        "headers": [[name, _told(content)] for name, content in record.headers],
    })  # fmt: skip


def _told(content: bytes | None) -> str | dict[str, str] | None:
    """Text as it is; what is no text as base64, and recognizably so."""
    if content is None:
        return None
    try:
        return bytes(content).decode()
    except UnicodeDecodeError:
        return {"base64": b2a_base64(content, newline=False).decode()}


class TopicView:
    """See `views.View`."""

    def __init__(self, chunks: Chunks, *, raw: bool) -> None:
        self.chunks = chunks
        self.raw = raw

    def headers(self, stream: Stream) -> dict[str, str]:
        del stream
        return answers.sse_headers(sse.CONTENT_TYPE, binary=False)

    def data(self, stream: Stream, chunk: Chunk) -> bytes:
        del stream
        if self.raw:
            events = [sse.message_event(offset, value) for offset, value in raw_values(chunk.body)]
            return b"".join(events)
        lines = chunk.body.split(b"\n") if chunk.body else []
        return b"".join([sse.message_event(int(line[10 : line.index(b",")]), line) for line in lines])

    def control(self, stream: Stream, where: Where) -> bytes:
        del stream
        if where.ends:
            return b"event: end\ndata:{}\n\n"
        if not where.up_to_date:
            return b""
        # The id lets a reader that has seen no record yet come back to this place.
        mark = b"id: %d\n" % (where.offset - 1) if where.offset else b""
        return b'event: tail\n%bdata:{"next":%d}\n\n' % (mark, where.offset)

    def answer(self, found: Found, ask: TopicAsk) -> Response:
        del ask
        if self.raw:
            body = b"".join([value for _, value in raw_values(found.chunk.body)])
            return Response(200, self._headers(found, "application/octet-stream"), body)
        body = b"[" + found.chunk.body.replace(b"\n", b",") + b"]"
        return Response(200, self._headers(found, "application/json"), body)

    def nothing(self, found: Found, ask: TopicAsk) -> Response:
        del ask
        return Response(204, self._headers(found))

    def _headers(self, found: Found, content_type: str | None = None) -> dict[str, str]:
        headers = {**words.BROWSER, "cache-control": caching.NEVER, words.NEXT_OFFSET: str(found.chunk.next)}
        if content_type is not None:
            headers["content-type"] = content_type
        if found.up_to_date:
            headers[words.UP_TO_DATE] = "true"
            if found.closed:
                headers[words.CLOSED] = "true"
        return headers


class TopicRoutes:
    """The handler."""

    def __init__(self, service: StreamService, tails: Tails) -> None:
        self._engine = service.engine
        self._named = service.named
        self._tails = tails
        self._tasks = service.world.tasks
        self._views = {
            "json": TopicView(Chunks(self._engine, render_json, kept_bytes_max=KEPT_BYTES_MAX), raw=False),
            "raw": TopicView(Chunks(self._engine, render_raw, kept_bytes_max=KEPT_BYTES_MAX), raw=True),
        }

    def add_to(self, routes: Routes) -> None:
        routes.add("GET", PATTERN, self.get)

    def get(self, request: Request, respond: Answer, parts: Parts) -> None:
        work: Callable[[], Coroutine[Any, Any, None]] = lambda: self._get(request, respond, parts)  # noqa: E731
        task = self._tasks.spawn(_answered(work, request, respond), name="http topic")
        respond.when_gone = task.cancel  # type: ignore[assignment]  # its result says nothing here

    async def _get(self, request: Request, respond: Answer, parts: Parts) -> None:
        ask = topic_ask(request)
        view = self._views[ask.view]
        stream = await self._partition(parts["topic"], parts["partition"])
        offset = stream.end if ask.offset is None else stream.start if ask.offset < 0 else ask.offset
        if offset < stream.start:
            raise StreamGone("that part of the partition is gone")
        if offset > stream.end:
            raise Refused(f"the partition ends at {stream.end}, before offset {offset}")
        if ask.live is Live.SSE:
            self._tails.subscribe(stream, view, offset, None, respond)
            return
        chunk = await view.chunks.load(stream, offset) if offset < stream.end else Chunk(offset, offset, b"", 0)
        found = Found(stream, chunk, stream.end, stream.closed)
        if ask.live is Live.NO or chunk.next > offset:
            respond(view.answer(found, ask))
        elif stream.closed:
            respond(view.nothing(found, ask))
        else:
            self._tails.poll(found, view, ask, respond)

    async def _partition(self, topic: str, partition: str) -> Stream:
        """The partition's stream, now."""
        number = await self._number(topic, partition)
        shard = shard_of(number, self._engine.cluster.shards)
        await self._engine.catch_up(shard)
        stream = self._engine.shards.follower(shard).state.streams.get(number)
        if stream is None:
            raise NotThere(f"topic '{topic}' was removed in the meantime")
        return stream

    async def _number(self, topic: str, partition: str) -> StreamId:
        index = int(partition) if _OFFSET.match(partition) else -1
        if self._engine.topics.get(topic) is None:
            await self._engine.catch_up(ROOT)
        if self._engine.topics.get(topic) is None and (name := stream_name(topic)) is not None and index == 0:
            stream = await self._named.find(name)
            if stream is not None and self._named.usable(name) is stream:
                return StreamId(stream.id)
        return self._engine.stream_of(topic, index)


async def _answered(work: Callable[[], Coroutine[Any, Any, None]], request: Request, respond: Answer) -> None:
    """Whatever goes wrong, the client gets an answer and the node lives on."""
    try:
        await work()
    except Exception as error:  # noqa: BLE001  see above
        if not isinstance(error, RunnelError):
            log.crash("request_failed", error, method=request.method, path=request.raw_path)
        if respond.started:
            respond.abort()
        else:
            respond(answer_of(error) if isinstance(error, RunnelError) else answers.mishap())
