"""Which HTTP server carries the append path? All candidates in one run, each measured alone, in turns.

The shape: POST of 256 bytes over keep-alive connections, a tiny answer that is completed by a callback later (once
per turn of the loop, for all that came in), not inside the handler. What counts is CPU time of the server per request.

    python bench/http/servers.py [--connections 64] [--seconds 2] [--pipeline 1] [--rounds 3]  > result.json

Candidates that are not installed are left out: uvicorn and granian are no dependencies of the project. Run it with a
Python that has them, and httptools, uvloop, crc32c and prometheus-client for our own server.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[2] / "src"))  # so that a Python without the project can run it
BODY = b"x" * 256
REQUEST = b"POST /v1/stream/orders HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/octet-stream\r\nAccept: */*\r\nUser-Agent: bench\r\nContent-Length: 256\r\n\r\n"
OFFSET = "0000000000000000_0000000000000025"


# --- servers ---------------------------------------------------------------------------------------------------------


class Later:
    """Completes everything that came in during one turn of the loop together, as a flush does."""

    def __init__(self):
        self.waiting = []

    def soon(self, callback):
        if not self.waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self.waiting.append(callback)

    def flush(self):
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback()


later = Later()


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    done = asyncio.get_running_loop().create_future()
    later.soon(lambda: done.set_result(len(body)))
    await done
    await send({"type": "http.response.start", "status": 204, "headers": [(b"stream-next-offset", OFFSET.encode())]})
    await send({"type": "http.response.body", "body": b""})


def serve_uvicorn(port):
    import uvicorn

    uvicorn.run(asgi, host="127.0.0.1", port=port, loop="uvloop", http="httptools", log_level="error", access_log=False)


def serve_granian(port):
    from granian import Granian
    from granian.constants import Interfaces

    Granian(
        "servers:asgi",
        address="127.0.0.1",
        port=port,
        interface=Interfaces.ASGI,
        workers=1,
        log_enabled=False,
        loop="uvloop",
    ).serve()


def serve_bare(port):
    """The least that could work: no limits, no order, no time-outs. The ceiling for any server on this parser."""
    import httptools
    import uvloop

    answer = f"HTTP/1.1 204 No Content\r\nStream-Next-Offset: {OFFSET}\r\n\r\n".encode()

    class Bare(asyncio.Protocol):
        def connection_made(self, transport):
            self.transport = transport
            self.parser = httptools.HttpRequestParser(self)
            self.headers = {}

        def data_received(self, data):
            self.parser.feed_data(data)

        def on_url(self, url):
            self.url = url

        def on_header(self, name, value):
            self.headers[name.lower()] = value

        def on_body(self, body):
            self.body = body

        def on_message_complete(self):
            later.soon(lambda: self.transport.write(answer))

    async def main():
        server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", port)
        await server.serve_forever()

    uvloop.run(main())


def serve_runnel(port):
    import uvloop

    from runnel.api.server import HttpServer, Response
    from runnel.world.clock import SystemClock

    def handle(_request, respond):
        later.soon(lambda: respond(Response(204, {"stream-next-offset": OFFSET})))

    async def main():
        await HttpServer(handle, clock=SystemClock()).start("127.0.0.1", port)
        await asyncio.Event().wait()

    uvloop.run(main())


SERVERS = {"bare": serve_bare, "runnel": serve_runnel, "uvicorn": serve_uvicorn, "granian": serve_granian}
NEEDS = {"bare": "httptools", "runnel": "runnel", "uvicorn": "uvicorn", "granian": "granian"}


# --- load ------------------------------------------------------------------------------------------------------------


class Client(asyncio.Protocol):
    """Keeps `pipeline` requests in flight on one connection; counts answers by their empty line."""

    def __init__(self, load):
        self.load, self.tail, self.sent_at = load, b"", []

    def connection_made(self, transport):
        self.transport = transport
        self.send(self.load.pipeline)

    def send(self, count):
        self.sent_at += [time.perf_counter()] * count
        self.transport.write((REQUEST + BODY) * count)

    def data_received(self, data):
        data = self.tail + data
        count = data.count(b"\r\n\r\n")
        self.tail = data[data.rfind(b"\r\n\r\n") + 4 :] if count else data
        if b" 204 " not in data[:16] and count:
            raise SystemExit(f"unexpected answer {data[:200]!r}")
        now = time.perf_counter()
        self.load.latencies += [now - at for at in self.sent_at[:count]]
        del self.sent_at[:count]
        if not self.load.over:
            self.send(count)


class Load:
    def __init__(self, pipeline):
        self.pipeline, self.latencies, self.over = pipeline, [], False


async def drive(port, connections, seconds, pipeline, pid):
    loop, load = asyncio.get_running_loop(), Load(pipeline)
    for _ in range(connections):
        await loop.create_connection(lambda: Client(load), "127.0.0.1", port)
    await asyncio.sleep(0.3)
    load.latencies.clear()
    cpu, start = cpu_of(pid), time.perf_counter()
    await asyncio.sleep(seconds)
    count, spent, wall = len(load.latencies), cpu_of(pid) - cpu, time.perf_counter() - start
    load.over = True
    latencies = sorted(load.latencies[:count])
    await asyncio.sleep(0.1)
    return {
        "requests_per_second": round(count / wall),
        "requests_per_cpu_second": round(count / spent),
        "p50_ms": round(latencies[count // 2] * 1000, 3),
        "p99_ms": round(latencies[int(count * 0.99)] * 1000, 3),
    }


def tree(pid):
    pids = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                pids += tree(int(child))
    return pids


def cpu_of(pid):
    """CPU seconds of a process and its children, all threads."""
    ticks = 0
    for each in tree(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def measure(name, options):
    import uvloop

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(HERE), "--serve", name, str(port)], cwd=HERE.parent)
    try:
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)
        return uvloop.run(drive(port, options.connections, options.seconds, options.pipeline, server.pid))
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            server.wait(5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--pipeline", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--serve", nargs=2)
    options = parser.parse_args()
    if options.serve:
        SERVERS[options.serve[0]](int(options.serve[1]))
        return
    names = [name for name in SERVERS if importlib.util.find_spec(NEEDS[name])]
    rounds = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            rounds[name].append(measure(name, options))
    result = {
        "shape": {"body_bytes": 256, **{key: value for key, value in vars(options).items() if key != "serve"}},
        "python": sys.version.split()[0],
        "client_cpu_seconds": round(resource.getrusage(resource.RUSAGE_SELF).ru_utime, 1),
        "servers": {
            name: {key: statistics.median(run[key] for run in runs) for key in runs[0]} for name, runs in rounds.items()
        },
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
