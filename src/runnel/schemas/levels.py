"""Compatibility levels: with which older versions a new one is compared, and who has to read whose values.

BACKWARD   the new schema reads what the last version wrote      …_TRANSITIVE   all versions
FORWARD    the last version reads what the new schema writes
FULL       both
NONE       nothing is compared
"""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

LEVELS = (
    "NONE", "BACKWARD", "FORWARD", "FULL", "BACKWARD_TRANSITIVE", "FORWARD_TRANSITIVE", "FULL_TRANSITIVE",
)  # fmt: skip
DEFAULT_LEVEL = "BACKWARD"


def compared_with(level: str, older: Sequence[T]) -> list[T]:
    """Which of the older versions count, the newest first."""
    if level == "NONE" or not older:
        return []
    return list(reversed(older)) if level.endswith("_TRANSITIVE") else [older[-1]]


def reads_old(level: str) -> bool:
    return level.startswith(("BACKWARD", "FULL"))


def read_by_old(level: str) -> bool:
    return level.startswith(("FORWARD", "FULL"))
