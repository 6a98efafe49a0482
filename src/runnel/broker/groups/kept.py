"""What of a group outlives its coordinator: bytes for `Group.members` in the ledger. New fields go last, with a default."""

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from runnel.errors import Corrupt


class KeptMember(msgspec.Struct, array_like=True):
    id: str
    instance: str | None
    client_id: str
    host: str
    session_ms: int
    rebalance_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes


class KeptClassic(msgspec.Struct, array_like=True):
    """A classic group. Without members the protocol type is what remains."""

    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    assigned: bool = False
    """Whether the members have got their assignments of this generation."""
    members: list[KeptMember] = []


class KeptConsumer(msgspec.Struct, array_like=True):
    """A member of a group of the new protocol. Partitions are by topic id."""

    id: str
    instance: str | None
    rack: str | None
    client_id: str
    host: str
    rebalance_ms: int
    topics: list[str]
    pattern: str | None
    assignor: str | None
    epoch: int
    epoch_before: int
    phase: str
    assigned: dict[bytes, list[int]]
    revoked: dict[bytes, list[int]]
    target: dict[bytes, list[int]]
    protocols: list[tuple[str, bytes]] = []
    """Of one that still speaks the classic protocol, and its session."""
    session_ms: int = 0


class KeptConsumers(msgspec.Struct, array_like=True):
    """A group of the new protocol; its own epoch is the generation beside it."""

    target_epoch: int = 0
    assignor: str = ""
    members: list[KeptConsumer] = []
    counts: dict[bytes, int] = {}
    """Partitions of the topics that the target is made of."""


_encoder = msgspec.msgpack.Encoder()
_consumers = msgspec.msgpack.Decoder(KeptConsumers)
_classic = msgspec.msgpack.Decoder(KeptClassic)


def encode_kept(kept: msgspec.Struct) -> bytes:
    return _encoder.encode(kept)


def decode_classic(data: bytes, group: str) -> KeptClassic:
    if not data:
        return KeptClassic()
    with _readable(group):
        return _classic.decode(data)


def decode_consumers(data: bytes, group: str) -> KeptConsumers:
    if not data:
        return KeptConsumers()
    with _readable(group):
        return _consumers.decode(data)


@contextmanager
def _readable(group: str) -> Iterator[None]:
    try:
        yield
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the members of group '{group}' cannot be read: {error}") from error
