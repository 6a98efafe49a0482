"""How long people wait: `runnel --help`, a node from call to ready; and what an idle node takes.

python bench/start.py [--rounds 5] [--idle 10]
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNNEL = [sys.executable, "-m", "runnel"]


def help_seconds() -> float:
    begun = time.perf_counter()
    subprocess.run([*RUNNEL, "--help"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def node(folder: str, idle: float) -> dict[str, float]:
    begun = time.perf_counter()
    words = [
        *RUNNEL,
        "serve",
        "--data-dir",
        folder,
        "--http",
        "127.0.0.1:0",
        "--kafka",
        "127.0.0.1:0",
        "--log-level",
        "error",
    ]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    ready = time.perf_counter() - begun
    time.sleep(min(idle, 1.0))
    before = cpu_seconds(process.pid)
    time.sleep(idle)
    found = {
        "ready_seconds": ready,
        "idle_cpu_percent_of_a_core": 100 * (cpu_seconds(process.pid) - before) / idle if idle else 0.0,
        "idle_rss_mb": int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6,
    }
    begun = time.perf_counter()
    process.send_signal(signal.SIGTERM)
    process.wait()
    process.stdout.close()
    return found | {"stop_seconds": time.perf_counter() - begun}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--idle", type=float, default=10.0, help="seconds of watching an idle node")
    args = parser.parse_args()
    result = {"help_seconds": statistics.median(help_seconds() for _ in range(args.rounds))}
    with tempfile.TemporaryDirectory() as folder:
        result["first_start"] = node(f"{folder}/data", 0)
        rounds = [node(f"{folder}/data", 0) for _ in range(args.rounds)]
        result["start"] = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
        result["idle"] = node(f"{folder}/data", args.idle)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
