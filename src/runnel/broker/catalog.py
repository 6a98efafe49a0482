"""From names to streams: the only place where Kafka handlers look up topics and partitions.

What is looked up is what this node has applied. A topic that was made elsewhere a moment ago may be missing; whoever
must know for certain calls `refresh` first. Streams of the HTTP door are topics with one partition for those who name
them (see engine/topic_names.py); a listing of all topics leaves them out, for there may be millions.
"""

import re
from collections.abc import Iterable
from contextlib import suppress

from runnel.codec.errors import ErrorCode
from runnel.engine import Engine
from runnel.engine.topic_names import NAME_LENGTH_MAX, stream_behind, stream_name, topic_of
from runnel.errors import AlreadyThere, RunnelError
from runnel.metadata.buckets import HASHED_WHOLE
from runnel.metadata.topic_settings import TopicRules
from runnel.metadata.topics import Topic
from runnel.model import ROOT, StreamId
from runnel.settings import Settings
from runnel.world.telemetry import get_log

log = get_log("broker")

_NAME = re.compile(rf"[a-zA-Z0-9._-]{{1,{NAME_LENGTH_MAX}}}")


class Catalog:
    """Topics as Kafka clients see them."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings
        self._creating: set[str] = set()

    def topic(self, name: str) -> Topic | None:
        return self._engine.root.topics.get(name) or self._stream_named(name)

    def _stream_named(self, topic: str) -> Topic | None:
        name = stream_name(topic)
        if name is None:
            return None
        stream = self._engine.named.usable(name)
        return None if stream is None else topic_of(stream)

    def by_id(self, topic_id: bytes) -> Topic | None:
        number = stream_behind(topic_id)
        if number is None:
            return self._engine.topics.by_id(topic_id)
        stream = self._engine.shards.of_stream(number).state.streams.get(number)
        if stream is None or stream.traits is None or self._engine.named.usable(stream.traits.name) is not stream:
            return None
        return topic_of(stream)

    def topics(self) -> list[Topic]:
        return self._engine.topics.all()

    def find(self, name: str | None, topic_id: bytes, *, by_id: bool) -> tuple[Topic | None, ErrorCode]:
        """The topic that a request means, or with what to answer where there is none."""
        if by_id:
            return self.by_id(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
        return self.topic(name or ""), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def stream(self, topic: Topic, partition: int) -> StreamId | None:
        streams = topic.streams
        return StreamId(streams[partition]) if 0 <= partition < len(streams) else None

    def rules(self, topic: Topic) -> TopicRules:
        """What the data path must know of a topic's settings."""
        return self._engine.topics.rules(topic)

    def size(self, stream: StreamId) -> int:
        """Bytes of records that a partition keeps."""
        known = self._engine.shards.of_stream(stream).state.streams.get(stream)
        return 0 if known is None else known.bytes_kept

    def why_missing(self, name: str) -> ErrorCode:
        """What to say of a name under which there is nothing."""
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION

    async def refresh(self, names: Iterable[str | None] = ()) -> None:
        """Return when every topic that was acknowledged anywhere before this call can be looked up here.

        Streams are topics only for who names them, so their names are asked for.
        """
        await self._engine.catch_up(ROOT)
        missing = [name for name in names if name and name not in self._engine.root.topics]
        streams = filter(None, map(stream_name, missing))
        for shard in sorted({self._engine.named.shard_of(name) for name in streams}):
            await self._engine.catch_up(shard)

    async def find_out(self, names: Iterable[str]) -> None:
        """Look closer if one of these names is not known here: it may have been made elsewhere a moment ago."""
        names = list(names)
        if any(self.topic(name) is None for name in names):
            with suppress(RunnelError):  # what is known here is told all the same
                await self.refresh(names)

    async def create_on_demand(self, name: str) -> Topic | ErrorCode:
        """Make a topic because a client asked for its metadata."""
        if not valid_name(name):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if self._is_reserved(name):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if name in self._creating:
            return ErrorCode.LEADER_NOT_AVAILABLE
        self._creating.add(name)
        try:
            topic = await self._engine.topics.create(name, self._settings.topic_partitions)
            log.info("topic_made_on_demand", topic=name, partitions=len(topic.streams))
        except AlreadyThere:
            return self.topic(name) or ErrorCode.LEADER_NOT_AVAILABLE
        except RunnelError as error:
            log.warning("topic_not_made", topic=name, error=str(error))
            return ErrorCode.LEADER_NOT_AVAILABLE
        finally:
            self._creating.discard(name)
        return topic

    def _is_reserved(self, name: str) -> bool:
        """Whether a name is one of a bucket's: a topic of that name would hide a stream that may come."""
        stream = stream_name(name)
        bucket = stream.partition("/")[0] if stream is not None else ""
        return bucket == HASHED_WHOLE or bucket in self._engine.root.buckets


def valid_name(name: str) -> bool:
    """Kafka's rule for topic names."""
    return bool(_NAME.fullmatch(name)) and name not in {".", ".."}


def why_not_a_name(name: str) -> str | None:
    """What is wrong with a topic name; None if nothing is."""
    if valid_name(name):
        return None
    if not name:
        return "a topic needs a name: this one is empty"
    if name in {".", ".."}:
        return f"a topic cannot be called '{name}'"
    if len(name) > NAME_LENGTH_MAX:
        return f"the name of a topic has at most {NAME_LENGTH_MAX} characters, not {len(name)}"
    return f"'{name}' is no name for a topic: only the letters a to z and A to Z, digits, '.', '_' and '-' are"
