"""When to ask a second time because the first answer is late, and how often that may be done. Pure.

A store answers most reads quickly and a few very late. A second request sent once the first is later than 95 % of its
kind mostly overtakes it. The budget keeps that from making a slow store slower: when everything is late, nothing is
asked twice for long.
"""

from collections import deque

REMEMBERED = 200
LEARNED_AFTER = 20
EARLIEST_S = 0.02
SHARE = 0.05  # of all reads may be asked twice
SAVED_MAX = 10.0
_LATE = 0.95
_REFRESH = 10


class Hedging:
    """Learns how long reads take, and gives out second tries within a budget."""

    def __init__(self) -> None:
        self._seen: deque[float] = deque(maxlen=REMEMBERED)
        self._since = 0
        self._saved = 1.0
        self._late_s: float | None = None

    def saw(self, seconds: float) -> None:
        """A read's answer began after this time."""
        self._seen.append(seconds)
        self._saved = min(SAVED_MAX, self._saved + SHARE)
        self._since += 1
        if len(self._seen) >= LEARNED_AFTER and (self._late_s is None or self._since >= _REFRESH):
            self._since = 0
            self._late_s = max(EARLIEST_S, sorted(self._seen)[int(len(self._seen) * _LATE)])

    @property
    def late_s(self) -> float | None:
        """After how long a read counts as late; None while too few were seen."""
        return self._late_s

    def spend(self) -> bool:
        """Whether one more read may be asked twice now."""
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True
