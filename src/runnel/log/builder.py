"""From sealed batches to an object: its buffers, and the items that its ledger entry will hold.

Batches come in the order of their arrival and are laid down in order of their streams; within a stream the order of
arrival stays, for it is the order of a producer. Nothing is joined: the object is a list of buffers that a store
writes one after another, and a batch's bytes stay where the network put them.

An *item* is what the ledger judges at once. Batches of writers without identity, side by side in one stream, are one
item; a batch with a producer or a flag is an item of its own, because a retry must get its first offset whatever it
travels with. Items are plain tuples in the order of the ledger's packing:

    (stream, stamp, producer, epoch, sequence, place, length, records, flags)

The loop runs per batch, on the way of every acknowledgement: locals, tuples and small integers only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from struct import pack
from typing import Any, NamedTuple

from crc32c import crc32c

from runnel.log.layout import FOOTER, HEAD_BYTES, HEAD_NOW, MAGIC, OBJECT_BYTES_MAX, TAIL_BYTES, VERSION, columns

Buffer = bytes | bytearray | memoryview
Item = tuple[int, int, int, int, int, int, int, int, int]


class Sealed(NamedTuple):
    """One sealed batch on its way into an object.

    Without bytes and records it is an append of nothing (to close a stream, say): an item, but no part of a slice.
    """

    stream: int
    body: Buffer
    records: int
    stamp: int
    """The largest timestamp."""
    producer: int = -1
    epoch: int = -1
    sequence: int = -1
    flags: int = 0
    """Passed on to the item; with any flag the batch is an item of its own."""
    tag: Any = None
    """Whatever the writer needs to know this batch again when offsets are there."""


@dataclass(frozen=True, slots=True)
class Laid:
    """An object laid out.

    `batches` are those that came in, sorted by stream. The first offset of `batches[i]` is what the ledger gives item
    `item_of[i]`, plus `delta_of[i]`.
    """

    buffers: list[Buffer]
    size: int
    items: list[Item]
    batches: Sequence[Sealed]
    item_of: list[int]
    delta_of: list[int]


def lay_out(batches: Sequence[Sealed], *, writer: int = -1) -> Laid:
    """Lay out at least one batch; `writer` is the node, for whoever inspects the object one day."""
    assert batches, "an object holds something"
    batches = sorted(batches, key=itemgetter(0))
    buffers: list[Buffer] = [HEAD_NOW]
    items: list[Item] = []
    item_of: list[int] = []
    delta_of: list[int] = []
    slices: list[tuple[int, ...]] = []
    batch_lengths: list[int] = []
    batch_records: list[int] = []

    current = -1
    place = slice_place = HEAD_BYTES
    slice_stamp = slice_records = checksum = slice_batches = 0
    plain_records = 0  # of the item that the next batch without identity may join; 0 is none
    for stream, body, records, stamp, producer, epoch, sequence, flags, _ in batches:
        if stream != current:
            if slice_batches:
                slices.append(
                    (current, slice_stamp, slice_place, place - slice_place, slice_records, checksum, slice_batches)
                )
            current = stream
            slice_place = place
            slice_stamp = stamp
            slice_records = checksum = slice_batches = plain_records = 0
        length = len(body)
        if producer >= 0 or flags:
            items.append((stream, stamp, producer, epoch, sequence, place, length, records, flags))
            delta_of.append(0)
            plain_records = 0
        elif plain_records:
            _, old_stamp, _, _, _, old_place, old_length, _, _ = items[-1]
            delta_of.append(plain_records)
            plain_records += records
            newest = stamp if stamp > old_stamp else old_stamp  # noqa: FURB136  a call costs more than this line
            items[-1] = (stream, newest, -1, -1, -1, old_place, old_length + length, plain_records, 0)
        else:
            items.append((stream, stamp, -1, -1, -1, place, length, records, 0))
            delta_of.append(0)
            plain_records = records
        item_of.append(len(items) - 1)
        if not length:
            continue
        buffers.append(body)
        batch_lengths.append(length)
        batch_records.append(records)
        checksum = crc32c(body, checksum)
        place += length
        slice_records += records
        slice_batches += 1
        if stamp > slice_stamp:  # noqa: PLR1730  a call costs more than this line
            slice_stamp = stamp
    if slice_batches:
        slices.append((current, slice_stamp, slice_place, place - slice_place, slice_records, checksum, slice_batches))

    footer = _footer(slices, batch_lengths, batch_records, writer)
    size = place + len(footer) + TAIL_BYTES
    assert size <= OBJECT_BYTES_MAX, f"an object of {size} bytes is too large for its format"
    buffers.append(footer + _tail(footer, size))
    return Laid(buffers, size, items, batches, item_of, delta_of)


def _footer(slices: list[tuple[int, ...]], batch_lengths: list[int], batch_records: list[int], writer: int) -> bytes:
    head = FOOTER.pack(writer, len(slices), len(batch_lengths))
    values: list[int] = []
    for column in zip(*slices, strict=True):
        values += column
    values += batch_lengths
    values += batch_records
    return head + columns(len(slices), len(batch_lengths)).pack(*values)


def _tail(footer: bytes, size: int) -> bytes:
    checked = pack("<QIIHH", size, len(footer), crc32c(footer), VERSION, 0)
    return checked + pack("<I8s", crc32c(checked), MAGIC)
