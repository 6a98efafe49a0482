"""Supervised background work: every task has a name and a parent, and none dies quietly."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
Death = Callable[[str, BaseException], None]


class Tasks:
    """The background tasks of one node, or of one part of it.

    A task that ends with an error calls `on_death` with its name and the error; the node takes that as its own death.
    Tasks that are cancelled end quietly. `close` cancels all and returns when the last one has ended.
    """

    def __init__(self, on_death: Death) -> None:
        self._on_death = on_death
        # A dict for its order: tasks are cancelled oldest first, whatever their addresses.
        self._running: dict[asyncio.Task[Any], None] = {}

    def __len__(self) -> int:
        return len(self._running)

    def spawn(self, work: Coroutine[Any, Any, T], *, name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_death(task.get_name(), error)

    async def close(self) -> None:
        while self._running:
            for task in list(self._running):
                task.cancel()
            await asyncio.wait(self._running)
