"""Rows become sealed batches again: the way back that a consumer of a compacted range takes.

    seal_rows(rows, stretches)   Arrow rows -> sealed batches with the offsets, times, keys, values and headers of old
    with_aside(batches, aside)   the batches that stayed sealed, put back where they belong

A batch never crosses the border of a stretch (so that `read_committed` and the kind of timestamp stay right), nor a
gap in the offsets, and ends after `batch_bytes_max` bytes or `batch_records_max` records. Producer ids are kept where
a consumer needs them, in transactions; sequences are spent and not kept.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct

import pyarrow as pa
import pyarrow.compute as pc
from crc32c import crc32c

from runnel.codec.batches import APPEND_TIME, HEAD_BYTES
from runnel.codec.compression import Compression, compress
from runnel.table import compiled, records_plain
from runnel.table.records import Aside, Stretch

BATCH_BYTES_MAX = 512 << 10
BATCH_RECORDS_MAX = 10_000

_HEAD = Struct(">qiibIhiqqqhii")
_pack_crc = Struct(">I").pack_into


@dataclass(frozen=True, slots=True)
class Sealed:
    """One batch with its real offsets."""

    first: int
    last: int
    data: bytes


def seal_rows(
    rows: pa.RecordBatch,
    stretches: Sequence[Stretch],
    *,
    compression: Compression = Compression.NONE,
    leader_epoch: int = 0,
    batch_bytes_max: int = BATCH_BYTES_MAX,
    batch_records_max: int = BATCH_RECORDS_MAX,
) -> list[Sealed]:
    """Sealed batches of `rows` (the columns of `records.ROWS`, offsets increasing), in order.

    Offsets that no stretch names are plain records.
    """
    if not rows.num_rows:
        return []
    offsets = rows.column(0)
    cuts = _cuts(rows, stretches, batch_bytes_max, batch_records_max)
    packed = array("q", cuts).tobytes()
    struct = rows.to_struct_array()
    helper = compiled.helper
    bodies = helper.join(struct.__arrow_c_array__()[1], packed) if helper else records_plain.join(struct, packed)
    starts = [stretch.first for stretch in stretches]
    times = rows.column(1)
    sealed: list[Sealed] = []
    for body, start, stop in zip(bodies, cuts, cuts[1:], strict=False):
        first, last = offsets[start].as_py(), offsets[stop - 1].as_py()
        place = bisect_right(starts, first) - 1
        stretch = stretches[place] if place >= 0 and first <= stretches[place].last else Stretch(first, last)
        base_time = times[start].as_py()
        latest = pc.max(times.slice(start, stop - start)).as_py()
        sealed.append(
            Sealed(
                first,
                last,
                _seal(body, first, last, stop - start, base_time, latest, stretch, compression, leader_epoch),
            )
        )
    return sealed


def _cuts(rows: pa.RecordBatch, stretches: Sequence[Stretch], bytes_max: int, records_max: int) -> list[int]:
    """The first row of each batch and, last, the number of rows."""
    count = rows.num_rows
    offsets = rows.column(0)
    forced = {0, count}
    if offsets[count - 1].as_py() - offsets[0].as_py() != count - 1:
        step = pc.subtract(offsets.slice(1), offsets.slice(0, count - 1))
        forced.update(place + 1 for place in pc.indices_nonzero(pc.not_equal(step, 1)).to_pylist())
    view = memoryview(offsets.buffers()[1]).cast("q")[offsets.offset : offsets.offset + count]
    for stretch in stretches:
        forced.add(bisect_right(view, stretch.first - 1))
        forced.add(bisect_right(view, stretch.last))
    borders = sorted(forced)
    values = rows.column(3)
    ends = memoryview(values.buffers()[1]).cast("i")[values.offset : values.offset + count + 1]
    cuts: list[int] = []
    for start, stop in pairwise(borders):
        at = start
        while at < stop:
            cuts.append(at)
            full = bisect_right(ends, ends[at] + bytes_max, at + 1, min(stop, at + records_max) + 1) - 1
            at = max(full, at + 1)
    return [*cuts, count]


def _seal(
    body: bytes,
    first: int,
    last: int,
    records: int,
    base_time: int,
    latest: int,
    stretch: Stretch,
    compression: Compression,
    leader_epoch: int,
) -> bytes:
    attributes = stretch.attributes | compression
    folded = body if compression is Compression.NONE else compress(body, compression)
    if attributes & APPEND_TIME:
        base_time = latest
    batch = bytearray(HEAD_BYTES + len(folded))
    _HEAD.pack_into(
        batch,
        0,
        first,
        len(batch) - 12,
        leader_epoch,
        2,
        0,
        attributes,
        last - first,
        base_time,
        latest,
        stretch.producer,
        stretch.epoch,
        -1,
        records,
    )
    batch[HEAD_BYTES:] = folded
    _pack_crc(batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch)


def with_aside(batches: Iterable[Sealed], aside: Iterable[Aside]) -> list[Sealed]:
    """Both, in the order of their offsets."""
    kept = [Sealed(batch.first, batch.last, batch.batch) for batch in aside]
    return sorted([*batches, *kept], key=lambda batch: batch.first)
