"""What the table service needs of a cluster. The engine gives it (engine/tables.py)."""

from collections.abc import Sequence
from typing import Any, Protocol

from runnel.codec.records import Record
from runnel.metadata.entry import Update
from runnel.metadata.state import ShardState
from runnel.metadata.topic_settings import TopicRules
from runnel.metadata.topics import Topic
from runnel.model import ShardId
from runnel.world.objects.seam import ObjectStore
from runnel.world.world import World


class Truth(Protocol):
    """The state of every shard as far as it is applied here, and a way to change it."""

    @property
    def world(self) -> World:
        """Time, luck, tasks."""

    @property
    def objects(self) -> ObjectStore:
        """Where everything lies."""

    @property
    def root(self) -> ShardState:
        """Topics, tables, the planner."""

    def shard_of(self, stream: int) -> ShardId:
        """Where a stream lives."""

    def state_of(self, stream: int) -> ShardState:
        """The state of the shard in which a stream lives."""

    def rules(self, topic: Topic) -> TopicRules:
        """What a topic's settings and the cluster's make together."""

    async def refresh(self) -> None:
        """Bring every shard up to now."""

    async def propose(self, shard: ShardId, update: Update) -> Any:
        """Let an update become part of the truth; its result, or the refusal it met."""

    async def letter_topic(self, name: str) -> Topic:
        """The topic of this name, made with one partition and without a table where it does not exist."""

    async def new_producer(self) -> int:
        """A producer id that nobody else has."""

    async def append(self, stream: int, records: Sequence[Record], *, producer: int, epoch: int, sequence: int) -> None:
        """Append records once: the same producer, epoch and sequence again change nothing."""
