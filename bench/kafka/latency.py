"""Produce latency at a fixed rate, and what becomes of a lone producer with few requests in flight.

    bench/run.py run kafka/latency -- [--seconds 10] [--rate 20e6]

Rows: Runnel on local files with a 5 ms window and with the default one; Runnel on a store as slow as S3 Express and as
S3 Standard, there with both windows; Apache Kafka as it ships and with a flush per batch. `paced` sends 1 KB records at `--rate` over 16
partitions (librdkafka, linger 1 ms). `lone` is one client, one partition, five small requests in flight, as fast as it
is answered: at one window per round trip and without an early close it would crawl at (5 requests / 200 ms).
"""

import argparse
import json
import sys
from typing import Any

from _clients import begin, child, ended, make_topic
from _peers import started

ROWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "runnel, 5 ms window": ("runnel", ("--object-age-ms-max", "5", "--object-bytes-max", "524288")),
    "runnel, default window": ("runnel", ()),
    "runnel, s3-express": ("runnel", ("--objects", "file:./{folder}?latency=s3-express")),
    "runnel, s3-standard": ("runnel", ("--objects", "file:./{folder}?latency=s3-standard")),
    "runnel, 5 ms window, s3-standard": (
        "runnel",
        (
            "--objects",
            "file:./{folder}?latency=s3-standard",
            "--object-age-ms-max",
            "5",
            "--object-bytes-max",
            "524288",
        ),
    ),
    "kafka": ("kafka", ()),
    "kafka-flush": ("kafka-flush", ()),
}


def measure(name: str, seconds: float, rate: float) -> dict[str, Any]:
    import tempfile

    peer_name, options = ROWS[name]
    with tempfile.TemporaryDirectory(prefix="bench-latency-") as folder:
        options = tuple(word.replace("file:./{folder}", f"file://{folder}/objects") for word in options)
        with started(peer_name, options=options) as peer:
            make_topic(peer.bootstrap, "paced", 16)
            shape = {"bootstrap": peer.bootstrap, "topic": "paced", "partitions": 16, "size": 1000, "linger_ms": 1.0}
            child("produce", **shape, rate=rate, seconds=2.0)
            before = peer.cpu()
            paced = child("produce", **shape, rate=rate, seconds=seconds)
            cpu = (peer.cpu() - before) / paced["seconds"]
            make_topic(peer.bootstrap, "lone", 1)
            few = {"linger.ms": 0, "batch.num.messages": 16, "max.in.flight.requests.per.connection": 5}
            few["queue.buffering.max.messages"] = 200  # it waits for answers, else what it could not send would count
            lone = child(
                "produce", bootstrap=peer.bootstrap, topic="lone", partitions=1, size=1000, seconds=seconds, **few
            )
    row = {
        "row": name,
        "paced": {key: paced[key] for key in ("mb_s", "p50_ms", "p99_ms", "p999_ms", "failed")},
        "paced_cpu_percent_of_a_core": 100 * cpu,
        "lone": {
            "records_per_second": lone["records"] / lone["seconds"],
            "mb_s": lone["mb_s"],
            "failed": lone["failed"],
        },
    }
    print(json.dumps(row), file=sys.stderr)
    return row


def fan_out(name: str, seconds: float, rate: float) -> dict[str, Any]:
    """Produce p99 alone, beside five consumers at the tail, and beside one that reads everything from the beginning."""
    peer_name, options = ROWS[name]
    with started(peer_name, options=options) as peer:
        make_topic(peer.bootstrap, "t", 4)
        shape = {"bootstrap": peer.bootstrap, "topic": "t", "partitions": 4, "size": 1000, "linger_ms": 1.0}
        alone = child("produce", **shape, rate=rate, seconds=seconds)
        follow = {"bootstrap": peer.bootstrap, "topic": "t", "partitions": 4}
        tails = [begin("tail", **follow, seconds=seconds + 2) for _ in range(5)]
        fanned = child("produce", **shape, rate=rate, seconds=seconds)
        delivered = [ended(each)["mb_s"] for each in tails]
        backlog = begin("consume", **follow, records=alone["records"] + fanned["records"])
        behind = child("produce", **shape, rate=rate, seconds=seconds)
        caught_up = ended(backlog)
    return {
        "row": f"{name}, beside readers",
        "alone_p99_ms": alone["p99_ms"],
        "five_tails_p99_ms": fanned["p99_ms"],
        "five_tails_delivered_mb_s": sum(delivered),
        "catching_up_p99_ms": behind["p99_ms"],
        "catching_up_mb_s": caught_up["mb_s"],
        "five_tails_p99_against_alone": fanned["p99_ms"] / alone["p99_ms"],
        "catching_up_p99_against_alone": behind["p99_ms"] / alone["p99_ms"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=20e6, help="bytes a second")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    args = parser.parse_args()
    rows = [measure(name, args.seconds, args.rate) for name in args.rows]
    beside = [
        fan_out(name, args.seconds, args.rate / 2) for name in args.rows if name in ("runnel, default window", "kafka")
    ]
    print(json.dumps({"rows": rows, "beside_readers": beside}, indent=2))


if __name__ == "__main__":
    main()
