"""Chunks of Parquet files as sealed batches, for readers of ranges that have become a table.

    chunks_of(part)   the chunks of a run, as soon as its trail is known
    learn(name)       makes a trail known
    restore(parts)    chunks -> their batches, with real offsets

A trail is read once and kept, the least recently used go first. Restoring is work for a processor: it is done in
threads, and what comes out goes into the cache of all readers. pyarrow is asked for when the first trail is met.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from runnel.errors import Refused, Unavailable
from runnel.model import ObjectName
from runnel.read.plan import CHUNK, Part
from runnel.world.objects import Buffer, ObjectStore
from runnel.world.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from runnel.table.files.restore import TrailReader

TRAILS_BYTES_MAX = 16 << 20
"""Of trails that are kept, as they lie in the store; a trail takes some 10 KB for 128 MiB of Parquet."""
RESTORING_MAX = 2
"""Chunks that are worked on at once; each takes a few times its own bytes meanwhile."""

InThread = Callable[..., Any]


class Rows:
    """See the module. `in_thread` runs a function elsewhere; a simulation runs it on the spot."""

    def __init__(self, objects: ObjectStore, metrics: Metrics, *, in_thread: InThread = asyncio.to_thread) -> None:
        self._objects = objects
        self._in_thread = in_thread
        self._trails: OrderedDict[str, tuple[TrailReader, int]] = OrderedDict()
        self._size = 0
        self._room = asyncio.Semaphore(RESTORING_MAX)
        self._restored = metrics.counter(
            "runnel_table_bytes_restored_total", "Bytes of batches that were made again from Parquet files for readers."
        )

    def chunks_of(self, part: Part) -> list[Part] | None:
        """The chunks of a part, those before its first offset left out; None while its trail is not known."""
        entry = self._trails.get(part.name)
        if entry is None:
            return None
        self._trails.move_to_end(part.name)
        trail = entry[0].trail
        found = []
        for number in trail.chunks_of(part.place, part.first, part.end):
            chunk = trail.chunks[number]
            found.append(Part(part.name, number, chunk.size, chunk.first, chunk.end, CHUNK))
        return found

    def chunks_since(self, part: Part, stamp_ms: int) -> list[Part]:
        """The chunks of a part that have a record of a time or later."""
        chunks = self.chunks_of(part)
        if chunks is None:
            raise Unavailable(f"{part.name} was put aside for others that are in greater demand: try again")
        trail = self._trails[part.name][0].trail
        return [each for each in chunks if trail.chunks[each.place].stamp >= stamp_ms]

    async def learn(self, name: str) -> "TrailReader":
        """The trail in an object, from now on known."""
        entry = self._trails.get(name)
        if entry is not None:
            return entry[0]
        data = await self._objects.read(ObjectName(name))
        reader: TrailReader = await self._in_thread(_open_trail, name, data)
        if name not in self._trails:
            self._trails[name] = reader, len(data)
            self._size += len(data)
            while self._size > TRAILS_BYTES_MAX and len(self._trails) > 1:
                _, (_, size) = self._trails.popitem(last=False)
                self._size -= size
        return reader

    async def restore(self, part: Part) -> Buffer:
        """The sealed batches of a chunk."""
        reader = await self.learn(part.name)
        by_object: dict[str, list[tuple[int, int]]] = {}
        ranges = reader.ranges(part.place)
        for name, place, length in ranges:
            by_object.setdefault(name, []).append((place, length))
        async with self._room:
            read = await asyncio.gather(
                *(self._objects.read_ranges(ObjectName(name), asked) for name, asked in by_object.items())
            )
            found = {
                (name, *each): data
                for (name, asked), several in zip(by_object.items(), read, strict=True)
                for each, data in zip(asked, several, strict=True)
            }
            batches: Buffer = await self._in_thread(_restore, reader, part.place, [found[each] for each in ranges])
        self._restored.add(len(batches))
        return batches


def _open_trail(name: str, data: Buffer) -> "TrailReader":
    try:
        from runnel.table.files.restore import TrailReader  # noqa: PLC0415  heavy, and only tables need it
        from runnel.table.files.trail import unpack_trail  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise Refused(
            f"{name} is a part of a table, and reading it needs {missing.name}: pip install 'runnel[table]'"
        ) from None
    return TrailReader(name, unpack_trail(name, data))


def _restore(reader: "TrailReader", number: int, data: Sequence[Buffer]) -> bytes:
    return b"".join(sealed.data for sealed in reader.restore(number, data))
