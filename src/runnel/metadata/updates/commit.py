"""CommitObject: what a WAL object brings to the streams of one shard. This is where offsets come from.

An object's entry holds *items*, packed, sorted by stream as they lie in the object. An item is a run of sealed batches
of one stream, side by side: all that a non-idempotent writer sent, or one batch of an idempotent one. Each is judged on
its own, because a retry must get its first offsets whatever it travels with; adjacent accepted items of a stream become
one extent, so that the index grows by one row per object and stream.

The loop below runs for every slice of every object on every node: it touches columns and small integers only.
"""

from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from runnel.errors import Fenced
from runnel.metadata.extents import Extents
from runnel.metadata.producers import Producer, Verdict, judge_name, judge_number, last_sequence
from runnel.metadata.stream import Stream, Traits

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState

ITEM = Struct("<QqqqqIIIHxx")
"""stream, largest timestamp, producer, epoch, sequence, place, length, records, flags.

The producer is -1 for none, Kafka's producer id, or with NAMED an index into `names`.
"""

NAMED = 1
GUARDED = 2
TRANSACTIONAL = 4
CONTROL = 8


class Guard(msgspec.Struct, array_like=True, frozen=True):
    """Conditions and consequences that a few appends carry. New fields go last."""

    close: bool = False
    """Close the stream behind this append."""
    sequence: str | None = None
    """`Stream-Seq`: must be greater, byte by byte, than the last one."""
    next_offset: int | None = None
    """The offset that the first record must get."""
    open: Traits | None = None
    """Make the stream first, with the id that the item names; refused if the name is taken."""


REPETITIONS = frozenset({Verdict.DUPLICATE, Verdict.DUPLICATE_FORGOTTEN})


class HorizonPassed(Fenced):
    """The object is older than a sweep allows; it may be gone. Write its records into a new object."""


class Note(NamedTuple):
    """More about an item than its offset: why it was not appended, or what it repeats."""

    verdict: Verdict
    facts: dict[str, Any]


class CommitResult(NamedTuple):
    """`firsts` has the first offset of each item, or -1; `notes` has what is to be said of items that met a rule."""

    firsts: list[int]
    notes: dict[int, Note]


class CommitObject(msgspec.Struct, array_like=True, frozen=True, tag="object"):
    """Slices of one object become parts of their streams. New fields go last."""

    name: str
    stamp: int
    items: bytes
    names: list[str] = []
    guards: dict[int, Guard] = {}
    together: bool = False
    """All items are appended or none: a transaction has an object of its own."""

    def check(self, state: "ShardState") -> None:
        if self.stamp < state.horizon:
            raise HorizonPassed(f"object {self.name} is stamped before the horizon {state.horizon} of a sweep")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> CommitResult:
        if self.together:
            refusals = self._rehearse(state, at_ms)
            if refusals:
                count = len(self.items) // ITEM.size
                others = {index: Note(Verdict.OTHERS_REFUSED, {}) for index in range(count)}
                return CommitResult([-1] * count, others | refusals)
        return self._append(state, at_ms, touched)

    def _append(self, state: "ShardState", at_ms: int, touched: set[int]) -> CommitResult:
        streams = state.streams
        firsts: list[int] = []
        notes: dict[int, Note] = {}
        slot = state.objects.enter(self.name)
        extents_made = 0
        joined_id = -1  # the stream whose last extent lies in this object
        joined_end = 0  # where that extent ends in the object
        for row in ITEM.iter_unpack(self.items):
            stream_id, stamp, producer_id, epoch, sequence, place, length, records, flags = row
            stream = streams.get(stream_id)
            if stream is None and flags & GUARDED:
                stream = self._open(len(firsts), state, stream_id, notes)
                if stream is None:
                    firsts.append(-1)
                    continue
            if stream is None:
                notes[len(firsts)] = Note(Verdict.STREAM_UNKNOWN, {})
                firsts.append(-1)
                continue
            if flags & 3 or stream.closed:
                note = self._judge_slowly(len(firsts), stream, producer_id, epoch, sequence, flags, records, at_ms)
                if note is not None:
                    notes[len(firsts)] = note
                    firsts.append(note.facts.get("first", -1))
                    continue
            elif producer_id >= 0:
                producers = stream.producers
                known = producers.get(producer_id) if producers is not None else None
                last = (sequence + records - 1) & 0x7FFFFFFF
                if known is not None and known.epoch == epoch and sequence == (known.last + 1) & 0x7FFFFFFF:
                    known.accept(sequence, last, stream.end, at_ms)
                else:
                    note = _judge_unusual(stream, known, producer_id, epoch, sequence, last, at_ms)
                    if note is not None:
                        notes[len(firsts)] = note
                        firsts.append(note.facts.get("first", -1))
                        continue
            first = stream.end
            firsts.append(first)
            if stream.traits is not None and stream.traits.touched_ms < at_ms:
                stream.traits.touched_ms = at_ms
            if not records:
                touched.add(stream_id)  # a close without data
                continue
            stream.end = end = first + records
            stream.size = size = stream.size + length
            extents = stream.extents
            if joined_id == stream_id and joined_end == place:
                assert extents is not None
                extents.extend_last(end, size, stamp, length)
            else:
                if extents is None:
                    extents = stream.extents = Extents(first)
                extents.append(end, size, stamp, slot, place, length)
                extents_made += 1
                joined_id = stream_id
                touched.add(stream_id)
            joined_end = place + length
        if extents_made:
            state.objects.refer(slot, extents_made)
        elif not state.objects.references[slot]:
            state.objects.forget(slot)
        return CommitResult(firsts, notes)

    def _rehearse(self, state: "ShardState", at_ms: int) -> dict[int, Note]:
        """What would refuse any of the items, without changing a thing; repetitions are all right if all items are.

        The items are judged as they will be, against copies of what judging looks at and changes.
        """
        rows = list(ITEM.iter_unpack(self.items))
        writers: set[int | str] = {self.names[row[2]] if row[8] & NAMED else row[2] for row in rows}
        copies: dict[int, Stream] = {}
        notes: dict[int, Note] = {}
        for index, (stream_id, _, producer_id, epoch, sequence, _, _, records, flags) in enumerate(rows):
            known = state.streams.get(stream_id)
            if known is None:
                notes[index] = Note(Verdict.STREAM_UNKNOWN, {})
                continue
            stream = copies.get(stream_id)
            if stream is None:
                stream = copies[stream_id] = known.stand_in(writers)
            note = self._judge_slowly(index, stream, producer_id, epoch, sequence, flags, records, at_ms)
            if note is None:
                stream.end += records
            else:
                notes[index] = note
        repeated = [note for note in notes.values() if note.verdict in REPETITIONS]
        return {} if len(repeated) == len(rows) else notes

    def _open(self, index: int, state: "ShardState", stream_id: int, notes: dict[int, Note]) -> Stream | None:
        """Make the stream that an item brings with it; a note says why not."""
        traits = self.guards[index].open
        if traits is None:
            notes[index] = Note(Verdict.STREAM_UNKNOWN, {})
        elif traits.name in state.names:
            notes[index] = Note(Verdict.NAME_TAKEN, {})
        elif not state.may_bear(traits.name):
            notes[index] = Note(Verdict.STREAM_UNKNOWN, {})
        else:
            return state.open_stream(stream_id, traits, closed=False)
        return None

    def _judge_slowly(
        self,
        index: int,
        stream: Stream,
        producer_id: int,
        epoch: int,
        sequence: int,
        flags: int,
        records: int,
        at_ms: int,
    ) -> Note | None:
        """Items with a named producer or a guard, and any item that meets a closed stream. None: append it.

        Precedence: what the producer table says of repetitions and stale epochs, then closed, then the guards.
        """
        key: int | str = self.names[producer_id] if flags & NAMED else producer_id
        last = sequence if flags & NAMED else last_sequence(sequence, records)
        known = stream.producers.get(key) if stream.producers is not None else None
        if key != -1:
            if isinstance(key, str):
                verdict = judge_name(known, epoch, sequence)
            else:
                verdict = judge_number(known, epoch, sequence, last)
            if verdict is not Verdict.ACCEPTED and not (stream.closed and verdict is Verdict.OUT_OF_ORDER):
                return _refusal(verdict, stream, known, sequence, last)
        if stream.closed:
            if flags & GUARDED and self.guards[index].close and not records and key == -1:
                return Note(Verdict.DUPLICATE, {"first": stream.end, "closed": True})
            return Note(Verdict.STREAM_CLOSED, {"end": stream.end})
        if flags & GUARDED:
            note = _keep_guard(self.guards[index], stream)
            if note is not None:
                return note
        if key != -1:
            stream.producer(key, epoch, at_ms).accept(sequence, last, stream.end, at_ms)
        return None


def _judge_unusual(
    stream: Stream, known: Producer | None, producer_id: int, epoch: int, first: int, last: int, at_ms: int
) -> Note | None:
    """A numbered producer's item that is not simply the next one."""
    verdict = judge_number(known, epoch, first, last)
    if verdict is not Verdict.ACCEPTED:
        return _refusal(verdict, stream, known, first, last)
    stream.producer(producer_id, epoch, at_ms).accept(first, last, stream.end, at_ms)
    return None


def _refusal(verdict: Verdict, stream: Stream, known: Producer | None, first: int, last: int) -> Note:
    facts: dict[str, Any] = {"end": stream.end}
    if known is not None:
        facts |= {"epoch": known.epoch, "last": known.last}
    if verdict is Verdict.DUPLICATE and known is not None:
        offset = known.first_offset_of(first, last)
        facts["first"] = -1 if offset is None else offset
    return Note(verdict, facts)


def _keep_guard(guard: Guard, stream: Stream) -> Note | None:
    """Check an append's conditions and let its consequences happen; a note refuses the append."""
    if guard.sequence is not None:
        traits = stream.traits
        if traits is None:
            return Note(Verdict.SEQUENCE_REGRESSED, {"end": stream.end})
        if traits.sequence is not None and guard.sequence.encode() <= traits.sequence.encode():
            return Note(Verdict.SEQUENCE_REGRESSED, {"end": stream.end, "last": traits.sequence})
    if guard.next_offset is not None and guard.next_offset != stream.end:
        return Note(Verdict.OFFSET_UNEXPECTED, {"end": stream.end})
    if guard.sequence is not None and stream.traits is not None:
        stream.traits.sequence = guard.sequence
    if guard.close:
        stream.closed = True
    return None
