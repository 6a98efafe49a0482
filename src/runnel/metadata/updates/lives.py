"""The lives of streams with names: they are used, expire, are removed, and are held by their forks.

A fork reads its source's records up to the place where it left it. So a source that is removed while forks hold it only
*leaves*: nobody can use it any more, its records stay, and its name stays taken. It goes when the last fork has given
back its hold, and then its own source may go, which the door does next (the two may live in different shards). Who dies
in between leaves a hold behind that no fork bears; upkeep finds those (engine/streams.py).
"""

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from runnel.errors import NotThere, Refused
from runnel.metadata.stream import Fork, Hold, Stream

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class Removed(NamedTuple):
    """What became of a stream: gone, or leaving while forks hold it. A fork that went names its source."""

    gone: bool
    fork: Fork | None = None


def remove(state: "ShardState", stream: Stream, touched: set[int]) -> Removed:
    touched.add(stream.id)
    traits = stream.traits
    if traits is not None and traits.holds:
        traits.leaving = True
        stream.closed = True
        return Removed(gone=False)
    state.drop_stream(stream)
    return Removed(gone=True, fork=traits.fork if traits is not None else None)


class RemoveStream(msgspec.Struct, array_like=True, frozen=True, tag="remove-stream"):
    """A stream with a name goes, or leaves if forks hold it. `expired` lets it go only if its time is over."""

    stream: int
    expired: bool = False

    def check(self, state: "ShardState") -> None:
        stream = state.streams.get(self.stream)
        if stream is None or (stream.traits is not None and stream.traits.leaving):
            raise NotThere(f"stream {self.stream} does not exist")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> Removed | None:
        stream = state.streams[self.stream]
        if self.expired:
            deadline = stream.traits.deadline_ms() if stream.traits is not None else None
            if deadline is None or at_ms < deadline:
                return None  # used in the meantime
        return remove(state, stream, touched)


class TouchStream(msgspec.Struct, array_like=True, frozen=True, tag="touch-stream"):
    """A stream was used: its life of so many seconds begins anew."""

    stream: int

    def check(self, state: "ShardState") -> None:
        """Always allowed; one that is gone is passed over."""

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        stream = state.streams.get(self.stream)
        if stream is not None and stream.traits is not None and stream.traits.touched_ms < at_ms:
            stream.traits.touched_ms = at_ms


class HoldSource(msgspec.Struct, array_like=True, frozen=True, tag="hold-source"):
    """A fork will read a stream's records before `upto`. Answers the stream's start."""

    stream: int
    token: bytes
    name: str
    upto: int

    def check(self, state: "ShardState") -> None:
        stream = state.streams.get(self.stream)
        if stream is None or stream.traits is None:
            raise NotThere(f"stream {self.stream} does not exist")
        if stream.traits.leaving:
            raise Refused(f"stream '{stream.traits.name}' is deleted; only its forks hold it")
        if not stream.start <= self.upto <= stream.end:
            raise Refused(f"stream '{stream.traits.name}' reaches from {stream.start} to {stream.end}, not {self.upto}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> int:
        stream = state.streams[self.stream]
        assert stream.traits is not None
        stream.traits.holds[self.token] = Hold(self.name, at_ms, self.upto)
        return stream.start


class ReleaseSource(msgspec.Struct, array_like=True, frozen=True, tag="release-source"):
    """A fork is gone. A source that was only held goes with its last fork; then the answer names its own source."""

    stream: int
    token: bytes

    def check(self, state: "ShardState") -> None:
        """Always allowed; what is gone already is passed over."""

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> Removed | None:
        stream = state.streams.get(self.stream)
        if stream is None or stream.traits is None:
            return None
        traits = stream.traits
        traits.holds.pop(self.token, None)
        if traits.leaving and not traits.holds:
            return remove(state, stream, touched)
        return None
