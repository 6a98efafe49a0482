"""A running node: doors that open together, one ready line, and an orderly end.

A node ends because somebody asked (SIGTERM, SIGINT) or because one of its tasks died. Asked, it says on `/readyz` that
it leaves, takes no more work, finishes what is open for at most `drain_ms_max`, closes its parts in reverse order and
exits 0; a second signal cuts the waiting short. A dead task is our own mistake: it is logged with its whole story and
the exit code is 70, so that whoever supervises the node starts it again.
"""

import asyncio
import gc
import os
import resource
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from runnel.errors import RunnelError
from runnel.version import __version__
from runnel.world.telemetry import Health, Metrics, get_log
from runnel.world.world import World

log = get_log("node")

EXIT_OF_A_DEAD_TASK = 70  # EX_SOFTWARE of sysexits.h
Announce = Callable[[dict[str, str]], None]
Arrive = Callable[[dict[str, str]], Awaitable[None]]
Depart = Callable[[], Awaitable[None]]


class Door(Protocol):
    """Something that clients connect to."""

    name: str

    async def open(self) -> str:
        """Listen; the address that was really taken, as clients write it."""

    async def drain(self, seconds: float) -> None:
        """Take no more, finish what is open, cut what is left after so long."""


class Ending:
    """Why a node ends, for all who wait for it."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurried = asyncio.Event()
        self.dead: str | None = None

    def ask(self, why: str) -> None:
        """The first time: end in order. The second time: now."""
        if self.asked.is_set():
            self.hurried.set()
        else:
            log.info("node_stopping", why=why)
        self.asked.set()

    def died(self, task: str, error: BaseException) -> None:
        """A task of the node ended with an error: the node is no longer what it says it is."""
        log.crash("task_died", error, task=task)
        self.dead = self.dead or task
        self.asked.set()


class Node:
    """Doors on a world, from start to end. The parts behind the doors are opened before and closed after by `wiring`."""

    def __init__(
        self,
        *,
        world: World,
        health: Health,
        doors: Sequence[Door],
        ending: Ending,
        drain_ms_max: int,
        arrive: Arrive | None = None,
        depart: Depart | None = None,
    ) -> None:
        """`arrive` tells the cluster where the open doors are; `depart` tells it to send nobody here any more."""
        self.world = world
        self._arrive = arrive
        self._depart = depart
        self._health = health
        self._doors = doors
        self._ending = ending
        self._drain_seconds = drain_ms_max / 1000
        health.vital("tasks", lambda: ending.dead and f"task {ending.dead} died")
        measure_process(world.metrics)

    async def run(self, announce: Announce) -> int:
        """Serve until the end; the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._ending.ask, number.name)
        try:
            opened: list[Door] = []
            try:
                addresses = {}
                for door in self._doors:
                    addresses[door.name] = await door.open()
                    opened.append(door)
                if self._arrive is not None:
                    await self._arrive(addresses)
                spare_the_collector()
                self._health.started()
                log.info("node_ready", **addresses)
                announce(addresses)
                await self._ending.asked.wait()
            finally:
                self._health.draining()
                await self._drain(opened)
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)
        return EXIT_OF_A_DEAD_TASK if self._ending.dead else 0

    async def _drain(self, doors: Sequence[Door]) -> None:
        """All doors at once; nobody waits for a door once a second signal came."""
        patience = 0.0 if self._ending.dead else self._drain_seconds
        draining = asyncio.gather(self._say_goodbye(patience), *(door.drain(patience) for door in doors))
        hurried = asyncio.gather(self._ending.hurried.wait())
        both: list[asyncio.Future[Any]] = [draining, hurried]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if not draining.done():
            draining.cancel()
            await asyncio.gather(*(door.drain(0) for door in doors))
        await asyncio.gather(*both, return_exceptions=True)

    async def _say_goodbye(self, patience: float) -> None:
        """Best effort: whoever does not hear of it finds out when the lease runs out."""
        if self._depart is not None and patience > 0:
            with suppress(RunnelError, TimeoutError):
                await asyncio.wait_for(self._depart(), min(patience, 1.0))


def spare_the_collector() -> None:
    """What start-up made stays; later garbage is mostly freed by counting. This takes the p99 down by ten times."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def measure_process(metrics: Metrics) -> None:
    """What every process can say of itself, read only when somebody asks."""
    page = resource.getpagesize()

    def resident() -> float:
        try:
            with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  read at every scrape: keep it short
                return float(int(file.read().split()[1]) * page)
        except OSError:
            return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)

    def open_files() -> float:
        try:
            return float(len(os.listdir("/proc/self/fd")))  # noqa: PTH208  names are enough
        except OSError:
            return -1.0

    metrics.gauge("runnel_process_resident_bytes", "Memory that the process holds.", read=resident)
    metrics.gauge("runnel_process_cpu_seconds", "Processor time used so far.", read=lambda: sum(os.times()[:2]))
    metrics.gauge("runnel_process_open_files", "Open files and sockets.", read=open_files)
    metrics.gauges("runnel_build", "Always 1; the version is its label.", ("version",)).at(__version__).set(1)
