"""What happened, in order: small notes with a running hash, so that two runs can be compared by one number.

The hash covers each note's virtual microsecond, the count of loop steps until then, node, event and facts. The steps
make it sharp: two runs that only once took turns differently have different hashes from the next note on.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from runnel.world.simulation.loop import SimulatedLoop

NOTES_KEPT_MAX = 400
"""A trace remembers its last notes for the report of a failure; all of them go to listeners."""


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that happened."""

    at_us: int
    step: int
    node: str
    event: str
    facts: tuple[tuple[str, Any], ...]

    def facts_text(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.facts)

    def as_dict(self) -> dict[str, Any]:
        plain = {
            name: value if isinstance(value, int | float | str | bool) else str(value) for name, value in self.facts
        }
        return {"at_us": self.at_us, "step": self.step, "node": self.node, "event": self.event, **plain}


Listener = Callable[[Note], None]


class Trace:
    """The notes of one run."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.listeners: list[Listener] = []
        self.last: deque[Note] = deque(maxlen=NOTES_KEPT_MAX)
        self.count = 0
        self.closed = False
        self._loop = loop
        self._hash = blake2b(digest_size=8)

    def note(self, node: str, event: str, /, **facts: Any) -> None:
        """Facts are values whose text is the same in every run: names and numbers, not addresses."""
        if self.closed:
            return  # what is said while the run is being cleared away was not part of it
        loop = self._loop
        note = Note(round(loop.time() * 1_000_000), loop.steps, node, event, tuple(facts.items()))
        self._hash.update(f"{note.at_us} {note.step} {node} {event} {note.facts_text()}\n".encode())
        self.count += 1
        self.last.append(note)
        for listener in self.listeners:
            listener(note)

    def close(self) -> str:
        """The hash over everything, the final time and step included."""
        if not self.closed:
            self._hash.update(f"{self._loop.time():.9f} {self._loop.steps}".encode())
            self.closed = True
        return self._hash.hexdigest()
