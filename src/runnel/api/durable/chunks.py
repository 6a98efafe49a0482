"""Runs of records as readers get them: read once for all who ask for the same place, kept while there is room.

What lies between two offsets never changes, so readers of one place share one chunk. One reader of chunks has one way
to render them (`render`); its chunks are kept within `kept_bytes_max`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from runnel.engine import Engine
from runnel.errors import NotThere, Refused
from runnel.metadata.stream import Stream
from runnel.model import StreamId
from runnel.read.reader import Ask, OffsetOutOfRange, Read, StreamUnknown

CHUNK_BYTES_MAX = 1 << 20
KEPT_BYTES_MAX = 32 << 20


class StreamGone(Refused):
    """Deleted, but forks read from it; or trimmed away."""


class Chunk(NamedTuple):
    """A run of records as a reader gets it."""

    start: int
    next: int
    body: bytes
    records: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a read found: the stream as it is now, and a chunk; `tail` is the end that was looked at."""

    stream: Stream
    chunk: Chunk
    tail: int
    closed: bool

    @property
    def up_to_date(self) -> bool:
        return self.chunk.next >= self.tail


Render = Callable[[Stream, Read], Chunk]


class Chunks:
    """See the module."""

    def __init__(
        self, engine: Engine, render: Render, *, bytes_max: int = CHUNK_BYTES_MAX, kept_bytes_max: int = KEPT_BYTES_MAX
    ) -> None:
        self.bytes_max = bytes_max
        self.kept_bytes = 0
        self.kept_bytes_max = kept_bytes_max
        self._engine = engine
        self._render = render
        self._kept: OrderedDict[tuple[int, int], tuple[Chunk, int]] = OrderedDict()
        self._loading: dict[tuple[int, int], asyncio.Future[Read]] = {}

    def now(self, stream: Stream, offset: int) -> Chunk | None:
        """A chunk if all of it lies in memory."""
        kept = self._kept.get((stream.id, offset))
        # One that ended at the tail is of no use any more once there is more to be had.
        if kept is not None and (kept[0].next != kept[1] or kept[1] == stream.end):
            self._kept.move_to_end((stream.id, offset))
            return kept[0]
        if _inherits(stream, offset):
            return None
        reads = self._engine.reader.at_hand([Ask(StreamId(stream.id), offset, self.bytes_max)])
        return None if reads is None else self._keep(stream, reads[0])

    async def load(self, stream: Stream, offset: int) -> Chunk:
        """A chunk, wherever it lies."""
        chunk = self.now(stream, offset)
        return self._keep(stream, await self._load(stream.id, offset)) if chunk is None else chunk

    async def _load(self, number: int, offset: int) -> Read:
        loading = self._loading.get((number, offset))
        if loading is not None:
            await asyncio.wait([loading])
            return await self._load(number, offset) if loading.cancelled() else loading.result()
        loading = self._loading[number, offset] = asyncio.get_running_loop().create_future()
        try:
            read = await self._read(StreamId(number), offset)
        except BaseException:
            loading.cancel()
            raise
        finally:
            del self._loading[number, offset]
        loading.set_result(read)
        return read

    async def _read(self, number: StreamId, offset: int) -> Read:
        """A chunk's worth of batches; a read of a fork goes on where what it inherits ends."""
        (read,) = await self._engine.read_many([Ask(number, offset, self.bytes_max)])
        while read.error is None and len(read.data) < self.bytes_max and read.next < read.end:
            room = self.bytes_max - len(read.data)
            (more,) = await self._engine.read_many([Ask(number, read.next, room)])
            if more.error is not None or more.next == read.next or len(more.data) > room:
                break
            read.data += more.data
            read.next, read.end, read.closed = more.next, more.end, more.closed
        return read

    def _keep(self, stream: Stream, read: Read) -> Chunk:
        raise_of(read)
        chunk = self._render(stream, read)
        if read.data:
            key = (stream.id, chunk.start)
            if (old := self._kept.pop(key, None)) is not None:
                self.kept_bytes -= len(old[0].body)
            self._kept[key] = (chunk, read.end)
            self.kept_bytes += len(chunk.body)
            while self.kept_bytes > self.kept_bytes_max:
                _, (gone, _) = self._kept.popitem(last=False)
                self.kept_bytes -= len(gone.body)
        return chunk


def raise_of(read: Read) -> None:
    """What went wrong with a read, in the words of this door."""
    match read.error:
        case None:
            return
        case OffsetOutOfRange() if read.error.start > read.offset:
            raise StreamGone("that part of the stream is gone")
        case StreamUnknown():
            raise NotThere("there is no such stream")
        case error:
            raise error


def _inherits(stream: Stream, offset: int) -> bool:
    fork = stream.traits.fork if stream.traits is not None else None
    return fork is not None and offset < fork.offset
