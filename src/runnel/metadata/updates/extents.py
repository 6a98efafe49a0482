"""ReplaceExtents: other objects hold the same offsets now. This is how a stream moves from write-ahead objects to Parquet.

A *run* says: in this stream, offsets from `first` up to `end` lie in this file, from row group `place` on. It takes the
place of the extents that hold those offsets. Runs are judged one by one, because the streams of a file may each have
had a fate of their own meanwhile:

    REPLACED  done
    ALREADY   the run stands there; somebody entered it before
    GONE      the stream was deleted, or all of the run was truncated
    OTHER     what stands there is not what may be replaced: other borders, or a Parquet file that is not among `over`

Of a run whose front was truncated the rest is replaced. A start inside an extent stays where it is.

Offsets, the bytes of the stream and its times stay as they are: an extent of Parquet counts the bytes of the batches
that were there before, so that limits of size mean the same before and after.
"""

from bisect import bisect_left
from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING

import msgspec

from runnel.errors import Fenced, Refused
from runnel.metadata.extents import Extents
from runnel.metadata.objects import FileKind

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState

RUN = Struct("<QqqII")
"""stream, first, end, index into `files`, place."""

LENGTH_MAX = 0xFFFFFFFF


class Replacement(IntEnum):
    """What became of a run."""

    REPLACED = 0
    ALREADY = 1
    GONE = 2
    OTHER = 3


class ReplaceExtents(msgspec.Struct, array_like=True, frozen=True, tag="replace-extents"):
    """Runs of one shard's streams, in order of stream and offset. New fields go last. Answers a Replacement for each.

    Without `over`, only write-ahead objects are replaced. With a `stamp`, the files are as old as that and the update
    is refused once a sweep may have taken them; without, something else keeps them (the journal of a table's commit).
    """

    files: list[str]
    runs: bytes
    over: list[str] = []
    stamp: int | None = None

    def check(self, state: "ShardState") -> None:
        if self.stamp is not None and self.stamp < state.horizon:
            raise Fenced(f"files stamped {self.stamp} are older than the horizon {state.horizon} of a sweep")
        if len(self.runs) % RUN.size:
            raise Refused("a run is cut off")
        for stream, first, end, file, _ in RUN.iter_unpack(self.runs):
            if file >= len(self.files) or not 0 <= first < end:
                raise Refused(f"stream {stream} cannot lie from {first} to {end} in file {file} of {len(self.files)}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> list[int]:
        over = frozenset(self.over)
        return [
            int(_replace(state, stream, first, end, self.files[file], place, over))
            for stream, first, end, file, place in RUN.iter_unpack(self.runs)
        ]


def _replace(
    state: "ShardState", stream_id: int, first: int, end: int, file: str, place: int, over: frozenset[str]
) -> Replacement:
    stream = state.streams.get(stream_id)
    extents = stream.extents if stream is not None else None
    if extents is None or end <= extents.floor:
        return Replacement.GONE
    first = max(first, extents.floor)
    low = extents.find(first)
    high = bisect_left(extents.ends, end) + 1
    if low >= len(extents) or extents[low].first != first or high > len(extents) or extents.ends[high - 1] != end:
        return Replacement.OTHER
    table = state.objects
    slots = extents.slots[low:high]
    if high == low + 1 and table.names[slots[0]] == file:
        return Replacement.ALREADY
    if any(table.kinds[slot] != FileKind.WAL and table.names[slot] not in over for slot in slots):
        return Replacement.OTHER
    slot = table.enter(file, FileKind.PARQUET)
    one = Extents(first)
    one.append(
        end,
        extents.totals[high - 1],
        max(extents.stamps[low:high]),
        slot,
        place,
        min(sum(extents.lengths[low:high]), LENGTH_MAX),
    )
    table.refer(slot)
    table.release(extents.replace(low, high, one))
    return Replacement.REPLACED
