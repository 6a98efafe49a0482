"""A store that misbehaves, reproducibly: the faulty twin of every ObjectStore.

It wraps any other store. For each request it draws, from the Chance it was given and in the order of requests, what
will go wrong: nothing most of the time. The same seed and the same requests give the same faults. It waits with
`asyncio.sleep` alone, so on a virtual-time loop a lost answer costs no real time.

    delay            the request takes up to `delay_s` longer, on either side of the deed
    fail_before      nothing happens: `Unavailable`
    fail_after       the deed is done, then the connection breaks: `Uncertain` from put_new and delete
    lose_answer      as a coin falls, the deed is done or not; the caller waits `patience_s`, then `Uncertain`
    truncate         a read breaks off; a store notices a short answer itself, so this is `Unavailable`, never short bytes
    slow_down        for `slow_down_s` everything is turned away as by a 503 SlowDown: `Overloaded`

`cut` takes the store away altogether, and whatever was on its way loses its answer; `heal` gives it back.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from runnel.errors import Overloaded, RunnelError, Unavailable, Uncertain
from runnel.model import ObjectName
from runnel.world.chance import Chance
from runnel.world.objects.ranges import check_whole
from runnel.world.objects.seam import Body, Buffer, ObjectFacts, ObjectStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """How likely each fault is for one request (0 to 1), and how long the slow ones take."""

    delay: float = 0.0
    delay_s: float = 0.2
    fail_before: float = 0.0
    fail_after: float = 0.0
    lose_answer: float = 0.0
    patience_s: float = 5.0
    truncate: float = 0.0
    slow_down: float = 0.0
    slow_down_s: float = 1.0


CALM = FaultPlan()
STORMY = FaultPlan(delay=0.2, fail_before=0.05, fail_after=0.03, lose_answer=0.02, truncate=0.03, slow_down=0.005)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Luck:
    """What one request will meet; all of it drawn at once, so that requests do not disturb each other's luck."""

    before_s: float
    after_s: float
    fail_before: bool
    fail_after: bool
    lose_answer: bool
    lost_is_done: bool
    truncate: bool
    slow_down: bool
    share: float
    """Which part of a bulk is done before it breaks off."""


class FaultyObjects:
    """An ObjectStore with faults from a seed."""

    def __init__(self, inner: ObjectStore, plan: FaultPlan, chance: Chance, *, on: bool = True) -> None:
        self.inner = inner
        self.plan = plan
        self.on = on
        self._chance = chance
        self._slow_until = float("-inf")
        self._is_cut = False
        self._cuts = 0

    def cut(self) -> None:
        """Take the store away: new requests find nobody, those on their way lose their answer."""
        self._is_cut = True
        self._cuts += 1

    def heal(self) -> None:
        self._is_cut = False

    async def put_new(self, name: ObjectName, body: Body) -> None:
        async def deed(_share: float) -> None:
            await self.inner.put_new(name, body)

        await self._change(f"put of {name!r}", deed)

    async def read(self, name: ObjectName, start: int = 0, length: int | None = None) -> Buffer:
        luck, found = await self._look(f"read of {name!r}", self.inner.read, name, start, length)
        if luck.truncate and found:
            check_whole(name, len(found), int(len(found) * luck.share))
        return found

    async def read_ranges(self, name: ObjectName, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        luck, found = await self._look(f"read of {name!r}", self.inner.read_ranges, name, ranges)
        if luck.truncate and (total := sum(map(len, found))):
            check_whole(name, total, int(total * luck.share))
        return found

    async def facts(self, name: ObjectName) -> ObjectFacts:
        return (await self._look(f"facts of {name!r}", self.inner.facts, name))[1]

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectFacts]:
        luck, _ = await self._look(f"list of {prefix!r}", _nothing)
        # A list that is cut off ends with an error after some of its names, never quietly.
        names_left = int(luck.share * 100) if luck.truncate else -1
        cuts = self._cuts
        async for facts in self.inner.list(prefix, after):
            if names_left == 0 or self._cuts != cuts:
                break
            names_left -= 1
            yield facts
        else:
            if not luck.truncate and self._cuts == cuts:
                return
        raise Unavailable(f"the list of {prefix!r} broke off; list it again after the last name seen")

    async def delete(self, names: Iterable[ObjectName]) -> None:
        wanted = list(names)

        async def deed(share: float) -> None:
            await self.inner.delete(wanted[: round(len(wanted) * share)])

        await self._change(f"delete of {len(wanted)} objects", deed)

    async def close(self) -> None:
        await self.inner.close()

    async def _change(self, what: str, deed: Callable[[float], Awaitable[None]]) -> None:
        """A request that changes something: it may be done although its answer is lost."""
        luck, cuts = await self._begin(what)
        if luck.lose_answer:
            if luck.lost_is_done:
                with suppress(RunnelError):  # whatever the store said, nobody heard it
                    await deed(luck.share)
            await asyncio.sleep(self.plan.patience_s)
            raise Uncertain(f"no answer to the {what} within {self.plan.patience_s} s; look whether it is done")
        await deed(luck.share if luck.fail_after else 1.0)
        await asyncio.sleep(luck.after_s)
        if luck.fail_after or self._cuts != cuts:
            raise Uncertain(f"the connection broke during the {what}; look whether it is done")

    async def _look(self, what: str, deed: Callable[..., Awaitable[T]], *given: object) -> tuple[_Luck, T]:
        """A request that changes nothing: a lost answer means that it can be asked again."""
        luck, cuts = await self._begin(what)
        if luck.lose_answer:
            await asyncio.sleep(self.plan.patience_s)
            raise Unavailable(f"no answer to the {what} within {self.plan.patience_s} s; ask again")
        found = await deed(*given)
        await asyncio.sleep(luck.after_s)
        if luck.fail_after or self._cuts != cuts:
            raise Unavailable(f"the connection broke during the {what}; ask again")
        return luck, found

    async def _begin(self, what: str) -> tuple[_Luck, int]:
        luck = self._draw()
        cuts = self._cuts
        await asyncio.sleep(luck.before_s)
        now = asyncio.get_running_loop().time()
        if self._is_cut or self._cuts != cuts or luck.fail_before:
            raise Unavailable(f"the store cannot be reached for the {what}; try again")
        if luck.slow_down:
            self._slow_until = now + self.plan.slow_down_s
        if self.on and now < self._slow_until:
            raise Overloaded(f"the store asks to slow down and turned away the {what}; try again later")
        return luck, cuts

    def _draw(self) -> _Luck:
        if not self.on:
            return _NO_FAULTS
        plan, draw = self.plan, self._chance.random
        # Every request draws the same count of numbers: changing one probability leaves the others' luck as it was.
        delayed, before, after = draw() < plan.delay, draw(), draw()
        return _Luck(
            before_s=plan.delay_s * before if delayed else 0.0,
            after_s=plan.delay_s * after if delayed else 0.0,
            fail_before=draw() < plan.fail_before,
            fail_after=draw() < plan.fail_after,
            lose_answer=draw() < plan.lose_answer,
            lost_is_done=draw() < 0.5,
            truncate=draw() < plan.truncate,
            slow_down=draw() < plan.slow_down,
            share=draw(),
        )


async def _nothing() -> None:
    """A deed that is none: for requests whose answer comes in pieces."""


_NO_FAULTS = _Luck(
    before_s=0.0,
    after_s=0.0,
    fail_before=False,
    fail_after=False,
    lose_answer=False,
    lost_is_done=False,
    truncate=False,
    slow_down=False,
    share=1.0,
)
