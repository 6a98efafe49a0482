"""One stream as its shard knows it: where it begins and ends, what lies where, who wrote last."""

from array import array
from copy import deepcopy

import msgspec

from runnel.metadata.extents import Extents
from runnel.metadata.producers import Producer


class Fork(msgspec.Struct, array_like=True, frozen=True):
    """Where a stream inherits from: the records of another stream before an offset. New fields go last."""

    source: int
    offset: int
    """The first offset that is the fork's own."""
    token: bytes
    """Names this fork at its source, so that a hold can be taken and given back more than once without harm."""
    source_name: str = ""
    asked_offset: str | None = None
    """The place as it was asked for, for those who ask again."""
    asked_sub: int = 0
    source_start: int = 0


class Hold(msgspec.Struct, array_like=True, frozen=True):
    """A fork's claim on the records of its source. New fields go last."""

    name: str
    """The fork's."""
    since_ms: int
    upto: int = 0
    """The records before this offset are wanted."""


class Snapshot(msgspec.Struct, array_like=True, frozen=True):
    """What an application has made of a stream's records before an offset. New fields go last."""

    offset: int
    object: str
    """Holds the body, as it was sent."""
    size: int
    content_type: str
    digest: str


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
    fork: Fork | None = None
    holds: dict[bytes, Hold] = {}
    """The forks that read from this stream, by their tokens: while there are any, its records stay."""
    leaving: bool = False
    """Deleted or expired while forks hold it: nobody can use it, and its name is not free before they are gone."""
    attributes: bytes = b""
    """JSON of the application's own; empty is none."""
    snapshot: Snapshot | None = None

    def deadline_ms(self) -> int | None:
        """From when on the stream does not exist any more; None: never.

        Reads and writes push the end of a life of so many seconds back. A read that comes soon after another is not
        worth a ledger entry, so it may be left out for as long as `touch_slack_ms`, and the deadline counts that in.
        """
        if self.ttl_s is None:
            return self.expires_ms
        return max(self.born_ms, self.touched_ms) + self.ttl_s * 1000 + touch_slack_ms(self.ttl_s)


def touch_slack_ms(ttl_s: int) -> int:
    """By how much the last use of a stream may be out of date: a twentieth of its life, a minute at most."""
    return min(ttl_s * 50, 60_000)


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

    def stand_in(self, writers: set[int | str]) -> "Stream":
        """A copy of what judging an append of these writers looks at and changes; without an index."""
        copy = Stream(self.id, self.start)
        copy.end, copy.closed = self.end, self.closed
        if self.producers is not None:
            copy.producers = {key: deepcopy(known) for key, known in self.producers.items() if key in writers}
        copy.traits = msgspec.structs.replace(self.traits) if self.traits is not None else None
        return copy

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
