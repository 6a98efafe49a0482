"""Sealed Kafka record batches (format v2): heads are read, checksums checked, bodies never opened.

    check_produced   the one batch of a partition in a Produce request
    check_batches    a run of batches side by side, as they lie in an object
    patch_offsets    real offsets into a copy that is about to be sent
    set_append_time  the broker's time in place of the producer's
    seek_offset      where in a run the batch with some offset begins
    seek_time        the first batch of a run that reaches a time

A batch is 61 bytes of head and a body of records, possibly compressed:

    0  base offset          8  length of all after it   12  leader epoch     16  magic (2)
    17 CRC-32C of 21...end  21 attributes               23  last offset delta
    27 base timestamp       35 max timestamp            43  producer id      51  producer epoch
    53 base sequence        57 record count             61  records

Base offset and leader epoch lie outside the checksum, so a broker may set them without touching the rest. What a
broker stores has base offset 0 (or whatever the producer sent); the true offset is patched into the copy that is sent.

Nothing here works per record. A producer whose count of records is a lie inside a consistent head is therefore not
found out (Kafka, which unpacks every batch, would): it gets a gap in its own stream and harms no other. What the head
alone can tell is checked: offsets are dense (last delta + 1 = count, as Kafka demands of every producer's batch), and
uncompressed records take at least 7 bytes each.
"""

from enum import Enum
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from runnel.errors import Corrupt, Refused

HEAD_BYTES = 61
RECORD_BYTES_MIN = 7  # length, attributes, two deltas, key length, value length, count of headers
NO_TIMESTAMP = -1

COMPRESSION_MASK = 0b111
APPEND_TIME = 1 << 3
TRANSACTIONAL = 1 << 4
CONTROL = 1 << 5

_HEAD = Struct(">qiibIhiqqqhii")
_unpack_head = _HEAD.unpack_from
_unpack_step = Struct(">qiibIhi").unpack_from  # as far as the last offset delta
_pack_offset = Struct(">q").pack_into
_pack_epoch = Struct(">i").pack_into
_pack_attributes = Struct(">h").pack_into
_pack_crc = Struct(">I").pack_into
_LAST_CODEC = 4


class BatchHead(NamedTuple):
    """The head of one batch, field by field as on the wire."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer: int
    epoch: int
    sequence: int
    records: int

    @property
    def size(self) -> int:
        """All bytes of the batch, head and body."""
        return self.length + 12

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_append_time(self) -> bool:
        return bool(self.attributes & APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_idempotent(self) -> bool:
        return self.producer >= 0

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1


class Fault(Enum):
    """What is wrong with a batch, as far as its sender must know; Kafka's error in brackets."""

    CUT = "its length does not fit the bytes around it"  # CORRUPT_MESSAGE
    CHECKSUM = "its checksum differs"  # CORRUPT_MESSAGE
    OLD_FORMAT = "its message format is not v2"  # INVALID_RECORD; Kafka refuses it so from Produce v3 on
    NOT_ONE = "there must be exactly one batch"  # INVALID_RECORD
    INCONSISTENT = "its head contradicts itself"  # INVALID_RECORD
    TIMESTAMP_TYPE = "append time is set by the broker alone"  # INVALID_TIMESTAMP
    TOO_LARGE = "it is larger than the topic allows"  # MESSAGE_TOO_LARGE


class BadBatch(Refused):
    """A batch that is not taken in; `fault` says why, for a program, and the message for a person."""

    def __init__(self, fault: Fault, message: str) -> None:
        super().__init__(message)
        self.fault = fault


def read_head(view: memoryview, at: int = 0) -> BatchHead:
    """The head at `at`, unchecked; the caller knows that 61 bytes are there."""
    return tuple.__new__(BatchHead, _unpack_head(view, at))


def check_produced(view: memoryview, start: int, end: int, largest: int = 0x7FFFFFFF) -> BatchHead:
    """The head of the one batch that fills `start`...`end` of a Produce request, or `BadBatch`.

    `largest` is the topic's bound on the size of a batch. This runs once per partition and request: it is one unpack,
    one checksum and comparisons; what exactly is wrong is worked out only when something is.
    """
    if end - start >= HEAD_BYTES:
        head: BatchHead = tuple.__new__(BatchHead, _unpack_head(view, start))
        _, length, _, magic, crc, attributes, last_delta, _, _, producer, _, sequence, records = head
        if (
            magic == 2
            and length + 12 == end - start <= largest
            and records > 0
            and last_delta + 1 == records
            # no append time, no control batch; bits above are for brokers or not given out yet, as in Kafka let be
            and not attributes & (APPEND_TIME | CONTROL)
            and (
                records * RECORD_BYTES_MIN + 49 <= length
                if not attributes & COMPRESSION_MASK
                else attributes & COMPRESSION_MASK <= _LAST_CODEC
            )
            and (sequence >= 0 if producer >= 0 else not attributes & TRANSACTIONAL)
            and crc32c(view[start + 21 : end]) == crc
        ):
            return head
    raise _what_is_wrong(view, start, end, largest, produced=True)


def check_batches(view: memoryview, start: int, end: int) -> list[BatchHead]:
    """The heads of all batches that lie side by side in `start`...`end`, or `BadBatch`.

    For what has been accepted once (runs in objects, batches of another broker): control batches and append time pass,
    and offsets need not be dense, only able to hold the records.
    """
    heads: list[BatchHead] = []
    at = start
    while at < end:
        if end - at < HEAD_BYTES:
            raise _what_is_wrong(view, at, end, end - at)
        head: BatchHead = tuple.__new__(BatchHead, _unpack_head(view, at))
        stop = at + head[1] + 12
        if (
            head[3] != 2
            or not at + HEAD_BYTES <= stop <= end
            or crc32c(view[at + 21 : stop]) != head[4]
            or head[12] < 0
            or head[6] + 1 < head[12]
        ):
            raise _what_is_wrong(view, at, end, end - at)
        heads.append(head)
        at = stop
    return heads


def patch_offsets(
    view: memoryview, first: int, *, start: int = 0, end: int | None = None, leader_epoch: int | None = None
) -> int:
    """Write real offsets into a run of stored batches, beginning with `first`; give the offset after the last.

    The run must be whole batches in writable memory. Checksums hold: they do not cover what is written. Heads that do
    not add up are `Corrupt`: these bytes come out of our own store.
    """
    at = start
    stop = len(view) if end is None else end
    offset = first
    while at < stop:
        if stop - at < HEAD_BYTES:
            raise _torn(view, at, stop)
        _, length, _, magic, _, _, last_delta = _unpack_step(view, at)
        if magic != 2 or length < HEAD_BYTES - 12 or at + length + 12 > stop or last_delta < 0:
            raise _torn(view, at, stop)
        _pack_offset(view, at, offset)
        if leader_epoch is not None:
            _pack_epoch(view, at + 12, leader_epoch)
        offset += last_delta + 1
        at += length + 12
    return offset


def set_append_time(view: memoryview, start: int, at_ms: int) -> BatchHead:
    """Give all records of one checked batch the broker's time, as `message.timestamp.type=LogAppendTime` asks.

    Readers then take the head's largest timestamp for every record. The checksum is made anew, so this costs one more
    walk over the batch.
    """
    head = read_head(view, start)
    end = start + head.length + 12
    _pack_attributes(view, start + 21, head.attributes | APPEND_TIME)
    _pack_offset(view, start + 35, at_ms)
    _pack_crc(view, start + 17, crc32c(view[start + 21 : end]))
    return read_head(view, start)


def seek_offset(
    view: memoryview, first: int, wanted: int, *, start: int = 0, end: int | None = None
) -> tuple[int, int]:
    """Where the batch with offset `wanted` begins in a run whose first offset is `first`: (byte, its base offset).

    Past the last batch it is the end of the run and the offset after it. The run's own base offsets are not read.
    """
    at = start
    stop = len(view) if end is None else end
    offset = first
    while at < stop:
        if stop - at < HEAD_BYTES:
            raise _torn(view, at, stop)
        _, length, _, magic, _, _, last_delta = _unpack_step(view, at)
        if magic != 2 or length < HEAD_BYTES - 12 or at + length + 12 > stop or last_delta < 0:
            raise _torn(view, at, stop)
        if offset + last_delta >= wanted:
            break
        offset += last_delta + 1
        at += length + 12
    return at, offset


def seek_time(
    view: memoryview, first: int, wanted_ms: int, *, start: int = 0, end: int | None = None
) -> tuple[int, int] | None:
    """The first batch whose largest timestamp reaches `wanted_ms`: (byte, its base offset), or None."""
    at = start
    stop = len(view) if end is None else end
    offset = first
    while at < stop:
        if stop - at < HEAD_BYTES:
            raise _torn(view, at, stop)
        head = read_head(view, at)
        if head.magic != 2 or head.length < HEAD_BYTES - 12 or at + head.size > stop or head.last_offset_delta < 0:
            raise _torn(view, at, stop)
        if head.max_timestamp >= wanted_ms:
            return at, offset
        offset += head.last_offset_delta + 1
        at += head.size
    return None


def _torn(view: memoryview, at: int, stop: int) -> Corrupt:
    if stop - at < HEAD_BYTES:
        return Corrupt(f"a batch is cut off at byte {at}: {stop - at} bytes are left")
    head = read_head(view, at)
    return Corrupt(
        f"no batch at byte {at}: magic {head.magic}, {head.size} bytes where {stop - at} are left, "
        f"last offset delta {head.last_offset_delta}"
    )


def _what_is_wrong(view: memoryview, start: int, end: int, largest: int, *, produced: bool = False) -> BadBatch:
    """The slow twin of the checks above: the same questions one by one, for an answer that names the fault."""
    there = end - start
    if not there:
        return BadBatch(Fault.NOT_ONE, "no record batch where exactly one is expected")
    if there > 16 and view[start + 16] != 2:
        magic = view[start + 16]
        if magic in {0, 1}:
            return BadBatch(
                Fault.OLD_FORMAT, f"message format v{magic} is not taken; upgrade the producer to v2 batches"
            )
        return BadBatch(Fault.OLD_FORMAT, f"message format v{magic} is not known; batches of format v2 are taken")
    if there < HEAD_BYTES:
        return BadBatch(
            Fault.CUT, f"a batch at byte {start} is cut off: {there} bytes, its head alone takes {HEAD_BYTES}"
        )
    head = read_head(view, start)
    if head.length < HEAD_BYTES - 12 or head.size > there:
        return BadBatch(Fault.CUT, f"a batch at byte {start} says it has {head.size} bytes; {there} are there")
    if produced and head.size < there:
        return BadBatch(
            Fault.NOT_ONE, f"{there - head.size} bytes follow the first record batch; send one batch per partition"
        )
    if head.size > largest:
        return BadBatch(Fault.TOO_LARGE, f"a batch of {head.size} bytes is larger than the {largest} that are allowed")
    found = crc32c(view[start + 21 : start + head.size])
    if found != head.crc:
        return BadBatch(
            Fault.CHECKSUM, f"a batch at byte {start} has checksum {found:08x}, not {head.crc:08x} as it says"
        )
    if produced and head.is_append_time:
        return BadBatch(Fault.TIMESTAMP_TYPE, "a producer's batch claims append time, which only the broker sets")
    return BadBatch(Fault.INCONSISTENT, _contradiction(head))


def _contradiction(head: BatchHead) -> str:
    if head.records <= 0:
        return f"a batch says it has {head.records} records"
    if head.last_offset_delta + 1 != head.records:
        return (
            f"a batch of {head.records} records ends at offset delta {head.last_offset_delta}, not {head.records - 1}"
        )
    if head.is_control:
        return "control batches are written by brokers, not by producers"
    if head.compression > _LAST_CODEC:
        return f"compression {head.compression} is not known"
    if head.producer >= 0 and head.sequence < 0:
        return f"producer {head.producer} sent sequence {head.sequence}"
    if head.producer < 0 and head.is_transactional:
        return "a transactional batch has no producer id"
    return f"{head.records} records do not fit in {head.size - HEAD_BYTES} bytes"
