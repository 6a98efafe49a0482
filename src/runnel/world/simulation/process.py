"""A simulated process: the thing that can be killed, paused and counted, and that every callback belongs to.

Callbacks of an asyncio loop carry a context; the context variable `PROCESS` says on whose behalf they run, and tasks,
futures and timers inherit it. So the loop alone can do to a process what an operating system does:

    pause   its callbacks are held back and its timers come late, as under SIGSTOP; nobody else notices
    kill    its callbacks are dropped for ever: no `except`, no `finally`, no cancellation, as under SIGKILL
    count   every callback is one step; `doomed_at_step` kills the process just before that step

A callback without a process belongs to the world around: the network, the stores, the faults, the checkers.
"""

from asyncio import Handle
from collections.abc import Callable
from contextvars import Context, ContextVar
from typing import Any

from runnel.errors import Fenced

PROCESS: ContextVar["Process | None"] = ContextVar("runnel_simulated_process", default=None)


class Process:
    """One incarnation of one node."""

    __slots__ = (
        "_context",
        "alive",
        "doomed_at_step",
        "graveyard",
        "held",
        "host",
        "name",
        "on_kill",
        "paused",
        "steps",
    )

    def __init__(self, name: str, host: str | None = None) -> None:
        self.name = name
        # Where it runs: what the network calls its end of a connection.
        self.host = host or name
        self.alive = True
        self.paused = False
        self.steps = 0
        self.doomed_at_step: int | None = None
        # What became ready while the process was paused, in order.
        self.held: list[Handle] = []
        # Called once, in the world's name, when the process dies.
        self.on_kill: list[Callable[[], None]] = []
        # Whatever would be closed (and so run its `finally`) if the garbage collector found it before the run is over.
        self.graveyard: list[Any] = []
        self._context = Context()
        self._context.run(PROCESS.set, self)

    def context(self) -> Context:
        """A fresh context in which everything that is scheduled belongs to this process."""
        return self._context.copy()

    def must_live(self) -> None:
        """Raise `Fenced` when the process was killed: the dead have no effects."""
        if not self.alive:
            raise Fenced(f"process {self.name} was killed")

    def __repr__(self) -> str:
        state = "dead" if not self.alive else "paused" if self.paused else "running"
        return f"<Process {self.name} {state}, {self.steps} steps>"


def current_process() -> Process | None:
    """On whose behalf this code runs; None in the world around the processes."""
    return PROCESS.get()


def in_the_world() -> Context:
    """A fresh context in which everything that is scheduled belongs to no process, so no kill or pause touches it."""
    return Context()
