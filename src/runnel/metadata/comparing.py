"""Whether two replicas hold the same truth.

A state restored from a checkpoint may number its object slots otherwise than the one that wrote it, and may hold dicts
in another order. An *image* says the same things without either, so replicas at one position have equal images.
"""

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
    """All that is true, in plain values and one order."""
    names = state.objects.names
    return {
        "place": (state.shard, state.shards, state.position, state.cluster_id),
        "horizon": state.horizon,
        "remembered": list(state.remembered.items()),
        "streams": [_stream(stream, names) for _, stream in sorted(state.streams.items())],
        "names": sorted(state.names.items(), key=_key),
        "streams born": state.streams_born,
        "objects": sorted(
            (name, state.objects.references[slot], state.objects.kinds[slot])
            for name, slot in state.objects.slot_of.items()
        ),
        "groups": sorted(state.groups.items(), key=_key),
        "topics": sorted(state.topics.items(), key=_key),
        "topic names": sorted(state.topic_names.items(), key=_key),
        "leaving": sorted(state.leaving.items(), key=_key),
        "nodes": sorted(state.nodes.items(), key=_key),
        "settings": sorted(state.settings.items(), key=_key),
        "counters": sorted(state.counters.items(), key=_key),
        "tables": sorted(state.tables.items(), key=_key),
        "planner": state.planner,
        "subscriptions": sorted(state.subscriptions.items(), key=_key),
    }


def _key(item: tuple[Any, Any]) -> Any:
    return item[0]


def _stream(stream: Stream, names: list[str]) -> tuple[Any, ...]:
    extents = stream.extents
    index = None
    if extents is not None:
        columns = (extents.ends, extents.totals, extents.stamps, extents.peaks, extents.places, extents.lengths)
        index = (extents.floor, *(column.tobytes() for column in columns), [names[slot] for slot in extents.slots])
    producers = {
        str(key): (type(key) is int, producer.epoch, producer.last, producer.recent.tobytes(), producer.seen_ms)
        for key, producer in (stream.producers or {}).items()
    }
    return (
        stream.id,
        stream.start,
        stream.end,
        stream.size,
        stream.epoch,
        stream.closed,
        index,
        sorted(producers.items()),
        stream.traits,
    )
