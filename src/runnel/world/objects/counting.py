"""Counting what is asked of a store, because requests are what a bucket's bill is made of.

A list counts one request for each thousand names, a delete one for each thousand; ranges count as the requests that
are left after near ones are joined. Retries below this wrapper are not seen.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field

from runnel.model import ObjectName
from runnel.world.objects.bodies import size_of
from runnel.world.objects.ranges import join_near
from runnel.world.objects.seam import Body, Buffer, ObjectFacts, ObjectStore

KINDS = ("put", "get", "head", "list", "delete")
_NAMES_A_REQUEST = 1000


@dataclass(slots=True)
class Count:
    """What was asked for in one kind of request."""

    requests: int = 0
    bytes: int = 0
    errors: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts by kind since the store was opened or `reset`."""

    by_kind: dict[str, Count] = field(default_factory=lambda: {kind: Count() for kind in KINDS})

    def reset(self) -> None:
        self.by_kind.update({kind: Count() for kind in KINDS})

    def as_json(self) -> dict[str, dict[str, int]]:
        return {
            kind: {"requests": count.requests, "bytes": count.bytes, "errors": count.errors}
            for kind, count in self.by_kind.items()
        }


class CountingObjects:
    """An ObjectStore that counts."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.counts = Counts()

    async def put_new(self, name: ObjectName, body: Body) -> None:
        with self._counted("put", 1) as count:
            await self.inner.put_new(name, body)
            count.bytes += size_of(body)

    async def read(self, name: ObjectName, start: int = 0, length: int | None = None) -> Buffer:
        with self._counted("get", 1) as count:
            found = await self.inner.read(name, start, length)
            count.bytes += len(found)
            return found

    async def read_ranges(self, name: ObjectName, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        fetches = join_near(ranges)
        with self._counted("get", len(fetches)) as count:
            found = await self.inner.read_ranges(name, ranges)
            count.bytes += sum(fetch.length for fetch in fetches)
            return found

    async def facts(self, name: ObjectName) -> ObjectFacts:
        with self._counted("head", 1):
            return await self.inner.facts(name)

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectFacts]:
        with self._counted("list", 1) as count:
            seen = 0
            async for facts in self.inner.list(prefix, after):
                if seen and seen % _NAMES_A_REQUEST == 0:
                    count.requests += 1
                seen += 1
                yield facts

    async def delete(self, names: Iterable[ObjectName]) -> None:
        wanted = [*names]
        with self._counted("delete", -(-len(wanted) // _NAMES_A_REQUEST)):
            await self.inner.delete(wanted)

    async def close(self) -> None:
        await self.inner.close()

    def _counted(self, kind: str, requests: int) -> "_Counted":
        count = self.counts.by_kind[kind]
        count.requests += requests
        return _Counted(count)


class _Counted:
    __slots__ = ("count",)

    def __init__(self, count: Count) -> None:
        self.count = count

    def __enter__(self) -> Count:
        return self.count

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            self.count.errors += 1
