"""The Ledger seam: for each shard a total order of small entries. Nothing else is asked of the database behind it."""

from collections.abc import Sequence
from typing import Protocol

from runnel.errors import Unavailable
from runnel.model import Position, ShardId

ENTRY_BYTES_MAX = 8 * 1024 * 1024
"""An entry is small; a larger one is refused before it is sent."""

APPEND_ENTRIES_MAX = 512
"""Entries in one call to `append`."""

APPEND_BYTES_MAX = 64 * 1024 * 1024
"""Bytes in one call to `append`."""

READ_BYTES_MAX = 16 * 1024 * 1024
"""An answer to `read` stops growing here, though it always holds at least one entry if there is one."""


class Trimmed(Unavailable):
    """The entries asked for are gone: begin again from a checkpoint. `first` is the oldest position still there."""

    def __init__(self, shard: ShardId, first: Position) -> None:
        super().__init__(f"ledger of shard {shard} begins at position {first} now")
        self.shard = shard
        self.first = first


class Ledger(Protocol):
    """A total order of entries per shard, kept durably.

    What callers may rely on:

    - Positions of a shard are 1, 2, 3 … without gaps. An entry at a position never changes and no entry ever appears
      before one that somebody has already read.
    - When `append` returns, its entries are durable and every later `tail` and `read`, by anyone, sees them.
    - `append` of several shards is one transaction where the backend can do that (`atomic` is True); elsewhere a
      failure may leave the first of them appended, in the order given: `Uncertain`.
    - `Unavailable` from `append`: certainly not appended. `Uncertain`: perhaps appended, once. The ledger does not
      recognise repeated entries; entries carry an id, and applying the same id twice changes nothing.
    - `read` gives entries in order from the first after `after`; fewer than `limit` only when the tail is reached or
      the answer is large (`READ_BYTES_MAX`); nothing when `after` is the tail; `Trimmed` when entries after `after`
      are gone already.
    - `wait` returns soon after the tail is beyond `after`, at once if it is already; it may also return early, so
      callers look again. It is cancelled like any other wait and then leaves nothing behind. Waiting costs no
      requests where the backend can push.
    - `trim` forgets entries up to and including `upto` (or the tail, if that is less); it never lowers the tail.
      Trimming twice is harmless.
    - `close` ends pending waits, and whatever is asked of the ledger afterwards is `Unavailable`. Closing twice is
      harmless. Appends under way are finished or said to be `Uncertain`.
    - An entry that is not what was written is `Corrupt`, with shard and position; it is never passed on.
    """

    atomic: bool

    async def append(self, entries: Sequence[tuple[ShardId, bytes]]) -> list[Position]:
        """Append entries, give each its position. Several entries of one shard get adjacent positions, in order."""

    async def read(self, shard: ShardId, after: Position, limit: int = 1000) -> list[tuple[Position, bytes]]:
        """Entries after a position, in order."""

    async def wait(self, shard: ShardId, after: Position) -> None:
        """Return when there may be entries after a position."""

    async def tail(self, shard: ShardId) -> Position:
        """The last position, or 0: everything acknowledged before this call is at or before it."""

    async def first(self, shard: ShardId) -> Position:
        """The oldest position that can still be read; tail + 1 when there is none."""

    async def trim(self, shard: ShardId, upto: Position) -> None:
        """Forget entries up to and including a position."""

    async def close(self) -> None:
        """Let go of connections and files."""
