"""A client of Durable Streams over HTTP, for threads and for event loops. It works against any server of the protocol.

    stream = Stream("http://127.0.0.1:8080/v1/stream/orders", content_type="application/json")
    stream.create()
    with stream.producer("till-4") as producer:        # every append once, through restarts of server and client
        producer.append_json({"id": 1}, {"id": 2})
    for chunk in stream.tail():                        # to the tail and on, until the stream is closed
        print(chunk.messages(), chunk.next_offset)     # keep next_offset to go on from there another day

`AsyncStream` has the same words with `await` and `async for`. An instance has one connection: one thread or task at
a time uses it; readers and writers take a stream each.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Self

from runnel.client.streams_talk import NOW, START, About, Chunk, Claim, Gone, Patience, Sayings, StreamClosed
from runnel.client.streams_wire import Address, AsyncWire, Wire
from runnel.world.chance import Chance

__all__ = [
    "NOW", "START", "About", "AsyncProducer", "AsyncStream", "Chunk", "Gone", "Patience", "Producer", "Stream",
    "StreamClosed",
]  # fmt: skip

TIMEOUT_SECONDS = 90.0
"""Longer than servers keep a long-poll waiting."""


def _create_headers(
    ttl_seconds: int | None, expires_at: str | None, forked_from: str | None, fork_offset: str | None, *, closed: bool
) -> dict[str, str]:
    wanted = {
        "stream-ttl": None if ttl_seconds is None else str(ttl_seconds),
        "stream-expires-at": expires_at,
        "stream-forked-from": forked_from,
        "stream-fork-offset": fork_offset,
        "stream-closed": "true" if closed else None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _append_headers(seq: str | None, *, close: bool) -> dict[str, str]:
    return {**({"stream-seq": seq} if seq is not None else {}), **({"stream-closed": "true"} if close else {})}


def _json(messages: tuple[Any, ...]) -> bytes:
    assert messages, "at least one message"
    return json.dumps(messages, separators=(",", ":")).encode()


class _Base:
    def __init__(
        self, url: str, *, content_type: str = "application/octet-stream", headers: Mapping[str, str] | None = None,
        patience: Patience | None = None, timeout: float = TIMEOUT_SECONDS, chance: Chance | None = None,
    ) -> None:  # fmt: skip
        self.url = url
        self.content_type = content_type
        self._say = Sayings(patience or Patience(), chance or Chance())
        self._how = (Address(url), {name.lower(): value for name, value in (headers or {}).items()}, timeout)


class Stream(_Base):
    """One stream, for threads."""

    def __init__(self, url: str, **how: Any) -> None:
        super().__init__(url, **how)
        self._wire = Wire(*self._how)

    def create(
        self, body: bytes = b"", *, ttl_seconds: int | None = None, expires_at: str | None = None,
        forked_from: str | None = None, fork_offset: str | None = None, closed: bool = False,
    ) -> bool:  # fmt: skip
        """Make the stream. True if it is new, False if it was there as wanted."""
        headers = _create_headers(ttl_seconds, expires_at, forked_from, fork_offset, closed=closed)
        return bool(self._wire.run(self._say.create(self.content_type, headers, body)))

    def append(self, body: bytes, *, seq: str | None = None, close: bool = False) -> str:
        """Append once or say `Uncertain`. Returns the offset behind it. Use a producer to be certain."""
        headers = _append_headers(seq, close=close)
        return str(self._wire.run(self._say.append(self.content_type, body, headers)))

    def append_json(self, *messages: Any) -> str:
        return self.append(_json(messages))

    def producer(self, name: str, *, epoch: int = 0, auto_claim: bool = True) -> "Producer":
        return Producer(self, Claim(name, epoch, 0, auto_claim))

    def read(self, offset: str = START, *, live: bool = False, cursor: str | None = None) -> Chunk:
        """One read: what is there from an offset on, perhaps not all; a live one waits at the tail for a while."""
        found = self._wire.run(self._say.read(offset, live=live, cursor=cursor))
        assert isinstance(found, Chunk)
        return found

    def read_all(self, offset: str = START) -> Iterator[Chunk]:
        """Read to the tail as it is when it is reached."""
        while True:
            chunk = self.read(offset)
            yield chunk
            if chunk.up_to_date or chunk.closed:
                return
            offset = chunk.next_offset

    def tail(self, offset: str = START) -> Iterator[Chunk]:
        """Every chunk from an offset on, for ever or until the stream is closed. Breaks of the network are mended."""
        chunk = self.read(offset)
        while True:
            if chunk.data:
                yield chunk
            if chunk.closed:
                return
            chunk = self.read(chunk.next_offset, live=chunk.up_to_date, cursor=chunk.cursor)

    def about(self) -> About:
        found = self._wire.run(self._say.about())
        assert isinstance(found, About)
        return found

    def close_stream(self) -> str:
        """End the stream for good. Returns its last offset."""
        return str(self._wire.run(self._say.close()))

    def delete(self) -> None:
        self._wire.run(self._say.delete())

    def close(self) -> None:
        """Give the connection back; the stream itself stays as it is."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Producer:
    """Appends that happen once, in their order, under a name that one program uses at a time."""

    def __init__(self, stream: Stream, claim: Claim) -> None:
        self._stream, self.claim = stream, claim

    def append(self, body: bytes, *, close: bool = False) -> str:
        stream = self._stream
        return str(stream._wire.run(self.claim.append(stream._say, stream.content_type, body, close=close)))  # noqa: SLF001  one house

    def append_json(self, *messages: Any, close: bool = False) -> str:
        return self.append(_json(messages), close=close)

    def close_stream(self) -> str:
        return self.append(b"", close=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held back, so there is nothing to flush."""


class AsyncStream(_Base):
    """One stream, for event loops. The words are those of `Stream`."""

    def __init__(self, url: str, **how: Any) -> None:
        super().__init__(url, **how)
        self._wire = AsyncWire(*self._how)

    async def create(
        self, body: bytes = b"", *, ttl_seconds: int | None = None, expires_at: str | None = None,
        forked_from: str | None = None, fork_offset: str | None = None, closed: bool = False,
    ) -> bool:  # fmt: skip
        headers = _create_headers(ttl_seconds, expires_at, forked_from, fork_offset, closed=closed)
        return bool(await self._wire.run(self._say.create(self.content_type, headers, body)))

    async def append(self, body: bytes, *, seq: str | None = None, close: bool = False) -> str:
        headers = _append_headers(seq, close=close)
        return str(await self._wire.run(self._say.append(self.content_type, body, headers)))

    async def append_json(self, *messages: Any) -> str:
        return await self.append(_json(messages))

    def producer(self, name: str, *, epoch: int = 0, auto_claim: bool = True) -> "AsyncProducer":
        return AsyncProducer(self, Claim(name, epoch, 0, auto_claim))

    async def read(self, offset: str = START, *, live: bool = False, cursor: str | None = None) -> Chunk:
        found = await self._wire.run(self._say.read(offset, live=live, cursor=cursor))
        assert isinstance(found, Chunk)
        return found

    async def read_all(self, offset: str = START) -> AsyncIterator[Chunk]:
        while True:
            chunk = await self.read(offset)
            yield chunk
            if chunk.up_to_date or chunk.closed:
                return
            offset = chunk.next_offset

    async def tail(self, offset: str = START) -> AsyncIterator[Chunk]:
        chunk = await self.read(offset)
        while True:
            if chunk.data:
                yield chunk
            if chunk.closed:
                return
            chunk = await self.read(chunk.next_offset, live=chunk.up_to_date, cursor=chunk.cursor)

    async def about(self) -> About:
        found = await self._wire.run(self._say.about())
        assert isinstance(found, About)
        return found

    async def close_stream(self) -> str:
        return str(await self._wire.run(self._say.close()))

    async def delete(self) -> None:
        await self._wire.run(self._say.delete())

    async def close(self) -> None:
        await self._wire.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncProducer:
    """The words of `Producer`, for event loops."""

    def __init__(self, stream: AsyncStream, claim: Claim) -> None:
        self._stream, self.claim = stream, claim

    async def append(self, body: bytes, *, close: bool = False) -> str:
        stream = self._stream
        return str(await stream._wire.run(self.claim.append(stream._say, stream.content_type, body, close=close)))  # noqa: SLF001  one house

    async def append_json(self, *messages: Any, close: bool = False) -> str:
        return await self.append(_json(messages), close=close)

    async def close_stream(self) -> str:
        return await self.append(b"", close=True)
