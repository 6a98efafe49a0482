"""Who serves a shard: every node works it out from the same list and comes to the same answer. Pure.

Rendezvous hashing: each (shard, node) pair has a weight, the heaviest live node of a zone is the owner there. When a
node comes or goes, only its own shards move. Ownership is for locality alone; any node serves anything correctly.
"""

from collections.abc import Iterable
from hashlib import blake2b

from runnel.metadata.nodes import Node


def weight(thing: str, node: int) -> int:
    return int.from_bytes(blake2b(f"{thing}/{node}".encode(), digest_size=8).digest())


def live_nodes(nodes: Iterable[Node], now_ms: int) -> list[Node]:
    """Nodes whose lease has not run out and that are not about to leave; all that are not leaving, if none is left."""
    staying = [node for node in nodes if not node.draining]
    live = [node for node in staying if now_ms - node.seen_ms <= node.lease_ms]
    return sorted(live or staying, key=lambda node: node.id)


def owner_of(thing: str, nodes: Iterable[Node], zone: str = "") -> Node | None:
    """The owner of a thing among these nodes: of the wanted zone, if one is there; the lower id wins a draw."""
    candidates = list(nodes)
    if zone:
        candidates = [node for node in candidates if node.zone == zone] or candidates
    return max(candidates, key=lambda node: (weight(thing, node.id), -node.id), default=None)
