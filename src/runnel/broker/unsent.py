"""Memory of answers that their readers have not taken yet: all slow readers together have a bound.

A transport does not say when the last byte of an answer has gone. So an answer counts from when it is made until
somebody wants more room than there is: only then are the connections asked what they still hold. What is being brought
from the store for an answer counts as well.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runnel.broker.connection import Connection


class Unsent:
    """Bytes of large answers on their way, by connection."""

    def __init__(self, bytes_max: int) -> None:
        self.coming = 0
        """Bytes that are being brought."""
        self._bytes = 0
        self._bytes_max = bytes_max
        self._of: dict[Connection, int] = {}

    def answered(self, connection: "Connection", size: int) -> None:
        self._of[connection] = self._of.get(connection, 0) + size
        self._bytes += size

    def forget(self, connection: "Connection") -> None:
        self._bytes -= self._of.pop(connection, 0)

    def has_room(self) -> bool:
        """Whether another large answer may be made."""
        if self._bytes + self.coming < self._bytes_max:
            return True
        self._of = {each: left for each in self._of if (left := each.unsent())}
        self._bytes = sum(self._of.values())
        return self._bytes + self.coming < self._bytes_max
