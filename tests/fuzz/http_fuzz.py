"""Sends bent requests and garbage to a node's HTTP door for a while: `python tests/fuzz/http_fuzz.py --seconds 60 --seed 1`.

Each round takes a request that makes sense to some route and bends it: paths, queries, headers, offsets, JSON, lengths,
bytes; or lets its body stop half-way, or sends it a byte at a time. The node may answer with any status but 500, or hang
up; it must not log a mishap, must not grow beyond a bound, and must serve a plain request at any time. A failure prints
the round's seed and the request; the same seed gives the same rounds.
"""

# A program of its own that prints, lives by the real clock and brings its own seed:
# ruff: noqa: T201, TID251

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GROWTH_BYTES_MAX = 160 << 20
"""What a node may gain: caches fill up to their bounds, and streams are made."""
ANSWER_SECONDS = 20.0
AT_ONCE = 16

TOKEN = "0000000000000001_0000000000000000"
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}
PRODUCER = {"producer-id": "p", "producer-epoch": "0", "producer-seq": "0"}
WEBHOOK = {"type": "webhook", "pattern": "a/*", "webhook": {"url": "http://127.0.0.1:9/"}, "lease_ttl_ms": 1000}
PULL = {"type": "pull-wake", "streams": ["a/1"], "wake_stream": "wakes", "lease_ttl_ms": 1000}

# Method, path, headers, body: each of them is fine as it stands.
SENSIBLE = [
    ("PUT", "/v1/stream/a/1", JSON, b'[{"a": 1}, 2]'),
    ("PUT", "/v1/stream/a/2", {**TEXT, "stream-ttl": "60"}, b"text"),
    ("PUT", "/v1/stream/a/3", {"stream-forked-from": "/v1/stream/a/1", "stream-fork-offset": TOKEN}, b""),
    ("PUT", "/v1/stream/a/4", {"stream-expires-at": "2030-01-01T00:00:00Z", "stream-closed": "true"}, b"x"),
    ("POST", "/v1/stream/a/1", {**JSON, **PRODUCER}, b'{"b": "\\ud83d\\ude00"}'),
    ("POST", "/v1/stream/a/2", {**TEXT, "stream-seq": "b"}, b"more text"),
    ("POST", "/v1/stream/a/2", {"stream-closed": "true"}, b""),
    ("GET", f"/v1/stream/a/1?offset={TOKEN}", {}, b""),
    ("GET", "/v1/stream/a/1?offset=-1", {"if-none-match": '"x"', "accept-encoding": "gzip"}, b""),
    ("GET", "/v1/stream/a/4?offset=-1&live=sse&cursor=5", {}, b""),
    ("GET", "/v1/stream/a/4?offset=now&live=long-poll", {}, b""),
    ("HEAD", "/v1/stream/a/1", {}, b""),
    ("DELETE", "/v1/stream/a/3", {}, b""),
    ("OPTIONS", "/v1/stream/a/1", {"origin": "https://example.com"}, b""),
    ("GET", "/v1/topic/v1-stream.a..2F1/0?offset=0&format=raw", {}, b""),
    ("GET", "/v1/topic/orders/0?offset=now", {"last-event-id": "5"}, b""),
    ("PUT", "/v1/stream/__ds/subscriptions/s", JSON, json.dumps(WEBHOOK).encode()),
    ("PUT", "/v1/stream/__ds/subscriptions/t", JSON, json.dumps(PULL).encode()),
    ("POST", "/v1/stream/__ds/subscriptions/t/claim", JSON, b'{"worker": "w"}'),
    ("POST", "/v1/stream/__ds/subscriptions/t/ack", {**JSON, "authorization": "Bearer e30.x"}, b'{"generation": 1, "wake_id": "w", "acks": [{"stream": "a/1", "offset": "-1"}], "done": true}'),
    ("POST", "/v1/stream/__ds/subscriptions/t/streams", JSON, b'{"streams": ["a/2"]}'),
    ("GET", "/v1/stream/__ds/subscriptions/t", {}, b""),
    ("PUT", "/some-bucket", {}, b""),
    ("PUT", "/some-bucket/a", JSON, b"[1]"),
    ("POST", "/some-bucket/a/append-batch", JSON, b"\0\0\0\x011\0\0\0\x012"),
    ("GET", "/some-bucket/a?record=0&max_records=1", {}, b""),
    ("GET", "/some-bucket/streams?limit=10&prefix=a", {}, b""),
    ("PUT", "/some-bucket/a/attrs", JSON, b'{"title": "t"}'),
    ("PUT", "/some-bucket/a/snapshot/00000000000000000001", JSON, b"{}"),
    ("GET", "/some-bucket/a/bootstrap", {}, b""),
    ("GET", "/healthz", {}, b""),
    ("GET", "/metrics", {}, b""),
    ("POST", "/subjects/s/versions", JSON, b'{"schema": "\\"string\\""}'),
    ("GET", "/subjects?deleted=true", {}, b""),
]  # fmt: skip

ODD = [
    "", " ", "\t", "%00", "%2e%2e", "..", ".", "//", "%2F", "%", "%zz", "%ff", "+", "&", "=", "?", "#", "\\", "{", "}", "[", "]",
    "-1", "now", "-2", "0", "1e9", "99999999999999999999", "0" * 300, "\xff", "é", "a" * 5000, "true", "null", '"', "'", ";",
    "*", "**", "__ds", "$transaction", "\r\n x: y", "\n", "\0", "chunked", "gzip, chunked", "100-continue", "h2c",
]  # fmt: skip
HEADERS = [
    "content-type", "content-length", "transfer-encoding", "host", "connection", "expect", "upgrade", "stream-ttl",
    "stream-expires-at", "stream-seq", "stream-closed", "stream-forked-from", "stream-fork-offset", "producer-id",
    "stream-fork-sub-offset", "producer-epoch", "producer-seq", "if-none-match", "authorization", "stream-record-match",
    "accept-encoding", "last-event-id", "x-forwarded-proto", "prefer", "stream-attrs",
]  # fmt: skip


def bent(luck: random.Random) -> bytes:
    """The bytes of one request."""
    method, path, headers, body = luck.choice(SENSIBLE)
    headers = {"host": "x", **headers}
    lying = False
    for _ in range(luck.randint(0, 3)):
        what = luck.randrange(7)
        if what == 0:
            path = inserted(path, luck.choice(ODD), luck)
        elif what == 1:
            headers[luck.choice(HEADERS)] = luck.choice(ODD)
        elif what == 2:
            name = luck.choice(list(headers))
            headers[name] = inserted(headers[name], luck.choice(ODD), luck)
        elif what == 3:
            body = bytes(bent_bytes(body, luck))
        elif what == 4:
            headers.pop(luck.choice(list(headers)))
            headers.setdefault("x", "y")
        elif what == 5:
            method = luck.choice(
                ["GET", "PUT", "POST", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "BREW", ""]
            )
        else:
            headers["content-length"] = luck.choice(["-1", "0", str(len(body) + 5), "1", "x", str(1 << 40)])
            lying = True
    if body and not lying and luck.random() < 0.9:
        headers["content-length"] = str(len(body))
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    raw = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body
    return bytes(bent_bytes(raw, luck)) if luck.random() < 0.05 else raw


def inserted(text: str, piece: str, luck: random.Random) -> str:
    at = luck.randint(0, len(text))
    return text[:at] + piece + text[at + luck.choice([0, 0, 1, 5]) :]


def bent_bytes(data: bytes, luck: random.Random) -> bytearray:
    out = bytearray(data)
    for _ in range(luck.randint(1, 4)):
        at = luck.randint(0, len(out))
        what = luck.randrange(4)
        if what == 0 and out:
            out[at % len(out)] = luck.randrange(256)
        elif what == 1:
            out[at:at] = luck.randbytes(luck.randint(1, 20))
        elif what == 2:
            del out[at : at + luck.randint(1, 10)]
        else:
            out[at:at] = luck.choice([b"[" * 3000, b"\xed\xa0\x80", b'{"a":' * 500, b"\0\0\xff\xff", b"1e400", b"NaN"])
    return out


async def throw(port: int, seed: int) -> str | None:
    """One connection with a few requests; what was wrong with the answers."""
    luck = random.Random(seed)
    requests = [bent(luck) for _ in range(luck.randint(1, 4))]
    data = b"".join(requests)
    if luck.random() < 0.1:
        data = data[: luck.randint(0, len(data))]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answered = b""
    try:
        step = luck.choice([len(data) or 1] * 8 + [1 + len(data) // 7])
        for at in range(0, len(data), step):
            writer.write(data[at : at + step])
            await writer.drain()
        if luck.random() < 0.7:
            writer.write_eof()
        try:
            async with asyncio.timeout(luck.choice([0.05, 0.3])):
                answered = await reader.read(1 << 20)
        except TimeoutError:
            pass
    except OSError:
        pass
    finally:
        writer.close()
    if answered and not answered.startswith(b"HTTP/1.1 "):
        return f"no HTTP: {answered[:80]!r}"
    if b"HTTP/1.1 500 " in answered or b"Traceback" in answered:
        return f"{answered[:400]!r} to {requests!r}"
    return None


async def plain(port: int) -> None:
    """The node still serves."""
    async with asyncio.timeout(ANSWER_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200 "), f"the node is ill: {answer[:400]!r}"


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def fuzz(port: int, pid: int, seconds: float, seed: int) -> str | None:
    end = time.monotonic() + seconds
    rounds = 0
    settled = 0
    while time.monotonic() < end:
        seeds = range(seed + rounds, seed + rounds + AT_ONCE)
        for number, wrong in zip(seeds, await asyncio.gather(*(throw(port, each) for each in seeds)), strict=True):
            if wrong is not None:
                return f"seed {number}: {wrong}"
        rounds += AT_ONCE
        if rounds % (10 * AT_ONCE) == 0:
            await plain(port)
            settled = settled or resident(pid)
            if resident(pid) > settled + GROWTH_BYTES_MAX:
                return f"grew from {settled >> 20} to {resident(pid) >> 20} MiB in {rounds} rounds"
    await plain(port)
    print(json.dumps({"rounds": rounds, "resident_mib": resident(pid) >> 20}))
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="runnel-fuzz-") as folder, Path(folder, "log").open("w+b") as log:
        node = subprocess.Popen(
            [
                sys.executable, "-m", "runnel", "serve", "--json", "--data-dir", f"{folder}/data", "--objects", "memory://",
                "--ledger", "memory:", "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", "--http-long-poll-ms", "50",
            ],
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, "RUNNEL_TABLE_SERVICE": "false"},
        )  # fmt: skip
        try:
            assert node.stdout is not None
            ready = json.loads(node.stdout.readline())
            port = int(ready["ready"]["http"].rsplit(":", 1)[1])
            wrong = asyncio.run(fuzz(port, node.pid, options.seconds, options.seed))
        finally:
            node.terminate()
            node.communicate(timeout=30)
        log.seek(0)
        told = log.read().decode(errors="replace")
    mishap = next(
        (at for word in ("request_failed", "tail_failed", "task_died", "Traceback") if (at := told.find(word)) >= 0), -1
    )
    if wrong is None and mishap >= 0:
        wrong = f"a mishap in the log: {told[max(0, mishap - 200) : mishap + 2500]}"
    if wrong is None and node.returncode:
        wrong = f"the node ended with {node.returncode}"
    if wrong is not None:
        print(wrong, file=sys.stderr)
    return 1 if wrong is not None else 0


if __name__ == "__main__":
    sys.exit(main())
