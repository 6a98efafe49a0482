"""A node: one broker process, where to find it, and how long it may be taken for alive. Kept in the root shard."""

import msgspec


class Node(msgspec.Struct, array_like=True):
    """New fields go last."""

    id: int
    incarnation: bytes
    """16 bytes drawn when the process began: a restarted node is a new one under an old number."""
    addresses: dict[str, str]
    """Door name ("kafka", "http") to host:port, as clients are told."""
    zone: str = ""
    lease_ms: int = 5000
    seen_ms: int = 0
    """When the lease was last renewed, by the node's own clock."""
    renewals: int = 0
    draining: bool = False
