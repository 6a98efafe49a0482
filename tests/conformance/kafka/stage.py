"""What a case plays on: a cluster to talk to, topics of its own, a folder, and nodes it may end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.apache_kafka import free_port

PATIENCE = 30.0


def settings(bootstrap: str, **more: Any) -> dict[str, Any]:
    """librdkafka's properties, written with underscores."""
    return {"bootstrap.servers": bootstrap, **{name.replace("_", "."): value for name, value in more.items()}}


class Stage:
    def __init__(self, bootstrap: str, case: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.name = f"{case.replace('/', '-').replace('_', '-')}-{os.getpid()}"
        self._topics = 0

    def topic(self, partitions: int = 1, *, bootstrap: str | None = None, **config: Any) -> str:
        """A fresh topic; settings are written with underscores."""
        from confluent_kafka.admin import AdminClient, NewTopic

        self._topics += 1
        name = f"{self.name}-{self._topics}"
        admin = AdminClient({"bootstrap.servers": bootstrap or self.bootstrap})
        asked = NewTopic(
            name, partitions, 1, config={key.replace("_", "."): str(value) for key, value in config.items()}
        )
        admin.create_topics([asked])[name].result(PATIENCE)

        def is_there() -> bool:
            found = admin.list_topics(timeout=10).topics.get(name)
            return found is not None and len(found.partitions) == partitions

        until(is_there)
        return name

    @contextmanager
    def node(self, *words: str) -> Iterator["Node"]:
        """A node of this case's own, which it may kill and start again."""
        node = Node(self.folder / "node", *words)
        node.start()
        try:
            yield node
        finally:
            node.end()


class Node:
    """`runnel serve` on a port that stays the same."""

    def __init__(self, folder: Path, *words: str, port: int = 0) -> None:
        self.port = port or free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._command = [sys.executable, "-m", "runnel", "serve", "--json", "--data-dir", str(folder), *words]
        self._command += ["--kafka", self.bootstrap, "--http", "127.0.0.1:0", "--log-level", "error"]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RUNNEL_")}
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True, env=clean)
        line = self._process.stdout.readline()
        assert line, "the node did not start"
        self.pid = json.loads(line)["pid"]

    def kill(self) -> None:
        """As a power cut would: nothing is finished, nothing is said."""
        self._gone(signal.SIGKILL)

    def kill_one(self) -> None:
        """Kill one of its processes; it is started again by itself."""
        import psutil

        psutil.Process(self.pid).children()[0].kill()

    def end(self) -> None:
        if self._process is not None:
            self._gone(signal.SIGTERM)

    def _gone(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._process = None


def until(truth: Any, patience: float = PATIENCE, what: str = "") -> None:
    """Wait until something holds."""
    end = time.monotonic() + patience
    while not truth():
        assert time.monotonic() < end, f"waited {patience} s in vain for {what or 'what should have come'}"
        time.sleep(0.05)
