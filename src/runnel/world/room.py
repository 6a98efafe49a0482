"""Room for so many bytes at a time, given in the order in which it is asked for."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Room:
    """At most `bytes_max` are taken at a time, or one share that is larger than this by itself."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def share(self, size: int) -> AsyncIterator[None]:
        """Wait for room for so many bytes, and give it back when the block is left."""
        await self._take(size)
        try:
            yield
        finally:
            self._give(size)

    async def _take(self, size: int) -> None:
        if not self._waiting and self._fits(size):
            self.taken += size
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give(size)  # it was our turn in the moment in which we went away
            else:
                self._waiting = deque(other for other in self._waiting if other[1] is not turn)
                self._serve()
            raise

    def _fits(self, size: int) -> bool:
        return not self.taken or self.taken + size <= self.bytes_max

    def _give(self, size: int) -> None:
        self.taken -= size
        self._serve()

    def _serve(self) -> None:
        while self._waiting and self._fits(self._waiting[0][0]):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self.taken += size
                turn.set_result(None)
