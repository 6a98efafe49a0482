"""A ledger entry: updates that are proposed together, and what it takes to apply them once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class Update(Protocol):
    """One way in which the truth can change. Deterministic, without clock, luck or I/O."""

    def check(self, state: "ShardState") -> None:
        """Raise `Refused` or `Fenced` when the change is not allowed; change nothing."""

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> Any:
        """Make the change, add streams with something new to read to `touched`, and answer the proposer."""


@dataclass(frozen=True, slots=True)
class Entry:
    id: bytes
    after: int
    at_ms: int
    updates: Sequence[Update]
