"""Time as a guest: everyone who needs it is handed a Clock, so that a test can say "and a minute later"."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Two readings of time."""

    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970, UTC. May jump; never used to order what happened."""

    def monotonic(self) -> float:
        """Seconds that only ever grow, from an unknown start. For durations and deadlines."""


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


class LoopClock:
    """The running event loop's time, counted from a chosen wall-clock moment: virtual when the loop is."""

    def __init__(self, epoch_ms: int = 1_767_225_600_000, skew_ms: int = 0) -> None:
        self._epoch_ms = epoch_ms
        # May be set again while running, as when somebody sets a machine's clock.
        self.skew_ms = skew_ms

    def now_ms(self) -> int:
        return self._epoch_ms + self.skew_ms + int(asyncio.get_running_loop().time() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()
