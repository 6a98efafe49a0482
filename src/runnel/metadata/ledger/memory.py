"""The ledger of one process: lists of entries. The twin that tests and the simulation run on.

A `MemoryShelf` is what outlives a node; each node looks at it through a `MemoryLedger` of its own, which it may close.
"""

from collections.abc import Sequence
from itertools import islice

from runnel.metadata.ledger.checks import check_entries, check_not_trimmed, check_read, check_shard, up_to_read_bytes
from runnel.metadata.ledger.waiters import Waiters
from runnel.model import Position, ShardId


class _Shelf:
    """The entries of one shard: those up to `trimmed` are gone, the rest follow without gaps."""

    __slots__ = ("entries", "trimmed")

    def __init__(self) -> None:
        self.trimmed = 0
        self.entries: list[bytes] = []

    @property
    def tail(self) -> Position:
        return Position(self.trimmed + len(self.entries))


class MemoryShelf:
    """Entries of all shards, and the nodes that look at them."""

    def __init__(self) -> None:
        self.shards: dict[ShardId, _Shelf] = {}
        self.rooms: dict[Waiters, None] = {}

    def shard(self, shard: ShardId) -> _Shelf:
        return self.shards.setdefault(shard, _Shelf())


class MemoryLedger:
    """One node's view of a shelf. Everything happens at once, in the turn of the event loop that asks for it."""

    atomic = True

    def __init__(self, shelf: MemoryShelf | None = None) -> None:
        self.shelf = shelf if shelf is not None else MemoryShelf()
        self._waiters = Waiters()
        self.shelf.rooms[self._waiters] = None

    async def append(self, entries: Sequence[tuple[ShardId, bytes]]) -> list[Position]:
        self._waiters.check_open()
        check_entries(entries)
        positions = []
        for shard, entry in entries:
            shelf = self.shelf.shard(shard)
            shelf.entries.append(bytes(entry))
            positions.append(shelf.tail)
        grown = dict.fromkeys(shard for shard, _ in entries)
        for waiters in self.shelf.rooms:
            waiters.wake(grown)
        return positions

    async def read(self, shard: ShardId, after: Position, limit: int = 1000) -> list[tuple[Position, bytes]]:
        self._waiters.check_open()
        check_read(shard, after, limit)
        shelf = self.shelf.shard(shard)
        check_not_trimmed(shard, after, Position(shelf.trimmed + 1))
        following = islice(shelf.entries, after - shelf.trimmed, None)
        return up_to_read_bytes(((Position(p), entry) for p, entry in enumerate(following, after + 1)), limit)

    async def wait(self, shard: ShardId, after: Position) -> None:
        check_shard(shard)
        with self._waiters.enrolled(shard) as woken:
            if self.shelf.shard(shard).tail <= after:
                await woken

    async def tail(self, shard: ShardId) -> Position:
        self._waiters.check_open()
        check_shard(shard)
        return self.shelf.shard(shard).tail

    async def first(self, shard: ShardId) -> Position:
        self._waiters.check_open()
        check_shard(shard)
        return Position(self.shelf.shard(shard).trimmed + 1)

    async def trim(self, shard: ShardId, upto: Position) -> None:
        self._waiters.check_open()
        check_shard(shard)
        shelf = self.shelf.shard(shard)
        gone = min(upto, shelf.tail) - shelf.trimmed
        if gone > 0:
            del shelf.entries[:gone]
            shelf.trimmed += gone

    async def close(self) -> None:
        self._waiters.close()
        self.shelf.rooms.pop(self._waiters, None)
