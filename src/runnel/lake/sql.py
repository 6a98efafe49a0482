"""SQL over topics, by DuckDB: each topic that a query names becomes a table of it, as of one moment.

    reader = ask(lake, "select country, count(*) from orders group by all", scratch=folder)

Topics are read whole into a database of its own, which puts aside on disk what does not fit into its memory. Names
that are no topics are DuckDB's business: files, functions, common table expressions.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from runnel.errors import Refused
from runnel.lake.options import PARTITION_BYTES, Options
from runnel.lake.places import Lake
from runnel.lake.rows import read_piece
from runnel.lake.scan import Piece, Scan

MEMORY_BYTES = 512 << 20
ROWS_AT_ONCE = 10_000

Progress = Callable[[int, int], None]
"""Bytes that were read, and of how many."""


BYTES_HINT = "raw keys and values are bytes: decode(value) makes text of them, the setting table.values columns"


def no_progress(done: int, total: int) -> None:
    """Nobody watches."""


def ask(lake: Lake, query: str, *, scratch: Path, progress: Progress = no_progress) -> pa.RecordBatchReader:
    """The rows that a query gives. `Refused` in DuckDB's words if it is none."""
    database = duckdb.connect(
        ":memory:", config={"memory_limit": f"{MEMORY_BYTES >> 20}MB", "temp_directory": str(scratch)}
    )
    try:
        named = database.get_table_names(query)
        topics = {name: _plan(lake, name) for name in sorted(named) if lake.has(name)}
        total = sum(piece.length for _, pieces in topics.values() for piece in pieces)
        done = 0
        for name, (scan, pieces) in topics.items():
            rows = pa.RecordBatchReader.from_batches(scan.schema(), _rows(scan, pieces, done, total, progress))
            done += sum(piece.length for piece in pieces)
            database.register("rows of a topic", rows)
            database.execute(f'create table {_quoted(name)} as select * from "rows of a topic"')  # noqa: S608  quoted
            database.unregister("rows of a topic")
        return database.execute(query).to_arrow_reader(ROWS_AT_ONCE)
    except duckdb.CatalogException as unknown:
        raise Refused(f"{_words(unknown)} (topics: {_some(lake.topics())})") from None
    except duckdb.OutOfMemoryException as full:
        raise Refused(f"the query needs more memory than {MEMORY_BYTES >> 20} MB: {_words(full)}") from None
    except duckdb.Error as wrong:
        raise Refused(_words(wrong)) from None


def _plan(lake: Lake, topic: str) -> tuple[Scan, list[Piece]]:
    options = Options(topic=topic)
    scan = lake.scan(options)
    return scan, lake.pieces(scan, lake.range_of(options), PARTITION_BYTES)


def _rows(scan: Scan, pieces: list[Piece], done: int, total: int, progress: Progress) -> Iterator[pa.RecordBatch]:
    for piece in pieces:
        progress(done, total)
        yield from read_piece(scan, piece)
        done += piece.length


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _words(error: duckdb.Error) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    said = "; ".join(lines[:2]) if lines else type(error).__name__
    return f"{said} ({BYTES_HINT})" if "BLOB" in said else said


def _some(names: list[str]) -> str:
    return ", ".join(names[:20]) + (", …" if len(names) > 20 else "") if names else "there are none"
