"""Scenarios that must fail: the simulation's own smoke alarm. They are not listed, and run only when named.

The planted store is the classic one: it says yes when the bytes are in its memory and writes them down a little later,
and now and then it restarts in between.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from runnel.errors import AlreadyThere, NotThere
from runnel.model import ObjectName
from runnel.simulated.objects import Notebook, writers
from runnel.world.chance import Chance
from runnel.world.objects.seam import Body, Buffer, ObjectFacts, ObjectStore
from runnel.world.simulation.harness import Simulation
from runnel.world.simulation.scenario import Fault, Scenario, scenario


class HastyObjects:
    """Acknowledges before it is durable."""

    def __init__(self, inner: ObjectStore) -> None:
        self.memory: dict[ObjectName, Body] = {}
        self._inner = inner

    async def put_new(self, name: ObjectName, body: Body) -> None:
        if name in self.memory or await self._is_durable(name):
            raise AlreadyThere(f"object {name} is already there")
        self.memory[name] = body
        await asyncio.sleep(0.02)  # the bug: nobody waits for `flush`

    async def _is_durable(self, name: ObjectName) -> bool:
        try:
            await self._inner.facts(name)
        except NotThere:
            return False
        return True

    async def flush(self) -> None:
        for name, body in list(self.memory.items()):
            await self._inner.put_new(name, body)
            self.memory.pop(name, None)

    async def read(self, name: ObjectName, start: int = 0, length: int | None = None) -> Buffer:
        if name in self.memory:
            await self.flush()
        return await self._inner.read(name, start, length)

    async def read_ranges(self, name: ObjectName, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return await self._inner.read_ranges(name, ranges)

    async def facts(self, name: ObjectName) -> ObjectFacts:
        return await self._inner.facts(name)

    def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectFacts]:
        return self._inner.list(prefix, after)

    async def delete(self, names: Iterable[ObjectName]) -> None:
        await self._inner.delete(names)

    async def close(self) -> None:
        await self._inner.close()


async def _flushes(simulation: Simulation, chance: Chance) -> None:
    notebook: Notebook = simulation.state
    store = notebook.store
    assert isinstance(store, HastyObjects)
    while True:
        await asyncio.sleep(chance.uniform(0.005, 0.05))
        if chance.random() < 0.005:
            simulation.trace.note("objects", "restarts", forgets=len(store.memory))
            store.memory.clear()
        await store.flush()


@scenario(hidden=True)
def planted_hasty_store() -> Scenario:
    """A store acknowledges before it is durable. This scenario must fail."""
    return writers(Fault(name="flushes", run=_flushes), wrap=HastyObjects)
