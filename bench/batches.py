"""What one sealed batch costs on the way in and on the way out; JSON.

    python bench/batches.py [--seconds 0.3]

Sketch, before the code was written: one unpack 0.35 us, one checksum 0.15 us and 35 us per MB, comparisons 0.4 us, so
about 1 us for a small batch and memory speed for large ones. Patching an offset: 0.3 us.
"""

import argparse
import json
import time
from collections.abc import Callable

from runnel.codec.batches import check_batches, check_produced, patch_offsets, set_append_time
from runnel.codec.compression import Compression
from runnel.codec.records import Record, build_batch, read_records

SIZES = (200, 1 << 10, 16 << 10, 64 << 10, 1 << 20)


def batch_of(size: int) -> bytes:
    return build_batch([Record(None, bytes(size - 75), (), 1_700_000_000_000)])


def microseconds(work: Callable[[], object], seconds: float) -> float:
    """CPU time of one call: the best of five runs, for other programs share these cores."""
    work()
    times = 1
    while True:
        began = time.process_time()
        for _ in range(times):
            work()
        took = time.process_time() - began
        if took > seconds / 5:
            break
        times *= 4
    best = took / times
    for _ in range(4):
        began = time.process_time()
        for _ in range(times):
            work()
        best = min(best, (time.process_time() - began) / times)
    return best * 1e6


def measure(seconds: float) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []

    def note(what: str, batches: int, size: int, took_us: float, **more: object) -> None:
        each = took_us / batches
        results.append(
            {"what": what, "bytes": size, "us_per_batch": round(each, 3), "gb_per_s": round(size / each / 1e3, 2)}
            | more
        )

    for size in SIZES:
        batch = batch_of(size)
        view = memoryview(batch)
        length = len(batch)
        note("check_produced", 1, length, microseconds(lambda v=view, n=length: check_produced(v, 0, n), seconds))
        count = max(2, min(64, (4 << 20) // length))
        run = memoryview(bytearray(batch * count))
        note("check_batches", count, length, microseconds(lambda r=run: check_batches(r, 0, len(r)), seconds))
        note("patch_offsets", count, length, microseconds(lambda r=run: patch_offsets(r, 1000), seconds))
        note("set_append_time", 1, length, microseconds(lambda r=run: set_append_time(r, 0, 1000), seconds))
    for how in Compression:
        records = [Record(b"key", b"value %d" % i * 10, (), 1_700_000_000_000 + i) for i in range(100)]
        batch = build_batch(records, compression=how)
        name = how.name.lower()
        built = microseconds(lambda r=records, h=how: build_batch(r, compression=h), seconds)
        note("build_batch, 100 records", 1, len(batch), built, compression=name)
        read = microseconds(lambda b=batch: list(read_records(b)), seconds)
        note("read_records, 100 records", 1, len(batch), read, compression=name)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each measurement")
    print(json.dumps({"benchmark": "batches", "results": measure(parser.parse_args().seconds)}, indent=1))


if __name__ == "__main__":
    main()
