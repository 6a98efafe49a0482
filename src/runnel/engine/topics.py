"""Making and removing topics, across the root shard and the shards of their streams.

Streams are made before the topic can be seen, and removed after it can no longer be seen: a topic that can be seen can
be written, and a name is free at once. Whatever a dying node leaves half-way is finished by `finish_leaving`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

from runnel.engine.topic_names import FORK_PREFIX, stream_behind
from runnel.errors import AlreadyThere, Refused
from runnel.metadata.entry import Update
from runnel.metadata.state import ShardState
from runnel.metadata.topic_settings import TopicRules, rules_of
from runnel.metadata.topics import Topic
from runnel.metadata.updates import (
    AddPartitions,
    AlterTopic,
    CreateStreams,
    CreateTopic,
    DeleteStreams,
    DeleteTopic,
    DrawNumbers,
    ForgetTopic,
)
from runnel.model import ROOT, ShardId, StreamId, shard_of
from runnel.world.chance import Chance

PARTITIONS_MAX = 100_000
"""Partitions of one topic."""

Propose = Callable[[ShardId, Update], Awaitable[Any]]


class Topics:
    """Topics as the root shard knows them. `root` gives its state as far as it is applied here."""

    def __init__(self, propose: Propose, root: Callable[[], ShardState], shards: int, chance: Chance) -> None:
        self._propose = propose
        self._root = root
        self._shards = shards
        self._chance = chance
        self._rules: dict[bytes, tuple[int, TopicRules]] = {}
        self._rules_under: dict[str, str] | None = None

    def get(self, name: str) -> Topic | None:
        return self._root().topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        name = self._root().topic_names.get(topic_id)
        return None if name is None else self._root().topics[name]

    def all(self) -> list[Topic]:
        return list(self._root().topics.values())

    def rules(self, topic: Topic) -> TopicRules:
        """What a topic's settings and the cluster's make together; worked out once for each version of them."""
        root = self._root()
        if self._rules_under is not root.settings or len(self._rules) > 2 * len(root.topics):
            self._rules_under = root.settings  # replaced, never changed
            self._rules.clear()
        known = self._rules.get(topic.id)
        if known is None or known[0] != topic.version:
            known = self._rules[topic.id] = (topic.version, rules_of(topic.settings, root.settings))
        return known[1]

    async def create(
        self, name: str, partitions: int = 1, settings: dict[str, str] | None = None, topic_id: bytes | None = None
    ) -> Topic:
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise Refused(f"a topic has 1 to {PARTITIONS_MAX} partitions, not {partitions}")
        if self.get(name) is not None:
            raise AlreadyThere(f"topic '{name}' exists")
        streams = await self._make_streams(partitions)
        if topic_id is None:
            topic_id = _uuid4(self._chance)
        return cast(Topic, await self._propose(ROOT, CreateTopic(name, topic_id, streams, settings or {})))

    async def add_partitions(self, topic: Topic, total: int) -> Topic:
        """Let a topic have `total` partitions; it can only grow."""
        if stream_behind(topic.id) is not None:
            raise Refused(f"'{topic.name}' is a stream over HTTP, it has one partition")
        now = len(topic.streams)
        if not now < total <= PARTITIONS_MAX:
            raise Refused(f"topic '{topic.name}' has {now} partitions; it can have more, up to {PARTITIONS_MAX}")
        streams = await self._make_streams(total - now)
        return cast(Topic, await self._propose(ROOT, AddPartitions(topic.name, topic.id, now, streams)))

    async def alter(
        self, topic: Topic, put: dict[str, str], drop: Sequence[str] = (), *, only_this_version: bool = False
    ) -> Topic:
        version = topic.version if only_this_version else None
        if stream_behind(topic.id) is not None and self.get(topic.name) is None:
            await self._adopt(topic)
        return cast(Topic, await self._propose(ROOT, AlterTopic(topic.name, topic.id, put, list(drop), version)))

    async def _adopt(self, topic: Topic) -> None:
        """Let a stream of the HTTP door be a topic like any, so that it can have settings and a table."""
        if topic.id.startswith(FORK_PREFIX):
            raise Refused(f"'{topic.name}' is a fork: its first records are another stream's, so it has no settings")
        try:
            await self._propose(ROOT, CreateTopic(topic.name, topic.id, topic.streams, topic.settings))
        except AlreadyThere:
            return  # somebody was faster

    async def delete(self, topic: Topic) -> None:
        gone = await self._propose(ROOT, DeleteTopic(topic.name, topic.id))
        await self._remove(gone)

    async def finish_leaving(self) -> int:
        """Remove what deleted topics have left; how many there were."""
        leaving = list(self._root().leaving.values())
        for topic in leaving:
            await self._remove(topic)
        return len(leaving)

    async def _make_streams(self, count: int) -> list[int]:
        first = await self._propose(ROOT, DrawNumbers("stream", count))
        streams = list(range(first, first + count))
        await self._for_each_shard(streams, CreateStreams)
        return streams

    async def _remove(self, topic: Topic) -> None:
        await self._for_each_shard(topic.streams, DeleteStreams)
        await self._propose(ROOT, ForgetTopic(topic.id))

    async def _for_each_shard(self, streams: Sequence[int], update: Callable[[list[int]], Update]) -> None:
        by_shard: dict[ShardId, list[int]] = {}
        for stream in streams:
            by_shard.setdefault(shard_of(StreamId(stream), self._shards), []).append(stream)
        await asyncio.gather(*(self._propose(shard, update(ids)) for shard, ids in by_shard.items()))


def _uuid4(chance: Chance) -> bytes:
    drawn = bytearray(chance.randbytes(16))
    drawn[6] = drawn[6] & 0x0F | 0x40
    drawn[8] = drawn[8] & 0x3F | 0x80
    return bytes(drawn)
