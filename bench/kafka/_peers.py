"""The brokers that are compared, each started fresh on loopback with its own folder: Runnel, and Apache Kafka.

runnel         durable: fsync of file and folder, then a SQLite commit, before an answer
kafka          as it ships: the page cache is what is acknowledged
kafka-flush    log.flush.interval.messages=1: every batch is synced before an answer
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.apache_kafka import ApacheKafka, cpu_seconds, free_port

PEERS = ("runnel", "kafka", "kafka-flush")


@dataclass
class Peer:
    name: str
    bootstrap: str
    pids: list[int]

    def cpu(self) -> float:
        return sum(cpu_seconds(pid) for pid in self.pids)

    def rss_mb(self) -> float:
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids)
        return pages * os.sysconf("SC_PAGESIZE") / 1e6


@contextmanager
def started(name: str, *, options: tuple[str, ...] = (), heap: str = "1g") -> Iterator[Peer]:
    """A fresh broker of one kind, gone with its data at the end."""
    with tempfile.TemporaryDirectory(prefix=f"bench-{name}-") as folder:
        if name == "runnel":
            with runnel(Path(folder), options) as peer:
                yield peer
        else:
            flush = {"log.flush.interval.messages": "1"} if name == "kafka-flush" else {}
            with ApacheKafka(Path(folder), heap=heap, settings=flush) as kafka:
                yield Peer(name, kafka.bootstrap, [kafka.pid])


@contextmanager
def runnel(folder: Path, options: tuple[str, ...] = ()) -> Iterator[Peer]:
    bootstrap = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "runnel", "serve", "--json", "--kafka", bootstrap, "--http", "127.0.0.1:0"]
    command += ["--data-dir", str(folder / "data"), "--log-level", "warning", "--no-table-service", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        ready = json.loads(process.stdout.readline())
        yield Peer("runnel", bootstrap, [ready["pid"]])
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
