"""What is inside a record batch, in plain Python: for people, tools, tests and our own small writers.

    build_batch     records to one sealed batch (HTTP door, command line, tests)
    read_records    a run of batches to records, with their offsets and times
    first_at_or_after   the record that a lookup by time means

Nothing here is for the way of a Produce or Fetch request, where batches stay sealed. A batch from outside may lie:
every length is held against the bytes that are there, and what unfolds is bounded.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from runnel.codec.batches import (
    APPEND_TIME,
    COMPRESSION_MASK,
    CONTROL,
    HEAD_BYTES,
    NO_TIMESTAMP,
    RECORD_BYTES_MIN,
    TRANSACTIONAL,
    BatchHead,
    check_batches,
)
from runnel.codec.compression import UNFOLDED_BYTES_MAX, Compression, compress, decompress
from runnel.codec.varints import decode_varint, encode_varint
from runnel.errors import Refused

Header = tuple[str, bytes | None]

_HEAD = Struct(">qiibIhiqqqhii")
_SMALL = tuple(encode_varint(number) for number in range(8192))
_NULL = encode_varint(-1)
_NO_HEADERS = encode_varint(0)


class Record(NamedTuple):
    """One record. Writers give key, value, headers and time; readers add the offset."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    timestamp: int = NO_TIMESTAMP
    offset: int = 0


def build_batch(
    records: Iterable[Record],
    *,
    compression: Compression = Compression.NONE,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """One sealed batch of at least one record; offsets of the records are dense, whatever they say themselves."""
    body = bytearray()
    count = 0
    base_timestamp = max_timestamp = NO_TIMESTAMP
    for key, value, headers, timestamp, _ in records:
        if not count:
            base_timestamp = timestamp
        max_timestamp = max(max_timestamp, timestamp)
        record = _pack_record(key, value, headers, timestamp - base_timestamp, count)
        body += _varint(len(record))
        body += record
        count += 1
    assert count, "a batch holds at least one record"
    folded: bytes | bytearray = body if compression is Compression.NONE else compress(body, compression)
    attributes = compression | (TRANSACTIONAL if transactional else 0) | (CONTROL if control else 0)
    out = bytearray(HEAD_BYTES)
    out += folded
    fields = (attributes, count - 1, base_timestamp, max_timestamp, producer, epoch, sequence, count)
    _HEAD.pack_into(out, 0, base_offset, len(out) - 12, leader_epoch, 2, 0, *fields)
    checksum = crc32c(memoryview(out)[21:])
    _HEAD.pack_into(out, 0, base_offset, len(out) - 12, leader_epoch, 2, checksum, *fields)
    return bytes(out)


def read_records(
    run: bytes | bytearray | memoryview,
    *,
    first: int | None = None,
    with_control: bool = False,
    unfolded_bytes_max: int = UNFOLDED_BYTES_MAX,
) -> Iterator[Record]:
    """The records of batches side by side, checked as they go.

    `first` is the offset of the first record where the run's own base offsets are not patched yet. Control batches
    (the ends of transactions) are passed over unless asked for. `unfolded_bytes_max` bounds each batch's body.
    """
    view = memoryview(run)
    at = 0
    offset = first
    for head in check_batches(view, 0, len(view)):
        base = head.base_offset if offset is None else offset
        if with_control or not head.is_control:
            yield from read_batch(view[at : at + head.size], head, base, unfolded_bytes_max=unfolded_bytes_max)
        if offset is not None:
            offset += head.last_offset_delta + 1
        at += head.size


def read_batch(
    batch: memoryview, head: BatchHead, base_offset: int, *, unfolded_bytes_max: int = UNFOLDED_BYTES_MAX
) -> Iterator[Record]:
    """The records of one batch whose head has been read and checked."""
    folded = batch[HEAD_BYTES : head.size]
    if head.compression > max(Compression):
        raise Refused(f"compression {head.compression} is not known")
    body = bytes(decompress(folded, Compression(head.attributes & COMPRESSION_MASK), largest=unfolded_bytes_max))
    if head.records * RECORD_BYTES_MIN > len(body):
        raise Refused(f"a batch says it has {head.records} records in {len(body)} bytes")
    append_time = head.max_timestamp if head.attributes & APPEND_TIME else None
    at = 0
    for _ in range(head.records):
        length, start = decode_varint(body, at, len(body))
        at = start + length
        if length < RECORD_BYTES_MIN - 1 or at > len(body):
            raise Refused(f"a record at byte {start} says it has {length} bytes; {len(body) - start} are left")
        yield _unpack_record(body, start, at, base_offset, head.base_timestamp, append_time=append_time)
    if at != len(body):
        raise Refused(f"{len(body) - at} bytes follow the last of {head.records} records")


def first_at_or_after(
    batch: memoryview, head: BatchHead, base_offset: int, wanted_ms: int, wanted_offset: int = 0
) -> Record | None:
    """The first record of a batch, from an offset on, whose time is `wanted_ms` or later."""
    records = read_batch(batch, head, base_offset)
    return next((each for each in records if each.timestamp >= wanted_ms and each.offset >= wanted_offset), None)


def _pack_record(
    key: bytes | None, value: bytes | None, headers: Sequence[Header], timestamp_delta: int, offset_delta: int
) -> bytes:
    parts = [b"\0", _varint(timestamp_delta), _varint(offset_delta)]
    if key is None:
        parts.append(_NULL)
    else:
        parts += (_varint(len(key)), key)
    if value is None:
        parts.append(_NULL)
    else:
        parts += (_varint(len(value)), value)
    if not headers:
        parts.append(_NO_HEADERS)
        return b"".join(parts)
    parts.append(_varint(len(headers)))
    for name, content in headers:
        encoded = name.encode()
        parts += (_varint(len(encoded)), encoded)
        if content is None:
            parts.append(_NULL)
        else:
            parts += (_varint(len(content)), content)
    return b"".join(parts)


def _varint(number: int) -> bytes:
    return _SMALL[number] if 0 <= number < len(_SMALL) else encode_varint(number)


def _unpack_record(
    body: bytes, at: int, end: int, base_offset: int, base_timestamp: int, *, append_time: int | None
) -> Record:
    start = at
    at += 1  # attributes: none are defined
    timestamp_delta, at = decode_varint(body, at, end, bits=64)
    offset_delta, at = decode_varint(body, at, end)
    key, at = _unpack_bytes(body, at, end)
    value, at = _unpack_bytes(body, at, end)
    headers: tuple[Header, ...] = ()
    if at + 1 == end and not body[at]:
        at = end
    else:
        headers, at = _unpack_headers(body, at, end, start)
    if at != end:
        raise Refused(f"a record at byte {start} leaves {end - at} bytes unread")
    timestamp = base_timestamp + timestamp_delta if append_time is None else append_time
    return Record(key, value, headers, timestamp, base_offset + offset_delta)


def _unpack_headers(body: bytes, at: int, end: int, start: int) -> tuple[tuple[Header, ...], int]:
    count, at = decode_varint(body, at, end)
    if not 0 <= count <= (end - at) // 2:  # a header takes two bytes at least
        raise Refused(f"a record at byte {start} says it has {count} headers in {end - at} bytes")
    headers: list[Header] = []
    for _ in range(count):
        name, at = _unpack_bytes(body, at, end)
        if name is None:
            raise Refused(f"a record at byte {start} has a header without a name")
        content, at = _unpack_bytes(body, at, end)
        headers.append((_name(name, start), content))
    return tuple(headers), at


def _unpack_bytes(body: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(body, at, end)
    stop = at + length
    if length < 0 or stop > end:
        if length == -1:
            return None, at
        raise Refused(f"bytes at {at} say they are {length} long; {end - at} are left")
    return body[at:stop], stop


def _name(encoded: bytes, start: int) -> str:
    try:
        return encoded.decode()
    except UnicodeDecodeError:
        raise Refused(f"a record at byte {start} has a header name that is not UTF-8") from None
