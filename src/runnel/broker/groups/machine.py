"""What every kind of group has in common, seen from those who run it."""

from collections.abc import Callable, Iterator, Sized
from typing import Any, Protocol

import msgspec

from runnel.codec.declare import Message
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.offset_commit import OffsetCommitRequest


class Machine(Protocol):
    """A group that hears of events and says what to answer. It never waits and knows no clock."""

    name: str
    generation: int
    answers: list[tuple[Any, Message]]
    dirty: bool
    """Something has changed that must last; answers wait until it does."""

    @property
    def kind(self) -> str:
        """As the ledger has it."""

    @property
    def state(self) -> str:
        """As clients are told."""

    @property
    def members(self) -> Sized:
        """Whoever is in it."""

    @property
    def is_idle(self) -> bool:
        """Whether the ledger has all there is to know."""

    @property
    def due(self) -> float:
        """When `tick` is to be called."""

    def tick(self, at: float) -> None:
        """Time has come for something, perhaps."""

    def waiting(self) -> Iterator[Any]:
        """The requests that wait for their answers."""

    def kept(self) -> msgspec.Struct:
        """What must outlive this broker."""

    def why_not_commit(self, ask: OffsetCommitRequest, *, version: int, at: float) -> ErrorCode | None:
        """Whether whoever asks may commit offsets now."""

    def reads(self, topic: str) -> bool:
        """Whether some member has subscribed to a topic."""

    def why_not_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        """Whether whoever asks may know the committed offsets now."""


Event = Callable[[Any, float], None]
"""Called with a machine and the time."""
