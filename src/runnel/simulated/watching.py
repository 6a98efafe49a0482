"""How a run is shown: one aligned line per note, a column for each node.

    00:00:03.214007    ·  ▌ ·  client2    wrote            name=race/4 size=12

The columns are the nodes, in the order of their names: the one that speaks shows a bar, one that is down shows x, one
that is paused shows =, the others a dot. So a kill reads as a column of x until the node comes back.
"""

from collections.abc import Callable

from runnel.world.simulation.trace import Note

_STATES = {"starts": "·", "woken": "·", "paused": "=", "is gone": "x"}


class Watcher:
    """Writes notes as lines."""

    def __init__(self, write: Callable[[str], object], nodes: tuple[str, ...]) -> None:
        self._write = write
        self._states = dict.fromkeys(nodes, " ")

    def __call__(self, note: Note) -> None:
        if note.node in self._states and note.event in _STATES:
            self._states[note.node] = _STATES[note.event]
        columns = " ".join("▌" if name == note.node and state == "·" else state for name, state in self._states.items())
        self._write(
            f"{clock(note.at_us)}  {columns}  {note.node:<10} {note.event:<16} {note.facts_text()}".rstrip() + "\n"
        )


def clock(at_us: int) -> str:
    """Virtual time, as hours:minutes:seconds."""
    seconds, micro = divmod(at_us, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micro:06}"
