"""Streams come, go and are truncated. Closing travels with an append (see commit.py)."""

from typing import TYPE_CHECKING

import msgspec

from runnel.errors import AlreadyThere, NotThere, Refused
from runnel.metadata.buckets import bucket_of
from runnel.metadata.stream import Stream, Traits
from runnel.metadata.updates.lives import remove
from runnel.model import ShardId, StreamId, shard_of, stream_born_in

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class CreateStreams(msgspec.Struct, array_like=True, frozen=True, tag="create-streams"):
    """Streams with ids drawn from the root, a topic's partitions. Those that are there already are left as they are."""

    streams: list[int]

    def check(self, state: "ShardState") -> None:
        for stream in self.streams:
            if shard_of(StreamId(stream), state.shards) != state.shard:
                raise Refused(f"stream {stream} does not belong to shard {state.shard}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        for stream_id in self.streams:
            if stream_id not in state.streams:
                state.streams[stream_id] = Stream(stream_id)


class OpenStream(msgspec.Struct, array_like=True, frozen=True, tag="open-stream"):
    """A stream with a name of its own, made by the shard that its name hashes to. Answers its id."""

    traits: Traits
    closed: bool = False

    def check(self, state: "ShardState") -> None:
        if self.traits.name in state.names:
            raise AlreadyThere(f"stream '{self.traits.name}' exists")
        if not state.may_bear(self.traits.name):
            raise NotThere(f"bucket '{bucket_of(self.traits.name)}' does not exist")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> int:
        stream_id = stream_born_in(ShardId(state.shard), state.streams_born, state.shards)
        state.streams_born += 1
        state.open_stream(stream_id, self.traits, closed=self.closed)
        return stream_id


class DeleteStreams(msgspec.Struct, array_like=True, frozen=True, tag="delete-streams"):
    """Streams go with all their records. Those that are gone already are passed over. Answers how many went."""

    streams: list[int]

    def check(self, state: "ShardState") -> None:
        """Always allowed."""

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> int:
        gone = 0
        for stream_id in self.streams:
            stream = state.streams.get(stream_id)
            if stream is not None and not (stream.traits is not None and stream.traits.leaving):
                remove(state, stream, touched)  # forks may hold it
                gone += 1
        return gone


class TruncateStreams(msgspec.Struct, array_like=True, frozen=True, tag="truncate"):
    """Records before an offset are no longer readable. A start never moves back. Answers each stream's new start."""

    starts: dict[int, int]

    def check(self, state: "ShardState") -> None:
        for stream_id, start in self.starts.items():
            stream = state.streams.get(stream_id)
            if stream is not None and start > stream.end:
                raise Refused(f"stream {stream_id} ends at {stream.end}, it cannot begin at {start}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> dict[int, int]:
        starts = {}
        for stream_id, start in self.starts.items():
            stream = state.streams.get(stream_id)
            if stream is None:
                continue
            if start > stream.start:
                state.objects.release(stream.truncate(start))
                touched.add(stream_id)
            starts[stream_id] = stream.start
        return starts
