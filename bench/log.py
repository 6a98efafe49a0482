"""What laying out a write-ahead object costs, and reading its footer; JSON.

    python bench/log.py [--seconds 0.3]

Sketch, before the code was written: per batch one tuple, six appends, one checksum: 1 us; per slice 0.5 us more; so an
object of 5,000 one-batch slices in under 10 ms, and the rate in bytes that of the checksum (over 10 GB/s) for batches
of 64 KiB. A footer of 500 slices in under 0.5 ms.
"""

import argparse
import json
import os
import tempfile
from typing import BinaryIO

from batches import batch_of, microseconds

from runnel.log.builder import Sealed, lay_out
from runnel.log.reader import check_object, footer_length, parse_footer
from runnel.world.chance import Chance

SHAPES = (  # streams, batches of each, bytes of a batch, with producers
    (1, 64, 64 << 10, False),
    (10, 25, 16 << 10, False),
    (500, 1, 1 << 10, False),
    (500, 1, 1 << 10, True),
    (500, 8, 1 << 10, True),
    (5000, 1, 200, False),
    (5000, 1, 200, True),
    (5000, 1, 1 << 10, True),
)
IOV_MAX = 1024


def arrivals(streams: int, each: int, size: int, producers: bool) -> list[Sealed]:
    """Batches in no particular order of streams, as they arrive."""
    body = memoryview(batch_of(size))
    batches = [
        Sealed(stream, body, 1, 1_700_000_000_000, *((stream, 0, turn) if producers else ()))
        for turn in range(each)
        for stream in range(streams)
    ]
    Chance(1).shuffle(batches)
    return batches


def written(file: BinaryIO, buffers: list[bytes | bytearray | memoryview]) -> None:
    handle = file.fileno()
    os.lseek(handle, 0, os.SEEK_SET)
    for start in range(0, len(buffers), IOV_MAX):
        os.writev(handle, buffers[start : start + IOV_MAX])


def measure(seconds: float) -> list[dict[str, object]]:
    results: list[dict[str, object]] = []
    for streams, each, size, producers in SHAPES:
        batches = arrivals(streams, each, size, producers)
        laid = lay_out(batches)
        data = b"".join(laid.buffers)
        needed = footer_length("bench", data[-32:], len(data))
        end = data[-needed:]
        build = microseconds(lambda b=batches: lay_out(b), seconds)
        join = microseconds(lambda parts=laid.buffers: b"".join(parts), seconds)
        with tempfile.TemporaryFile(buffering=0) as file:
            gather = microseconds(lambda f=file, parts=laid.buffers: written(f, parts), seconds)
            whole = microseconds(lambda f=file, parts=laid.buffers: written(f, [b"".join(parts)]), seconds)
        results.append(
            {
                "slices": streams,
                "batches": len(batches),
                "batch_bytes": size,
                "idempotent": producers,
                "items": len(laid.items),
                "object_bytes": laid.size,
                "footer_bytes": needed,
                "lay_out_us": round(build, 1),
                "lay_out_us_per_batch": round(build / len(batches), 3),
                "lay_out_gb_per_s": round(laid.size / build / 1e3, 2),
                "join_us": round(join, 1),
                "write_gathered_us": round(gather, 1),
                "write_joined_us": round(whole, 1),
                "parse_footer_us": round(
                    microseconds(lambda e=end, n=laid.size: parse_footer("bench", e, n), seconds), 1
                ),
                "check_object_us": round(microseconds(lambda d=data: check_object("bench", d), seconds), 1),
            }
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.3, help="for each measurement")
    print(json.dumps({"benchmark": "log", "results": measure(parser.parse_args().seconds)}, indent=1))


if __name__ == "__main__":
    main()
