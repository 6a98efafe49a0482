"""Who is named as leader of a partition and as coordinator of a group.

Any broker serves anything. Who is named matters for locality alone: a shard's owner among the live brokers of the
client's zone, by rendezvous hashing, so that all brokers of one view name the same one and a broker's clients meet in
few shards. When a broker dies, its shards move as soon as its lease is seen to have run out.
"""

import re
from typing import NamedTuple

from runnel.codec.errors import ErrorCode
from runnel.engine import Engine
from runnel.engine.rendezvous import owner_of
from runnel.metadata.nodes import Node
from runnel.model import StreamId, shard_of, shard_of_name
from runnel.settings import Address

_ZONE = re.compile(r"(?:^|[,;\s])zone_id=([^,;\s]*)")
DOOR = "kafka"
LEADER_EPOCH = 0
"""Leaders are no more than a hint here, and a hint has no epochs: there is one for ever."""


class Endpoint(NamedTuple):
    """A broker as clients are told of it."""

    node: int
    host: str
    port: int
    zone: str


def epoch_error(claimed: int) -> ErrorCode | None:
    """What to answer a client that believes in another leader epoch than the only one; -1 believes in none."""
    if claimed in (-1, LEADER_EPOCH):
        return None
    return ErrorCode.UNKNOWN_LEADER_EPOCH if claimed > LEADER_EPOCH else ErrorCode.FENCED_LEADER_EPOCH


def zone_in(client_id: str) -> str:
    """The zone that a client names inside its client id: `billing,zone_id=eu-1a`."""
    found = _ZONE.search(client_id) if "zone_id=" in client_id else None
    return found[1] if found is not None else ""


class Routing:
    """The live brokers and what each of them is named for."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.own = Endpoint(0, "127.0.0.1", 0, "")
        """This broker; `announce` says where it listens."""
        self._view: tuple[tuple[int, str, str], ...] = ()
        self._nodes: list[Node] = []
        self._endpoints: list[Endpoint] = []
        self._leaders: dict[str, list[int]] = {}

    def announce(self, host: str, port: int, zone: str = "") -> None:
        """Where this broker is found, for as long as the cluster does not tell."""
        self.own = Endpoint(self.node_id, host, port, zone)

    @property
    def node_id(self) -> int:
        membership = self._engine.membership
        return self.own.node if membership is None else membership.id

    def brokers(self) -> list[Endpoint]:
        """The brokers that should be given work, in order of their numbers; there is at least this one."""
        self._look()
        return self._endpoints

    def controller(self) -> int:
        """Whom to name as controller: any broker does what is asked of a controller."""
        return self.brokers()[0].node

    def leaders(self, zone: str) -> list[int]:
        """The broker to be named for each shard, by the shard's number; to be asked once per request."""
        self._look()
        leaders = self._leaders.get(zone)
        if leaders is None:
            leaders = [self._owner(f"shard-{shard}", zone) for shard in range(self._engine.cluster.shards + 1)]
            if len(self._leaders) < 1000:  # zones are said by clients
                self._leaders[zone] = leaders
        return leaders

    def leader(self, stream: int, zone: str) -> int:
        return self.leaders(zone)[shard_of(StreamId(stream), self._engine.cluster.shards)]

    def coordinator(self, key: str) -> Endpoint:
        """The broker for a group or another thing with a name, the owner of its shard: for clients of every zone."""
        node = self.leaders("")[shard_of_name(key, self._engine.cluster.shards)]
        return next(endpoint for endpoint in self.brokers() if endpoint.node == node)

    def endpoint(self, node: int) -> Endpoint | None:
        return next((endpoint for endpoint in self.brokers() if endpoint.node == node), None)

    def _owner(self, thing: str, zone: str) -> int:
        self._look()
        owner = owner_of(thing, self._nodes, zone)
        return self.own.node if owner is None else owner.id

    def _look(self) -> None:
        """See who is there now; all that was worked out is forgotten when that has changed."""
        membership = self._engine.membership
        if membership is None:
            self._endpoints = [self.own]
            return
        nodes = [node for node in membership.serving() if DOOR in node.addresses]
        view = tuple((node.id, node.addresses[DOOR], node.zone) for node in nodes)
        if view == self._view and self._endpoints:
            return
        self._view = view
        self._nodes = nodes
        self._leaders = {}
        self._endpoints = [_endpoint(node) for node in nodes] or [self.own._replace(node=membership.id)]


def _endpoint(node: Node) -> Endpoint:
    address = Address.parse(node.addresses[DOOR])
    return Endpoint(node.id, address.host, address.port, node.zone)
