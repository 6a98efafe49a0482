"""Random operations against our server and the protocol's reference server; every difference needs an explanation.

    python tests/conformance/http/differential.py [--runs 20] [--steps 200] [--seed 1] [--url http://127.0.0.1:8080]

Both servers get the same operations on streams of their own. Offsets are tokens that each server mints, so they are
compared by their place: the third token that one server returned for a stream must be the third of the other. What may
differ, and why, stands in EXPLANATIONS; anything else is printed with the run's seed and step, and the exit code is 1.
"""

import argparse
import contextlib
import http.client
import json
import random  # noqa: TID251  a run is drawn from its seed, outside the house
import sys
import tempfile
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent))
from run import OUR_NODE, free_port, install, reference, started

PATHS = ("a", "b", "c")
TYPES = ("text/plain", "application/json", "application/octet-stream", "TEXT/PLAIN; charset=utf-8")
COMPARED = (
    "content-type", "stream-closed", "stream-up-to-date", "stream-ttl", "producer-epoch", "producer-seq",
    "producer-expected-seq", "producer-received-seq",
)  # fmt: skip
START = "0000000000000000_0000000000000000"
BAD_OFFSETS = ("", "x", "-2", "1,2", "..", "now%20", "0_0_0", "%00")


class Server:
    """One side: its address, and the tokens it has minted for each stream, in order."""

    def __init__(self, url, root):
        self.netloc = urlsplit(url).netloc
        self.root = root
        self.connection = http.client.HTTPConnection(self.netloc, timeout=20)
        self.tokens = {path: [] for path in PATHS}

    def ask(self, operation):
        headers = dict(operation["headers"])
        if "fork" in operation:
            headers["Stream-Forked-From"] = f"{self.root}{operation['fork']}"
            if operation.get("fork_at") is not None:
                headers["Stream-Fork-Offset"] = self.token(operation["fork"], operation["fork_at"])
        target = f"{self.root}{operation['path']}"
        if "offset" in operation:
            offset = operation["offset"]
            text = self.token(operation["path"], offset) if isinstance(offset, int) else offset
            target += f"?offset={text}"
        self.connection.request(operation["method"], target, operation["body"], headers)
        response = self.connection.getresponse()
        body = response.read()
        told = {name.lower(): value for name, value in response.getheaders()}
        self.learn(operation, response.status, told)
        return {
            "status": response.status,
            "body": body.decode("latin-1") if operation["method"] == "GET" and response.status == 200 else "",
            "place": self.place(operation["path"], told.get("stream-next-offset")),
            **{name: told.get(name) if response.status < 400 or name != "content-type" else None for name in COMPARED},
        }

    def token(self, path, index):
        tokens = self.tokens[path]
        return tokens[index % len(tokens)] if tokens else START

    def learn(self, operation, status, told):
        path, token = operation["path"], told.get("stream-next-offset")
        if operation["method"] == "PUT" and status == 201:
            self.tokens[path] = []  # a new stream has new places
        if token is not None and status < 300 and token not in self.tokens[path]:
            self.tokens[path].append(token)

    def place(self, path, token):
        if token is None:
            return None
        return self.tokens[path].index(token) if token in self.tokens[path] else "unknown"


def operation(luck, known):
    """Something to do; mostly sensible, now and then not."""
    path = luck.choice(PATHS)
    kind = luck.choices(("append", "read", "make", "head", "delete", "fork"), (45, 25, 10, 8, 4, 8))[0]
    headers = {}
    done = {"path": path, "headers": headers, "body": None, "kind": kind}
    if kind == "append":
        done["method"] = "POST"
        content_type = known.get(path, "text/plain") if luck.random() < 0.9 else luck.choice(TYPES)
        headers["Content-Type"] = content_type
        done["body"] = body(luck, content_type) if luck.random() < 0.9 else b""
        if luck.random() < 0.05:
            headers["Stream-Closed"] = luck.choice(("true", "false", "yes"))
        if luck.random() < 0.1:
            headers["Stream-Seq"] = luck.choice("0123456789")
        if luck.random() < 0.4:
            headers["Producer-Id"] = luck.choice(("p", "q"))
            headers["Producer-Epoch"] = luck.choice(("0", "0", "0", "1", "x"))
            headers["Producer-Seq"] = luck.choice(("0", "1", "2", "3"))
            if luck.random() < 0.03:
                del headers[luck.choice(list(headers))]
    elif kind == "read":
        done["method"] = "GET"
        draw = luck.random()
        done["offset"] = (
            "-1"
            if draw < 0.4
            else "now"
            if draw < 0.5
            else luck.choice(BAD_OFFSETS)
            if draw < 0.6
            else luck.randrange(20)
        )
    elif kind in {"make", "fork"}:
        done["method"] = "PUT"
        if kind == "make" or luck.random() < 0.3:
            headers["Content-Type"] = luck.choice(TYPES)
        if kind == "fork":
            done["fork"] = luck.choice([each for each in PATHS if each != path])
            done["fork_at"] = luck.randrange(20) if luck.random() < 0.6 else None
        elif luck.random() < 0.4:
            done["body"] = body(luck, headers["Content-Type"])
        if luck.random() < 0.2:
            headers["Stream-TTL"] = luck.choice(("3600", "60", "-1", "1.5", "007"))
        if luck.random() < 0.05:
            headers["Stream-Closed"] = "true"
    else:
        done["method"] = "HEAD" if kind == "head" else "DELETE"
    return done


def body(luck, content_type):
    if "json" in content_type:
        return (
            json.dumps(luck.choice(([1], [1, 2, 3], {"a": [luck.random()]}, "text", None, [[1]], []))).encode()
            if luck.random() < 0.95
            else b"{"
        )
    return bytes(luck.choices(b"abc\n\r \xc3\xa4", k=luck.randint(1, 30)))


EXPLANATIONS = {
    "what a duplicate is told of the tail: the reference leaves Stream-Next-Offset out": lambda mine, theirs, done: (
        done["kind"] == "append" and mine["status"] == 204 == theirs["status"] and theirs["place"] is None
        and differ(mine, theirs) == {"place"}
    ),
    "we say Stream-Next-Offset with every refusal of an append; the reference only when the stream is closed": (
        lambda mine, theirs, done: done["kind"] == "append" and mine["status"] == theirs["status"] >= 400
        and differ(mine, theirs) <= {"place", "stream-closed"}
    ),
    "JSON messages keep the bytes that were sent; the reference prints them anew": lambda mine, theirs, done: (
        done["kind"] == "read" and differ(mine, theirs) == {"body"} and same_json(mine["body"], theirs["body"])
    ),
    "what is wrong with a request by itself is told first: before whether its stream is there, closed, or in order": (
        lambda mine, theirs, done: mine["status"] == 400 and theirs["status"] in {403, 404, 409, 410}
    ),
    "a fork that inherited its source's life is found again by who asks in the same words; the reference says 409": (
        lambda mine, theirs, done: done["kind"] == "fork" and (mine["status"], theirs["status"]) == (200, 409)
    ),
    "what is a repetition is told so, also when somebody has closed the stream since": (
        lambda mine, theirs, done: done["kind"] == "append" and (mine["status"], theirs["status"]) == (204, 409)
        and theirs["stream-closed"] == mine["stream-closed"] == "true" and "Producer-Seq" in done["headers"]
    ),
    "a producer of an older epoch is told that it was fenced, also when the stream is closed": (
        lambda mine, theirs, done: done["kind"] == "append" and (mine["status"], theirs["status"]) == (403, 409)
        and theirs["stream-closed"] == "true"
    ),
}  # fmt: skip


def differ(mine, theirs):
    return {name for name in mine if mine[name] != theirs.get(name)}


def same_json(one, other):
    try:
        return json.loads(one.encode("latin-1")) == json.loads(other.encode("latin-1"))
    except ValueError:
        return False


def compare(urls, seed, steps, explained):
    """One run; the differences that nothing explains."""
    luck = random.Random(seed)
    servers = [Server(url, f"/v1/stream/differential-{seed}-") for url in urls]
    known = {}
    unexplained = []
    for step in range(steps):
        done = operation(luck, known)
        mine, theirs = (server.ask(done) for server in servers)
        if done["method"] == "PUT" and theirs["status"] == 201:
            known[done["path"]] = theirs["content-type"]
        if mine != theirs:
            why = next((why for why, fits in EXPLANATIONS.items() if fits(mine, theirs, done)), None)
            if why is not None:
                explained[why] += 1
            else:
                names = sorted(differ(mine, theirs))
                unexplained.append({
                    "seed": seed, "step": step, "operation": {**done, "body": repr(done["body"])},
                    "ours": {name: mine[name] for name in names}, "reference": {name: theirs[name] for name in names},
                })  # fmt: skip
                if mine["status"] != theirs["status"]:
                    break  # from here on they are not in the same state
    for server in servers:
        server.connection.close()
    return unexplained


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--url", help="a server of ours that runs already")
    options = parser.parse_args()
    install()
    explained = Counter()
    unexplained = []
    with tempfile.TemporaryDirectory(prefix="runnel-differential-") as folder, contextlib.ExitStack() as parts:
        port = free_port()
        parts.enter_context(started(reference(port), port))
        urls = [options.url, f"http://127.0.0.1:{port}"]
        if urls[0] is None:
            own = free_port()
            command = OUR_NODE.format(python=sys.executable, folder=folder, port=own)
            parts.enter_context(started(command.split(), own))
            urls[0] = f"http://127.0.0.1:{own}"
        for seed in range(options.seed, options.seed + options.runs):
            unexplained += compare(urls, seed, options.steps, explained)
    result = {"operations": options.runs * options.steps, "explained": dict(explained), "unexplained": unexplained}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    sys.exit(1 if unexplained else 0)


if __name__ == "__main__":
    main()
