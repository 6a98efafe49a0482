"""Services outside the nodes that stand on floors above `world`, as a node sees them through its portal."""

from collections.abc import Sequence

from runnel.metadata.ledger.seam import Ledger
from runnel.model import Position, ShardId
from runnel.world.simulation.nodes import World
from runnel.world.simulation.portal import Portal


class RemoteLedger:
    """A Ledger on the other side of a portal; an append that left goes on when its node is killed."""

    def __init__(self, portal: Portal, ledger: Ledger) -> None:
        self.atomic = ledger.atomic
        self._portal = portal
        self._ledger = ledger

    async def append(self, entries: Sequence[tuple[ShardId, bytes]]) -> list[Position]:
        # What is sent is what it is now, whatever the caller does with its memory afterwards.
        sent = [(shard, bytes(entry)) for shard, entry in entries]
        return await self._portal.call(lambda: self._ledger.append(sent), what="append to the ledger", changes=True)

    async def read(self, shard: ShardId, after: Position, limit: int = 1000) -> list[tuple[Position, bytes]]:
        return await self._portal.call(
            lambda: self._ledger.read(shard, after, limit), what=f"read of the ledger of shard {shard}"
        )

    async def wait(self, shard: ShardId, after: Position) -> None:
        await self._portal.call(
            lambda: self._ledger.wait(shard, after), what=f"wait at the ledger of shard {shard}", follow=True
        )

    async def tail(self, shard: ShardId) -> Position:
        return await self._portal.call(lambda: self._ledger.tail(shard), what=f"tail of the ledger of shard {shard}")

    async def first(self, shard: ShardId) -> Position:
        return await self._portal.call(lambda: self._ledger.first(shard), what=f"first of the ledger of shard {shard}")

    async def trim(self, shard: ShardId, upto: Position) -> None:
        await self._portal.call(
            lambda: self._ledger.trim(shard, upto), what=f"trim of the ledger of shard {shard}", changes=True
        )

    async def close(self) -> None:
        """The service stays; only this way to it ends."""


def ledger_of(world: World, ledger: Ledger, service: str = "ledger") -> Ledger:
    """A ledger outside the node, as this node sees it; `partitions("ledger")` cuts the way to it."""
    return RemoteLedger(world.portal(service), ledger)
