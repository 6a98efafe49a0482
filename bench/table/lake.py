"""Topics as rows for readers, on one core: sealed batches and Parquet files to Arrow. `--records N`.

    bench/run.py run table/lake

The page views of `files.py`, as Avro, as JSON by a schema, and raw: read out of write-ahead objects, out of Parquet files
as the table has them, and out of Parquet files by way of the batches they came from (what a reader does whose columns
are not the table's). MiB/s are of records, unfolded, by this process's time; files are local.
"""

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

from files import RULES, WRITERS, rows_of, slices_of

from runnel.lake.rows import read_piece
from runnel.lake.scan import Piece, Scan
from runnel.metadata.objects import FileKind
from runnel.read.plan import Part
from runnel.table.batches import seal_rows
from runnel.table.files.columns import TableColumns
from runnel.table.files.facts import Range, Work
from runnel.table.files.rules import row_rules
from runnel.table.files.write import write_files
from runnel.table.schemas import Schema, Schemas
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.open import open_store


def at_hand(number: int) -> Schema:
    writer = WRITERS[number]
    return Schema(number, writer.format.name, writer.schema)


async def prepare(url: str, kind: str, rows) -> tuple[tuple[Part, ...], tuple[Part, ...], TableColumns]:
    """The same records in write-ahead objects and in Parquet files."""
    store = open_store(url, clock=SystemClock(), chance=Chance())
    slices = await slices_of(store, rows)
    columns = TableColumns()
    while True:
        work = Work(
            topic="views",
            folder="tables/views",
            ranges=(Range(stream=1, partition=0, slices=slices),),
            rules=row_rules({"table.values": RULES[kind]}),
            columns=columns,
            stamp=1,
        )
        written = await write_files(work, store, WRITERS.__getitem__, chance=Chance())
        if written.wants is None:
            break
        columns = columns.with_wants(written.wants)
    await store.close()
    sealed = tuple(Part(each.name, each.place, each.length, each.first, each.end, FileKind.WAL) for each in slices)
    compacted = tuple(
        Part(group.trail, run.place, 0, run.first, run.end, FileKind.PARQUET)
        for group in written.groups
        for run in group.runs
    )
    return sealed, compacted, columns


def speed(scan: Scan, parts: tuple[Part, ...], count: int, unfolded: int) -> float:
    begin = time.process_time()
    rows = sum(batch.num_rows for batch in read_piece(scan, Piece(0, 1, 0, count, parts)))
    took = time.process_time() - begin
    assert rows == count, f"{rows} of {count} rows came"
    return round(unfolded / 2**20 / took, 1)


def measure(kind: str, count: int) -> dict[str, float]:
    rows = rows_of(kind, count)
    unfolded = sum(len(batch.data) for batch in seal_rows(rows, []))
    with tempfile.TemporaryDirectory() as folder:
        url = f"file://{Path(folder).absolute()}"
        sealed, compacted, columns = asyncio.run(prepare(url, kind, rows))
        rules = row_rules({"table.values": RULES[kind]})
        scan = Scan("views", url, Schemas((), at_hand=at_hand), rules, columns)
        table = Scan("views", url, Schemas((), at_hand=at_hand), rules, columns, (), columns.last_id)
        narrow = Scan("views", url, Schemas((), at_hand=at_hand), rules, columns, ("offset",), columns.last_id)
        return {
            "sealed_mib_s": speed(scan, sealed, count, unfolded),
            "table_mib_s": speed(table, compacted, count, unfolded),
            "table_one_column_mib_s": speed(narrow, compacted, count, unfolded),
            "remade_mib_s": speed(scan, compacted, count, unfolded),
        }


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--records", type=int, default=100_000)
    args = words.parse_args()
    print(json.dumps({kind: measure(kind, args.records) for kind in RULES}))


if __name__ == "__main__":
    main()
