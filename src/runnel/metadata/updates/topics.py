"""Topics and their settings, in the root shard.

A topic's streams are made in their shards before the topic is entered here, and removed from them after it has left, so
a topic that can be seen can be written. A broker that dies in between leaves streams that no topic names, or a topic in
`leaving`; both are finished by upkeep.
"""

from typing import TYPE_CHECKING

import msgspec

from runnel.errors import AlreadyThere, Fenced, NotThere
from runnel.metadata.topics import Topic

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class CreateTopic(msgspec.Struct, array_like=True, frozen=True, tag="create-topic"):
    """Answers the topic."""

    name: str
    id: bytes
    streams: list[int]
    settings: dict[str, str] = {}

    def check(self, state: "ShardState") -> None:
        if self.name in state.topics:
            raise AlreadyThere(f"topic '{self.name}' exists")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> Topic:
        topic = Topic(self.name, self.id, list(self.streams), dict(self.settings), at_ms)
        state.topics[self.name] = topic
        state.topic_names[self.id] = self.name
        return topic


class AddPartitions(msgspec.Struct, array_like=True, frozen=True, tag="add-partitions"):
    """More streams for a topic that has `expected` of them now."""

    name: str
    id: bytes
    expected: int
    streams: list[int]

    def check(self, state: "ShardState") -> None:
        topic = _the_topic(state, self.name, self.id)
        if len(topic.streams) != self.expected:
            raise Fenced(f"topic '{self.name}' has {len(topic.streams)} partitions, not {self.expected}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> Topic:
        topic = state.topics[self.name]
        topic.streams = [*topic.streams, *self.streams]
        topic.version += 1
        return topic


class AlterTopic(msgspec.Struct, array_like=True, frozen=True, tag="alter-topic"):
    """Set and unset settings of a topic. With `version`, only if nothing else has changed since."""

    name: str
    id: bytes
    put: dict[str, str]
    drop: list[str] = []
    version: int | None = None

    def check(self, state: "ShardState") -> None:
        topic = _the_topic(state, self.name, self.id)
        if self.version is not None and topic.version != self.version:
            raise Fenced(f"topic '{self.name}' is at version {topic.version}, not {self.version}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> Topic:
        topic = state.topics[self.name]
        topic.settings = {key: value for key, value in topic.settings.items() if key not in self.drop} | self.put
        topic.version += 1
        return topic


class DeleteTopic(msgspec.Struct, array_like=True, frozen=True, tag="delete-topic"):
    """The topic can no longer be seen; its streams are removed next, then it is forgotten. Answers the topic."""

    name: str
    id: bytes

    def check(self, state: "ShardState") -> None:
        _the_topic(state, self.name, self.id)

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> Topic:
        topic = state.topics.pop(self.name)
        del state.topic_names[self.id]
        state.leaving[self.id] = topic
        return topic


class ForgetTopic(msgspec.Struct, array_like=True, frozen=True, tag="forget-topic"):
    """A deleted topic's streams are gone from all shards."""

    id: bytes

    def check(self, state: "ShardState") -> None:
        """Always allowed: doing it twice changes nothing."""

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        state.leaving.pop(self.id, None)


def _the_topic(state: "ShardState", name: str, topic_id: bytes) -> Topic:
    topic = state.topics.get(name)
    if topic is None:
        raise NotThere(f"topic '{name}' does not exist")
    if topic.id != topic_id:
        raise NotThere(f"topic '{name}' is another one now")
    return topic
