"""The border between a node and a service outside it: an object store, a ledger, anything that outlives a kill.

A request that crossed the border goes on by itself: the node may be killed, paused or impatient, the service still does
what it was asked, perhaps long after the node's successor has begun. That is what makes late writes of dead brokers
happen in the simulation as they do in life. The way to the service can be cut like any other, by the name of the
service: before the deed nothing happened (`Unavailable`), after it the answer is lost (`Uncertain` for what changes
something). A dead process sends nothing.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from runnel.errors import RunnelError, Unavailable, Uncertain
from runnel.model import ObjectName
from runnel.world.objects.seam import Body, Buffer, ObjectFacts, ObjectStore
from runnel.world.simulation.network import Network
from runnel.world.simulation.process import Process, in_the_world

T = TypeVar("T")

PATIENCE_S = 5.0
"""How long a request waits for a cut way before it is given up."""


class Portal:
    """One process' way to one service."""

    def __init__(self, network: Network, process: Process, service: str, *, patience_s: float = PATIENCE_S) -> None:
        self.service = service
        self.process = process
        self._network = network
        self._patience_s = patience_s

    async def call(
        self, make: Callable[[], Awaitable[T]], *, what: str, changes: bool = False, follow: bool = False
    ) -> T:
        """Run `make()` on the other side and wait for its answer.

        `changes` says that a lost answer leaves a doubt. `follow` is for long waits that mean nothing without their
        caller: they are cancelled when the caller is, or dies.
        """
        self.process.must_live()
        loop = self._network.loop
        answer: asyncio.Future[T] = loop.create_future()
        errand: asyncio.Task[T] = loop.create_task(self._carry(make, what, changes), name=what, context=in_the_world())
        errand.add_done_callback(partial(_deliver, answer), context=in_the_world())
        if not follow:
            return await answer

        def call_back() -> None:
            errand.cancel()

        self.process.on_kill.append(call_back)
        try:
            return await answer
        finally:
            errand.cancel()
            self.process.on_kill.remove(call_back)

    async def _carry(self, make: Callable[[], Awaitable[T]], what: str, changes: bool) -> T:
        here, there = self.process.host, self.service
        if not await self._network.passable(here, there, self._patience_s):
            raise Unavailable(f"{there} cannot be reached for the {what}; try again")
        error: RunnelError | None = None
        try:
            result = await make()
        except RunnelError as raised:
            error = raised
        if not await self._network.passable(there, here, self._patience_s):
            kind = Uncertain if changes else Unavailable
            raise kind(f"no answer from {there} to the {what}; look whether it is done")
        if error is not None:
            raise error
        return result


def _deliver(answer: asyncio.Future[Any], errand: asyncio.Task[Any]) -> None:
    error = None if errand.cancelled() else errand.exception()
    if answer.done():
        return
    if errand.cancelled():
        answer.cancel()
    elif error is not None:
        answer.set_exception(error)
        answer.exception()  # its reader may be dead: nobody has to be told that it was never read
    else:
        answer.set_result(errand.result())


class RemoteObjects:
    """An ObjectStore on the other side of a portal."""

    def __init__(self, portal: Portal, store: ObjectStore) -> None:
        self._portal = portal
        self._store = store

    async def put_new(self, name: ObjectName, body: Body) -> None:
        # What is sent is what it was now: the caller may use its memory again when it gives up waiting.
        sent = bytes(body) if isinstance(body, bytes | bytearray | memoryview) else b"".join(body)
        await self._portal.call(lambda: self._store.put_new(name, sent), what=f"put of {name}", changes=True)

    async def read(self, name: ObjectName, start: int = 0, length: int | None = None) -> Buffer:
        return await self._portal.call(lambda: self._store.read(name, start, length), what=f"read of {name}")

    async def read_ranges(self, name: ObjectName, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        wanted = list(ranges)
        return await self._portal.call(lambda: self._store.read_ranges(name, wanted), what=f"read of {name}")

    async def facts(self, name: ObjectName) -> ObjectFacts:
        return await self._portal.call(lambda: self._store.facts(name), what=f"facts of {name}")

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectFacts]:
        async def gather() -> tuple[list[ObjectFacts], RunnelError | None]:
            found = []
            try:
                async for facts in self._store.list(prefix, after):
                    found.append(facts)  # noqa: PERF401 - what came before an error is kept
            except RunnelError as error:
                return found, error
            return found, None

        found, error = await self._portal.call(gather, what=f"list of {prefix}")
        for facts in found:
            yield facts
        if error is not None:
            raise error

    async def delete(self, names: Iterable[ObjectName]) -> None:
        wanted = list(names)
        await self._portal.call(
            lambda: self._store.delete(wanted), what=f"delete of {len(wanted)} objects", changes=True
        )

    async def close(self) -> None:
        """The service stays; only this way to it ends."""
