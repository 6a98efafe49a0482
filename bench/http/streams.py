"""Durable Streams side by side with the npm reference server: appends, fan-out, replay, many idle streams.

    python bench/http/streams.py [--only appends,fanout,replay,idle] [--seconds 5] [--streams 100,500,2000] [--quick]

Each server is a process of its own and is measured alone, in turns: ours with SQLite and files (durable when it answers,
with fsync), the reference in memory and with its data directory. What counts is the server's processor time, because
the load comes from the same machine: `per_core_s` is answers per second of it. Latencies are in milliseconds, as a
client sees them while the load generator takes its share of the processor.
"""

import argparse
import asyncio
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop

ROOT = Path(__file__).resolve().parents[2]
CONFORMANCE = ROOT / "tests" / "conformance" / "http"
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
START = "0000000000000000_0000000000000000"


# --- servers


class Server:
    """A server process; `cpu` and `rss` are what it has used."""

    def __init__(self, name, command, folder):
        self.name = name
        self.port = free_port()
        self.folder = folder
        self.process = subprocess.Popen(
            [part.replace("{port}", str(self.port)).replace("{folder}", folder) for part in command],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self):
        give_up = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            except OSError:
                if self.process.poll() is not None or time.monotonic() > give_up:
                    self.__exit__()
                    raise SystemExit(f"{self.name} did not open its port") from None
                time.sleep(0.05)
            else:
                time.sleep(0.5)
                return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def cpu(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def rss(self):
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * PAGE


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


def ours():
    command = [
        sys.executable, "-m", "runnel", "serve", "--data-dir", "{folder}/node", "--http", "127.0.0.1:{port}",
        "--kafka", "127.0.0.1:0", "--log-level", "error",
    ]  # fmt: skip
    return Server("runnel", command, tempfile.mkdtemp(prefix="runnel-bench-"))


def reference():
    command = ["node", str(CONFORMANCE / "reference.mjs"), "{port}"]
    return Server("reference, in memory", command, tempfile.mkdtemp(prefix="runnel-bench-"))


def reference_on_disk():
    command = ["node", str(CONFORMANCE / "reference.mjs"), "{port}", "1500", "{folder}/data"]
    return Server("reference, on disk", command, tempfile.mkdtemp(prefix="runnel-bench-"))


# --- the load


class Client(asyncio.Protocol):
    """One connection with one request in flight; whole answers come to `ask`, pieces of a stream to `on_piece`."""

    def __init__(self):
        self.buffer = b""
        self.waiting = None
        self.on_piece = None

    @classmethod
    async def connect(cls, port):
        _, client = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return client

    def connection_made(self, transport):
        self.transport = transport

    def connection_lost(self, _):
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_exception(ConnectionError("the server hung up"))

    def data_received(self, data):
        if self.on_piece is not None:
            self.on_piece(data)
            return
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower()
            status = int(head[9:12])
            if b"transfer-encoding: chunked" in head:
                stop = self.buffer.find(b"\r\n0\r\n\r\n", end)
                if stop < 0:
                    return
                whole = stop + 7
            else:
                at = head.find(b"content-length: ")
                length = int(head[at + 16 :].split(b"\r", 1)[0]) if at >= 0 else 0
                whole = end + 4 + length
            if len(self.buffer) < whole:
                return
            body, self.buffer = self.buffer[end + 4 : whole], self.buffer[whole:]
            self.waiting.set_result((status, head, body))

    def ask(self, method, path, body=b"", headers=""):
        self.waiting = asyncio.get_running_loop().create_future()
        length = f"content-length: {len(body)}\r\n" if body or method in {"PUT", "POST"} else ""
        self.transport.write(f"{method} {path} HTTP/1.1\r\nhost: x\r\n{headers}{length}\r\n".encode() + body)
        return self.waiting

    def close(self):
        self.transport.close()


BYTES = "content-type: application/octet-stream\r\n"
TEXT = "content-type: text/plain\r\n"


async def make(port, names, headers=BYTES, connections=32):
    """Create streams over a few connections."""
    pending = iter(names)

    async def work():
        client = await Client.connect(port)
        for name in pending:
            status, _, _ = await client.ask("PUT", f"/v1/stream/{name}", headers=headers)
            assert status in {200, 201}, status
        client.close()

    await asyncio.gather(*(work() for _ in range(connections)))


def percentile(values, share):
    values = sorted(values)
    return round(values[min(len(values) - 1, int(share * len(values)))] * 1000, 2) if values else None


async def appends(server, streams, seconds):
    """A writer for every stream, each with one append under way."""
    await make(server.port, [f"a{number}" for number in range(streams)])
    body = b"x" * 256
    clients = [await Client.connect(server.port) for _ in range(streams)]
    latencies, refused = [], []
    counting = False
    stop = False

    async def write(client, path):
        while not stop:
            began = time.perf_counter()
            status, _, _ = await client.ask("POST", path, body, BYTES)
            if status not in {200, 204}:
                refused.append(status)
            elif counting:
                latencies.append(time.perf_counter() - began)

    tasks = [asyncio.ensure_future(write(client, f"/v1/stream/a{number}")) for number, client in enumerate(clients)]
    await asyncio.sleep(min(1.0, seconds / 3))
    counting = True
    cpu, began = server.cpu(), time.perf_counter()
    await asyncio.sleep(seconds)
    took, used = time.perf_counter() - began, server.cpu() - cpu
    counting, stop = False, True
    done = len(latencies)
    await asyncio.gather(*tasks)
    for client in clients:
        client.close()
    return {
        "per_s": round(done / took),
        "per_core_s": round(done / used) if used else None,
        "cpu_share": round(used / took, 2),
        "p50_ms": percentile(latencies, 0.5),
        "p99_ms": percentile(latencies, 0.99),
        "refused": len(refused),
    }


async def fanout(server, readers, rate, seconds):
    """Every reader gets every event; the event carries the time at which it was sent."""
    await make(server.port, ["fan"], TEXT)
    latencies = []
    clients = []
    opened = 0

    def listener():
        rest = b""
        open_yet = False

        def piece(data):
            nonlocal rest, open_yet, opened
            now = time.perf_counter()
            if not open_yet and b"event: control" in data:
                open_yet = True
                opened += 1
            rest += data
            while (at := rest.find(b"sent=")) >= 0:
                end = rest.find(b";", at)
                if end < 0:
                    rest = rest[at:]
                    return
                latencies.append(now - float(rest[at + 5 : end]))
                rest = rest[end:]
            rest = rest[-8:]

        return piece

    for _ in range(readers):
        client = await Client.connect(server.port)
        client.on_piece = listener()
        client.transport.write(b"GET /v1/stream/fan?offset=now&live=sse HTTP/1.1\r\nhost: x\r\n\r\n")
        clients.append(client)
    async with asyncio.timeout(30):
        while opened < readers:  # noqa: ASYNC110  the program is its own world
            await asyncio.sleep(0.01)
    writer = await Client.connect(server.port)
    latencies.clear()
    cpu, began = server.cpu(), time.perf_counter()
    sent = 0
    while sent < rate * seconds:
        due = began + sent / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await writer.ask("POST", "/v1/stream/fan", b"sent=%.6f;%b" % (time.perf_counter(), b"x" * 100), TEXT)
        sent += 1
    took = time.perf_counter() - began
    used = server.cpu() - cpu
    await asyncio.sleep(1.0)
    for client in clients:
        client.close()
    writer.close()
    return {
        "delivered_share": round(len(latencies) / (sent * readers), 4),
        "events_per_s": round(sent / took, 1),
        "deliveries_per_core_s": round(len(latencies) / used) if used else None,
        "p50_ms": percentile(latencies, 0.5),
        "p99_ms": percentile(latencies, 0.99),
    }


async def replay(server, clients, messages, size):
    """All clients read the whole stream at the same time."""
    await make(server.port, ["replay"])
    writer = await Client.connect(server.port)
    for _ in range(messages):
        await writer.ask("POST", "/v1/stream/replay", b"x" * size, BYTES)
    writer.close()
    readers = [await Client.connect(server.port) for _ in range(clients)]
    latencies = []

    async def read(client):
        began = time.perf_counter()
        offset, got = "-1", 0
        while True:
            status, head, body = await client.ask("GET", f"/v1/stream/replay?offset={offset}")
            assert status == 200, status
            got += len(body)
            if b"stream-up-to-date: true" in head:
                break
            offset = head.split(b"stream-next-offset: ", 1)[1].split(b"\r", 1)[0].decode()
        assert got >= messages * size, got
        latencies.append(time.perf_counter() - began)

    cpu, began = server.cpu(), time.perf_counter()
    await asyncio.gather(*map(read, readers))
    took, used = time.perf_counter() - began, server.cpu() - cpu
    for client in readers:
        client.close()
    return {
        "all_ms": round(took * 1000, 1),
        "mb_s": round(clients * messages * size / took / 1e6, 1),
        "per_core_s": round(clients / used) if used else None,
        "p99_ms": percentile(latencies, 0.99),
    }


async def idle(server, streams, tails):
    """How fast streams are made, and what they and their open tails weigh."""
    before = server.rss()
    cpu, began = server.cpu(), time.perf_counter()
    await make(server.port, [f"idle/{number}" for number in range(streams)], connections=256)
    took, used = time.perf_counter() - began, server.cpu() - cpu
    made = server.rss()
    clients = []
    for number in range(tails):
        client = await Client.connect(server.port)
        client.on_piece = len
        path = f"/v1/stream/idle/{number * max(1, streams // tails)}?offset=now&live=sse"
        client.transport.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        clients.append(client)
        if number % 200 == 199:
            await asyncio.sleep(0.01)
    await asyncio.sleep(2.0)
    end = server.rss()
    for client in clients:
        client.close()
    return {
        "created_per_s": round(streams / took),
        "created_per_core_s": round(streams / used),
        "rss_empty_mb": round(before / 1e6, 1),
        "rss_streams_mb": round(made / 1e6, 1),
        "rss_with_tails_mb": round(end / 1e6, 1),
        "bytes_per_stream": round((made - before) / streams),
        "bytes_per_tail": round((end - made) / tails),
    }


def ratio(mine, theirs, name):
    return round(mine[name] / theirs[name], 2) if mine.get(name) and theirs.get(name) else None


def run(make_server, work, *arguments):
    with make_server() as server:
        loop = uvloop.new_event_loop()
        try:
            return loop.run_until_complete(work(server, *arguments))
        finally:
            loop.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="appends,fanout,replay,idle")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--streams", default="100,500,2000")
    parser.add_argument("--alone", action="store_true", help="without the reference server")
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))
    if not options.alone and not (CONFORMANCE / "node_modules").exists():
        subprocess.run([sys.executable, str(CONFORMANCE / "run.py"), "--reference", "--only", "nothing"], check=False)
    only = options.only.split(",")
    scale = 20 if options.quick else 1
    peers = {} if options.alone else {"reference_memory": reference, "reference_disk": reference_on_disk}
    found = {"ursula_published_per_core_s": 866}
    if "appends" in only:
        for streams in map(int, options.streams.split(",")):
            rows = {"runnel": run(ours, appends, max(1, streams // scale), options.seconds)}
            rows |= {
                name: run(peer, appends, max(1, streams // scale), options.seconds) for name, peer in peers.items()
            }
            rows["ratio_to_ursula"] = round(rows["runnel"]["per_core_s"] / 866, 2)
            rows |= {f"ratio_to_{name}": ratio(rows["runnel"], rows[name], "per_core_s") for name in peers}
            found[f"appends_{streams}_streams"] = rows
    if "fanout" in only:
        arguments = (max(1, 1000 // scale), 50, options.seconds)
        rows = {"runnel": run(ours, fanout, *arguments)}
        rows |= {name: run(peer, fanout, *arguments) for name, peer in list(peers.items())[:1]}
        found["fanout_1000_readers_50_events_s"] = rows
    if "replay" in only:
        arguments = (max(1, 1000 // scale), 200, 1024)
        rows = {"runnel": run(ours, replay, *arguments)}
        rows |= {name: run(peer, replay, *arguments) for name, peer in list(peers.items())[:1]}
        found["replay_200_kib_to_1000"] = rows
    if "idle" in only:
        found["idle_100000_streams_10000_tails"] = {"runnel": run(ours, idle, 100_000 // scale, 10_000 // scale)}
    json.dump(found, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
