"""Runs of sealed batches become Arrow columns; what cannot be opened is set aside as it is.

    Run(first, data)      batches side by side as they lie in an object, and the real offset of the first
    open_runs(runs)  ->   Opened: rows, stretches, aside     (several, each of bounded size)

*Rows* have five columns: offset, time (milliseconds, -1 for none, as Kafka has it), key, value, headers. They are
found by the compiled helper, without Python per record; Python's part is per batch: a head, a checksum, an unfolding.

A *stretch* is a run of offsets whose batches say the same about their records: whose transaction they belong to and
who set the time. That is all of a batch's frame that a consumer can see, so it is all that is kept: batches that are
made again from rows have the same offsets, times, keys, values and headers, but their own borders and compression.

*Aside* go whole batches, still sealed, with their real offsets: control batches, aborted ones, and poisoned ones (bad
checksum, cannot be unfolded, records that contradict the head). A consumer still gets them byte by byte.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from struct import Struct

import pyarrow as pa
from crc32c import crc32c

from runnel.codec.batches import APPEND_TIME, CONTROL, HEAD_BYTES, TRANSACTIONAL, BatchHead, read_head
from runnel.codec.compression import Buffer, Compression, decompress
from runnel.errors import Corrupt, RunnelError
from runnel.table import compiled, records_plain
from runnel.table.reasons import Reason

HEADER = pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())])
HEADERS = pa.list_(pa.field("item", HEADER, nullable=False))
ROWS = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
    ]
)
UNFOLDED_BYTES_MAX = 64 << 20  # rows of one `Opened`; a single batch may unfold to as much again
VISIBLE = APPEND_TIME | TRANSACTIONAL  # what a consumer sees of a batch's attributes
CONTROL_BATCH, ABORTED = "control batch", "aborted"

_pack_offset = Struct(">q").pack_into
_KNOWN_CODECS = frozenset(Compression)


@dataclass(frozen=True, slots=True)
class Run:
    """Sealed batches side by side, the first of which begins at offset `first`."""

    first: int
    data: Buffer


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets, both ends inclusive, whose batches said the same about their records."""

    first: int
    last: int
    attributes: int = 0
    producer: int = -1
    epoch: int = -1

    def continued_by(self, other: "Stretch") -> bool:
        mine = (self.attributes, self.producer, self.epoch)
        return self.last + 1 == other.first and mine == (other.attributes, other.producer, other.epoch)


@dataclass(frozen=True, slots=True)
class Aside:
    """A batch that stays sealed, with its real offset in its head, and why."""

    first: int
    last: int
    why: str
    batch: bytes

    @property
    def is_poisoned(self) -> bool:
        return self.why not in {CONTROL_BATCH, ABORTED}


@dataclass(frozen=True, slots=True)
class Opened:
    """Some of the rows, in the order of their offsets, and what was found beside them."""

    rows: pa.RecordBatch
    stretches: tuple[Stretch, ...]
    aside: tuple[Aside, ...]


def never_aborted(head: BatchHead, first: int) -> bool:  # noqa: ARG001  # the shape of the question
    return False


def open_runs(
    runs: Iterable[Run],
    *,
    is_aborted: Callable[[BatchHead, int], bool] = never_aborted,
    unfolded_bytes_max: int = UNFOLDED_BYTES_MAX,
) -> Iterator[Opened]:
    """The rows of all runs, in pieces of about `unfolded_bytes_max` bytes.

    `is_aborted(head, first offset)` is asked about transactional batches.
    """
    piece = _Piece()
    for run in runs:
        view = memoryview(run.data).cast("B")
        at = 0
        first = run.first
        while at < len(view):
            head = _head_at(view, at)
            piece.add(head, first, view[at : at + head.size], is_aborted)
            first += head.last_offset_delta + 1
            at += head.size
            if piece.size >= unfolded_bytes_max:
                yield piece.opened()
                piece = _Piece()
    if not piece.is_empty:
        yield piece.opened()


def _head_at(view: memoryview, at: int) -> BatchHead:
    left = len(view) - at
    if left < HEAD_BYTES:
        raise Corrupt(f"a batch is cut off at byte {at}: {left} bytes are left")
    head = read_head(view, at)
    if head.magic != 2 or not HEAD_BYTES <= head.size <= left or head.last_offset_delta < 0:
        raise Corrupt(f"no batch at byte {at}: magic {head.magic}, length {head.length}")
    return head


def _sealed(batch: memoryview, first: int) -> bytes:
    copy = bytearray(batch)
    _pack_offset(copy, 0, first)
    copy[12:16] = bytes(4)  # the leader epoch: there are no leaders
    return bytes(copy)


@dataclass(slots=True)
class _Piece:
    """Batches on their way to one `Opened`."""

    size: int = 0
    sections: list[Buffer] = field(default_factory=list)
    facts: list[bytes] = field(default_factory=list)
    batches: list[tuple[BatchHead, int, memoryview]] = field(default_factory=list)
    aside: list[Aside] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.sections and not self.aside

    def add(self, head: BatchHead, first: int, batch: memoryview, is_aborted: Callable[[BatchHead, int], bool]) -> None:
        self.size += HEAD_BYTES
        why = ""
        if head.attributes & CONTROL:
            why = CONTROL_BATCH
        elif head.attributes & TRANSACTIONAL and is_aborted(head, first):
            why = ABORTED
        elif crc32c(batch[21:]) != head.crc:
            why = "the checksum differs"
        elif head.compression not in _KNOWN_CODECS:
            why = f"compression {head.compression} is not known"
        if not why:
            try:
                section = decompress(batch[HEAD_BYTES:], Compression(head.compression))
            except RunnelError as bad:
                why = str(bad)
            else:
                self.size += len(section)
                self.sections.append(section)
                append_time = head.max_timestamp if head.attributes & APPEND_TIME else -1
                self.facts.append(
                    records_plain.FACTS.pack(
                        head.records, first, head.last_offset_delta, head.base_timestamp, append_time
                    )
                )
                self.batches.append((head, first, batch))
        if why:
            self.size += len(batch)
            self.aside.append(Aside(first, first + head.last_offset_delta, why, _sealed(batch, first)))

    def opened(self) -> Opened:
        split = (compiled.helper or records_plain).split
        status, count, headers, *buffers = split(self.sections, b"".join(self.facts))
        stretches: list[Stretch] = []
        poisoned = False
        for (head, first, batch), bad in zip(self.batches, memoryview(status).cast("i"), strict=True):
            last = first + head.last_offset_delta
            if bad:
                poisoned = True
                self.aside.append(Aside(first, last, Reason(bad).words, _sealed(batch, first)))
                continue
            add_stretch(stretches, _stretch(head, first, last))
        aside = sorted(self.aside, key=lambda kept: kept.first) if poisoned else self.aside
        return Opened(_assemble(count, headers, buffers), tuple(stretches), tuple(aside))


def _stretch(head: BatchHead, first: int, last: int) -> Stretch:
    attributes = head.attributes & VISIBLE
    if attributes & TRANSACTIONAL:
        return Stretch(first, last, attributes, head.producer, head.epoch)
    return Stretch(first, last, attributes)


def add_stretch(stretches: list[Stretch], new: Stretch) -> None:
    """Put `new` at the end, as part of the last stretch where it continues that one."""
    if stretches and stretches[-1].continued_by(new):
        old = stretches[-1]
        stretches[-1] = Stretch(old.first, new.last, old.attributes, old.producer, old.epoch)
    else:
        stretches.append(new)


def _assemble(count: int, headers: int, buffers: list[bytes]) -> pa.RecordBatch:
    """Arrow arrays around the bytes as they are."""
    offset, time, key_bits, key_ends, keys, value_bits, value_ends, values, ends, *pairs = map(pa.py_buffer, buffers)
    name_ends, names, text_bits, text_ends, texts = pairs
    name = pa.Array.from_buffers(pa.string(), headers, [None, name_ends, names])
    text = pa.Array.from_buffers(pa.binary(), headers, [text_bits, text_ends, texts])
    pair = pa.Array.from_buffers(HEADER, headers, [None], children=[name, text])
    return pa.RecordBatch.from_arrays(
        [
            pa.Array.from_buffers(pa.int64(), count, [None, offset]),
            pa.Array.from_buffers(pa.int64(), count, [None, time]),
            pa.Array.from_buffers(pa.binary(), count, [key_bits, key_ends, keys]),
            pa.Array.from_buffers(pa.binary(), count, [value_bits, value_ends, values]),
            pa.Array.from_buffers(HEADERS, count, [None, ends], children=[pair]),
        ],
        schema=ROWS,
    )
