"""What must be true of a shard's state after every update, said a second time.

Tests and simulations call `broken` after each entry; an empty answer is the proof. The free list of object slots is
compared as a set, because a restored state may hand slots out in another order than the one that wrote the checkpoint.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from runnel.metadata.state import ShardState
from runnel.metadata.stream import Stream
from runnel.model import StreamId, shard_of


def broken(state: ShardState) -> list[str]:
    """A sentence for every invariant that does not hold."""
    return [*_streams(state), *_references(state), *_names(state), *_topics(state)]


def _streams(state: ShardState) -> Iterator[str]:
    for stream_id, stream in state.streams.items():
        if stream.id != stream_id:
            yield f"stream {stream_id} believes to be {stream.id}"
        if shard_of(StreamId(stream_id), state.shards) != state.shard:
            yield f"stream {stream_id} is in shard {state.shard}"
        if not 0 <= stream.start <= stream.end:
            yield f"stream {stream_id} begins at {stream.start} and ends at {stream.end}"
        yield from _extents(stream)
        yield from _producers(stream)


def _extents(stream: Stream) -> Iterator[str]:
    extents = stream.extents
    inherited = stream.traits.fork.offset if stream.traits is not None and stream.traits.fork is not None else 0
    if extents is None:
        if max(stream.start, inherited) != stream.end:
            yield f"stream {stream.id} has records from {stream.start} to {stream.end} and no extents"
        return
    if not len(extents):
        yield f"stream {stream.id} keeps an empty index"
        return
    columns = (extents.totals, extents.stamps, extents.peaks, extents.slots, extents.places, extents.lengths)
    if any(len(column) != len(extents) for column in columns):
        yield f"stream {stream.id} has columns of unequal length"
    if not extents.floor <= max(stream.start, inherited) < extents.ends[0] and stream.start != stream.end:
        yield f"stream {stream.id} begins at {stream.start}, its first extent covers {extents[0]}"
    if extents.ends[-1] != stream.end or extents.totals[-1] != stream.size:
        yield f"stream {stream.id} ends at {stream.end} with {stream.size} bytes, its extents elsewhere"
    end, total, peak = extents.floor, -1, None
    for index, extent in enumerate(extents):
        if extent.end <= end:
            yield f"stream {stream.id}: extent {index} is empty or overlaps: {extent}"
        if extents.totals[index] < total:
            yield f"stream {stream.id}: totals fall at extent {index}"
        if peak is not None and extents.peaks[index] < max(peak, extent.stamp):
            yield f"stream {stream.id}: the peak falls at extent {index}"
        end, total, peak = extent.end, extents.totals[index], extents.peaks[index]


def _producers(stream: Stream) -> Iterator[str]:
    for key, producer in (stream.producers or {}).items():
        if len(producer.recent) % 3:
            yield f"stream {stream.id}: producer {key} remembers a broken run"
        elif producer.recent and producer.recent[-2] != producer.last:
            yield f"stream {stream.id}: producer {key} is at {producer.last} but remembers {producer.recent[-2]}"
        offsets = producer.recent[2::3]
        if any(later < earlier for earlier, later in pairwise(offsets)):
            yield f"stream {stream.id}: producer {key} went back"
        if producer.recent and producer.recent[-1] > stream.end:
            yield f"stream {stream.id}: producer {key} was given an offset beyond the end"


def _references(state: ShardState) -> Iterator[str]:
    counted: Counter[int] = Counter()
    for stream in state.streams.values():
        if stream.extents is not None:
            counted.update(stream.extents.slots)
        if stream.traits is not None and stream.traits.snapshot is not None:
            counted[state.objects.slot_of.get(stream.traits.snapshot.object, -1)] += 1
    table = state.objects
    for name, slot in table.slot_of.items():
        if table.names[slot] != name:
            yield f"object {name} and slot {slot} disagree"
        if not table.references[slot]:
            yield f"object {name} is kept without a reference"
    if len(table.kinds) != len(table.names):
        yield f"{len(table.names)} slots have {len(table.kinds)} kinds"
    for slot, references in enumerate(table.references):
        if counted[slot] != references:
            yield f"slot {slot} counts {references} references, there are {counted[slot]}"
    if {slot for slot, name in enumerate(table.names) if not name} != set(table.free):
        yield "the free slots are not the empty ones"


def _names(state: ShardState) -> Iterator[str]:
    for name, stream_id in state.names.items():
        stream = state.streams.get(stream_id)
        if stream is None or stream.traits is None or stream.traits.name != name:
            yield f"name '{name}' leads to stream {stream_id}, which does not bear it"


def _topics(state: ShardState) -> Iterator[str]:
    if {topic.id: topic.name for topic in state.topics.values()} != state.topic_names:
        yield "topics and their ids disagree"
    for name, topic in state.topics.items():
        if topic.name != name or len(set(topic.streams)) != len(topic.streams):
            yield f"topic '{name}' is not itself"
