"""Write-ahead slices to Parquet and back, on one core: `python bench/table/files.py [--people] [--records N]`.

Records are page views of a shop as such events look: ten fields, about 1 KB, some fields of few values (user agents,
pages, countries), some of which each value is another (ids, times, what people searched for). They come as Avro and as
JSON by a schema, and as JSON that is kept raw; batches of 64 KB, compressed with LZ4, in objects of 4 MiB.

MiB/s are of records, unfolded, by the processor's time of this process, everything included: fetching from memory,
unfolding, decoding, checking that the values come back byte by byte, writing Parquet, statistics, putting. Stored bytes
are Parquet, trails and kept originals; requests are per GB (10^9 bytes) of records.
"""

import argparse
import asyncio
import io
import json
import random
import resource
import time

import fastavro
import pyarrow as pa

from runnel.codec.compression import Compression
from runnel.table.batches import seal_rows
from runnel.table.files.columns import TableColumns
from runnel.table.files.facts import Range, Slice, Work
from runnel.table.files.restore import read_trail
from runnel.table.files.rules import row_rules
from runnel.table.files.write import write_files
from runnel.table.records import ROWS
from runnel.table.shapes import Format
from runnel.table.values import Writer
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects

AVRO = {
    "type": "record",
    "name": "View",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "user", "type": "long"},
        {"name": "session", "type": "string"},
        {"name": "page", "type": "string"},
        {"name": "referrer", "type": ["null", "string"]},
        {"name": "agent", "type": "string"},
        {"name": "country", "type": "string"},
        {"name": "took_ms", "type": "double"},
        {"name": "details", "type": "string"},
    ],
}
JSON = {
    "type": "object",
    "properties": {
        field["name"]: {"type": {"at": "integer", "user": "integer", "took_ms": "number"}.get(field["name"], "string")}
        for field in AVRO["fields"]
    },
}
WRITERS = {1: Writer(Format.AVRO, 1, json.dumps(AVRO)), 2: Writer(Format.JSON, 2, json.dumps(JSON))}
RULES = {"avro": "schema", "json": "schema", "raw": "raw"}
OBJECT_BYTES, BATCH_BYTES = 4 << 20, 64 << 10


class Shop:
    """Page views with a fixed seed."""

    def __init__(self):
        self.chance = random.Random(11)
        letters = "etaoinshrdlu"
        self.words = ["".join(self.chance.choices(letters, k=self.chance.randrange(3, 10))) for _ in range(3000)]
        self.pages = [
            f"https://shop.example.com/{self.some(3, '/')}/{self.some(4, '-')}?ref={n:06x}" for n in range(4000)
        ]
        self.agents = [
            f"Mozilla/5.0 (X11; Linux x86_64; rv:{n % 40}.0) AppleWebKit/537.{n % 37} (KHTML, like Gecko) "
            f"Chrome/{90 + n % 50}.0.{1000 + 13 * n}.{n % 200} Safari/537.{n % 37}"
            for n in range(400)
        ]
        self.flags = [self.some(2, "_") for _ in range(24)]

    def some(self, count, between):
        return between.join(self.chance.choices(self.words, k=count))

    def often(self, items):
        """The first ones more often than the last."""
        return items[int(len(items) * self.chance.random() ** 3)]

    def variants(self, user):
        """The experiments that a user is in; nearly always the same variant, and always the same for one user."""
        mine = random.Random(user).choices("abc", (85, 10, 5), k=len(self.flags))
        return ";".join(f"{flag}={variant}" for flag, variant in zip(self.flags, mine, strict=True))

    def view(self, n):
        chance = self.chance
        user = int(200_000 * chance.random() ** 2)
        return {
            "id": f"{chance.getrandbits(128):032x}",
            "at": 1_700_000_000_000 + 3 * n + chance.randrange(3),
            "user": user,
            "session": f"s-{n // 40 + chance.randrange(50):08x}",
            "page": self.often(self.pages),
            "referrer": None if chance.random() < 0.3 else self.often(self.pages),
            "agent": self.often(self.agents),
            "country": self.often(["us", "de", "in", "br", "fr", "jp", "gb", "it", "es", "nl"]),
            "took_ms": round(chance.expovariate(0.02), 2),
            "details": f"search: {self.some(chance.randrange(8), ' ')}; experiments: {self.variants(user)}",
        }


def rows_of(kind, count):
    shop = Shop()
    parsed = fastavro.parse_schema(AVRO)
    rows = []
    for n in range(count):
        view = shop.view(n)
        if kind == "avro":
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, view)
            value = b"\0\0\0\0\1" + out.getvalue()
        else:
            value = json.dumps(view, separators=(",", ":")).encode()
            value = b"\0\0\0\0\2" + value if kind == "json" else value
        rows.append({"offset": n, "time": view["at"], "key": view["session"].encode(), "value": value, "headers": []})
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


async def slices_of(store, rows):
    slices = []
    waiting = []

    async def put():
        name = f"wal/{len(slices):06}"
        data = b"".join(batch.data for batch in waiting)
        await store.put_new(name, data)
        slices.append(Slice(name, 0, len(data), waiting[0].first, waiting[-1].last + 1))
        waiting.clear()

    for batch in seal_rows(rows, [], compression=Compression.LZ4, batch_bytes_max=BATCH_BYTES):
        waiting.append(batch)
        if sum(len(each.data) for each in waiting) >= OBJECT_BYTES:
            await put()
    if waiting:
        await put()
    return tuple(slices)


async def measure(kind, count):
    store = MemoryObjects(SystemClock())
    rows = rows_of(kind, count)
    unfolded = sum(len(batch.data) for batch in seal_rows(rows, []))
    slices = await slices_of(store, rows)
    columns = TableColumns()
    while True:
        work = Work(
            topic="views",
            folder=f"tables/{columns.version}",
            ranges=(Range(stream=1, partition=0, slices=slices),),
            rules=row_rules({"table.values": RULES[kind]}),
            columns=columns,
            stamp=1,
        )
        wall, used = time.perf_counter(), time.process_time()
        written = await write_files(work, store, WRITERS.__getitem__, chance=Chance())
        wall, used = time.perf_counter() - wall, time.process_time() - used
        if written.wants is None:
            break
        columns = columns.with_wants(written.wants)
    assert written.records == count, f"{written.letters} records could not be read"
    back = gets = restored = 0
    for group in written.groups:
        start = time.process_time()
        reader = await read_trail(store, group.trail)
        gets += 1
        for number in range(len(reader.trail.chunks)):
            ranges = reader.ranges(number)
            data = [await store.read(*each) for each in ranges]
            gets += len(ranges)
            restored += sum(len(batch.data) for batch in reader.restore(number, data))
        back += time.process_time() - start
    source = sum(each.length for each in slices)
    stored = written.size + sum(group.size for group in written.groups)
    per_gb = unfolded / 1e9
    return {
        "record_bytes": round(unfolded / count),
        "write_mib_s": round(unfolded / 2**20 / used, 1),
        "wall_write_mib_s": round(unfolded / 2**20 / wall, 1),
        "back_mib_s": round(unfolded / 2**20 / back, 1),
        "stored_bytes_per_lz4_byte": round(stored / source, 3),
        "lz4_bytes_per_byte": round(source / unfolded, 3),
        "puts_per_gb": round(written.puts / per_gb, 1),
        "gets_per_gb": round(written.gets / per_gb, 1),
        "back_gets_per_gb": round(gets / per_gb, 1),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", action="store_true", help="a table instead of JSON")
    parser.add_argument("--records", type=int, default=150_000)
    asked = parser.parse_args()
    results = {kind: asyncio.run(measure(kind, asked.records)) for kind in RULES}
    results["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    if not asked.people:
        print(json.dumps(results))
        return
    print(f"{'':28}" + "".join(f"{kind:>10}" for kind in RULES))
    for name in results["raw"]:
        print(f"{name:28}" + "".join(f"{results[kind][name]:>10}" for kind in RULES))


if __name__ == "__main__":
    main()
