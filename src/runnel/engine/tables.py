"""What the table service sees of an engine: the truth of every shard, and its own topics. See table/truth.py."""

import asyncio
from collections.abc import Sequence
from typing import Any

from runnel.codec.records import Record, build_batch
from runnel.engine.engine import Engine
from runnel.errors import AlreadyThere, Refused
from runnel.ingest.ticket import Ticket
from runnel.metadata.entry import Update
from runnel.metadata.producers import Verdict
from runnel.metadata.state import ShardState
from runnel.metadata.topic_settings import TopicRules
from runnel.metadata.topics import Topic
from runnel.model import ROOT, ObjectName, ShardId, StreamId, shard_of
from runnel.world.objects import ObjectStore
from runnel.world.world import World


class EngineTruth:
    """A `Truth` on an open engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._shards = [ROOT, *(ShardId(number) for number in range(1, engine.cluster.shards + 1))]

    @property
    def world(self) -> World:
        return self._engine.world

    @property
    def objects(self) -> ObjectStore:
        return self._engine.objects

    @property
    def root(self) -> ShardState:
        return self._engine.root

    def shard_of(self, stream: int) -> ShardId:
        return shard_of(StreamId(stream), self._engine.cluster.shards)

    def state_of(self, stream: int) -> ShardState:
        return self._engine.shards.of_stream(StreamId(stream)).state

    def rules(self, topic: Topic) -> TopicRules:
        return self._engine.topics.rules(topic)

    async def refresh(self) -> None:
        await self._engine.shards.follow(self._shards)
        await asyncio.gather(*(self._engine.catch_up(shard) for shard in self._shards))

    async def propose(self, shard: ShardId, update: Update) -> Any:
        return await self._engine.propose(shard, update)

    def put_from_a_thread(self, name: str, body: bytes) -> None:
        """For libraries that wait: put an object into the store, from any thread but the event loop's."""
        asyncio.run_coroutine_threadsafe(self.objects.put_new(ObjectName(name), body), self._loop).result()

    async def letter_topic(self, name: str) -> Topic:
        known = self._engine.topics.get(name)
        if known is not None:
            return known
        try:
            return await self._engine.topics.create(name, 1, {"table.formats": ""})
        except AlreadyThere:
            await self._engine.catch_up()
            return self._engine.root.topics[name]

    async def new_producer(self) -> int:
        return await self._engine.draw_producer_id()

    async def append(self, stream: int, records: Sequence[Record], *, producer: int, epoch: int, sequence: int) -> None:
        await self._engine.shards.follow([self.shard_of(stream)])
        ticket, answers = Ticket.awaited()
        batch = build_batch(records, producer=producer, epoch=epoch, sequence=sequence)
        latest = max(record.timestamp for record in records)
        ticket.add(stream, batch, len(records), latest, producer, epoch, sequence)
        self._engine.submit(ticket, None)
        (answer,) = await answers
        if answer.error is not None:
            raise answer.error
        if answer.verdict not in (Verdict.ACCEPTED, Verdict.DUPLICATE, Verdict.DUPLICATE_FORGOTTEN):
            raise Refused(f"letters for stream {stream} are refused: {answer.verdict.name.lower().replace('_', ' ')}")
