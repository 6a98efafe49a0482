"""A consumer group: its committed offsets and what must outlive its coordinator. Kept in the shard its name hashes to.

Members of classic groups live in the coordinator's memory; what is kept here is the generation, which fences commits of
members that were left behind, and the members' assignment, which lets another coordinator go on. New-protocol groups
keep their member epochs and target assignment in the same way. `members` is opaque here: the coordinator's own encoding.
"""

import msgspec


class Committed(msgspec.Struct, array_like=True):
    """A committed offset. New fields go last."""

    offset: int
    leader_epoch: int = -1
    note: str = ""
    at_ms: int = 0


class Group(msgspec.Struct, array_like=True):
    """New fields go last."""

    name: str
    kind: str = "simple"
    """simple (only commits), classic, consumer (KIP-848), and later share, streams."""
    generation: int = 0
    owner: bytes = b""
    """The coordinator that entered this generation or took the group over since."""
    members: bytes = b""
    offsets: dict[bytes, dict[int, Committed]] = {}
    """Topic id, partition, offset."""
    changed_ms: int = 0
    empty_since_ms: int | None = None

    @property
    def has_members(self) -> bool:
        return self.kind != "simple" and self.empty_since_ms is None
