"""Memory of a broker with many connections and many partitions.

bench/run.py run kafka/memory -- [--connections 1000] [--partitions 5000]
"""

import argparse
import json
import resource
import socket
import struct
import sys
import time
from typing import Any

from _clients import child, make_topic
from _peers import started

API_VERSIONS = struct.pack(">hhih", 18, 0, 1, -1)


def connect(bootstrap: str, count: int) -> list[socket.socket]:
    """Connections that have each asked one thing and been answered."""
    host, _, port = bootstrap.rpartition(":")
    sockets = []
    for _ in range(count):
        each = socket.create_connection((host, int(port)), 30)
        each.sendall(struct.pack(">i", len(API_VERSIONS)) + API_VERSIONS)
        sockets.append(each)
    for each in sockets:
        assert each.recv(65536)
    return sockets


def measure(name: str, connections: int, partitions: int) -> dict[str, Any]:
    with started(name) as peer:
        found: dict[str, Any] = {"row": name, "empty_rss_mb": peer.rss_mb()}
        make_topic(peer.bootstrap, "many", partitions)
        found["partitions_rss_mb"] = peer.rss_mb()
        sockets = connect(peer.bootstrap, connections)
        found["connections_rss_mb"] = peer.rss_mb()
        shape = {"bootstrap": peer.bootstrap, "topic": "many", "partitions": partitions, "size": 1000}
        made = child("produce", **shape, seconds=8.0)
        found |= {"produced_rss_mb": peer.rss_mb(), "produce_mb_s": made["mb_s"], "failed": made["failed"]}
        before = peer.cpu()
        time.sleep(5)
        found["idle_cpu_percent_of_a_core"] = (peer.cpu() - before) / 5 * 100
        for each in sockets:
            each.close()
    print(json.dumps(found), file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=5000)
    parser.add_argument("--peers", nargs="+", default=["runnel", "kafka"])
    args = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, args.connections + 1000)), hard))
    print(json.dumps({"rows": [measure(name, args.connections, args.partitions) for name in args.peers]}, indent=2))


if __name__ == "__main__":
    main()
