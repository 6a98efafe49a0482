"""Objects and parts of objects in memory, the most recently used ones, within a bound.

Whole objects come from this node's own writes, parts from reads. Blocks are recycled the moment they are thrown out, so
a view that `get` returns is good for the current turn only: copy what you need before the next await.
"""

from collections import OrderedDict

from runnel.world.blocks import Block, BlockPool
from runnel.world.objects.seam import Buffer

WHOLE = -1


class ObjectCache:
    """Least recently used goes first."""

    def __init__(self, bytes_max: int, pool: BlockPool) -> None:
        self.bytes_max = bytes_max
        self.size = 0
        self.hits = 0
        self.misses = 0
        self._pool = pool
        self._entries: OrderedDict[tuple[str, int], tuple[memoryview, Block | None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def put_block(self, name: str, block: Block, size: int) -> None:
        """A whole object in a block of the pool; the block is the cache's from now on."""
        self._put((name, WHOLE), memoryview(block)[:size], block)

    def put_whole(self, name: str, data: Buffer) -> None:
        """A whole object that is not in a block."""
        self._put((name, WHOLE), memoryview(data), None)

    def put_part(self, name: str, place: int, data: Buffer) -> None:
        """A part as it came from the store."""
        self._put((name, place), memoryview(data), None)

    def _put(self, key: tuple[str, int], view: memoryview, block: Block | None) -> None:
        if len(view) > self.bytes_max or key in self._entries:
            if block is not None:
                self._pool.give(block)
            return
        self._entries[key] = (view, block)
        self.size += _cost(view, block)
        while self.size > self.bytes_max:
            self._drop(next(iter(self._entries)))

    def get(self, name: str, place: int, length: int | None) -> memoryview | None:
        """The bytes, for this turn; without a length all that were put there."""
        entry = self._entries.get((name, WHOLE))
        if entry is not None:
            self._entries.move_to_end((name, WHOLE))
            self.hits += 1
            return entry[0][place:] if length is None else entry[0][place : place + length]
        entry = self._entries.get((name, place))
        if entry is not None and (length is None or len(entry[0]) >= length):
            self._entries.move_to_end((name, place))
            self.hits += 1
            return entry[0][:length]
        self.misses += 1
        return None

    def holds(self, name: str, place: int) -> bool:
        return (name, WHOLE) in self._entries or (name, place) in self._entries

    def _drop(self, key: tuple[str, int]) -> None:
        view, block = self._entries.pop(key)
        self.size -= _cost(view, block)
        view.release()
        if block is not None:
            self._pool.give(block)

    def clear(self) -> None:
        for key in list(self._entries):
            self._drop(key)


def _cost(view: memoryview, block: Block | None) -> int:
    return len(view) if block is None else len(block)
