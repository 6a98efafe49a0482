"""How readers of one kind see a stream: what their chunks are, and how news is told to them.

`tails.py` decides when a live reader is told something; a view decides what it reads. The one here is the protocol's
own; other addresses have theirs.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from runnel.api.durable.chunks import Chunk, Chunks, Found
from runnel.api.messages import Response
from runnel.api.streams import answers, sse
from runnel.api.streams.answers import Range
from runnel.api.streams.asks import ReadAsk
from runnel.api.streams.content_types import is_text
from runnel.api.streams.offsets import mint
from runnel.metadata.stream import Stream


class Where(NamedTuple):
    """Where a live reader stands."""

    offset: int
    cursor: str | None
    """The one that it came with."""
    up_to_date: bool
    ends: bool
    """Nothing will ever follow."""


class View(Protocol):
    """What `Tails` must know of a kind of reader. An ask is whatever the view's own address understands."""

    chunks: Chunks

    def headers(self, stream: Stream) -> dict[str, str]:
        """Of an event stream's answer."""

    def data(self, stream: Stream, chunk: Chunk) -> bytes:
        """A chunk as events."""

    def control(self, stream: Stream, where: Where) -> bytes:
        """What an event stream says behind its data, and when it begins or ends at the tail."""

    def answer(self, found: Found, ask: Any) -> Response:
        """A long-poll that has something."""

    def nothing(self, found: Found, ask: Any) -> Response:
        """A long-poll whose wait is over, or whose stream has ended."""


class ProtocolView:
    """Durable Streams 1.0. `cursor` answers one that was given, or none."""

    def __init__(self, chunks: Chunks, cursor: Callable[[str | None], str]) -> None:
        self.chunks = chunks
        self.cursor = cursor

    def headers(self, stream: Stream) -> dict[str, str]:
        return answers.sse_headers(sse.CONTENT_TYPE, binary=_is_binary(stream))

    def data(self, stream: Stream, chunk: Chunk) -> bytes:
        return sse.data_event(chunk.body, binary=_is_binary(stream)) if chunk.records else b""

    def control(self, stream: Stream, where: Where) -> bytes:
        del stream
        cursor = None if where.ends else self.cursor(where.cursor)
        return sse.control_event(mint(where.offset), cursor=cursor, up_to_date=where.up_to_date, closed=where.ends)

    def answer(self, found: Found, ask: ReadAsk) -> Response:
        return read_response(found, ask, cursor=self.cursor(ask.cursor))

    def nothing(self, found: Found, ask: ReadAsk) -> Response:
        return answers.nothing_new_answer(range_of(found, ask), cursor=self.cursor(ask.cursor))


def range_of(found: Found, ask: ReadAsk) -> Range:
    assert found.stream.traits is not None, "the protocol's streams have names"
    return Range(
        stream=found.stream.id,
        start=ask.offset_text,
        next_offset=found.chunk.next,
        content_type=found.stream.traits.content_type,
        up_to_date=found.up_to_date,
        closed=found.closed,
    )


def read_response(found: Found, ask: ReadAsk, *, cursor: str | None) -> Response:
    return answers.read_answer(
        range_of(found, ask),
        found.chunk.body,
        cursor=cursor,
        if_none_match=ask.if_none_match,
        etag=ask.place is not None,
    )


def _is_binary(stream: Stream) -> bool:
    return stream.traits is not None and not is_text(stream.traits.content_type)
