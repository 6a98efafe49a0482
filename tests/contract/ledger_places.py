"""Where the ledgers of the contract suite live: for each kind a place that outlives its clients."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from runnel.metadata.ledger import Ledger
from runnel.world.chance import Chance
from runnel.world.tasks import Tasks

Open = Callable[[], Awaitable[Ledger]]
STORY_S = 45


class Place:
    """One storage. `run` plays a story whose clients are opened by `open()` and all closed at its end."""

    exact_trim = True

    async def open_one(self, number: int, tasks: Tasks) -> Ledger:
        raise NotImplementedError

    def run(self, story):
        """Play a story; nothing may be left running after it, and no background task may have died."""
        deaths = []

        async def play():
            tasks = Tasks(lambda name, error: deaths.append((name, error)))
            opened = []

            async def open_ledger():
                opened.append(await self.open_one(len(opened), tasks))
                return opened[-1]

            try:
                async with asyncio.timeout(STORY_S):
                    return await story(open_ledger)
            finally:
                for ledger in opened:
                    await ledger.close()
                await tasks.close()
                await asyncio.sleep(0)
                left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
                assert not left, f"left running: {left}"

        answer = asyncio.run(play())
        assert not deaths, deaths
        return answer


class MemoryPlace(Place):
    def __init__(self) -> None:
        from runnel.metadata.ledger.memory import MemoryShelf

        self.shelf = MemoryShelf()

    async def open_one(self, number, tasks):
        from runnel.metadata.ledger.memory import MemoryLedger

        return MemoryLedger(self.shelf)


class FaultyPlace(MemoryPlace):
    """A faulty ledger whose faults are only those that a caller never notices: slowness and early wake-ups."""

    async def open_one(self, number, tasks):
        from runnel.metadata.ledger.faulty import FaultyLedger, LedgerFaults

        inner = await super().open_one(number, tasks)
        faults = LedgerFaults(delay_ms_max=1, early_wait_share=0.1, late_wait_ms_max=2)
        return FaultyLedger(inner, Chance(f"faulty/{number}"), faults)


class SqlitePlace(Place):
    def __init__(self, directory: Path) -> None:
        self.path = directory / "ledger.sqlite"

    async def open_one(self, number, tasks):
        from runnel.metadata.ledger.sqlite import SqliteLedger

        return await SqliteLedger.open(self.path, chance=Chance(f"sqlite/{number}"), tasks=tasks)


class PostgresPlace(Place):
    def __init__(self, server, schema: str) -> None:
        self.url = server.url(more=f"?schema={schema}&prefix=t_")

    async def open_one(self, number, tasks):
        from runnel.metadata.ledger.postgres import PostgresLedger
        from runnel.world.clock import SystemClock

        return await PostgresLedger.open(
            self.url, clock=SystemClock(), chance=Chance(f"postgres/{number}"), tasks=tasks
        )


class ObjectsPlace(Place):
    """A bucket in memory; with a plan of faults, one that loses answers (and nothing that a caller must notice)."""

    def __init__(self, plan=None) -> None:
        from runnel.world.clock import SystemClock
        from runnel.world.objects.memory import MemoryObjects

        self.store = MemoryObjects(SystemClock())
        self.plan = plan

    async def open_one(self, number, tasks):
        from runnel.metadata.ledger.objects import ObjectsLedger
        from runnel.world.clock import SystemClock
        from runnel.world.objects.faulty import FaultyObjects

        store = self.store
        if self.plan is not None:
            store = FaultyObjects(store, self.plan, Chance(f"store/{number}"))
        return ObjectsLedger(store, clock=SystemClock(), chance=Chance(f"objects/{number}"), tasks=tasks)


def begin(work) -> "asyncio.Task":
    return asyncio.get_running_loop().create_task(work)


async def cancelled(task: "asyncio.Task") -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
