"""Look for what would keep a node from running well.

Reads the same settings as `runnel serve` and looks at each thing that a node would need: the data directory, the object
store, the ledger, the addresses, the limits of this machine. Brings up every shard from checkpoints and ledger, and names
what is damaged or missing; with `--whole` it reads and checks every object, too. Changes nothing. Exits 1 when something
must be mended.
"""

import argparse
import asyncio
import os
import platform
import re
import resource
import shutil
import socket
import subprocess
from pathlib import Path
from typing import NamedTuple

from runnel.errors import RunnelError
from runnel.model import ROOT
from runnel.settings import Address, Settings
from runnel.ui.cli.house import House
from runnel.ui.cli.options import add_json, add_knobs, loaded_from
from runnel.ui.cli.output import print_json, print_table
from runnel.world.data_dir import check_marker
from runnel.world.world import World, real_world

PATIENCE_SECONDS = 15
OPEN_FILES_MIN = 4096
JAVA_MIN = 17
FREE_BYTES_MIN = 1 << 30


class Finding(NamedTuple):
    """`state` is `good`, `note` (a node runs, something is missing) or `bad` (it would not start)."""

    what: str
    state: str
    says: str


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--whole", action="store_true", help="read every object and check every byte of it")
    add_json(parser)
    add_knobs(parser)


def run(args: argparse.Namespace, house: House) -> int:
    settings = loaded_from(args).settings
    findings = [
        Finding("python", "good", f"{platform.python_implementation()} {platform.python_version()}"),
        _data_dir(Path(settings.data_dir)),
        *_stores(settings, house, whole=args.whole),
        _address("http", settings.http),
        _open_files(),
        _event_loop(),
        _java(),
    ]
    if args.json:
        print_json([finding._asdict() for finding in findings])
    else:
        print_table(("what", "state", "says"), findings)
    return int(any(finding.state == "bad" for finding in findings))


def _data_dir(path: Path) -> Finding:
    name = "data_dir"
    try:
        check_marker(path)
    except RunnelError as error:
        return Finding(name, "bad", str(error))
    except OSError as error:
        return Finding(name, "bad", f"'{path}' cannot be read: {error.strerror}")
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Finding(name, "bad", f"'{there}' is no folder that can be written: choose another with --data-dir")
    free = shutil.disk_usage(there).free
    state = "good" if free >= FREE_BYTES_MIN else "note"
    new = "" if path.exists() else ", will be made"
    return Finding(name, state, f"{path.absolute()}{new}, {free / (1 << 30):,.1f} GiB free")


def _stores(settings: Settings, house: House, *, whole: bool) -> list[Finding]:
    if not Path(settings.data_dir).exists() and not (settings.objects and settings.ledger):
        # Opening them would make them.
        return [Finding(name, "good", "will be made below data_dir") for name in ("objects", "ledger")]
    return asyncio.run(_look(settings, house, whole=whole))


async def _look(settings: Settings, house: House, *, whole: bool) -> list[Finding]:
    world = real_world(lambda _task, _error: None)
    try:
        return await _look_at_stores(settings, house, world, whole=whole)
    finally:
        await world.tasks.close()


async def _look_at_stores(settings: Settings, house: House, world: World, *, whole: bool) -> list[Finding]:
    findings = []
    from runnel.engine.checkup import look_at_cluster

    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            objects = await house.open_objects(settings, world)
    except (RunnelError, TimeoutError) as error:
        return [Finding("objects", "bad", _reason(error))]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async for _ in objects.list(""):
                break
        findings.append(Finding("objects", "good", "answers"))
    except (RunnelError, TimeoutError) as error:
        findings.append(Finding("objects", "bad", _reason(error)))
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            ledger = await house.open_ledger(settings, world, objects)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                tail = await ledger.tail(ROOT)
            findings.append(Finding("ledger", "good", f"answers, {tail} entries in the root shard"))
            found = [one async for one in look_at_cluster(objects, ledger, world, whole=whole)]
            findings += [Finding(one.what, one.state, one.says) for one in found]
        finally:
            await ledger.close()
    except (RunnelError, TimeoutError) as error:
        findings.append(Finding("ledger", "bad", _reason(error)))
    await objects.close()
    return findings


def _reason(error: BaseException) -> str:
    return str(error) or f"no answer within {PATIENCE_SECONDS} s"


def _address(name: str, text: str) -> Finding:
    address = Address.parse(text)
    try:
        family, *_, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        return Finding(name, "bad", f"{address} cannot be listened at ({error.strerror}): choose another with --{name}")
    return Finding(name, "good", f"{address} is free")


def _open_files() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < OPEN_FILES_MIN:
        return Finding("open files", "note", f"the limit is {soft:,}: raise it with 'ulimit -n 65536' for many clients")
    return Finding("open files", "good", f"up to {soft:,}")


def _event_loop() -> Finding:
    try:
        import uvloop
    except ImportError:
        return Finding("event loop", "note", "asyncio's own: with uvloop installed a node is two to five times faster")
    return Finding("event loop", "good", uvloop.__name__)


def _java() -> Finding:
    java = shutil.which("java")
    if java is None:
        return Finding("java", "note", f"not found: tables need Java {JAVA_MIN}, all else works without")
    done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', done.stderr)
    version = int(found[1]) if found else 0
    if version < JAVA_MIN:
        return Finding("java", "note", f"version {version} at {java}: tables need {JAVA_MIN} or newer")
    return Finding("java", "good", f"version {version} at {java}")
