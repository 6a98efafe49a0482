"""A topic: a name, an identity, its partitions' streams and its settings. Kept in the root shard."""

import msgspec


class Topic(msgspec.Struct, array_like=True):
    """New fields go last."""

    name: str
    id: bytes
    """16 bytes, as Kafka's UUIDs."""
    streams: list[int]
    """The stream of each partition."""
    settings: dict[str, str] = {}
    """Only what was set; defaults are the reader's business."""
    born_ms: int = 0
    version: int = 0
    """How often the settings or partitions changed."""
