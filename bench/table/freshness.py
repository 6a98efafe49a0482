"""From an acknowledgement to a row in Spark: a stream of micro-batches beside a writer on the same machine.

    bench/run.py run table/freshness -- [--rows 50] [--every-ms 200]

One record at a time is appended by an engine of its own on files and SQLite; a Spark query (`readStream`, no trigger
interval) hands rows to Python. `delay` is the time between both; `read` is that of a whole `spark.read … count()`.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession

from runnel import Engine, Record


def main() -> None:
    words = argparse.ArgumentParser()
    words.add_argument("--rows", type=int, default=50)
    words.add_argument("--every-ms", type=int, default=200)
    args = words.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        spark = session(folder)
        try:
            print(json.dumps(measure(spark, Path(folder), args.rows, args.every_ms / 1000)))
        finally:
            spark.stop()


def session(folder: str) -> SparkSession:
    made = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    made = made.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    made = made.config("spark.driver.memory", "512m").config("spark.sql.warehouse.dir", folder)
    return made.config("spark.ui.showConsoleProgress", "false").getOrCreate()


def measure(spark: SparkSession, folder: Path, rows: int, every_s: float) -> dict[str, object]:
    places = {"objects": f"file://{folder}/objects", "ledger": f"sqlite://{folder}/ledger.sqlite"}
    arrived: dict[bytes, float] = {}
    acknowledged: dict[bytes, float] = {}
    begun = threading.Event()

    def take(batch, _) -> None:
        for row in batch.select("value").collect():
            arrived[bytes(row.value)] = time.monotonic()
        begun.set()

    async def prepare() -> None:
        async with Engine(**places) as engine:
            topic = await engine.topics.create("fresh")
            await engine.append_records(topic.streams[0], [Record(None, b"first")])

    async def produce() -> None:
        async with Engine(**places) as engine:
            stream = engine.stream_of("fresh", 0)
            for number in range(rows):
                value = b"%d" % number
                await engine.append_records(stream, [Record(None, value)])
                acknowledged[value] = time.monotonic()
                await asyncio.sleep(every_s)

    asyncio.run(prepare())
    options = {**places, "topic": "fresh", "values": "raw"}
    reader = spark.readStream.format("runnel").options(**options, startingOffsets="earliest")
    query = reader.load().writeStream.foreachBatch(take).option("checkpointLocation", f"{folder}/checkpoint").start()
    assert begun.wait(120), "the query did not start"
    asyncio.run(produce())
    give_up = time.monotonic() + 60
    while len(arrived) <= rows and time.monotonic() < give_up:
        time.sleep(0.05)
    query.stop()
    delays = sorted(arrived[value] - at for value, at in acknowledged.items() if value in arrived)
    whole = []
    for _ in range(3):
        begin = time.monotonic()
        count = spark.read.format("runnel").options(**options).load().count()
        whole.append(time.monotonic() - begin)
        assert count == rows + 1
    return {
        "rows": rows,
        "missing": rows - len(delays),
        "delay_ms": {
            "median": round(1000 * statistics.median(delays)),
            "p90": round(1000 * delays[int(len(delays) * 0.9)]),
            "largest": round(1000 * delays[-1]),
        },
        "read_ms": round(1000 * statistics.median(whole)),
    }


if __name__ == "__main__":
    main()
