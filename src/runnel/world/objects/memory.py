"""Objects in a dictionary: for tests, simulation and trying things out. Nothing outlives the process.

It never waits and never hands work to a thread, so it behaves the same on a virtual-time loop.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncIterator, Iterable, Sequence

from runnel.errors import AlreadyThere, NotThere, Overloaded
from runnel.model import ObjectName
from runnel.world.clock import Clock
from runnel.world.objects.bodies import copy_of, size_of
from runnel.world.objects.names import check_beginning, check_name
from runnel.world.objects.ranges import stop_of
from runnel.world.objects.seam import Body, Buffer, ObjectFacts

BYTES_MAX = 4 * 1024**3
_NAMES_A_TURN = 1000  # a long listing lets others run in between


class MemoryObjects:
    """An ObjectStore in memory, with a largest total size."""

    def __init__(self, clock: Clock, *, bytes_max: int = BYTES_MAX) -> None:
        self._clock = clock
        self._bytes_max = bytes_max
        self._bytes = 0
        self._bodies: dict[ObjectName, tuple[bytes, ObjectFacts]] = {}
        self._names: list[ObjectName] = []

    async def put_new(self, name: ObjectName, body: Body) -> None:
        check_name(name)
        if name in self._bodies:
            raise AlreadyThere(f"object {name!r} is already there")
        if self._bytes + size_of(body) > self._bytes_max:
            raise Overloaded(f"the memory store is full ({self._bytes_max} bytes); use file:///… for more")
        whole = copy_of(body)
        self._bodies[name] = whole, ObjectFacts(name=name, size=len(whole), modified_ms=self._clock.now_ms())
        self._bytes += len(whole)
        insort(self._names, name)

    async def read(self, name: ObjectName, start: int = 0, length: int | None = None) -> Buffer:
        return self._cut(name, start, length)

    async def read_ranges(self, name: ObjectName, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        check_name(name)
        return [self._cut(name, start, length) for start, length in ranges]

    async def facts(self, name: ObjectName) -> ObjectFacts:
        return self._held(name)[1]

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectFacts]:
        check_beginning(prefix)
        turn = 0
        last = after
        place = max(bisect_left(self._names, prefix), bisect_right(self._names, after))
        while place < len(self._names) and (name := self._names[place]).startswith(prefix):
            yield self._bodies[name][1]
            last = name
            turn += 1
            if turn % _NAMES_A_TURN == 0:
                await asyncio.sleep(0)
            # Names may have come and gone while the caller had the turn.
            place = bisect_right(self._names, last)

    async def delete(self, names: Iterable[ObjectName]) -> None:
        wanted = list(names)
        for name in wanted:
            check_name(name)
        for name in wanted:
            held = self._bodies.pop(name, None)
            if held is not None:
                self._bytes -= held[1].size
                del self._names[bisect_left(self._names, name)]

    async def close(self) -> None:
        """Nothing is held open."""

    def _held(self, name: ObjectName) -> tuple[bytes, ObjectFacts]:
        check_name(name)
        held = self._bodies.get(name)
        if held is None:
            raise NotThere(f"object {name!r} is not there")
        return held

    def _cut(self, name: ObjectName, start: int, length: int | None) -> Buffer:
        whole = self._held(name)[0]
        stop = stop_of(name, len(whole), start, length)
        return whole if stop - start == len(whole) else memoryview(whole)[start:stop]
