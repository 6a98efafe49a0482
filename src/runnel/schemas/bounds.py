"""How large, how deep and how branched a schema may be, so that reading and comparing it always ends soon."""

import json
from typing import Any

from runnel.errors import Refused

DEPTH_MAX = 100
NODES_MAX = 50_000
STEPS_MAX = 50_000
"""Pairs of places that one comparison may look at."""


class BadSchema(Refused):
    """The text is no schema of its kind."""


class Steps:
    """Counts down while two schemas are compared."""

    def __init__(self) -> None:
        self.left = STEPS_MAX

    def take(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise BadSchema(f"the schemas are too entangled to be compared in {STEPS_MAX} steps")


def read_json(text: str, what: str) -> Any:
    """A JSON document within bounds; `BadSchema` for anything else."""
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise BadSchema(f"this {what} is nested deeper than {DEPTH_MAX} levels") from None
    except ValueError as bad:
        raise BadSchema(f"this is no {what}: {str(bad)[:200]}") from None
    check_size(document, what)
    return document


def check_size(document: Any, what: str) -> None:
    """Depth and number of values, without recursion."""
    level, nodes = [document], 0
    for _ in range(DEPTH_MAX + 1):
        if not level:
            return
        nodes += len(level)
        if nodes > NODES_MAX:
            raise BadSchema(f"this {what} has more than {NODES_MAX} parts")
        below: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                below.extend(node.values())
            elif isinstance(node, list):
                below.extend(node)
        level = below
    raise BadSchema(f"this {what} is nested deeper than {DEPTH_MAX} levels")


def compact(document: Any) -> str:
    """A JSON document as short text."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def settled(document: Any) -> str:
    """The same text for the same JSON document, whatever the order of its keys."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
