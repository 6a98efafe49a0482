"""Sealed batches to columns and back, MB/s of record bytes on one core: `python bench/table/records.py [--people]`.

Beside our splitters stands a client library's own reader (compiled, but one object a record).
"""

import argparse
import json
import time

import pyarrow as pa

from runnel.codec.compression import Compression
from runnel.table import compiled
from runnel.table.batches import seal_rows
from runnel.table.records import ROWS, Run, open_runs


def best(work, size, repeat=3):
    took = []
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return round(size / min(took) / 1e6, 1)


def rows_of(count, size):
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": n,
                "time": 1_700_000_000_000 + n,
                "key": b"key-%d" % n,
                "value": (b"%016d" % n) * (size // 16),
                "headers": [],
            }
            for n in range(count)
        ],
        schema=ROWS,
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", action="store_true", help="lines instead of JSON")
    asked = parser.parse_args()
    results = {"compiled": compiled.helper is not None}
    for size in (128, 1024):
        rows = rows_of(32_000_000 // size, size)
        data = [Run(b.first, b.data) for b in seal_rows(rows, [], batch_bytes_max=16_000)]
        total = sum(len(run.data) for run in data)
        results[f"open_{size}"] = best(lambda data=data: list(open_runs(data)), total)
        results[f"seal_{size}"] = best(lambda rows=rows: seal_rows(rows, []), total)
        results[f"seal_lz4_{size}"] = best(lambda rows=rows: seal_rows(rows, [], compression=Compression.LZ4), total)
        from aiokafka.record.default_records import DefaultRecordBatch

        results[f"client_library_{size}"] = best(
            lambda data=data: [list(DefaultRecordBatch(run.data)) for run in data], total, 1
        )
        helper, compiled.helper = compiled.helper, None
        few = data[: len(data) // 20]
        results[f"open_plain_{size}"] = best(lambda few=few: list(open_runs(few)), total / 20, 1)
        compiled.helper = helper
    print("\n".join(f"{name:24}{value}" for name, value in results.items()) if asked.people else json.dumps(results))


if __name__ == "__main__":
    main()
