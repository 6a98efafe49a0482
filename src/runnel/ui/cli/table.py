"""Turn streams into Iceberg and Delta tables, and see how far they are.

Works on the cluster of the settings (--data-dir, --objects, --ledger), beside a running node or without one. A node keeps
tables up to date by itself: 'runnel table sync' is for not waiting. 'runnel table ACTION --help' explains an action.
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from runnel.errors import Unavailable
from runnel.settings import Settings
from runnel.ui.cli import table_rows
from runnel.ui.cli.house import House
from runnel.ui.cli.options import actions_of, add_action, add_json, add_knobs, loaded_from
from runnel.ui.cli.output import print_json, print_table

if TYPE_CHECKING:
    from runnel.table.pipeline import Progress, Round
    from runnel.table.service import Synced
    from runnel.table.status import Status, TableStatus


def register(parser: argparse.ArgumentParser) -> None:
    actions = actions_of(parser)
    sync = add_action(actions, "sync", "bring tables up to where the streams are now, once", _sync)
    _add_topics(sync)
    watch = add_action(actions, "watch", "keep tables up to date until Ctrl-C; a node does this by itself", _watch)
    watch.add_argument("--until-eof", action="store_true", help="end when standard input does")
    add_json(watch)
    add_knobs(watch)
    status = add_action(actions, "status", "lag, sizes and last commits of tables, and what is in their way", _status)
    _add_topics(status)
    table_rows.register(actions)
    rebuild = add_action(actions, "rebuild", "make a topic's tables again where they are gone, from files", _rebuild)
    rebuild.add_argument("topic", metavar="TOPIC", help="the topic")
    add_json(rebuild)
    add_knobs(rebuild)


def _add_topics(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topics", metavar="TOPIC", nargs="*", help="left out: all topics")
    add_json(parser)
    add_knobs(parser)


def run(args: argparse.Namespace, house: House) -> int:
    args.house = house
    return int(args.do(args))


def _settings(args: argparse.Namespace) -> Settings:
    from runnel.world.telemetry import configure

    settings = loaded_from(args).settings
    configure(level=settings.log_level if args.do is _watch else "error", form=settings.log_format)
    return settings


# --- sync


def _sync(args: argparse.Namespace) -> int:
    from runnel.ui.cli.progress import Progress as Bar

    settings = _settings(args)
    bar = Bar(quiet=args.json)

    def progress(done: int, total: int) -> None:
        bar.of(done, total)

    try:
        synced = asyncio.run(_sync_once(settings, args, progress))
    finally:
        bar.clear()
    done = synced.round
    if args.json:
        print_json({"seconds": round(synced.seconds, 2), "by": synced.by, **asdict(done)})
    else:
        for topic, why in sorted(done.trouble.items()):
            print(f"runnel: {topic}: {why}", file=sys.stderr)
        if done.tasks:
            print(
                f"{done.rows:,} rows in {done.files} files of {done.bytes / 1e6:,.1f} MB "
                f"({done.source_bytes / 1e6:,.1f} MB in the streams), {done.commits} commits, {synced.seconds:,.1f} s"
                + (f"; {done.letters} records are in dead-letter topics" if done.letters else "")
            )
        elif not done.trouble:
            print(f"up to date{f', thanks to {synced.by}' if synced.by else ''}")
    return int(bool(done.trouble))


async def _sync_once(settings: Settings, args: argparse.Namespace, progress: "Progress") -> "Synced":
    async with args.house.table_service(settings, progress) as service:
        only = frozenset(args.topics) or None
        return await service.sync(only, _waiting(args))  # type: ignore[no-any-return]


def _rebuild(args: argparse.Namespace) -> int:
    settings = _settings(args)

    async def again() -> "Round":
        async with args.house.table_service(settings, lambda _done, _all: None) as service:
            return await service.rebuild(args.topic, _waiting(args))  # type: ignore[no-any-return]

    done = asyncio.run(again())
    if args.json:
        print_json(asdict(done))
    elif not done.trouble:
        print(f"the tables of '{args.topic}' are there")
    for why in done.trouble.values():
        print(f"runnel: {why}", file=sys.stderr)
    return int(bool(done.trouble))


def _waiting(args: argparse.Namespace) -> Callable[[str], None]:
    """Says once whom we are waiting for."""
    told: set[str] = set()

    def waiting(other: str) -> None:
        if other and other not in told and not args.json:
            told.add(other)
            print(f"{other} is at work on the tables: waiting for it", file=sys.stderr)

    return waiting


# --- watch


def _watch(args: argparse.Namespace) -> int:
    settings = _settings(args)
    return asyncio.run(_watch_on(settings, args))


async def _watch_on(settings: Settings, args: argparse.Namespace) -> int:
    def on_round(done: "Round") -> None:
        if done.commits and args.json:
            print_json(asdict(done))
        elif done.commits and not args.until_eof:
            print(f"{done.commits} commits: {done.rows:,} rows in {done.files} files", flush=True)

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if args.until_eof:
        loop.add_reader(sys.stdin.fileno(), _read_on, ended)
    every_ms = min(5000, max(200, settings.table_age_ms_max // 4))
    async with args.house.table_service(settings, lambda _done, _all: None) as service:
        watching = asyncio.gather(
            service.watch(every_ms=every_ms, age_ms_max=settings.table_age_ms_max, on_round=on_round)
        )
        waiting = asyncio.gather(ended.wait())
        await asyncio.wait([watching, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if watching.done():
            watching.result()
            raise Unavailable("watching tables has ended by itself")
        watching.cancel()
        await asyncio.gather(watching, waiting, return_exceptions=True)
    return 0


def _read_on(ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        ended.set()


# --- status


def _status(args: argparse.Namespace) -> int:
    settings = _settings(args)
    status = asyncio.run(_look(settings, args))
    if args.json:
        tables = [asdict(each) | {"ratio": each.ratio} for each in status.tables]
        print_json({"planner": status.planner, "planner_alive": status.planner_alive, "tables": tables})
    else:
        _print(status, verbose=bool(args.topics))
    return int(any(each.trouble for each in status.tables))


async def _look(settings: Settings, args: argparse.Namespace) -> "Status":
    async with args.house.table_look(settings) as look:
        return await look.status(frozenset(args.topics) or None)  # type: ignore[no-any-return]


def _print(status: "Status", *, verbose: bool) -> None:
    if status.planner_alive:
        print(f"kept up to date by {status.planner}\n")
    else:
        print("nobody keeps tables up to date now: a node does (runnel serve), or 'runnel table watch'\n")
    if not status.tables:
        print("no topic has a table yet")
        return
    head = ("topic", "formats", "lag", "behind", "rows", "files", "MB", "ratio", "commit", "last")
    print_table(head, [_row(each) for each in status.tables])
    if verbose:
        for each in status.tables:
            print()
            for name, known in each.known_as.items():
                print(f"{name}: {known['table']}  {known.get('location', '')}")
            print_table(
                ("commit", "seconds ago", "files", "rows", "MB"),
                [
                    (one["commit"], one["seconds_ago"], one["files"], one["rows"], f"{one['bytes'] / 1e6:,.1f}")
                    for one in each.recent
                ],
            )
    for each in status.tables:
        for why in each.trouble:
            print(f"\n{each.topic}: {why}")


def _row(table: "TableStatus") -> tuple[object, ...]:
    last = f"{table.recent[0]['seconds_ago']:,.0f} s ago" if table.recent else "-"
    return (
        table.topic,
        ",".join(table.formats) or "-",
        f"{table.lag_offsets:,}",
        f"{table.lag_s:,.0f} s",
        f"{table.rows:,}",
        next((known["files"] for known in table.known_as.values()), "-"),
        f"{table.bytes / 1e6:,.1f}",
        table.ratio or "-",
        f"{table.commit}{' pending' if table.pending is not None else ''}",
        last,
    )
