"""One stream as its shard knows it: where it begins and ends, what lies where, who wrote last."""

from array import array

import msgspec

from runnel.metadata.extents import Extents
from runnel.metadata.producers import Producer


class Traits(msgspec.Struct, array_like=True):
    """What a stream with a name of its own (an HTTP stream) carries beyond a topic-partition. New fields go last."""

    name: str
    content_type: str = "application/octet-stream"
    born_ms: int = 0
    ttl_s: int | None = None
    expires_ms: int | None = None
    touched_ms: int = 0
    sequence: str | None = None
    """The last `Stream-Seq`: byte-wise increasing, one for the stream."""


class Stream:
    """The state of one stream. `start` and `end` are the first readable offset and the one that comes next."""

    __slots__ = ("closed", "end", "epoch", "extents", "id", "producers", "size", "start", "traits")

    def __init__(self, stream_id: int, start: int = 0) -> None:
        self.id = stream_id
        self.start = start
        self.end = start
        self.size = 0
        """Bytes from birth, so that differences of totals are sizes of ranges."""
        self.epoch = 0
        self.closed = False
        self.extents: Extents | None = None
        self.producers: dict[int | str, Producer] | None = None
        self.traits: Traits | None = None

    @property
    def bytes_kept(self) -> int:
        """The size of what the extents hold; a start inside an extent still counts all of it."""
        extents = self.extents
        return self.size - extents.totals[0] + extents.lengths[0] if extents else 0

    def truncate(self, start: int) -> "array[int]":
        """Move the start forward; slots of extents that lie wholly before it are given back."""
        self.start = start
        if self.extents is None:
            return array("I")
        gone = self.extents.drop_front(self.extents.find(start))
        if not self.extents:
            self.extents = None
        return gone

    def producer(self, key: int | str, epoch: int, at_ms: int) -> Producer:
        """The producer with this key in this epoch, entered or moved to the epoch where need be."""
        if self.producers is None:
            self.producers = {}
        known = self.producers.get(key)
        if known is None:
            known = self.producers[key] = Producer(epoch, at_ms)
        elif known.epoch != epoch:
            known.begin_epoch(epoch)
        return known
