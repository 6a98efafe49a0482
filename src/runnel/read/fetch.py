"""Fetching parts of objects: each part once at a time, near parts of an object in one request, ahead of the reader.

What comes from the store is checked once, batch by batch, before anyone gets it: a flipped bit or a torn object is
`Corrupt`, with the object and the place in it. What lies in Parquet files is turned into batches first (see rows.py);
a part of them whose trail is not known yet brings no bytes, but makes it known.
"""

import asyncio
from collections.abc import Sequence
from functools import partial

from runnel.codec.batches import BadBatch, check_batches
from runnel.errors import Corrupt, Refused, RunnelError, Unavailable
from runnel.metadata.objects import FileKind
from runnel.model import ObjectName
from runnel.read.plan import CHUNK, Part
from runnel.read.rows import Rows
from runnel.world.objects import Buffer, ObjectStore
from runnel.world.objects.cache import ObjectCache
from runnel.world.room import Room
from runnel.world.world import World

Loaded = Buffer | RunnelError
_TRAIL = -2  # stands for a place where a trail is fetched


class Fetcher:
    """Brings parts of objects into memory.

    `loading_bytes_max` bounds what is on its way for those who asked for it: who comes when it is reached waits.
    `ahead_bytes_max` bounds what is read before anyone asked.
    """

    def __init__(
        self, objects: ObjectStore, cache: ObjectCache, world: World, *, loading_bytes_max: int, ahead_bytes_max: int
    ) -> None:
        self.cache = cache
        self.loading = Room(loading_bytes_max)
        self.rows = Rows(objects, world.metrics)
        self._objects = objects
        self._world = world
        self._coming: dict[tuple[str, int], asyncio.Future[Loaded]] = {}
        self.ahead_bytes_max = ahead_bytes_max
        self.ahead_bytes = 0

    async def load(self, parts: Sequence[Part]) -> list[Loaded]:
        """The bytes of parts, in order, or why a part cannot be had.

        What lies in the cache is good for this turn only: copy it before the next await.
        """
        fetched: dict[tuple[str, int], Loaded] = {}
        while True:
            found: list[Loaded] = []
            missing: list[Part] = []
            for part in parts:
                data = fetched.get(_key(part))
                if data is None:
                    data = self._cached(part)
                if data is None:
                    missing.append(part)
                else:
                    found.append(data)
            if not missing:
                return found
            for part, loaded in zip(missing, await self._bring(missing), strict=True):
                fetched[_key(part)] = loaded

    def _cached(self, part: Part) -> Buffer | None:
        if part.kind == FileKind.PARQUET:
            return None
        return self.cache.get(part.name, part.place, None if part.kind == CHUNK else part.length)

    def at_hand(self, parts: Sequence[Part]) -> list[Buffer] | None:
        """The bytes of parts if all of them are in memory, good for this turn only; None if not."""
        found: list[Buffer] = []
        for part in parts:
            data = self._cached(part)
            if data is None:
                return None
            found.append(data)
        return found

    def read_ahead(self, parts: Sequence[Part]) -> None:
        """Begin to fetch parts that will be wanted soon; gives up quietly where the bound is reached."""
        wanted = []
        for part in parts:
            key = _key(part)
            if key in self._coming or self.cache.holds(*key):
                continue
            if self.ahead_bytes + part.length > self.ahead_bytes_max:
                break
            self.ahead_bytes += part.length
            wanted.append(part)
        for part, future in zip(wanted, self._begin(wanted), strict=True):
            future.add_done_callback(partial(self._came_ahead, part.length))

    def _came_ahead(self, length: int, _: asyncio.Future[Loaded]) -> None:
        self.ahead_bytes -= length

    async def _bring(self, parts: list[Part]) -> list[Loaded]:
        async with self.loading.share(sum(part.length for part in parts)):
            futures = self._begin(parts)
            await asyncio.wait(set(futures))
            return [future.result() for future in futures]

    def _begin(self, parts: list[Part]) -> list[asyncio.Future[Loaded]]:
        """Futures for all parts; those that nobody is fetching yet are asked for, one request per object."""
        by_object: dict[str, list[Part]] = {}
        futures = []
        for part in parts:
            key = _key(part)
            future = self._coming.get(key)
            if future is None:
                future = self._coming[key] = asyncio.get_running_loop().create_future()
                by_object.setdefault(part.name, []).append(part)
            futures.append(future)
        for name, wanted in by_object.items():
            if wanted[0].kind == FileKind.WAL:
                self._world.tasks.spawn(self._fetch(name, wanted), name=f"fetch {name}")
            else:
                for part in wanted:
                    self._world.tasks.spawn(self._fetch_rows(part), name=f"restore {name}")
        return futures

    async def _fetch(self, name: str, parts: list[Part]) -> None:
        """Settle the futures of parts of one object; an error is an answer to readers, not the death of a task."""
        answers: list[Loaded]
        try:
            loaded = await self._objects.read_ranges(ObjectName(name), [(part.place, part.length) for part in parts])
            answers = [_checked(part, data) for part, data in zip(parts, loaded, strict=True)]
        except RunnelError as error:
            answers = [error] * len(parts)
        except asyncio.CancelledError:
            answers = [Unavailable(f"reading {name} was broken off")] * len(parts)
        for part, answer in zip(parts, answers, strict=True):
            self._settle(part, answer)

    async def _fetch_rows(self, part: Part) -> None:
        """The same for a chunk of Parquet files, or for a trail."""
        answer: Loaded = b""
        try:
            if part.kind == CHUNK:
                answer = await self.rows.restore(part)
            else:
                await self.rows.learn(part.name)
        except RunnelError as error:
            answer = error
        except asyncio.CancelledError:
            answer = Unavailable(f"reading {part.name} was broken off")
        self._settle(part, answer)

    def _settle(self, part: Part, answer: Loaded) -> None:
        if not isinstance(answer, RunnelError) and part.kind != FileKind.PARQUET:
            self.cache.put_part(part.name, part.place, answer)
        future = self._coming.pop(_key(part))
        if not future.done():
            future.set_result(answer)


def _key(part: Part) -> tuple[str, int]:
    return (part.name, _TRAIL if part.kind == FileKind.PARQUET else part.place)


def _checked(part: Part, data: Buffer) -> Loaded:
    if len(data) != part.length:
        return Corrupt(f"{part.name} gave {len(data)} of {part.length} bytes at {part.place}")
    try:
        heads = check_batches(memoryview(data), 0, len(data))
    except (BadBatch, Refused, Corrupt) as error:
        return Corrupt(f"{part.name}, {part.length} bytes at {part.place}: {error}")
    records = sum(head.last_offset_delta + 1 for head in heads)
    if records != part.end - part.first:
        return Corrupt(f"{part.name} at {part.place} holds {records} records, not {part.end - part.first}")
    return data
