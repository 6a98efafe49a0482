"""Is the node alive, and should it be asked anything? Named checks that cost nothing to ask.

A check is a function that returns None when all is well, or a reason. It looks at state that others keep; it never
goes out to ask a database. *Alive* is the answer for a supervisor that would restart us; *ready* for a load balancer.
"""

from collections.abc import Callable
from dataclasses import dataclass

Check = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class Report:
    """What the checks said: for each name None, or the reason why not."""

    reasons: dict[str, str | None]

    @property
    def good(self) -> bool:
        return all(reason is None for reason in self.reasons.values())

    def text(self) -> str:
        """For `curl`: `ready`, or one line per check that is not."""
        bad = [f"{name}: {reason}" for name, reason in self.reasons.items() if reason is not None]
        return "\n".join(bad or ["ok"]) + "\n"


class Health:
    """The checks of one node. It starts out not ready, and says so until `started` is called."""

    def __init__(self) -> None:
        self._alive: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self._phase: str | None = "the node is starting"
        self.require("node", lambda: self._phase)

    def require(self, name: str, check: Check) -> None:
        """Not ready while the check gives a reason."""
        self._ready[name] = check

    def vital(self, name: str, check: Check) -> None:
        """Neither alive nor ready while the check gives a reason: the node should be restarted."""
        self._alive[name] = check
        self._ready[name] = check

    def forget(self, name: str) -> None:
        self._alive.pop(name, None)
        self._ready.pop(name, None)

    def started(self) -> None:
        self._phase = None

    def draining(self) -> None:
        self._phase = "the node is shutting down"

    def alive(self) -> Report:
        return Report({name: check() for name, check in self._alive.items()})

    def ready(self) -> Report:
        return Report({name: check() for name, check in self._ready.items()})
