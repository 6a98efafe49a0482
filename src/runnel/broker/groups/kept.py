"""What of a group outlives its coordinator: bytes for `Group.members` in the ledger. New fields go last, with a default."""

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


_encoder = msgspec.msgpack.Encoder()
_classic = msgspec.msgpack.Decoder(KeptClassic)


def encode_kept(kept: msgspec.Struct) -> bytes:
    return _encoder.encode(kept)


def decode_classic(data: bytes, group: str) -> KeptClassic:
    if not data:
        return KeptClassic()
    try:
        return _classic.decode(data)
    except msgspec.MsgspecError as error:
        raise Corrupt(f"the members of group '{group}' cannot be read: {error}") from error
