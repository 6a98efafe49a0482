"""What a request asks of a stream, validated: the part that needs no look at the stream itself.

    create_ask(request)    PUT      CreateAsk
    append_ask(request)    POST     AppendAsk    (also close, and append-and-close)
    read_ask(request)      GET      ReadAsk

A header that is malformed is `Refused`. A header that is there but empty counts as malformed where the protocol gives
it a grammar, so that a client's mistake is not taken for its absence. `Stream-Closed` is the exception that the
protocol makes: every value but `true` is ignored.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from runnel.api.messages import Request
from runnel.api.streams import offsets, words
from runnel.api.streams.content_types import created_type
from runnel.api.streams.offsets import Place
from runnel.errors import Refused

INTEGER_MAX = 2**53 - 1
TTL_SECONDS_MAX = 10**10
PRODUCER_ID_CHARACTERS_MAX = 256
SEQ_CHARACTERS_MAX = 256

_INTEGER = re.compile(r"(0|[1-9][0-9]*)\Z")
_DIGITS = re.compile(r"[0-9]{1,20}\Z")
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})\Z"
)


class Live(Enum):
    """How a read goes on at the tail."""

    NO = ""
    LONG_POLL = "long-poll"
    SSE = "sse"


_LIVE = {live.value: live for live in Live if live is not Live.NO}


@dataclass(frozen=True, slots=True)
class ProducerAsk:
    """Which producer sends this, in which epoch, as which of its requests."""

    name: str
    epoch: int
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkAsk:
    """From where a new stream inherits. `offset` None means the source's tail."""

    source: str
    offset: Place | None
    sub_offset: int
    offset_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAsk:
    """A stream as it is wanted. `content_type` None: a fork that takes its source's."""

    content_type: str | None
    ttl_seconds: int | None
    expires_ms: int | None
    closed: bool
    fork: ForkAsk | None
    body: bytes
    attributes: bytes = b""
    """What an application keeps beside the stream (see `api/buckets`)."""


@dataclass(frozen=True, slots=True)
class AppendAsk:
    """Bytes for the end of a stream, and what must hold before and after."""

    body: bytes
    content_type: str | None
    close: bool
    producer: ProducerAsk | None
    seq: str | None
    record_match: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAsk:
    """A range of a stream. `place` None means the tail as it is when the reading starts."""

    place: Place | None
    offset_text: str
    live: Live
    cursor: str | None
    if_none_match: str | None


def integer(name: str, text: str, most: int = INTEGER_MAX) -> int:
    """A plain decimal: no sign, no leading zero, no point, no exponent."""
    if not _INTEGER.match(text) or len(text) > 17 or int(text) > most:
        raise Refused(f"{name} is {text[:40]!r}, not a whole number from 0 to {most}")
    return int(text)


def moment_ms(name: str, text: str) -> int:
    """An RFC 3339 moment in milliseconds since 1970."""
    try:
        if not _MOMENT.match(text):
            raise ValueError  # noqa: TRY301  one way out for all that is no moment
        return int(datetime.fromisoformat(text.upper()).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise Refused(f"{name} is {text[:40]!r}, not a moment such as 2026-11-18T22:00:00Z") from None


def moment_text(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"


def wants_closed(headers: dict[str, str]) -> bool:
    return headers.get(words.CLOSED, "").strip().lower() == "true"


def producer_of(headers: dict[str, str]) -> ProducerAsk | None:
    """All three headers or none."""
    name = headers.get(words.PRODUCER_ID)
    epoch, seq = headers.get(words.PRODUCER_EPOCH), headers.get(words.PRODUCER_SEQ)
    if name is None and epoch is None and seq is None:
        return None
    if name is None or epoch is None or seq is None:
        raise Refused("Producer-Id, Producer-Epoch and Producer-Seq come together: send all three or none")
    if not 0 < len(name) <= PRODUCER_ID_CHARACTERS_MAX:
        raise Refused(f"Producer-Id has {len(name)} characters, not 1 to {PRODUCER_ID_CHARACTERS_MAX}")
    return ProducerAsk(name, _counter("Producer-Epoch", epoch), _counter("Producer-Seq", seq))


def _counter(name: str, text: str) -> int:
    if not _DIGITS.match(text) or int(text) > INTEGER_MAX:
        raise Refused(f"{name} is {text[:40]!r}, not a whole number from 0 to {INTEGER_MAX}")
    return int(text)


def create_ask(request: Request) -> CreateAsk:
    headers = request.headers
    ttl, expires = headers.get(words.TTL), headers.get(words.EXPIRES_AT)
    if ttl is not None and expires is not None:
        raise Refused("Stream-TTL and Stream-Expires-At exclude each other: send one")
    fork = fork_of(headers)
    content_type = headers.get("content-type")
    return CreateAsk(
        content_type=None if fork is not None and not content_type else created_type(content_type),
        ttl_seconds=None if ttl is None else integer("Stream-TTL", ttl, TTL_SECONDS_MAX),
        expires_ms=None if expires is None else moment_ms("Stream-Expires-At", expires),
        closed=wants_closed(headers),
        fork=fork,
        body=request.body,
    )


def fork_of(headers: dict[str, str]) -> ForkAsk | None:
    source = headers.get(words.FORKED_FROM)
    offset, sub = headers.get(words.FORK_OFFSET), headers.get(words.FORK_SUB_OFFSET)
    if source is None:
        if offset is not None or sub is not None:
            raise Refused("Stream-Fork-Offset and Stream-Fork-Sub-Offset need Stream-Forked-From")
        return None
    if not source:
        raise Refused("Stream-Forked-From is empty: name the source's path")
    place = offsets.parse_wanted(offset) if offset is not None else None
    sub_offset = 0 if sub is None else integer("Stream-Fork-Sub-Offset", sub)
    if sub_offset and place is None:
        raise Refused("Stream-Fork-Sub-Offset needs a Stream-Fork-Offset to count from")
    return ForkAsk(source=source, offset=place, sub_offset=sub_offset, offset_text=offset)


def append_ask(request: Request) -> AppendAsk:
    headers, body = request.headers, request.body
    close = words.CLOSED in headers and wants_closed(headers)
    producer = producer_of(headers)
    content_type = headers.get("content-type")
    if not body:
        if not close:
            raise Refused("the body is empty: send bytes, or Stream-Closed: true to close the stream")
    elif not content_type:
        raise Refused("Content-Type is missing: send the stream's own")
    seq = headers.get(words.SEQ)
    if seq is not None and not 0 < len(seq) <= SEQ_CHARACTERS_MAX:
        raise Refused(f"Stream-Seq has {len(seq)} characters, not 1 to {SEQ_CHARACTERS_MAX}")
    match = headers.get(words.RECORD_MATCH)
    return AppendAsk(
        body, content_type, close, producer, seq, None if match is None else integer("Stream-Record-Match", match)
    )


def live_of(request: Request) -> Live:
    asked = request.ask("live")
    if asked is None:
        return Live.NO
    live = _LIVE.get(asked, Live.NO)
    if live is Live.NO:
        raise Refused(f"live is {asked[:40]!r}, not long-poll or sse")
    return live


def read_ask(request: Request) -> ReadAsk:
    text = request.ask("offset")
    live = live_of(request)
    if live is not Live.NO and text is None:
        raise Refused(f"live={live.value} needs an offset: -1 for the beginning, now for the tail")
    return ReadAsk(
        place=offsets.parse_wanted(text),
        offset_text=text or offsets.START,
        live=live,
        cursor=request.ask("cursor"),
        if_none_match=request.headers.get("if-none-match"),
    )
