"""What an append to each ledger costs: one JSON object on standard output.

    python bench/ledger.py [sqlite:///PATH | postgresql://… | memory:] …     default: memory: and SQLite in a fresh directory

For each ledger: milliseconds for one commit of a packed entry of 20 KB (what an object with 500 slices needs), appends a
second with 16 appenders at once, and how long another process takes to notice an append (it echoes into another shard).
SQLite is also committed to directly, without the thread, to see what the hop costs.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

from runnel.metadata.ledger.open import open_ledger
from runnel.metadata.ledger.seam import Ledger
from runnel.model import Position, ShardId
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects
from runnel.world.tasks import Tasks

ENTRY_BYTES = 20_000
HERE, THERE = ShardId(1), ShardId(2)


def _died(name: str, error: BaseException) -> None:
    raise SystemExit(f"{name} died: {error}")


async def _opened(url: str, tasks: Tasks) -> Ledger:
    return await open_ledger(
        url, objects=MemoryObjects(SystemClock()), clock=SystemClock(), chance=Chance(), tasks=tasks
    )


def _spread(milliseconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(milliseconds, n=100)
    return {"p50_ms": round(cuts[49], 3), "p99_ms": round(cuts[98], 3)}


async def _one_at_a_time(ledger: Ledger, entry: bytes, count: int) -> dict[str, float]:
    took = []
    for _ in range(count):
        began = time.perf_counter()
        await ledger.append([(HERE, entry)])
        took.append((time.perf_counter() - began) * 1000)
    return _spread(took)


async def _side_by_side(ledger: Ledger, entry: bytes, appenders: int, each: int) -> float:
    async def appender() -> None:
        for _ in range(each):
            await ledger.append([(HERE, entry)])

    began = time.perf_counter()
    await asyncio.gather(*(appender() for _ in range(appenders)))
    return round(appenders * each / (time.perf_counter() - began))


async def _follow(ledger: Ledger, shard: ShardId, after: Position) -> Position:
    while not (found := await ledger.read(shard, after)):
        await ledger.wait(shard, after)
    return found[-1][0]


async def _echo(url: str, start: int, count: int) -> None:
    """The other process: answers each entry in one shard by one in another."""
    tasks = Tasks(_died)
    ledger = await _opened(url, tasks)
    print("ready", flush=True)
    after = Position(start)
    for _ in range(count):
        after = await _follow(ledger, HERE, after)
        await ledger.append([(THERE, b"heard")])
    await ledger.close()
    await tasks.close()


async def _there_and_back(url: str, ledger: Ledger, count: int) -> dict[str, float]:
    start = await ledger.tail(HERE)
    other = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--echo", url, str(start), str(count), stdout=asyncio.subprocess.PIPE
    )
    assert other.stdout is not None
    await other.stdout.readline()
    after = Position(0)
    took = []
    for _ in range(count):
        await asyncio.sleep(0.005)
        began = time.perf_counter()
        await ledger.append([(HERE, b"called")])
        after = await _follow(ledger, THERE, after)
        took.append((time.perf_counter() - began) * 1000)
    await other.communicate()
    return _spread(took)


async def _measure(url: str, count: int) -> dict[str, object]:
    tasks = Tasks(_died)
    ledger = await _opened(url, tasks)
    entry = bytes(range(250)) * (ENTRY_BYTES // 250)
    await _one_at_a_time(ledger, entry, 20)
    result: dict[str, object] = {"commit_20kb": await _one_at_a_time(ledger, entry, count)}
    result["appends_per_s_16_at_once"] = await _side_by_side(ledger, entry, 16, count // 4)
    if url.startswith("sqlite"):
        took = []
        for _ in range(count):
            began = time.perf_counter()
            ledger._commit([(HERE, entry)])  # type: ignore[attr-defined]  # noqa: SLF001 -- to know the cost of the hop
            took.append((time.perf_counter() - began) * 1000)
        result["commit_20kb_without_thread"] = _spread(took)
    if not url.startswith("memory"):
        result["there_and_back_across_processes"] = await _there_and_back(url, ledger, min(count, 200))
    await ledger.close()
    await tasks.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("urls", nargs="*")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--echo", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.echo:
        url, start, count = options.echo
        asyncio.run(_echo(url, int(start), int(count)))
        return
    with tempfile.TemporaryDirectory() as directory:
        urls = options.urls or ["memory:", f"sqlite://{Path(directory)}/ledger.db"]
        results = {url.partition(":")[0]: asyncio.run(_measure(url, options.count)) for url in urls}
    print(json.dumps({"benchmark": "ledger", "entry_bytes": ENTRY_BYTES, "ledgers": results}, indent=2))


if __name__ == "__main__":
    main()
