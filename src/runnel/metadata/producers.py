"""Who has written to a stream, and what came last from each: the judge of retries.

Kafka's idempotent producers (a number) and HTTP's producers (a name) are kept in one table per stream. The rules they
share: a lower epoch is fenced, the next sequence is accepted, an earlier one is a duplicate that gets its first answer,
a gap is refused. Where they differ:

    Kafka  sequences count records and wrap at 2^31; a producer that nobody knows must begin at 0; a higher epoch begins
           at 0; the last five batches can be answered again, older duplicates are known as such but not where they lie
    HTTP   sequences count requests; a duplicate is answered with the highest sequence that was accepted
"""

from array import array
from enum import IntEnum

RECENT_MAX = 5
"""Batches whose first offsets are remembered per producer: as many as a Kafka client may have in flight."""

WRAP = 0x7FFFFFFF


class Verdict(IntEnum):
    """What became of one item of a commit. Accepted and duplicate items have an offset as well."""

    ACCEPTED = 0
    DUPLICATE = 1
    STREAM_UNKNOWN = 2
    STREAM_CLOSED = 3
    OUT_OF_ORDER = 4
    EPOCH_STALE = 5
    PRODUCER_UNKNOWN = 6
    DUPLICATE_FORGOTTEN = 7
    EPOCH_MUST_BEGIN_AT_ZERO = 8
    SEQUENCE_REGRESSED = 9
    MATCH_FAILED = 10
    OFFSET_UNEXPECTED = 11
    NAME_TAKEN = 12
    OTHERS_REFUSED = 13


class Producer:
    """What one producer did last in one stream. `recent` holds (first sequence, last sequence, first offset) runs."""

    __slots__ = ("epoch", "last", "recent", "seen_ms")

    def __init__(self, epoch: int, seen_ms: int) -> None:
        self.epoch = epoch
        self.last = -1
        self.recent = array("q")
        self.seen_ms = seen_ms

    def begin_epoch(self, epoch: int) -> None:
        self.epoch = epoch
        self.last = -1
        del self.recent[:]

    def accept(self, first: int, last: int, offset: int, at_ms: int) -> None:
        self.last = last
        self.seen_ms = at_ms
        recent = self.recent
        if len(recent) == 3 * RECENT_MAX:
            del recent[:3]
        recent.append(first)
        recent.append(last)
        recent.append(offset)

    def first_offset_of(self, first: int, last: int) -> int | None:
        """Where a batch with just these sequences went, if that is still remembered."""
        recent = self.recent
        for at in range(0, len(recent), 3):
            if recent[at] == first and recent[at + 1] == last:
                return recent[at + 2]
        return None


def last_sequence(first: int, records: int) -> int:
    """The sequence of a batch's last record; Kafka's sequences wrap."""
    return (first + records - 1) & WRAP


def judge_number(known: Producer | None, epoch: int, first: int, last: int) -> Verdict:
    """Kafka's rules; a first contact and a new epoch are accepted here and entered by the caller."""
    if known is None:
        return Verdict.ACCEPTED if first == 0 else Verdict.PRODUCER_UNKNOWN
    if epoch != known.epoch:
        if epoch < known.epoch:
            return Verdict.EPOCH_STALE
        return Verdict.ACCEPTED if first == 0 else Verdict.OUT_OF_ORDER
    if first == (known.last + 1) & WRAP:
        return Verdict.ACCEPTED
    if known.first_offset_of(first, last) is not None:
        return Verdict.DUPLICATE
    if known.recent and _behind(last, known.last):
        return Verdict.DUPLICATE_FORGOTTEN
    return Verdict.OUT_OF_ORDER


def _behind(sequence: int, last: int) -> bool:
    """Whether a sequence lies in the half circle behind the last one."""
    return ((last - sequence) & WRAP) < (WRAP >> 1)


def judge_name(known: Producer | None, epoch: int, sequence: int) -> Verdict:
    """The rules of Durable Streams."""
    if known is None:
        return Verdict.ACCEPTED if sequence == 0 else Verdict.OUT_OF_ORDER
    if epoch < known.epoch:
        return Verdict.EPOCH_STALE
    if epoch > known.epoch:
        return Verdict.ACCEPTED if sequence == 0 else Verdict.EPOCH_MUST_BEGIN_AT_ZERO
    if sequence == known.last + 1:
        return Verdict.ACCEPTED
    return Verdict.DUPLICATE if sequence <= known.last else Verdict.OUT_OF_ORDER
