"""Apache Kafka itself, as a peer for benchmarks and as the maker of Java tools: fetched from Maven, started on loopback.

    from tools.apache_kafka import ApacheKafka, java_tool

    with ApacheKafka(folder, flush_every_message=False) as kafka:     one broker, KRaft, a fresh log
        kafka.bootstrap, kafka.pid
    java_tool("org.apache.kafka.tools.TopicCommand", "--list", …)    the command of a console tool

`python tools/apache_kafka.py` fetches the jars (about 60 MB, kept in .cache) and prints the class path. Needs Java 17
and mvn (Debian: maven).
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Self

VERSION = "4.3.1"
CACHE = Path(__file__).resolve().parent.parent / ".cache" / f"apache-kafka-{VERSION}"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>peer</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version></dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version></dependency>
</dependencies></project>
"""
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
QUIET = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=error",)


def jars() -> Path:
    """The folder with Kafka's jars, fetched at first."""
    done = CACHE / ".done"
    if not done.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "pom.xml").write_text(POM)
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={CACHE / 'jars'}"]
        subprocess.run(command, cwd=CACHE, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        done.touch()
    return CACHE / "jars"


def java_tool(main: str, *words: str, heap: str = "256m") -> list[str]:
    """The command that runs a class of Kafka's."""
    return ["java", f"-Xmx{heap}", *QUIET, "-cp", f"{jars()}/*", main, *words]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class ApacheKafka:
    """One broker that is its own controller, with the settings that the project ships; gone when the block is left."""

    def __init__(self, folder: Path | None = None, *, heap: str = "1g", settings: dict[str, str] | None = None) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="apache-kafka-") if folder is None else None
        self.folder = Path(self._own.name) if self._own else Path(folder or ".")
        self._heap = heap
        self._settings = settings or {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        port, controller = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / "log"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        } | self._settings
        file = self.folder / "server.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with (self.folder / "broker.log").open("wb") as log:
            formatting = java_tool("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(file))
            subprocess.run(formatting, check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            serving = java_tool("kafka.Kafka", str(file), heap=self._heap)
            self._process = subprocess.Popen(serving, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._await_port(port)
        return self

    def _await_port(self, port: int) -> None:
        assert self._process is not None
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.1)
        self.__exit__()
        raise RuntimeError(f"Apache Kafka did not start: {(self.folder / 'broker.log').read_text()[-2000:]}")

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._own is not None:
            self._own.cleanup()


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used, its threads included."""
    facts = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(facts[11]) + int(facts[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print(f"{jars()}/*")
