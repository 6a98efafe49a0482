"""A line on standard error that shows how far a long command has come; on a terminal alone."""

import sys
from typing import TextIO

from runnel.world.clock import Clock, SystemClock

EVERY_SECONDS = 0.2
WIDTH = 24


class Progress:
    """`records` and bytes so far, how fast, and of how much when that is known. Call `at` as often as you like."""

    def __init__(
        self, *, total: int = 0, quiet: bool = False, stream: TextIO | None = None, clock: Clock | None = None
    ) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock or SystemClock()
        self._total = total
        self._shown = not quiet and self._stream.isatty()
        self._begun = self._last = self._clock.monotonic()
        self._drawn = False

    def at(self, done: int, records: int, size: int) -> None:
        """`done` counts in the same unit as `total`."""
        took = self.seconds()
        self._draw(done, f"{records:,} records, {size / 1e6:,.1f} MB, {size / 1e6 / took:,.1f} MB/s")

    def _draw(self, done: int, text: str) -> None:
        if not self._shown:
            return
        now = self._clock.monotonic()
        if now - self._last < EVERY_SECONDS:
            return
        self._last = now
        if self._total:
            share = min(1.0, done / self._total)
            filled = round(share * WIDTH)
            text = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {share:4.0%}  {text}"
        self._stream.write(f"\r\x1b[K{text}")
        self._stream.flush()
        self._drawn = True

    def of(self, size: int, total: int) -> None:
        """Bytes of how many, where records are not counted."""
        self._total = total
        took = self.seconds()
        self._draw(size, f"{size / 1e6:,.1f} of {total / 1e6:,.1f} MB, {size / 1e6 / took:,.1f} MB/s")

    def seconds(self) -> float:
        return max(self._clock.monotonic() - self._begun, 1e-3)

    def clear(self) -> None:
        """Give the line back."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False
