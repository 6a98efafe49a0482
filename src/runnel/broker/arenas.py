"""Recycled memory that bytes from the network land in, and stay in until nobody refers to them.

An *arena* is a block with a count of those who refer to it: the server that receives into it, a connection whose
request is not whole yet, an append that has not been copied into its object. When the last one lets go, the block goes
back to the pool and may be filled again at once.

All connections without an unfinished request receive into one shared arena: between `get_buffer` and `buffer_updated`
of one connection no other is read from, so an idle connection needs no memory at all.
"""

from runnel.world.blocks import BlockPool

READ_BYTES_MAX = 256 * 1024
"""Asked of the system at once."""

READ_BYTES_MIN = 64 * 1024
"""With less room than this, a shared arena is given up for the next one."""

SHARED_BYTES = 1024 * 1024


class Arena:
    """A block of memory: `view[:at]` is filled."""

    __slots__ = ("_block", "_pool", "at", "references", "size", "view")

    def __init__(self, pool: BlockPool, size: int) -> None:
        self._pool = pool
        self._block = pool.take(size)
        self.size = len(self._block)
        self.view = memoryview(self._block)
        self.at = 0
        self.references = 1

    def hold(self) -> None:
        assert self.references > 0, "an arena that was given back is held again"
        self.references += 1

    def release(self) -> None:
        self.references -= 1
        if not self.references:
            self._pool.give(self._block)
        assert self.references >= 0, "an arena was given back twice"


class Arenas:
    """Where arenas come from. `private_bytes` is what connections hold for requests that are not whole yet."""

    def __init__(self, pool: BlockPool) -> None:
        self._pool = pool
        self._shared: Arena | None = None
        self.private_bytes = 0

    def shared(self) -> Arena:
        """The arena for whoever has nothing unfinished; good until the end of this read."""
        arena = self._shared
        if arena is not None:
            if arena.references == 1:
                arena.at = 0  # nobody looks into it any more: the same warm memory again
                return arena
            if arena.size - arena.at >= READ_BYTES_MIN:
                return arena
            arena.release()
        arena = self._shared = Arena(self._pool, SHARED_BYTES)
        return arena

    def private(self, size: int) -> Arena:
        arena = Arena(self._pool, size)
        self.private_bytes += arena.size
        return arena

    def give_private(self, arena: Arena) -> None:
        self.private_bytes -= arena.size
        arena.release()

    def close(self) -> None:
        if self._shared is not None:
            self._shared.release()
            self._shared = None
