"""A node among others: it takes a number, renews its lease, and takes note of who is there.

A lease is a promise about time that only the others judge: whoever sees that a node has not renewed for longer than its
lease proposes its removal, saying how many renewals it saw; if the node has renewed meanwhile, that is refused. A node
that was paused beyond its lease finds itself removed at its next renewal (`Fenced`) and registers anew under the same
number: brokers own nothing, so it has lost nothing.

The others' clocks are not compared with the node's own: what counts is for how long, by one's own clock, the number of
renewals has not changed.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from runnel.engine.rendezvous import owner_of
from runnel.errors import Fenced, NotThere, Refused, Unavailable, Uncertain
from runnel.metadata.entry import Update
from runnel.metadata.follower import Follower
from runnel.metadata.nodes import Node
from runnel.metadata.updates import RegisterNode, RemoveNode, RenewLease
from runnel.model import ROOT, ShardId
from runnel.world.telemetry import get_log
from runnel.world.world import World

log = get_log("membership")


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """What a node tells of itself."""

    id: int | None = None
    """None: the lowest number that is free."""
    addresses: dict[str, str] = field(default_factory=dict)
    zone: str = ""
    lease_ms: int = 5000
    former: tuple[int, bytes] | None = None
    """The number and incarnation of a process that is known to be dead: its number is taken over without waiting."""


class Membership:
    """Our place in the cluster, and its view of the others."""

    def __init__(
        self,
        presence: Presence,
        root: Follower,
        propose: Callable[[ShardId, Update], Awaitable[Any]],
        world: World,
    ) -> None:
        self.id = -1 if presence.id is None else presence.id
        self.incarnation = world.chance.randbytes(16)
        self._presence = presence
        self._root = root
        self._propose = propose
        self._world = world
        self._draining = False
        self._seen: dict[tuple[int, bytes], tuple[int, int]] = {}
        """Of each other process: its renewals, and when (by our clock) we first saw that many."""
        self._renewing: asyncio.Task[None] | None = None

    # --- the others

    def nodes(self) -> list[Node]:
        """Everyone who is there as far as this node knows, itself included, in order of their numbers."""
        now = self._now_ms()
        return [
            node
            for _, node in sorted(self._root.state.nodes.items())
            if node.id == self.id or now - self._last_change(node, now) <= node.lease_ms
        ]

    def serving(self) -> list[Node]:
        """Those who should be given work; everyone if all are about to leave."""
        nodes = self.nodes()
        return [node for node in nodes if not node.draining] or nodes

    def owner_of_shard(self, shard: int, zone: str = "") -> Node | None:
        return owner_of(f"shard-{shard}", self.serving(), zone)

    def is_first(self) -> bool:
        """Whether this node is the one to do what only one needs to do."""
        owner = self.owner_of_shard(ROOT)
        return owner is None or owner.id == self.id

    def _now_ms(self) -> int:
        return int(self._world.clock.monotonic() * 1000)

    def _last_change(self, node: Node, now: int) -> int:
        key = (node.id, node.incarnation)
        seen = self._seen.get(key)
        if seen is None or seen[0] != node.renewals:
            seen = self._seen[key] = (node.renewals, now)
        return seen[1]

    # --- oneself

    async def join(self) -> None:
        """Take a number and keep it alive in the background."""
        await self._register()
        self._renewing = self._world.tasks.spawn(self._keep_renewing(), name="renew lease")

    async def tell(self, addresses: dict[str, str]) -> None:
        """Let everyone know where this node's doors are, now that they are open."""
        self._presence = replace(self._presence, addresses=addresses)
        await self._register("addresses_told")

    async def drain(self) -> None:
        """Tell everyone not to send new work here."""
        self._draining = True
        await self._renew()

    async def leave(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
        try:
            await self._propose(ROOT, RemoveNode(self.id, self.incarnation))
        except (Fenced, Unavailable, Uncertain) as error:
            log.info("left_without_goodbye", node=self.id, error=str(error))

    async def _register(self, event: str = "node_registered") -> None:
        while True:
            await self._root.catch_up()
            nodes = self._root.state.nodes
            number = self._presence.id
            if number is None:
                number = self._any_number(nodes) if self.id < 0 else self.id
            holder = nodes.get(number)
            if holder is not None and (number, holder.incarnation) not in (
                self._presence.former,
                (number, self.incarnation),
            ):
                await self._outwait(holder)
                if number != self._presence.id:
                    continue
                holder = self._root.state.nodes.get(number)
            node = Node(
                number, self.incarnation, self._presence.addresses, self._presence.zone, self._presence.lease_ms
            )
            try:
                await self._propose(ROOT, RegisterNode(node, holder.incarnation if holder is not None else b""))
            except Fenced:
                continue
            self.id = number
            log.info(event, node=number, zone=self._presence.zone)
            return

    def _any_number(self, nodes: dict[int, Node]) -> int:
        """The number that this node had before, if it is free or still our dead process's; else the lowest free one."""
        former = self._presence.former
        if former is not None and (former[0] not in nodes or nodes[former[0]].incarnation == former[1]):
            return former[0]
        return next(number for number in range(len(nodes) + 1) if number not in nodes)

    async def _outwait(self, holder: Node) -> None:
        """Wait until a process that holds our number has let its lease run out, or has gone."""
        renewals = holder.renewals
        await asyncio.sleep(holder.lease_ms / 1000)
        await self._root.catch_up()
        now = self._root.state.nodes.get(holder.id)
        if now is not None and now.incarnation == holder.incarnation and now.renewals != renewals:
            raise Refused(
                f"node {holder.id} is alive at {', '.join(now.addresses.values()) or 'another place'}: "
                "choose another node id, or stop that process first"
            )

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(self._presence.lease_ms / 3000 * self._world.chance.uniform(0.8, 1.0))
            try:
                await self._renew()
                await self._remove_the_silent()
            except (Unavailable, Uncertain) as error:
                log.warning("lease_not_renewed", node=self.id, error=str(error))

    async def _renew(self) -> None:
        try:
            await self._propose(ROOT, RenewLease(self.id, self.incarnation, self._draining))
        except (Fenced, NotThere) as error:
            log.warning("lease_lost", node=self.id, error=str(error))
            await self._register()

    async def _remove_the_silent(self) -> None:
        now = self._now_ms()
        nodes = list(self._root.state.nodes.values())
        for node in nodes:
            if node.id != self.id and now - self._last_change(node, now) > node.lease_ms:
                try:
                    await self._propose(ROOT, RemoveNode(node.id, node.incarnation, node.renewals))
                    log.warning("node_removed", node=node.id, zone=node.zone)
                except Fenced:
                    pass  # it came back, or another was faster
        kept = {(node.id, node.incarnation) for node in nodes}
        self._seen = {key: seen for key, seen in self._seen.items() if key in kept}
