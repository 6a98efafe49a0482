"""Everything beside Apache Kafka in one run: one table of ratios, each with what it should be.

    bench/run.py run kafka/everything -- [--quick] [--only throughput flatness latency readers memory java]
    python bench/kafka/everything.py --table RESULT.json      the table of a run that was kept

The parts are those of throughput, latency and memory. `--quick` takes about ten minutes on two cores instead of an
hour; its figures say less. The table goes to standard error as Markdown, the JSON with all rows to standard output.
"""

import argparse
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import latency
import memory
import throughput
from _peers import PEERS, started

PARTS = ("throughput", "flatness", "latency", "readers", "memory", "java")
Line = dict[str, Any]
NOT_MORE, AT_LEAST = "at most", "at least"


def line(
    what: str, runnel: float, other: float | None, ratio: float, bound: str = "", aim: float | None = None
) -> Line:
    """One line of the table: a figure of Runnel, the same of what it is set against, and whether that is good."""
    met = None if aim is None else (ratio >= aim if bound == AT_LEAST else ratio <= aim)
    return {"what": what, "runnel": runnel, "against": other, "ratio": ratio, "aim": aim, "bound": bound, "met": met}


def of_throughput(seconds: float, sizes: list[int], counts: list[int]) -> tuple[list[Line], list[Any]]:
    # One figure of every broker right after the other: a machine does not stay the same for an hour.
    rows = []
    for size in sizes:
        for partitions in counts:
            for name in PEERS:
                with started(name) as peer:
                    rows.append(throughput.measure(peer, size, partitions, seconds, java=False))
    by = {(row["peer"], row["size"], row["partitions"]): row for row in rows}
    lines = []
    for size in map(str, sizes):
        for partitions in map(str, counts):
            ours, kafka, flush = (by[name, size, partitions] for name in PEERS)
            of = f"{size} B, {partitions} partitions"
            for verb in ("produce", "consume"):
                speed, cost = f"{verb}_mb_s", f"{verb}_cpu_s_per_gb"
                lines.append(
                    line(f"{verb} MB/s, {of}", ours[speed], kafka[speed], ours[speed] / kafka[speed], AT_LEAST, 1.0)
                )
                share = ours[cost] / max(kafka[cost], 1e-9)
                lines.append(line(f"{verb} CPU s/GB, {of}", ours[cost], kafka[cost], share, NOT_MORE, 0.5))
            lines.append(
                line(
                    f"produce MB/s against Kafka with a flush per batch, {of}",
                    ours["produce_mb_s"],
                    flush["produce_mb_s"],
                    ours["produce_mb_s"] / flush["produce_mb_s"],
                    AT_LEAST,
                    5.0 if partitions == "500" else None,
                )
            )
    return lines, rows


def of_flatness(seconds: float, few: int, many: int) -> tuple[list[Line], list[Any]]:
    rows, found = [], {}
    for name in ("runnel", "kafka"):
        for partitions in (few, many):
            with started(name) as peer:
                row = throughput.measure(peer, 1000, partitions, seconds, java=False)
            rows.append(row)
            found[name, partitions] = row["produce_mb_s"]
    flat = {name: found[name, many] / found[name, few] for name in ("runnel", "kafka")}
    what = f"produce MB/s with {many:,} partitions against {few}"
    return [
        line(f"{what}, Runnel", found["runnel", many], found["runnel", few], flat["runnel"], AT_LEAST, 0.9),
        line(f"{what}, Kafka", found["kafka", many], found["kafka", few], flat["kafka"]),
    ], rows


def of_latency(seconds: float, rate: float) -> tuple[list[Line], list[Any]]:
    rows = [latency.measure(name, seconds, rate) for name in latency.ROWS]
    kafka = next(row for row in rows if row["row"] == "kafka")
    lines = []
    for row in rows:
        if row is kafka:
            continue
        for figure in ("p50_ms", "p99_ms", "p999_ms"):
            ours, theirs = row["paced"][figure], kafka["paced"][figure]
            what = f"produce {figure.removesuffix('_ms')} ms at {rate / 1e6:.0f} MB/s, {row['row']}"
            lines.append(line(what, ours, theirs, ours / theirs))
        ours, theirs = row["lone"]["records_per_second"], kafka["lone"]["records_per_second"]
        lines.append(line(f"a lone producer's records/s, five in flight, {row['row']}", ours, theirs, ours / theirs))
        if row["row"] == "runnel, default window":
            # Sixteen records a request, five requests, one window of 200 ms: what crawling would be.
            crawl = 16 * 5 / 0.2
            lines.append(line("the same against one window per round trip", ours, crawl, ours / crawl, AT_LEAST, 2.0))
    return lines, rows


def of_readers(seconds: float, rate: float) -> tuple[list[Line], list[Any]]:
    rows = [latency.fan_out(name, seconds, rate) for name in ("runnel, default window", "kafka")]
    lines = []
    for row in rows:
        alone = row["alone_p99_ms"]
        aim = 1.5 if row["row"].startswith("runnel") else None
        for what, figure in (("beside five readers", "five_tails"), ("beside one that catches up", "catching_up")):
            beside = row[f"{figure}_p99_ms"]
            name = row["row"].partition(",")[0].capitalize()
            lines.append(
                line(f"{name}: produce p99 ms {what}, against alone", beside, alone, beside / alone, NOT_MORE, aim)
            )
    return lines, rows


def of_memory(connections: int, partitions: int) -> tuple[list[Line], list[Any]]:
    rows = [memory.measure(name, connections, partitions) for name in ("runnel", "kafka")]
    most = [max(value for key, value in row.items() if key.endswith("rss_mb")) for row in rows]
    quiet = [row["connections_rss_mb"] for row in rows]
    of = f"{connections:,} connections and {partitions:,} partitions"
    return [
        line(f"MB of memory with {of}, idle", quiet[0], 300.0, quiet[0] / 300, NOT_MORE, 1.0),
        line(f"MB of memory with {of}, after a burst", most[0], 300.0, most[0] / 300, NOT_MORE, 1.0),
        line("the same against Kafka", most[0], most[1], most[0] / most[1]),
    ], rows


def of_java(seconds: float) -> tuple[list[Line], list[Any]]:
    rows = []
    for name in ("runnel", "kafka"):
        with started(name) as peer:
            rows.append(throughput.measure(peer, 1000, 16, seconds, java=True))
    ours, theirs = rows
    return [
        line(
            f"Kafka's own perf tools, {verb} MB/s, 1000 B, 16 partitions",
            ours[f"java_{verb}"]["mb_s"],
            theirs[f"java_{verb}"]["mb_s"],
            ours[f"java_{verb}"]["mb_s"] / theirs[f"java_{verb}"]["mb_s"],
            AT_LEAST,
            1.0,
        )
        for verb in ("produce", "consume")
    ], rows


def table(lines: list[Line]) -> str:
    rows = ["| figure | Runnel | against | ratio | aim | |", "|---|---:|---:|---:|---|---|"]
    for each in lines:
        aim = f"{each['bound']} {each['aim']:g}" if each["aim"] is not None else ""
        met = {True: "met", False: "**missed**", None: ""}[each["met"]]
        other = "" if each["against"] is None else f"{each['against']:,.4g}"
        rows.append(f"| {each['what']} | {each['runnel']:,.4g} | {other} | {each['ratio']:.2f} | {aim} | {met} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1, 16, 500])
    parser.add_argument("--table", type=Path, metavar="RESULT.json")
    args = parser.parse_args()
    if args.table:
        kept = json.loads(args.table.read_text(encoding="utf-8"))
        print("\n\n".join(table(run["lines"]) for run in kept.get("runs", [kept])))
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    seconds = 2.0 if args.quick else 10.0
    measured = {
        "throughput": lambda: of_throughput(seconds, args.sizes, args.partitions),
        "flatness": lambda: of_flatness(seconds, 10, 5000),
        "latency": lambda: of_latency(seconds * 2, 20e6),
        "readers": lambda: of_readers(seconds * 2, 10e6),
        "memory": lambda: of_memory(1000, 5000),
        "java": lambda: of_java(seconds),
    }
    lines: list[Line] = []
    rows = {}
    for part in args.only:
        of_part, rows[part] = measured[part]()
        lines += of_part
        print(f"\n{table(of_part)}\n", file=sys.stderr)
    print(
        json.dumps(
            {
                "lines": lines,
                "rows": rows,
                "load": os.getloadavg(),
                "missed": [each["what"] for each in lines if each["met"] is False],
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
