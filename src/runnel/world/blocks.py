"""Recycled memory: large buffers that are used again instead of being asked from the system anew.

Touching fresh memory costs more than parsing, checksums and system calls together. A block that is given back may be
handed out again at once, so whoever gives it back must know that nobody looks into it any more.

Blocks are anonymous maps, so they begin at a page: what lies in them can be written to a disk past the page cache.
"""

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap

SMALLEST = 64 * 1024
"""Below this, fresh memory is cheap and a block would waste more than it saves."""

STEPS = 8
"""Sizes between one power of two and the next, so that at most an eighth of a block is waste."""


Block = bytearray | mmap
"""Writable memory with a length; small ones are bytearrays."""


class BlockPool:
    """Blocks in steps of size; at most `free_bytes_max` are kept for later."""

    def __init__(self, free_bytes_max: int) -> None:
        self.free_bytes_max = free_bytes_max
        self.free_bytes = 0
        self._free: dict[int, list[Block]] = {}

    def take(self, size: int) -> Block:
        """A block of at least `size` bytes. What is in it is left over from before."""
        if size < SMALLEST:
            return bytearray(size)
        rounded = rounded_up(size)
        kept = self._free.get(rounded)
        if kept:
            self.free_bytes -= rounded
            return kept.pop()
        return mmap(-1, rounded, flags=MAP_PRIVATE | MAP_ANONYMOUS)

    def give(self, block: Block) -> None:
        size = len(block)
        if size >= SMALLEST and size == rounded_up(size) and self.free_bytes + size <= self.free_bytes_max:
            self.free_bytes += size
            self._free.setdefault(size, []).append(block)


def rounded_up(size: int) -> int:
    """The size of the blocks that hold `size` bytes."""
    step = max(1, (1 << (size - 1).bit_length()) // (2 * STEPS))
    return -(-size // step) * step
