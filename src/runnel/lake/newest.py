"""The newest rows of a topic, or its oldest: what a person wants to see first."""

from dataclasses import replace

import pyarrow as pa

from runnel.lake.options import Options
from runnel.lake.places import Bounds, Lake
from runnel.lake.rows import read_piece


def newest(lake: Lake, options: Options, count: int, *, first: bool = False) -> pa.Table:
    """The last rows of a topic by time (or the first), of all partitions together."""
    scan = lake.scan(options)
    asked = scan.handed_over
    if options.columns:
        order = [name for name in ("timestamp", "partition", "offset") if name not in {each.name for each in asked}]
        scan = replace(scan, wanted=(*options.columns, *order))
    bounds = lake.range_of(options)
    reach = count
    while True:
        wanted = _near(bounds, reach, first=first)
        pieces = lake.pieces(scan, wanted, options.partition_bytes)
        batches = [batch for piece in pieces for batch in read_piece(scan, piece)]
        rows = pa.Table.from_batches(batches, schema=scan.schema())
        if rows.num_rows >= count or wanted == bounds:
            break
        reach *= 4  # some offsets are no rows: control records, values that cannot be read
    rows = rows.sort_by([("timestamp", "ascending"), ("partition", "ascending"), ("offset", "ascending")])
    rows = rows.slice(0, count) if first else rows.slice(max(0, rows.num_rows - count))
    return rows.select([column.name for column in asked])


def _near(bounds: Bounds, reach: int, *, first: bool) -> Bounds:
    if first:
        return {partition: (start, min(end, start + reach)) for partition, (start, end) in bounds.items()}
    return {partition: (max(start, end - reach), end) for partition, (start, end) in bounds.items()}
