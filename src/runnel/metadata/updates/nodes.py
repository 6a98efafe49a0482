"""The cluster itself, in the root shard: its identity, its nodes and the numbers they draw."""

from typing import TYPE_CHECKING

import msgspec

from runnel.errors import Fenced, Refused
from runnel.metadata.nodes import Node

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class Found(msgspec.Struct, array_like=True, frozen=True, tag="found"):
    """The first entry of a cluster: its name for life. Founding again changes nothing. Answers the cluster's id."""

    cluster_id: str
    shards: int

    def check(self, state: "ShardState") -> None:
        if self.shards != state.shards:
            raise Refused(f"the cluster has {state.shards} shards, not {self.shards}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> str:
        state.cluster_id = state.cluster_id or self.cluster_id
        return state.cluster_id


class DrawNumbers(msgspec.Struct, array_like=True, frozen=True, tag="draw"):
    """A run of numbers that nobody else will ever get: stream ids, producer ids. Answers the first."""

    counter: str
    count: int

    def check(self, state: "ShardState") -> None:
        if self.count < 1:
            raise Refused(f"cannot draw {self.count} numbers")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> int:
        return state.count(self.counter, self.count)


class RegisterNode(msgspec.Struct, array_like=True, frozen=True, tag="register-node"):
    """A broker process begins. Its number may be taken over only when the caller saw the number's lease run out.

    `expects` is the incarnation that the caller has seen under this number, empty for none.
    """

    node: Node
    expects: bytes = b""

    def check(self, state: "ShardState") -> None:
        known = state.nodes.get(self.node.id)
        if known is not None and known.incarnation not in (self.expects, self.node.incarnation):
            raise Fenced(f"node {self.node.id} is another process now")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        node = msgspec.structs.replace(self.node)
        node.seen_ms = at_ms
        state.nodes[node.id] = node


class RenewLease(msgspec.Struct, array_like=True, frozen=True, tag="renew-lease"):
    """A node says that it is alive, and whether it is about to leave."""

    id: int
    incarnation: bytes
    draining: bool = False

    def check(self, state: "ShardState") -> None:
        known = state.nodes.get(self.id)
        if known is None or known.incarnation != self.incarnation:
            raise Fenced(f"node {self.id} has lost its place")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        node = state.nodes[self.id]
        node.seen_ms = at_ms
        node.renewals += 1
        node.draining = self.draining


class RemoveNode(msgspec.Struct, array_like=True, frozen=True, tag="remove-node"):
    """A node leaves, or another saw its lease run out: then only if it has not renewed since (`renewals`)."""

    id: int
    incarnation: bytes
    renewals: int | None = None

    def check(self, state: "ShardState") -> None:
        known = state.nodes.get(self.id)
        if known is None or known.incarnation != self.incarnation:
            raise Fenced(f"node {self.id} is not that process any more")
        if self.renewals is not None and known.renewals != self.renewals:
            raise Fenced(f"node {self.id} has renewed its lease")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        del state.nodes[self.id]


class SetSettings(msgspec.Struct, array_like=True, frozen=True, tag="set-settings"):
    """Settings of the whole cluster that can change while it runs."""

    put: dict[str, str]
    drop: list[str] = []

    def check(self, state: "ShardState") -> None:
        """Always allowed; whoever proposes has looked at the values."""

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        state.settings = {key: value for key, value in state.settings.items() if key not in self.drop} | self.put
