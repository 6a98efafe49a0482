"""Produce and consume MB/s and broker CPU per GB, Runnel beside Apache Kafka as it ships and with a flush per batch.

    bench/run.py run kafka/throughput -- [--seconds 8] [--sizes 100 1000 10000] [--partitions 1 16 500] [--peers …]

Every row is one broker at one record size and number of partitions, driven by the same client (librdkafka, acks=all,
batches up to 1 MB, 5 ms linger), one broker at a time. `ratios` sets Runnel against each peer, from this run alone.
`--java` adds Kafka's own perf tools.
"""

import argparse
import json
import sys
from typing import Any

from _clients import child, java_consume, java_produce, make_topic
from _peers import PEERS, started


def measure(peer: Any, size: int, partitions: int, seconds: float, *, java: bool) -> dict[str, Any]:
    topic = f"t-{size}-{partitions}"
    make_topic(peer.bootstrap, topic, partitions)
    shape = {"bootstrap": peer.bootstrap, "topic": topic, "partitions": partitions}
    child("produce", **shape, size=size, seconds=1.0)  # warm-up; its records are read below as well
    before = peer.cpu()
    made = child("produce", **shape, size=size, seconds=seconds)
    between = peer.cpu()
    read = child("consume", **shape, records=made["records"])
    after = peer.cpu()
    row = {
        "row": f"{peer.name} {size} B {partitions} partitions",
        "peer": peer.name,
        "size": str(size),
        "partitions": str(partitions),
        "produce_mb_s": made["mb_s"],
        "produce_p50_ms": made["p50_ms"],
        "produce_p99_ms": made["p99_ms"],
        "produce_cpu_s_per_gb": (between - before) / made["bytes"] * 1e9,
        "consume_mb_s": read["mb_s"],
        "consume_cpu_s_per_gb": (after - between) / max(read["bytes"], 1) * 1e9,
        "failed": made["failed"],
        "missing": max(0, made["records"] - read["records"]),
        "rss_mb": peer.rss_mb(),
    }
    if java:
        make_topic(peer.bootstrap, topic + "-java", partitions)
        records = min(2_000_000, int(made["bytes"] / size))
        row["java_produce"] = java_produce(peer.bootstrap, topic + "-java", size, records)
        row["java_consume"] = java_consume(peer.bootstrap, topic + "-java", records)
    print(
        {name: round(value, 2) if isinstance(value, float) else value for name, value in row.items()}, file=sys.stderr
    )
    return row


def ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    ours = {(row["size"], row["partitions"]): row for row in rows if row["peer"] == "runnel"}
    for row in rows:
        mine = ours.get((row["size"], row["partitions"]))
        if row["peer"] == "runnel" or mine is None:
            continue
        found.append(
            {
                "against": f"{row['peer']} {row['size']} B {row['partitions']} partitions",
                "produce_throughput_ratio": mine["produce_mb_s"] / row["produce_mb_s"],
                "consume_throughput_ratio": mine["consume_mb_s"] / row["consume_mb_s"],
                "produce_cpu_share": mine["produce_cpu_s_per_gb"] / row["produce_cpu_s_per_gb"],
                "consume_cpu_share": mine["consume_cpu_s_per_gb"] / max(row["consume_cpu_s_per_gb"], 1e-9),
            }
        )
    return found


def flatness(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Of each broker, its slowest number of partitions against its fastest."""
    found = {}
    for row in rows:
        same = [each["produce_mb_s"] for each in rows if (each["peer"], each["size"]) == (row["peer"], row["size"])]
        found[f"{row['peer']} {row['size']} B"] = min(same) / max(same)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 16, 500])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--java", action="store_true")
    args = parser.parse_args()
    rows = []
    for size in args.sizes:
        for partitions in args.partitions:
            for name in args.peers:
                with started(name) as peer:
                    rows.append(measure(peer, size, partitions, args.seconds, java=args.java))
    print(json.dumps({"rows": rows, "ratios": ratios(rows), "flatness_ratio": flatness(rows)}, indent=2))


if __name__ == "__main__":
    main()
