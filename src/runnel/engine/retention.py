"""Retention: what is older than a topic wants to keep it, or more than it wants to keep, becomes unreadable.

Deciding is pure (`first_kept`): records go in whole extents, from the front, as Kafka's go in whole segments. By time, an
extent goes when its largest timestamp is older than `retention.ms`, and everything before it has gone. By size, an extent
goes when at least `retention.bytes` are left without it. Acting is one `TruncateStreams` per data shard and round, in
which a start never moves back, so that two nodes doing it at once do no harm. The objects behind it go with the sweep.

A batch without timestamps is as old as the object that carried it in.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from runnel.engine.topics import Topics
from runnel.errors import Refused
from runnel.log.names import parse_wal_name
from runnel.metadata.entry import Update
from runnel.metadata.extents import Extents
from runnel.metadata.follower import Follower
from runnel.metadata.state import ShardState
from runnel.metadata.topic_settings import UNLIMITED, TopicRules
from runnel.metadata.updates import TruncateStreams
from runnel.model import ShardId, StreamId, shard_of
from runnel.table.files.facts import parse_file_name
from runnel.world.telemetry import get_log
from runnel.world.world import World

log = get_log("retention")

STREAMS_PER_ENTRY = 5_000
"""Streams that one ledger entry truncates: some 100 kB."""


def first_kept(extents: Extents, size: int, rules: TopicRules, now_ms: int, born_ms: Callable[[int], int]) -> int:
    """How many extents go from the front of a stream of so many bytes. `born_ms` tells when a slot's object was made."""
    gone = 0
    if rules.retention_bytes != UNLIMITED:
        gone = bisect_right(extents.totals, size - rules.retention_bytes)
    if rules.retention_ms != UNLIMITED:
        oldest = now_ms - rules.retention_ms
        while gone < len(extents):
            stamp = extents.stamps[gone]
            if (stamp if stamp >= 0 else born_ms(extents.slots[gone])) >= oldest:
                break
            gone += 1
    return gone


class Retention:
    """Looks at every partition of every topic now and then."""

    def __init__(
        self,
        topics: Topics,
        follower_of: Callable[[ShardId], Follower],
        propose: Callable[[ShardId, Update], Awaitable[Any]],
        *,
        shards: int,
        world: World,
    ) -> None:
        self._topics = topics
        self._follower_of = follower_of
        self._propose = propose
        self._shards = shards
        self._world = world
        self._truncated = world.metrics.counter(
            "runnel_retention_bytes_total", "Bytes of records that became unreadable by age or size."
        )

    async def run(self) -> int:
        """One round; how many partitions lost records."""
        by_shard: dict[ShardId, dict[int, int]] = {}
        size = 0
        for stream, start, lost in self._due(self._world.clock.now_ms()):
            by_shard.setdefault(shard_of(StreamId(stream), self._shards), {})[stream] = start
            size += lost
        for shard, starts in by_shard.items():
            wanted = list(starts.items())
            for at in range(0, len(wanted), STREAMS_PER_ENTRY):
                await self._propose(shard, TruncateStreams(dict(wanted[at : at + STREAMS_PER_ENTRY])))
        partitions = sum(map(len, by_shard.values()))
        if partitions:
            self._truncated.add(size)
            log.info("retention_applied", partitions=partitions, bytes=size)
        return partitions

    def _due(self, now_ms: int) -> Iterator[tuple[int, int, int]]:
        """Stream, new start, bytes that go."""
        for topic in self._topics.all():
            rules = self._topics.rules(topic)
            if rules.keeps_all:
                continue
            for number in topic.streams:
                state = self._follower_of(shard_of(StreamId(number), self._shards)).state
                stream = state.streams.get(number)
                if stream is None or stream.extents is None:
                    continue

                def born_ms(slot: int, state: ShardState = state) -> int:
                    return _stamp_of(state.objects.names[slot], now_ms)

                extents = stream.extents
                gone = first_kept(extents, stream.size, rules, now_ms, born_ms)
                if gone:
                    yield (
                        number,
                        extents.ends[gone - 1],
                        extents.totals[gone - 1] - extents.totals[0] + extents.lengths[0],
                    )


def _stamp_of(name: str, now_ms: int) -> int:
    """When a write-ahead object was begun, or the work that made a table's files of it; others count as new."""
    try:
        return parse_wal_name(name)[0]
    except Refused:
        known = parse_file_name(name)
        return now_ms if known is None else known[0]
