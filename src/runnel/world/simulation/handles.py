"""Callbacks, timers, tasks and futures of the simulated loop: as asyncio's, and each knows its process.

Tasks and futures hash by number instead of address, so that a set of them has one order in every run. Handles are made
for every step of a run, so they are made with as little ado as possible.
"""

import asyncio
from asyncio import Handle, TimerHandle
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from runnel.world.simulation.process import PROCESS, Process

if TYPE_CHECKING:
    from runnel.world.simulation.loop import SimulatedLoop

T = TypeVar("T")


class SimulatedTask(asyncio.Task[T]):
    """A task that knows its process and hashes by number."""

    number: int
    process: Process | None

    def __init__(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        loop: "SimulatedLoop",
        name: str | None,
        context: Context,
    ) -> None:
        self.number = loop.next_number()
        self.process = context.get(PROCESS)
        super().__init__(coro, loop=loop, name=name or f"task-{self.number}", context=context)

    def __hash__(self) -> int:
        return self.number


class SimulatedFuture(asyncio.Future[T]):
    """A future that hashes by number."""

    number: int

    def __init__(self, *, loop: "SimulatedLoop") -> None:
        self.number = loop.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number


class Ready(Handle):
    """A callback with its process."""

    __slots__ = ("process",)

    def __init__(
        self, callback: Callable[..., Any], args: tuple[Any, ...], loop: "SimulatedLoop", context: Context | None
    ) -> None:
        # Not super().__init__: it looks for debug mode each time, and this is the hottest line of the simulation.
        if context is None:
            context = copy_context()
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self.process: Process | None = context.get(PROCESS)


class Timer(TimerHandle):
    """A timer with its process."""

    __slots__ = ("process",)

    def __init__(
        self,
        when: float,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        loop: "SimulatedLoop",
        context: Context | None,
    ) -> None:
        if context is None:
            context = copy_context()
        self._context = context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True
        self.process: Process | None = context.get(PROCESS)
