"""What an application keeps beside a stream: attributes, a snapshot of what the records up to an offset amount to.

A snapshot's body is an object of its own, in the store before the update comes, named and swept like a write-ahead
object. Publishing one changes nothing that readers of the stream see. Letting records go is another, later step, and
never goes beyond the snapshot.
"""

from array import array
from typing import TYPE_CHECKING

import msgspec

from runnel.errors import AlreadyThere, Fenced, NotThere, Refused
from runnel.metadata.objects import FileKind
from runnel.metadata.stream import Snapshot, Stream, Traits
from runnel.metadata.updates.commit import HorizonPassed

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class OffsetGone(Refused):
    """The place lies before the first record that is kept."""


class Conflict(Fenced):
    """What stands there is not what the writer believed."""


def named(state: "ShardState", stream_id: int) -> tuple[Stream, Traits]:
    """A stream that has a name and can be used."""
    stream = state.streams.get(stream_id)
    if stream is None or stream.traits is None or stream.traits.leaving:
        raise NotThere("there is no such stream")
    return stream, stream.traits


class SetAttributes(msgspec.Struct, array_like=True, frozen=True, tag="set-attributes"):
    """A stream's attributes, as canonical JSON, become these; empty clears them."""

    stream: int
    attributes: bytes

    def check(self, state: "ShardState") -> None:
        named(state, self.stream)

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        _, traits = named(state, self.stream)
        traits.attributes = self.attributes


class PublishSnapshot(msgspec.Struct, array_like=True, frozen=True, tag="publish-snapshot"):
    """A stream has a newer snapshot. Answers False when this very one stands there already.

    `match` is the digest of the snapshot that its writer believes to be the newest.
    """

    stream: int
    snapshot: Snapshot
    stamp: int
    match: str | None = None

    def check(self, state: "ShardState") -> None:
        stream, traits = named(state, self.stream)
        offset, known = self.snapshot.offset, traits.snapshot
        if known is not None and offset == known.offset and self.snapshot.digest == known.digest:
            return  # the same again
        if self.match is not None and (known is None or known.digest != self.match):
            raise Conflict("the newest snapshot is another one than Stream-Snapshot-Match says")
        if offset > stream.end:
            raise Conflict(f"the stream ends at record {stream.end}, it cannot have a snapshot at {offset}")
        if known is not None and offset == known.offset:
            raise AlreadyThere(f"the snapshot at record {offset} is another one: publish at a later place")
        if known is not None and offset < known.offset:
            raise Conflict(f"there is a newer snapshot, at record {known.offset}")
        if offset < stream.start:
            raise OffsetGone(f"the stream begins at record {stream.start} by now")
        if self.stamp < state.horizon:
            raise HorizonPassed(f"object {self.snapshot.object} is stamped before the horizon of a sweep")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> bool:
        _, traits = named(state, self.stream)
        before = traits.snapshot
        if before is not None and before.offset == self.snapshot.offset:
            return False
        state.objects.refer(state.objects.enter(self.snapshot.object, FileKind.BODY))
        traits.snapshot = self.snapshot
        if before is not None:
            release_body(state, before)
        return True


class RetainStream(msgspec.Struct, array_like=True, frozen=True, tag="retain"):
    """Records before an offset go; a snapshot must stand for them."""

    stream: int
    offset: int

    def check(self, state: "ShardState") -> None:
        stream, traits = named(state, self.stream)
        if traits.snapshot is None or self.offset > traits.snapshot.offset:
            newest = "there is none" if traits.snapshot is None else f"the newest is at record {traits.snapshot.offset}"
            raise Conflict(f"records before {self.offset} need a snapshot to stand for them, {newest}")
        if self.offset < stream.start:
            raise Conflict(f"the stream begins at record {stream.start} by now, that never moves back")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> int:
        stream, _ = named(state, self.stream)
        if self.offset > stream.start:
            state.objects.release(stream.truncate(self.offset))
            touched.add(self.stream)
        return stream.start


def release_body(state: "ShardState", snapshot: Snapshot) -> None:
    """A snapshot is not the newest any more; the sweep takes its body."""
    state.objects.release(array("I", [state.objects.slot_of[snapshot.object]]))
