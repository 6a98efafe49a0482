"""Whether two replicas hold the same truth.

A state restored from a checkpoint may number its object slots otherwise than the one that wrote it, and may hold dicts
in another order. An *image* says the same things without either, so replicas at one position have equal images.
"""

from array import array
from typing import Any

import msgspec
from crc32c import crc32c

from runnel.metadata.state import ShardState
from runnel.metadata.stream import Stream

_encoder = msgspec.msgpack.Encoder()


def digest(state: ShardState) -> int:
    """Equal for equal truths; 32 bits, to notice mistakes and not malice."""
    return crc32c(_encoder.encode(image(state)))


def differences(one: ShardState, other: ShardState) -> list[str]:
    """What two states at one position disagree about."""
    mine, theirs = image(one), image(other)
    return [
        f"{part}: {mine[part]!r:.300} here, {theirs[part]!r:.300} there" for part in mine if mine[part] != theirs[part]
    ]


def image(state: ShardState) -> dict[str, Any]:
    """All that is true, in plain values and one order. What a state gains one day is part of it by itself."""
    names = state.objects.names
    parts = {part: _plain(value) for part, value in vars(state).items() if part not in {"streams", "objects"}}
    parts["remembered"] = list(state.remembered.items())  # here the order counts
    parts["streams"] = [_stream(stream, names) for _, stream in sorted(state.streams.items())]
    parts["objects"] = sorted(
        (name, state.objects.references[slot], state.objects.kinds[slot])
        for name, slot in state.objects.slot_of.items()
    )
    return parts


def _stream(stream: Stream, names: list[str]) -> dict[str, Any]:
    parts = {part: getattr(stream, part) for part in stream.__slots__ if part not in {"extents", "producers"}}
    extents = stream.extents
    if extents is not None:
        parts["extents"] = [_plain(getattr(extents, part)) for part in sorted(extents.__slots__) if part != "slots"]
        parts["objects"] = [names[slot] for slot in extents.slots]
    parts["producers"] = sorted(
        (str(key), type(key) is int, [_plain(getattr(producer, part)) for part in producer.__slots__])
        for key, producer in (stream.producers or {}).items()
    )
    return parts


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted(value.items(), key=lambda item: item[0])
    return value.tobytes() if isinstance(value, array) else value
