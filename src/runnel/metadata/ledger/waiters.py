"""Those who wait for a shard to grow, within one process."""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from runnel.errors import Unavailable
from runnel.model import ShardId


class Waiters:
    """Futures by shard. Waking is a hint: whoever is woken looks again.

    A waiter is enrolled *before* it looks at the tail, so that what is appended between the look and the sleep wakes it.
    Kept in dictionaries rather than sets: waking in the order of enrolment is what lets a seed replay.
    """

    def __init__(self) -> None:
        self._by_shard: dict[ShardId, dict[asyncio.Future[None], None]] = {}
        self.closed = False

    def __len__(self) -> int:
        return sum(map(len, self._by_shard.values()))

    @contextmanager
    def enrolled(self, shard: ShardId) -> Iterator[asyncio.Future[None]]:
        """A future that ends with the next wake-up of the shard; forgotten when the block is left, however it is left."""
        self.check_open()
        future = asyncio.get_running_loop().create_future()
        waiting = self._by_shard.setdefault(shard, {})
        waiting[future] = None
        try:
            yield future
        finally:
            del waiting[future]
            if not waiting and self._by_shard.get(shard) is waiting:
                del self._by_shard[shard]
            if not future.done():
                future.cancel()
            elif not future.cancelled():
                future.exception()  # looked at, so that nobody complains that it was not

    def wake(self, shards: Iterable[ShardId]) -> None:
        for shard in shards:
            for future in self._by_shard.get(shard, ()):
                if not future.done():
                    future.set_result(None)

    def wake_all(self) -> None:
        self.wake(list(self._by_shard))

    def check_open(self) -> None:
        if self.closed:
            raise Unavailable("ledger is closed")

    def close(self) -> None:
        """End every wait with `Unavailable`, and refuse new ones."""
        self.closed = True
        for waiting in self._by_shard.values():
            for future in waiting:
                if not future.done():
                    future.set_exception(Unavailable("ledger was closed while waiting"))
