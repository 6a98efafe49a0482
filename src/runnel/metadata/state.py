"""The state of a shard: everything that applying its ledger's entries has made true.

It is pure and knows no clock: the same entries in the same order give the same state anywhere. It is also a cache,
rebuilt from a checkpoint and the entries behind it (see checkpoint.py, follower.py).

One class serves every shard. By custom the root (shard 0) holds topics, nodes and id counters, and the data shards
hold streams, groups and names.

An entry is applied at most once, however often the ledger holds it. For that, an entry says after which position its
proposer stood (`after`); the ids of the last `ENTRIES_REMEMBERED` positions are kept, and an entry from further back is
refused as stale: if it had been applied before, its id would be among those kept or its proposer has long seen it.
"""

from array import array
from dataclasses import dataclass
from typing import Any

import msgspec

from runnel.errors import Fenced, Refused
from runnel.metadata.buckets import DEPARTED_MAX, Bucket, Past, bucket_of
from runnel.metadata.entry import Entry
from runnel.metadata.groups import Group
from runnel.metadata.nodes import Node
from runnel.metadata.objects import ObjectTable
from runnel.metadata.schemas import Registry
from runnel.metadata.stream import Stream, Traits
from runnel.metadata.subscriptions import Subscription
from runnel.metadata.tables import Planner, Table
from runnel.metadata.topics import Topic

ENTRIES_REMEMBERED = 10_000
"""Positions an entry may lie behind its proposal. At a hundred entries a second that is more than a minute and a half."""


class EntryStale(Fenced):
    """The entry came too late to know whether it is a repetition; it was not applied. Propose it anew."""


@dataclass(slots=True)
class Applied:
    """What one entry did: for each of its updates a result or the refusal it met; None when it was a repetition."""

    entry: Entry
    position: int
    results: list[Any] | None
    touched: set[int]
    """Streams that have something new to read."""


class ShardState:
    """The truth of one shard at one position."""

    def __init__(self, shard: int, shards: int) -> None:
        self.shard = shard
        self.shards = shards
        self.position = 0
        self.remembered: dict[bytes, int] = {}
        self.cluster_id = ""
        self.horizon = 0
        """Objects stamped before it are not accepted any more (see updates/sweep.py)."""
        self.streams: dict[int, Stream] = {}
        self.names: dict[str, int] = {}
        self.streams_born = 0
        self.objects = ObjectTable()
        self.groups: dict[str, Group] = {}
        self.topics: dict[str, Topic] = {}
        self.topic_names: dict[bytes, str] = {}
        self.leaving: dict[bytes, Topic] = {}
        """Deleted topics whose streams may still be there."""
        self.nodes: dict[int, Node] = {}
        self.settings: dict[str, str] = {}
        self.counters: dict[str, int] = {}
        self.tables: dict[bytes, Table] = {}
        """By topic id, for a while longer than the topic."""
        self.planner = Planner()
        self.buckets: dict[str, Bucket] = {}
        self.sealed: dict[str, None] = {}
        """Buckets that are deleted, or about to be: no stream is made in them here."""
        self.departed: dict[str, Past] = {}
        """What went through streams that are gone, by bucket."""
        self.registry = Registry({}, {})
        self.subscriptions: dict[str, Subscription] = {}

    def apply(self, entry: Entry, position: int) -> Applied:
        """Let one entry change the truth. Entries come in order, each position once."""
        assert position == self.position + 1, f"entry {position} applied at {self.position}"
        self.position = position
        self._forget_old_ids()
        touched: set[int] = set()
        if entry.id in self.remembered:
            return Applied(entry, position, None, touched)
        if position - entry.after > ENTRIES_REMEMBERED:
            refusal = EntryStale(f"entry proposed at position {entry.after} came only at {position}")
            return Applied(entry, position, [refusal] * len(entry.updates), touched)
        self.remembered[entry.id] = position
        results: list[Any] = []
        for update in entry.updates:
            try:
                update.check(self)
            except (Refused, Fenced) as refusal:
                results.append(refusal)
            else:
                results.append(update.apply(self, entry.at_ms, touched))
        return Applied(entry, position, results, touched)

    def _forget_old_ids(self) -> None:
        oldest = self.position - ENTRIES_REMEMBERED
        while self.remembered:
            entry_id = next(iter(self.remembered))
            if self.remembered[entry_id] > oldest:
                return
            del self.remembered[entry_id]

    def count(self, counter: str, by: int) -> int:
        """Draw `by` numbers from a counter; the first of them."""
        first = self.counters.get(counter, 0)
        self.counters[counter] = first + by
        return first

    def open_stream(self, stream_id: int, traits: Traits, *, closed: bool) -> Stream:
        """Enter a stream with a name of its own; a fork begins where it leaves its source."""
        stream = self.streams[stream_id] = Stream(stream_id)
        stream.traits = msgspec.structs.replace(traits, holds={})
        stream.closed = closed
        if traits.fork is not None:
            stream.start = traits.fork.source_start
            stream.end = traits.fork.offset
        self.names[traits.name] = stream_id
        return stream

    def may_bear(self, name: str) -> bool:
        """Whether a stream of this name can be made here: its bucket is not being deleted."""
        return not self.sealed or bucket_of(name) not in self.sealed

    def _remember_past(self, stream: Stream, traits: Traits) -> None:
        own = stream.end - (traits.fork.offset if traits.fork is not None else 0)
        bucket = bucket_of(traits.name)
        past = self.departed.pop(bucket, None) or Past()
        past.size += stream.size
        past.records += own
        while len(self.departed) >= DEPARTED_MAX:
            del self.departed[next(iter(self.departed))]
        self.departed[bucket] = past

    def drop_stream(self, stream: Stream) -> None:
        """Forget a stream with all it refers to."""
        del self.streams[stream.id]
        if stream.traits is not None:
            self._remember_past(stream, stream.traits)
            if stream.traits.snapshot is not None:
                self.objects.release(array("I", [self.objects.slot_of[stream.traits.snapshot.object]]))
        if stream.traits is not None and self.names.get(stream.traits.name) == stream.id:
            del self.names[stream.traits.name]
        if stream.extents is not None:
            self.objects.release(stream.extents.slots)
