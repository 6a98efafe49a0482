"""Stores that are as slow as the real ones, so that one machine shows what a cloud would.

A request takes a first part, drawn from a log-normal distribution, and then the transfer at a steady rate. The curves
are given by their middle and their 99th percentile, because that is how measurements are published:

    s3-standard   a put of some MiB commits in about 100 ms, 1 % take four times that; reads begin after 30 ms
    s3-express    single-digit milliseconds for both, with a short tail

The middle values follow what operators of log systems on object storage report for buckets in the same region; they
are there to be compared with, not to be believed to the millisecond. Waiting is `asyncio.sleep` alone, so a profile
costs nothing on a virtual-time loop.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass

from runnel.errors import Refused
from runnel.model import ObjectName
from runnel.world.chance import Chance
from runnel.world.objects.bodies import size_of
from runnel.world.objects.ranges import join_near
from runnel.world.objects.seam import Body, Buffer, ObjectFacts, ObjectStore

_Z99 = 2.3263  # the 99th percentile of a normal distribution, in standard deviations
NAMES_A_REQUEST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A log-normal distribution of seconds."""

    middle_s: float
    late_s: float
    """One in a hundred takes longer."""

    def draw(self, chance: Chance) -> float:
        spread = math.log(self.late_s / self.middle_s) / _Z99
        return chance.lognormvariate(math.log(self.middle_s), spread)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyProfile:
    """How long requests take: until something happens, and for each byte after that."""

    put: Curve
    get: Curve
    list: Curve
    delete: Curve
    put_bytes_per_s: float
    get_bytes_per_s: float


PROFILES: Mapping[str, LatencyProfile | None] = {
    "none": None,
    "s3-standard": LatencyProfile(
        put=Curve(middle_s=0.060, late_s=0.300),
        get=Curve(middle_s=0.030, late_s=0.180),
        list=Curve(middle_s=0.060, late_s=0.250),
        delete=Curve(middle_s=0.040, late_s=0.200),
        put_bytes_per_s=90e6,
        get_bytes_per_s=90e6,
    ),
    "s3-express": LatencyProfile(
        put=Curve(middle_s=0.006, late_s=0.015),
        get=Curve(middle_s=0.004, late_s=0.010),
        list=Curve(middle_s=0.008, late_s=0.025),
        delete=Curve(middle_s=0.005, late_s=0.015),
        put_bytes_per_s=150e6,
        get_bytes_per_s=150e6,
    ),
}


def profile(name: str) -> LatencyProfile | None:
    """The profile of a name, None for the one that adds nothing."""
    if name not in PROFILES:
        raise Refused(f"unknown latency profile {name!r}; there are {', '.join(PROFILES)}")
    return PROFILES[name]


class SlowedObjects:
    """An ObjectStore that is slowed down after a profile, in addition to what it takes itself."""

    def __init__(self, inner: ObjectStore, profile: LatencyProfile, chance: Chance) -> None:
        self.inner = inner
        self.profile = profile
        self._chance = chance

    async def put_new(self, name: ObjectName, body: Body) -> None:
        # The bytes travel, the object is there, and some time later the answer arrives.
        await asyncio.sleep(size_of(body) / self.profile.put_bytes_per_s)
        late_s = self.profile.put.draw(self._chance)
        await asyncio.sleep(late_s / 2)
        await self.inner.put_new(name, body)
        await asyncio.sleep(late_s / 2)

    async def read(self, name: ObjectName, start: int = 0, length: int | None = None) -> Buffer:
        await asyncio.sleep(self.profile.get.draw(self._chance))
        found = await self.inner.read(name, start, length)
        await asyncio.sleep(len(found) / self.profile.get_bytes_per_s)
        return found

    async def read_ranges(self, name: ObjectName, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        # Near ranges travel as one request, the requests side by side: the slowest one counts.
        waits = [
            self.profile.get.draw(self._chance) + fetch.length / self.profile.get_bytes_per_s
            for fetch in join_near(ranges)
        ]
        await asyncio.sleep(max(waits, default=0.0))
        return await self.inner.read_ranges(name, ranges)

    async def facts(self, name: ObjectName) -> ObjectFacts:
        await asyncio.sleep(self.profile.get.draw(self._chance))
        return await self.inner.facts(name)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectFacts]:
        await asyncio.sleep(self.profile.list.draw(self._chance))
        seen = 0
        async for facts in self.inner.list(prefix, after):
            yield facts
            seen += 1
            if seen % NAMES_A_REQUEST == 0:
                await asyncio.sleep(self.profile.list.draw(self._chance))

    async def delete(self, names: Iterable[ObjectName]) -> None:
        await asyncio.sleep(self.profile.delete.draw(self._chance))
        await self.inner.delete(names)

    async def close(self) -> None:
        await self.inner.close()
