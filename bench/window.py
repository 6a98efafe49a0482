"""Which rule should close a window? A small simulation on virtual time; prints JSON, or a table with --table.

    python bench/window.py [--table] [--seconds 20]

Rules that are compared:

    fixed     size or age alone
    pravega   the delay is the recent latency * (1 - average fill), never more than the age
    at-limit  at once when every producer that was ever seen is at its in-flight limit, else size or age
    group     at once when no upload is under way, else size or age (group commit)
    ours      runnel.ingest.window

Each producer keeps to its in-flight limit; its next request follows an answer (or its own rhythm) after some pause.
"""

import argparse
import heapq
import itertools
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from runnel.ingest.window import Producer, Reason, Upload, Window, WindowBounds
from runnel.world.chance import Chance

BOUNDS = WindowBounds()
KIB = 1024


class Fixed(Window):
    """Size and age alone."""

    __slots__ = ()

    def decide(self, at: float) -> Reason | None:
        return Reason.OLD if self.opened_at is not None and at >= self.opened_at + self.bounds.age_max else None

    def due(self) -> float | None:
        return None if self.opened_at is None else self.opened_at + self.bounds.age_max


class Group(Window):
    """At once when no upload is under way."""

    __slots__ = ()

    def _nobody(self) -> None:
        self._awaited.clear()

    def decide(self, at: float) -> Reason | None:
        self._nobody()
        return super().decide(at)

    def due(self) -> float | None:
        self._nobody()
        return super().due()


class Pravega(Fixed):
    """Recent latency * (1 - average fill)."""

    __slots__ = ("fill", "latency")

    def __init__(self, bounds: WindowBounds) -> None:
        super().__init__(bounds)
        self.latency = self.fill = 0.0

    def delay(self) -> float:
        return min(self.bounds.age_max, self.latency * (1 - self.fill))

    def decide(self, at: float) -> Reason | None:
        return Reason.OLD if self.opened_at is not None and at >= self.opened_at + self.delay() else None

    def due(self) -> float | None:
        return None if self.opened_at is None else self.opened_at + self.delay()

    def flushed(self, upload: Upload, at: float, *, failed: bool = False) -> None:
        self.latency += 0.2 * (at - upload.closed_at - self.latency)
        self.fill += 0.2 * (min(1.0, upload.size / self.bounds.bytes_max) - self.fill)
        super().flushed(upload, at, failed=failed)


class AtLimit(Fixed):
    """At once when everyone ever seen is at its limit."""

    __slots__ = ("seen",)

    def __init__(self, bounds: WindowBounds) -> None:
        super().__init__(bounds)
        self.seen: dict[Producer, None] = {}

    def arrived(self, producer: Producer | None, size: int, at: float) -> Reason | None:
        if producer is not None:
            self.seen[producer] = None
        return super().arrived(producer, size, at)

    def decide(self, at: float) -> Reason | None:
        if self.opened_at is None:
            return None
        if all(each.unanswered >= each.limit for each in self.seen):
            return Reason.EARLY
        return super().decide(at)


RULES: dict[str, Callable[[WindowBounds], Window]] = {
    "fixed": Fixed,
    "pravega": Pravega,
    "at-limit": AtLimit,
    "group": Group,
    "ours": Window,
}


@dataclass(kw_only=True)
class Client:
    """One connection. With `every` it has work at its own rhythm; without, always."""

    in_flight: int = 1
    pause: float = 0.001  # from an answer to the request that it lets go: round trip and thinking
    every: float | None = None
    size: int = 16 * KIB
    group: str = "all"
    known: Producer = field(default_factory=Producer)
    out: int = 0
    queued: int = 0


SCENES: dict[str, Callable[[], list[Client]]] = {
    "one, asks and waits": lambda: [Client()],
    "one, 5 in flight": lambda: [Client(in_flight=5)],
    "one, 5 in flight, 1 MiB": lambda: [Client(in_flight=5, size=1024 * KIB)],
    "one, every 10 ms": lambda: [Client(in_flight=5, every=0.01)],
    "50, ask and wait": lambda: [Client() for _ in range(50)],
    "20, 5 in flight, 64 KiB": lambda: [Client(in_flight=5, size=64 * KIB) for _ in range(20)],
    "100 steady, every 100 ms": lambda: [Client(in_flight=5, every=0.1, size=KIB) for _ in range(100)],
    "one waits, 100 every 1 s": lambda: [
        Client(group="one"),
        *(Client(in_flight=5, every=1.0, size=KIB, group="steady") for _ in range(100)),
    ],
    "mixed": lambda: [
        Client(group="asks"),
        *(Client(in_flight=5, group="pipelines") for _ in range(3)),
        *(Client(in_flight=5, every=0.1, size=KIB, group="steady") for _ in range(30)),
    ],
}


def simulate(rule: str, clients: list[Client], put: float, seconds: float, seed: int = 1) -> dict[str, object]:
    """Run one scene; a put takes `put` seconds, give or take (log-normal, a tail to twice and more)."""
    chance = Chance(seed)
    window = RULES[rule](BOUNDS)
    queue: list[tuple[float, int, str, object]] = []
    order = itertools.count()
    waiting: list[tuple[Client, float]] = []
    latencies: dict[str, list[float]] = {client.group: [] for client in clients}
    puts = sent = 0
    armed: float | None = None

    def later(at: float, what: str, about: object) -> None:
        heapq.heappush(queue, (at, next(order), what, about))

    def send(client: Client, at: float) -> None:
        client.out += 1
        waiting.append((client, at))
        reason = window.arrived(client.known, client.size, at)
        if reason is not None:
            start(reason, at)

    def start(reason: Reason, at: float) -> None:
        nonlocal puts, sent, waiting
        upload = window.close(reason, at)
        puts += 1
        sent += upload.size
        took = put * math.exp(chance.gauss(0, 0.25)) + upload.size / 1e9
        later(at + took, "flushed", (upload, waiting))
        waiting = []

    for client in clients:
        for _ in range(1 if client.every else client.in_flight):
            later(chance.random() * (client.every or 0.001), "wants", client)
    warm = seconds / 10
    at = 0.0
    while queue:
        at, _, what, about = heapq.heappop(queue)
        if at > seconds:
            break
        if what == "wants":
            client = about
            if client.every:
                later(at + chance.expovariate(1 / client.every), "wants", client)
            if client.out < client.in_flight:
                send(client, at)
            else:
                client.queued += 1
        elif what == "flushed":
            upload, answered = about
            for client, since in answered:
                client.out -= 1
                if at > warm:
                    latencies[client.group].append(at - since)
                if not client.every:
                    later(at + client.pause * (0.5 + chance.random()), "wants", client)
                elif client.queued:
                    client.queued -= 1
                    later(at + client.pause * (0.5 + chance.random()), "again", client)
            window.flushed(upload, at)
        elif what == "again":
            send(about, at)
        elif armed is not None and at >= armed:
            armed = None
        if queue and queue[0][0] == at:
            continue  # the same turn
        reason = window.decide(at)
        if reason is not None:
            start(reason, at)
        due = window.due()
        if due is not None and (armed is None or due < armed):
            armed = max(due, at)
            later(armed, "tick", None)
    groups = {}
    for group, times in latencies.items():
        times.sort()
        groups[group] = {
            "requests_per_s": round(len(times) / (seconds - warm), 1),
            "p50_ms": round(1000 * times[len(times) // 2], 1) if times else None,
            "p99_ms": round(1000 * times[len(times) * 99 // 100], 1) if times else None,
        }
    return {
        "rule": rule,
        "put_ms": put * 1000,
        "puts_per_s": round(puts / at, 1),
        "kib_per_put": round(sent / max(1, puts) / KIB, 1),
        "groups": groups,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--scene")
    options = parser.parse_args()
    results = [
        {"scene": scene, **simulate(rule, make(), put, options.seconds)}
        for scene, make in SCENES.items()
        if options.scene in {None, scene}
        for put in (0.001, 0.02, 0.2)
        for rule in RULES
    ]
    if not options.table:
        print(json.dumps({"benchmark": "window", "results": results}, indent=1))
        return
    for each in results:
        groups = "; ".join(
            f"{name} {g['requests_per_s']:>8}/s {g['p50_ms']!s:>6} {g['p99_ms']!s:>6} ms"
            for name, g in each["groups"].items()
        )
        print(f"{each['scene']:26} {each['put_ms']:5.0f} {each['rule']:9} {each['puts_per_s']:7}/s {groups}")


if __name__ == "__main__":
    main()
