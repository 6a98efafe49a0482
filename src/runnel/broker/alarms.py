"""Deadlines of waiting requests, with one timer for all of them.

A deadline is rounded up to a step of a few milliseconds; setting one and taking it back cost a dict entry each.
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush

STEP_SECONDS = 0.005


class Alarms:
    """Calls back when a time has come. `set` gives a mark with which `cancel` takes it back."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[Callable[[], None], None]] = {}
        self._order: list[int] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_step = 0

    def set(self, seconds: float, call: Callable[[], None]) -> int:
        loop = asyncio.get_running_loop()
        step = int((loop.time() + seconds) / STEP_SECONDS) + 1
        waiting = self._steps.get(step)
        if waiting is not None:
            waiting[call] = None
            return step
        self._steps[step] = {call: None}
        heappush(self._order, step)
        if self._timer is None or step < self._timer_step:
            self._arm(loop)
        return step

    def cancel(self, mark: int, call: Callable[[], None]) -> None:
        waiting = self._steps.get(mark)
        if waiting is not None:
            waiting.pop(call, None)

    def close(self) -> None:
        self._steps.clear()
        self._order.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._order and not self._steps[self._order[0]]:
            del self._steps[heappop(self._order)]  # everyone who waited for it is done
        if self._order:
            self._timer_step = self._order[0]
            self._timer = loop.call_at(self._timer_step * STEP_SECONDS, self._ring)

    def _ring(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        while self._order and self._order[0] * STEP_SECONDS <= now:
            for call in self._steps.pop(heappop(self._order)):
                call()
        self._arm(loop)
