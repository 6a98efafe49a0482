"""The followers of this node: those of the shards it serves from the start, others on demand."""

import asyncio
from collections.abc import Callable, Iterable, Iterator

from runnel.errors import Corrupt, RunnelError, Unavailable
from runnel.metadata.follower import Follower
from runnel.model import ROOT, ShardId, StreamId, shard_of


class Shards:
    """Live followers by shard. `make` makes one that has not been started."""

    def __init__(self, make: Callable[[ShardId], Follower], shards: int) -> None:
        self.count = shards
        self._make = make
        self._live: dict[ShardId, Follower] = {}
        self._starting: dict[ShardId, asyncio.Future[RunnelError | None]] = {}

    def __iter__(self) -> Iterator[Follower]:
        return iter(list(self._live.values()))

    def follower(self, shard: ShardId) -> Follower:
        """The live follower of a shard that is followed."""
        follower = self._live.get(shard)
        if follower is None:
            raise Unavailable(f"shard {shard} is not followed here yet")
        return follower

    def of_stream(self, stream: StreamId) -> Follower:
        follower = self._live.get(ShardId(1 + stream % self.count))  # as `shard_of`, in the line of every batch
        return follower if follower is not None else self.follower(shard_of(stream, self.count))

    async def follow(self, shards: Iterable[ShardId]) -> None:
        """Return when these shards are followed and up to the tail of the ledger; several at once.

        A data shard that cannot be followed for sure is there all the same, `stopped`: whoever asks it for anything is
        told why, and the other shards are served.
        """
        wanted = [shard for shard in shards if shard not in self._live]
        if wanted:
            for error in await asyncio.gather(*(self._begin(shard) for shard in wanted)):
                if error is not None:
                    raise error

    async def _begin(self, shard: ShardId) -> RunnelError | None:
        starting = self._starting.get(shard)
        if starting is not None:
            return await asyncio.shield(starting)
        starting = self._starting[shard] = asyncio.get_running_loop().create_future()
        follower = self._make(shard)
        error: RunnelError | None = Unavailable(f"following shard {shard} was broken off")
        try:
            await follower.start()
            self._live[shard] = follower
            error = None
        except Corrupt as why:
            if shard == ROOT:
                error = why
            else:
                self._live[shard] = follower
                error = None
        except RunnelError as why:
            error = why
        finally:
            del self._starting[shard]
            starting.set_result(error)
        return error

    async def close(self) -> None:
        for follower in list(self._live.values()):
            await follower.close()
        self._live.clear()
