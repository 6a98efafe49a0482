"""Which parts of which objects hold the records that were asked for. Pure."""

from collections.abc import Callable
from typing import NamedTuple

from runnel.metadata.objects import FileKind
from runnel.metadata.state import ShardState


class Part(NamedTuple):
    """A run of records inside one object, with the first offset and the one behind its last.

    In a write-ahead object they are whole batches: `length` bytes from `place` on. Among Parquet files they are the
    chunks of a trail from number `place` on, or, as a `CHUNK`, that one; `length` is about what they take as batches.
    """

    name: str
    place: int
    length: int
    first: int
    end: int
    kind: int = FileKind.WAL


CHUNK = 2
"""The kind of a part that is one chunk of a trail, beside the kinds of files."""
ChunksOf = Callable[[Part], list[Part] | None]
"""The chunks of a part of Parquet files; None while its trail is not known here: fetching the part makes it known."""


def no_chunks(part: Part) -> list[Part] | None:  # noqa: ARG001  # the shape of the question
    return None


class Plan(NamedTuple):
    """What to fetch for one read, and what lies behind it for reading ahead."""

    parts: list[Part]
    ahead: list[Part]
    source: int = -1
    """The stream that holds them: the one that was asked for, or one that it is a fork of."""
    until: int | None = None
    """What lies at this offset or behind it came after the fork."""


PARTS_MAX = 256
"""A read brings together at most this many extents, however small they are."""


def plan_read(
    state: ShardState,
    stream_id: int,
    offset: int,
    bytes_max: int,
    ahead_bytes: int = 0,
    until: int | None = None,
    chunks_of: ChunksOf = no_chunks,
) -> Plan:
    """Parts from the one with `offset` on until they are worth `bytes_max`, and parts behind them worth `ahead_bytes`.

    There is at least one part when `offset` is before the end of the stream. A plan ends with a part whose chunks are
    not known yet.
    """
    stream = state.streams[stream_id]
    extents = stream.extents
    parts: list[Part] = []
    ahead: list[Part] = []
    if extents is None or offset >= stream.end:
        return Plan(parts, ahead, stream_id, until)
    index = extents.find(offset)
    names, kinds = state.objects.names, state.objects.kinds
    left = bytes_max
    while index < len(extents):
        extent = extents[index]
        if until is not None and extent.first >= until:
            break
        part = Part(names[extent.slot], extent.place, extent.length, extent.first, extent.end, kinds[extent.slot])
        chunks = chunks_of(part) if part.kind == FileKind.PARQUET else None
        for each in (part,) if chunks is None else chunks:
            if each.end <= offset or (until is not None and each.first >= until):
                continue
            if not parts or (left > 0 and len(parts) < PARTS_MAX):
                parts.append(each)
                left -= each.length
            elif ahead_bytes > 0 and len(ahead) < PARTS_MAX:
                ahead.append(each)
                ahead_bytes -= each.length
            else:
                return Plan(parts, ahead, stream_id, until)
        if part.kind == FileKind.PARQUET and chunks is None:
            break
        index += 1
    return Plan(parts, ahead, stream_id, until)


def plan_time(state: ShardState, stream_id: int, stamp_ms: int) -> list[Part]:
    """Parts that may hold the first record at or after a time, in order; the first that does holds the answer."""
    stream = state.streams[stream_id]
    extents = stream.extents
    if extents is None:
        return []
    names, kinds = state.objects.names, state.objects.kinds
    found = []
    for index in range(extents.find_time(stamp_ms), len(extents)):
        if extents.stamps[index] >= stamp_ms:
            extent = extents[index]
            found.append(
                Part(names[extent.slot], extent.place, extent.length, extent.first, extent.end, kinds[extent.slot])
            )
    return found
