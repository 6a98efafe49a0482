"""Runs benchmarks and compares results.

    bench/run.py list                                  what there is
    bench/run.py run start [--times 3] [-- OPTIONS]    run one, print one JSON result, keep it in bench/results/
    bench/run.py compare OLD.json NEW.json             figures side by side with their ratio

A benchmark is a program `bench/NAME.py` or `bench/AREA/NAME.py` that prints JSON; its first line of docstring says what
it measures. Figures are the numbers in that JSON, named by their path. With `--times` the whole program runs as often,
and the comparison takes medians and shows how far the runs lie apart: a difference inside that is no difference.
Whether more is better is read off the name: `..._per_second`, `..._mb_s`, `ratio` yes; `..._ms`, `..._bytes` no.
"""

import argparse
import ast
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
MORE_IS_BETTER = re.compile(r"per_(core_)?s(ec(ond)?)?\b|[kmg]i?b_s\b|throughput|rate\b|ratio\b|speedup|/s\b")
LESS_IS_BETTER = re.compile(r"(_|\b)(ns|us|ms|s|seconds|bytes|mb|mib|kib|cpu|rss|latency|p50|p90|p99|p999)(_|\b)")


def programs() -> dict[str, Path]:
    """All benchmarks by name: `start`, `http/servers`."""
    found = {}
    for file in sorted(HERE.rglob("*.py")):
        name = str(file.relative_to(HERE).with_suffix(""))
        text = file.read_text(encoding="utf-8")
        if file.name not in ("run.py", "__init__.py") and "__main__" in text and not file.name.startswith("_"):
            found[name] = file
    return found


def sentence(file: Path) -> str:
    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def run(name: str, times: int, options: list[str]) -> dict[str, Any]:
    """Run a benchmark so many times; its result with what it ran on."""
    file = programs().get(name)
    if file is None:
        sys.exit(f"there is no benchmark {name!r}: 'bench/run.py list' shows what there is")
    runs = []
    for number in range(times):
        print(f"{name}: run {number + 1} of {times}", file=sys.stderr)
        done = subprocess.run([sys.executable, str(file), *options], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            sys.exit(f"benchmark {name!r} failed with exit code {done.returncode}")
        try:
            runs.append(json.loads(done.stdout))
        except ValueError:
            sys.exit(f"benchmark {name!r} printed something that is not JSON: {done.stdout[:200]!r}")
    return {"benchmark": name, "options": options, "at": int(time.time()), **surroundings(), "runs": runs}


def surroundings() -> dict[str, Any]:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=HERE, capture_output=True, text=True, check=False).stdout.strip()

    return {
        "commit": git("rev-parse", "--short=12", "HEAD"),
        "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
    }


def figures(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """All numbers of a JSON value, by path. Rows of a list are told apart by their text fields, else by position."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield path, float(value)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from figures(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            words = [text for text in inner.values() if isinstance(text, str)] if isinstance(inner, dict) else []
            yield from figures(inner, f"{path}[{','.join(words) or position}]")


def gathered(result: dict[str, Any]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for each in result["runs"]:
        for path, number in figures(each):
            found.setdefault(path, []).append(number)
    return found


def verdict(path: str, old: list[float], new: list[float]) -> str:
    """`better`, `worse`, or nothing where the runs overlap or the name tells no direction."""
    if min(old) <= max(new) and min(new) <= max(old):
        return ""
    name = path.rpartition(".")[2].lower()
    grew = statistics.median(new) > statistics.median(old)
    if MORE_IS_BETTER.search(name):
        return "better" if grew else "worse"
    if LESS_IS_BETTER.search(name):
        return "worse" if grew else "better"
    return "differs"


def compare(old: dict[str, Any], new: dict[str, Any]) -> list[dict[str, Any]]:
    """One row per figure that both results have."""
    before, after = gathered(old), gathered(new)
    rows = []
    for path in before:
        if path in after:
            was, now = statistics.median(before[path]), statistics.median(after[path])
            ratio = now / was if was else None
            rows.append(
                {
                    "figure": path,
                    "old": was,
                    "new": now,
                    "ratio": ratio,
                    "spread": max(_spread(before[path]), _spread(after[path])),
                    "verdict": verdict(path, before[path], after[path]),
                }
            )
    return rows


def _spread(numbers: list[float]) -> float:
    middle = statistics.median(numbers)
    return (max(numbers) - min(numbers)) / abs(middle) if middle else 0.0


def print_comparison(old: dict[str, Any], new: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    print(f"{new['benchmark']}: {old['commit']} -> {new['commit']}")
    for key in ("python", "platform", "cores", "options"):
        if old.get(key) != new.get(key):
            print(f"  beware, {key} differs: {old.get(key)} and {new.get(key)}")
    width = max([len(row["figure"]) for row in rows], default=6)
    print(f"{'figure':<{width}}  {'old':>12}  {'new':>12}  {'ratio':>7}  {'spread':>6}")
    for row in rows:
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        line = (
            f"{row['figure']:<{width}}  {row['old']:>12,.4g}  {row['new']:>12,.4g}  {ratio:>7}  {row['spread']:>6.0%}"
        )
        print(f"{line}  {row['verdict']}".rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("list", help="what there is")
    running = actions.add_parser("run", help="run one benchmark")
    running.add_argument("name")
    running.add_argument("--times", type=int, default=1)
    running.add_argument("options", nargs=argparse.REMAINDER, help="after --, handed on to the benchmark")
    comparing = actions.add_parser("compare", help="compare two results")
    comparing.add_argument("old", type=Path)
    comparing.add_argument("new", type=Path)
    comparing.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.action == "list":
        for name, file in programs().items():
            print(f"  {name:<18} {sentence(file)}")
    elif args.action == "run":
        result = run(args.name, args.times, [word for word in args.options if word != "--"])
        text = json.dumps(result, indent=2)
        RESULTS.mkdir(exist_ok=True)
        place = RESULTS / f"{args.name.replace('/', '-')}-{result['at']}.json"
        place.write_text(text + "\n", encoding="utf-8")
        print(text)
        print(f"kept in {place}", file=sys.stderr)
    else:
        old, new = json.loads(args.old.read_text()), json.loads(args.new.read_text())
        if old["benchmark"] != new["benchmark"]:
            sys.exit(f"{old['benchmark']!r} and {new['benchmark']!r} are two benchmarks: compare results of one")
        rows = compare(old, new)
        if args.json:
            print(json.dumps(rows, indent=2))
        else:
            print_comparison(old, new, rows)


if __name__ == "__main__":
    main()
