"""One member of a classic group, as its coordinator knows it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from runnel.broker.groups.kept import KeptMember
from runnel.codec.messages.join_group import JoinGroupRequestProtocol

Protocols = Sequence[tuple[str, bytes]]


class Caller(NamedTuple):
    """Who a member is, seen from the network."""

    client_id: str
    host: str


class Member:
    """See the module. `joining` and `syncing` are the requests that wait for their answers."""

    __slots__ = (
        "assignment", "caller", "deadline", "id", "instance", "is_new", "joining", "protocols", "rebalance_seconds",
        "session_seconds", "syncing",
    )  # fmt: skip

    def __init__(self, member_id: str, instance: str | None, caller: Caller) -> None:
        self.id = member_id
        self.instance = instance
        self.caller = caller
        self.session_seconds = 0.0
        self.rebalance_seconds = 0.0
        self.protocols: Protocols = ()
        self.assignment = b""
        self.joining: Any = None
        self.syncing: Any = None
        self.is_new = True
        """Until its first join is answered: it knows no member id yet and cannot send heartbeats."""
        self.deadline = 0.0
        """When it is taken to be gone, unless something is heard of it."""

    @property
    def waits(self) -> bool:
        """Whether it is for us to speak next."""
        return self.joining is not None or self.syncing is not None

    def alive(self, at: float) -> None:
        self.deadline = at + self.session_seconds

    def metadata(self, protocol: str) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def size(self) -> int:
        return size_of(self.protocols)

    def kept(self) -> KeptMember:
        return KeptMember(
            id=self.id,
            instance=self.instance,
            client_id=self.caller.client_id,
            host=self.caller.host,
            session_ms=int(self.session_seconds * 1000),
            rebalance_ms=int(self.rebalance_seconds * 1000),
            protocols=list(self.protocols),
            assignment=self.assignment,
        )

    @classmethod
    def restored(cls, kept: KeptMember) -> "Member":
        member = cls(kept.id, kept.instance, Caller(kept.client_id, kept.host))
        member.session_seconds = kept.session_ms / 1000
        member.rebalance_seconds = kept.rebalance_ms / 1000
        member.protocols = kept.protocols
        member.assignment = kept.assignment
        member.is_new = False
        return member


def protocols_of(asked: Sequence[JoinGroupRequestProtocol]) -> Protocols:
    return [(each.name, each.metadata) for each in asked]


def size_of(protocols: Protocols) -> int:
    return sum(len(name) + len(metadata) for name, metadata in protocols)
