"""Reading objects, without I/O: bytes in, facts out, `Corrupt` with the object's name and the place otherwise.

    footer_length   from the last bytes of an object: how many of them hold footer and tail
    parse_footer    the footer as columns
    check_slice     the bytes of one slice against its checksum
    check_object    a whole object, from its first byte to its last

A plan reads ranges that the ledger names and needs no footer. Footers are for repair, replay, sweeps and people.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from operator import attrgetter
from typing import NamedTuple

from crc32c import crc32c

from runnel.codec.batches import BadBatch, BatchHead, check_batches
from runnel.errors import Corrupt
from runnel.log.layout import (
    FOOTER,
    HEAD,
    HEAD_BYTES,
    MAGIC,
    TAIL,
    TAIL_BYTES,
    TAIL_CHECKED,
    VERSION,
    columns,
    footer_bytes,
)

Buffer = bytes | bytearray | memoryview


class Slice(NamedTuple):
    """All batches of one stream in one object."""

    stream: int
    stamp: int
    place: int
    length: int
    records: int
    checksum: int
    batches: int


class BatchPlace(NamedTuple):
    """Where one batch lies in its object, and how many records it holds."""

    place: int
    length: int
    records: int


@dataclass(frozen=True, slots=True)
class Footer:
    """What lies where in an object."""

    name: str
    size: int
    version: int
    writer: int
    slices: tuple[Slice, ...]
    batch_lengths: tuple[int, ...]
    batch_records: tuple[int, ...]

    @property
    def records(self) -> int:
        return sum(self.batch_records)

    def slice_of(self, stream: int) -> Slice | None:
        """The slice of one stream, if it has one here."""
        index = bisect_left(self.slices, stream, key=_stream)
        return self.slices[index] if index < len(self.slices) and self.slices[index].stream == stream else None

    def walk(self) -> Iterator[tuple[Slice, list[BatchPlace]]]:
        """Every slice with its batches, in order."""
        index = 0
        for each in self.slices:
            yield each, self._places(each, index)
            index += each.batches

    def batches_of(self, wanted: Slice) -> list[BatchPlace]:
        """The batches of one slice of this footer, in order."""
        index = bisect_left(self.slices, wanted.stream, key=_stream)
        return self._places(wanted, sum(each.batches for each in self.slices[:index]))

    def _places(self, of: Slice, first: int) -> list[BatchPlace]:
        lengths = self.batch_lengths[first : first + of.batches]
        records = self.batch_records[first : first + of.batches]
        return list(map(BatchPlace, accumulate(lengths[:-1], initial=of.place), lengths, records))


_stream = attrgetter("stream")


def footer_length(name: str, end: Buffer, size: int) -> int:
    """How many bytes at an object's end hold its footer and tail; `end` are its last bytes, 32 at least."""
    if size < HEAD_BYTES + TAIL_BYTES + FOOTER.size or len(end) < TAIL_BYTES:
        raise Corrupt(f"{name} is cut off: {size} bytes are too few for a write-ahead object")
    tail = memoryview(end)[len(end) - TAIL_BYTES :]
    at = size - TAIL_BYTES
    fields: tuple[int, int, int, int, int, int, bytes] = TAIL.unpack(tail)
    claimed, length, _, version, _, checksum, magic = fields
    if magic != MAGIC:
        raise Corrupt(f"{name} does not end like a write-ahead object at byte {at}: it is cut off or something else")
    if crc32c(tail[:TAIL_CHECKED]) != checksum:
        raise Corrupt(f"{name} fails the checksum of its tail at byte {at}")
    if version > VERSION:
        raise Corrupt(f"{name} has format {version}, this program knows {VERSION}: upgrade runnel")
    if claimed != size:
        raise Corrupt(f"{name} has {size} bytes, its tail at byte {at} says {claimed}")
    if not FOOTER.size <= length <= size - HEAD_BYTES - TAIL_BYTES:
        raise Corrupt(f"{name} has a footer of {length} bytes, says its tail at byte {at}; that cannot be")
    return length + TAIL_BYTES


def parse_footer(name: str, end: Buffer, size: int) -> Footer:
    """The footer of an object of `size` bytes whose last bytes are `end`; at least `footer_length` of them."""
    needed = footer_length(name, end, size)
    assert len(end) >= needed, f"the footer of {name} takes the last {needed} bytes; {len(end)} were given"
    start = size - needed
    footer = memoryview(end)[len(end) - needed : len(end) - TAIL_BYTES]
    _, _, checksum, version, _, _, _ = TAIL.unpack(memoryview(end)[len(end) - TAIL_BYTES :])
    if crc32c(footer) != checksum:
        raise Corrupt(f"{name} fails the checksum of its footer at byte {start}")
    writer, slice_count, batch_count = FOOTER.unpack_from(footer)
    if footer_bytes(slice_count, batch_count) != len(footer):
        raise Corrupt(f"{name} has {slice_count} slices and {batch_count} batches in a footer of {len(footer)} bytes")
    values = columns(slice_count, batch_count).unpack_from(footer, FOOTER.size)
    stops = range(slice_count, 8 * slice_count, slice_count) if slice_count else ()
    rows = zip(*(values[stop - slice_count : stop] for stop in stops), strict=True)
    slices = tuple(map(Slice._make, rows))
    split = 7 * slice_count + batch_count
    found = Footer(
        name, size, version, writer, slices, values[7 * slice_count : split], values[split : split + batch_count]
    )
    _agree(found, start)
    return found


def check_slice(footer: Footer, wanted: Slice, data: Buffer) -> None:
    """The bytes of one slice are those that were written."""
    if len(data) != wanted.length or crc32c(data) != wanted.checksum:
        raise Corrupt(f"{footer.name} fails the checksum of stream {wanted.stream} at byte {wanted.place}")


def check_object(name: str, data: Buffer) -> Footer:
    """A whole object: head, every slice, every batch, footer and tail hold, and agree with each other."""
    view = memoryview(data)
    footer = parse_footer(name, view, len(view))
    magic, version = HEAD.unpack_from(view)
    if magic != MAGIC or version != footer.version or any(view[10:HEAD_BYTES]):
        raise Corrupt(f"{name} does not begin like a write-ahead object at byte 0")
    for each, batches in footer.walk():
        part = view[each.place : each.place + each.length]
        check_slice(footer, each, part)
        heads = check_slice_batches(footer, each, part)
        said = [(batch.length, batch.records) for batch in batches]
        found = [(head.size, head.records) for head in heads]
        if said != found:
            raise Corrupt(f"{name} has other batches in stream {each.stream} at byte {each.place} than its footer says")
    return footer


def check_slice_batches(footer: Footer, wanted: Slice, data: Buffer) -> list[BatchHead]:
    """The heads of a slice's batches, each with its own checksum tested."""
    try:
        return check_batches(memoryview(data), 0, len(data))
    except BadBatch as bad:
        raise Corrupt(f"{footer.name} has in stream {wanted.stream} at byte {wanted.place}: {bad}") from bad


def _agree(footer: Footer, start: int) -> None:
    """The columns tell one story: slices in order, side by side, filled by their batches."""
    place = HEAD_BYTES
    stream = -1
    lengths = list(accumulate(footer.batch_lengths, initial=0))
    records = list(accumulate(footer.batch_records, initial=0))
    index = 0
    for each in footer.slices:
        last = index + each.batches
        if (
            each.stream <= stream
            or each.place != place
            or last >= len(lengths)
            or not each.batches
            or lengths[last] - lengths[index] != each.length
            or records[last] - records[index] != each.records
        ):
            raise Corrupt(f"{footer.name} has a footer at byte {start} that contradicts itself at stream {each.stream}")
        stream = each.stream
        place += each.length
        index = last
    if place != start or index != len(footer.batch_lengths):
        raise Corrupt(f"{footer.name} has a footer at byte {start}, but slices end at byte {place}")
