"""Record boundaries in plain Python: the reference that the compiled helper must equal, and its fallback.

`split` and `join` take and give exactly what `_compiled.split` and `_compiled.join` do.
"""

from array import array
from dataclasses import dataclass, field
from itertools import pairwise
from struct import Struct
from typing import Any

from runnel.codec.compression import Buffer
from runnel.table.reasons import Reason, Unreadable

FACTS = Struct("=5q")  # records, base offset, last offset delta, base timestamp, append time or -1
_TIME_MAX = (2**63 - 1) // 1000


@dataclass(frozen=True, slots=True)
class _Record:
    offset_delta: int
    time_delta: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[bytes, bytes | None]]


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """An unsigned base-128 number of at most 64 bits, and where it ends."""
    result = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise Unreadable(Reason.CUT)
        byte = data[at]
        at += 1
        if shift == 63 and byte > 1:
            raise Unreadable(Reason.VARINT)
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
    raise Unreadable(Reason.VARINT)


def read_long(data: bytes, at: int, end: int) -> tuple[int, int]:
    raw, at = read_varint(data, at, end)
    return (raw >> 1) ^ -(raw & 1), at


def read_int(data: bytes, at: int, end: int) -> tuple[int, int]:
    raw, at = read_varint(data, at, end)
    if raw > 0xFFFFFFFF:
        raise Unreadable(Reason.VARINT)
    return (raw >> 1) ^ -(raw & 1), at


def write_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_long(value: int) -> bytes:
    return write_varint(((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF)


def _span(data: bytes, at: int, end: int, least: int) -> tuple[bytes | None, int]:
    length, at = read_int(data, at, end)
    if length < least:
        raise Unreadable(Reason.LENGTH)
    if length < 0:
        return None, at
    if end - at < length:
        raise Unreadable(Reason.CUT)
    return data[at : at + length], at + length


def _record(data: bytes, at: int, end: int) -> tuple[_Record, int]:
    body, after = _span(data, at, end, 1)
    assert body is not None
    stop = after
    at = stop - len(body) + 1
    time_delta, at = read_long(data, at, stop)
    offset_delta, at = read_int(data, at, stop)
    key, at = _span(data, at, stop, -1)
    value, at = _span(data, at, stop, -1)
    count, at = read_int(data, at, stop)
    if count < 0:
        raise Unreadable(Reason.LENGTH)
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(count):
        name, at = _span(data, at, stop, 0)
        text, at = _span(data, at, stop, -1)
        assert name is not None
        _check_utf8(name)
        headers.append((name, text))
    if at != stop:
        raise Unreadable(Reason.REST)
    return _Record(offset_delta, time_delta, key, value, headers), after


def _check_utf8(name: bytes) -> None:
    try:
        name.decode()
    except UnicodeDecodeError:
        raise Unreadable(Reason.UTF8) from None


def _time(base: int, delta: int, append_time: int) -> int:
    if append_time >= 0:
        return append_time
    return (base + delta + 2**63) % 2**64 - 2**63


def _section(data: bytes, facts: tuple[int, ...]) -> list[_Record]:
    count, _, last_delta, base_time, append_time = facts
    records: list[_Record] = []
    at = 0
    before = -1
    for _ in range(count):
        record, at = _record(data, at, len(data))
        if not before < record.offset_delta <= last_delta:
            raise Unreadable(Reason.OFFSET)
        before = record.offset_delta
        if not -1 <= _time(base_time, record.time_delta, append_time) <= _TIME_MAX:
            raise Unreadable(Reason.TIME)
        records.append(record)
    if at != len(data):
        raise Unreadable(Reason.REST)
    return records


@dataclass(slots=True)
class _Spans:
    """A nullable binary column in the making."""

    valid: list[bool] = field(default_factory=list)
    ends: "array[int]" = field(default_factory=lambda: array("i", [0]))
    data: bytearray = field(default_factory=bytearray)

    def put(self, span: bytes | None) -> None:
        self.valid.append(span is not None)
        self.data += span or b""
        self.ends.append(len(self.data))

    def bits(self) -> bytes:
        out = bytearray((len(self.valid) + 7) // 8)
        for n, there in enumerate(self.valid):
            out[n >> 3] |= there << (n & 7)
        return bytes(out)


def split(sections: list[Buffer], facts: bytes) -> tuple[Any, ...]:
    """As `_compiled.split`: records of unfolded batch bodies as Arrow buffers."""
    status, offsets, times, header_ends = array("i"), array("q"), array("q"), array("i", [0])
    keys, values, names, texts = _Spans(), _Spans(), _Spans(), _Spans()
    for section, numbers in zip(sections, FACTS.iter_unpack(facts), strict=True):
        try:
            records = _section(bytes(section), numbers)
        except Unreadable as bad:
            status.append(bad.reason)
            continue
        status.append(0)
        for record in records:
            offsets.append(numbers[1] + record.offset_delta)
            times.append(_time(numbers[3], record.time_delta, numbers[4]))
            keys.put(record.key)
            values.put(record.value)
            for name, text in record.headers:
                names.put(name)
                texts.put(text)
            header_ends.append(len(names.valid))
    return (
        status.tobytes(),
        len(offsets),
        len(names.valid),
        offsets.tobytes(),
        times.tobytes(),
        keys.bits(),
        keys.ends.tobytes(),
        bytes(keys.data),
        values.bits(),
        values.ends.tobytes(),
        bytes(values.data),
        header_ends.tobytes(),
        names.ends.tobytes(),
        bytes(names.data),
        texts.bits(),
        texts.ends.tobytes(),
        bytes(texts.data),
    )


def _written(span: bytes | None) -> bytes:
    return b"\x01" if span is None else write_long(len(span)) + span


def join(rows: Any, cuts: bytes) -> list[bytes]:
    """As `_compiled.join`, but of the struct array itself: the bodies of batches, unfolded."""
    at = array("q", cuts)
    bodies: list[bytes] = []
    for start, stop in pairwise(at):
        body = bytearray()
        first: dict[str, Any] | None = None
        for row in rows[start:stop].to_pylist():
            first = first or row
            headers = row["headers"] or []
            record = b"".join(
                (
                    b"\0",
                    write_long((row["time"] - first["time"] + 2**63) % 2**64 - 2**63),
                    write_long(row["offset"] - first["offset"]),
                    _written(row["key"]),
                    _written(row["value"]),
                    write_long(len(headers)),
                    *(_written(pair["key"].encode()) + _written(pair["value"]) for pair in headers),
                )
            )
            body += write_long(len(record)) + record
        bodies.append(bytes(body))
    return bodies
