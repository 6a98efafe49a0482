"""`runnel table show` and `runnel table sql`: rows of topics at a prompt, up to the last acknowledged record."""

import argparse
import base64
import datetime as dt
import decimal
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runnel.errors import Refused
from runnel.ui.cli.options import add_action, add_json, add_knobs, loaded_from
from runnel.ui.cli.output import print_table

if TYPE_CHECKING:
    from runnel.settings import Settings

CELL_CHARS_MAX = 60
ROWS_MAX = 1000


def register(actions: Any) -> None:
    show = add_action(actions, "show", "print the newest rows of a topic, or the oldest with --first", _show)
    show.add_argument("topic", metavar="TOPIC", help="the topic")
    show.add_argument("-n", "--rows", type=int, default=20, metavar="N", help="how many rows (20)")
    show.add_argument("--first", action="store_true", help="the oldest rows instead")
    show.add_argument("--columns", default="", metavar="A,B", help="some of the columns")
    show.add_argument("--values", metavar="HOW", help="how values are read: auto, raw, schema, schema:ID, json")
    add_json(show)
    add_knobs(show)
    sql = add_action(actions, "sql", "ask topics in SQL (DuckDB's); each topic is a table, as of now", _sql)
    sql.add_argument("query", metavar="QUERY", help='such as "select count(*) from orders"; - reads standard input')
    sql.add_argument(
        "-n", "--rows", type=int, default=ROWS_MAX, metavar="N", help=f"print at most so many rows ({ROWS_MAX})"
    )
    add_json(sql)
    add_knobs(sql)


def _show(args: argparse.Namespace) -> int:
    with _table_extra():
        from runnel.lake.newest import newest
        from runnel.lake.options import read_options
        from runnel.lake.places import open_lake
    if args.rows < 1:
        raise Refused("--rows is at least 1")
    given = {"topic": args.topic, "columns": args.columns}
    options = read_options(given | ({"values": args.values} if args.values else {}))
    with open_lake(_settings(args)) as lake:
        rows = newest(lake, options, args.rows, first=args.first)
    _print(rows.schema.names, rows.to_pylist(), args)
    return 0


def _sql(args: argparse.Namespace) -> int:
    with _table_extra():
        from runnel.lake.places import open_lake
        from runnel.lake.sql import ask
    from runnel.ui.cli.progress import Progress

    query = sys.stdin.read() if args.query == "-" else args.query
    bar = Progress(quiet=args.json)
    with tempfile.TemporaryDirectory(prefix="runnel-sql-") as scratch, open_lake(_settings(args)) as lake:
        try:
            reader = ask(lake, query, scratch=Path(scratch), progress=bar.of)
        finally:
            bar.clear()
        rows = (row for batch in reader for row in batch.to_pylist())
        _print(reader.schema.names, _some(rows, args), args)
    return 0


def _some(rows: Iterator[dict[str, Any]], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(rows):
        if number >= args.rows:
            print(f"only the first {args.rows:,} rows are shown: --rows shows more", file=sys.stderr)
            return
        yield row


def _settings(args: argparse.Namespace) -> "Settings":
    return loaded_from(args).settings


@contextmanager
def _table_extra() -> Iterator[None]:
    """What is not installed is missed by the name of the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        raise Refused(f"{missing.name} is not installed: pip install 'runnel[table]'") from None


def _print(names: Sequence[str], rows: Iterable[dict[str, Any]], args: argparse.Namespace) -> None:
    if args.json:
        for row in rows:
            print(json.dumps(row, default=_plain, ensure_ascii=False))
    else:
        print_table(names, [[_cell(row[name]) for name in names] for row in rows])


def _plain(value: Any) -> Any:
    """What JSON has no word for."""
    match value:
        case bytes():
            return _text(value) if _text(value) is not None else base64.b64encode(value).decode()
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return value.total_seconds()
        case decimal.Decimal():
            return int(value) if value.as_tuple().exponent == 0 else str(value)  # sums are whole numbers without scale
        case _:
            return repr(value)


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bytes():
            text = _text(value)
            told = value[:CELL_CHARS_MAX].hex() if text is None else text
        case dt.datetime():
            told = value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        case list() | dict() | tuple():
            told = json.dumps(value, default=_plain, ensure_ascii=False)
        case _:
            told = str(value)
    told = told.replace("\n", "\\n")
    return told if len(told) <= CELL_CHARS_MAX else told[: CELL_CHARS_MAX - 1] + "…"


def _text(value: bytes) -> str | None:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() or not text else None
