"""The HTTP door in a broker of a lake, and the clients that come to it.

A *writer* appends to a stream with a producer's three headers, one append after another, sends again what has no answer,
to whichever broker, and perhaps closes the stream with its last append. A *forker* makes forks of streams that are
being written and writes into them. A *reader* tails a stream by catch-up reads and long-polls.

The book holds, for every stream by its path: which values were sent and by whom, what anyone was told or saw at an
offset, where forks begin, and which streams were closed at what end. All clients speak HTTP over the simulated network.
"""

import asyncio
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field

from runnel.api.durable.routes import StreamRoutes
from runnel.api.durable.service import StreamService
from runnel.api.durable.tails import TailLimits, Tails
from runnel.api.limits import Limits
from runnel.api.routes import Routes
from runnel.api.server import HttpServer
from runnel.api.streams.offsets import mint, parse
from runnel.engine import Engine
from runnel.simulated.lake import Lake
from runnel.world.simulation.nodes import NodePlan, World

PORT = 8080
PATIENCE_S = 8.0
BROKEN = (OSError, asyncio.IncompleteReadError, TimeoutError, EOFError)
LATER = {408, 429, 500, 503}
TEXT = "text/plain"


@dataclass(slots=True)
class HttpBook:
    """What clients sent, were told and saw; it lies outside the nodes."""

    sent: dict[bytes, tuple[str, str, int]] = field(default_factory=dict)
    """Each value: its stream, who sent it, as the how manieth there."""
    held: dict[str, dict[int, bytes]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    forks: dict[str, tuple[str, int]] = field(default_factory=dict)
    closed: dict[str, int] = field(default_factory=dict)
    """Streams whose end was acknowledged."""
    acknowledged: int = 0

    def owner(self, path: str, offset: int) -> str:
        """The stream that a record was written to, following forks up."""
        while path in self.forks and offset < self.forks[path][1]:
            path = self.forks[path][0]
        return path

    def hold(self, path: str, offset: int, value: bytes) -> None:
        sent = self.sent.get(value)
        assert sent is not None, f"nobody sent what is at offset {offset} of {path}: {value!r}"
        owner = self.owner(path, offset)
        assert sent[0] == owner, (
            f"{value!r} was sent to {sent[0]} and is at {offset} of {path}, which has it of {owner}"
        )
        known = self.held.setdefault(path, {}).setdefault(offset, value)
        assert known == value, f"offset {offset} of {path} was {known!r} and is {value!r}"
        assert path not in self.closed or offset < self.closed[path], f"{path} closed at {self.closed[path]} and grew"

    def told(self, path: str, behind: int, value: bytes) -> None:
        self.acknowledged += 1
        self.hold(path, behind - 1, value)
        self.ends[path] = max(self.ends.get(path, 0), behind)

    def told_closed(self, path: str, end: int) -> None:
        known = self.closed.setdefault(path, end)
        assert known == end, f"{path} was closed at {known} and at {end}"
        self.ends[path] = max(self.ends.get(path, 0), end)


def book_of(lake: Lake) -> HttpBook:
    book = lake.work.setdefault("http", HttpBook())
    assert isinstance(book, HttpBook)
    return book


# ---- the door ------------------------------------------------------------------------------------------------------


async def serve_http(world: World, engine: Engine) -> None:
    """Open the door in a broker and stay."""
    await open_door(world, engine, StreamService(engine, chunk_bytes_max=2_000))
    await asyncio.Event().wait()


async def open_door(world: World, engine: Engine, service: StreamService) -> None:
    tails = Tails(service, TailLimits(long_poll_seconds=1.0, recycle_seconds=5.0))
    routes = Routes()
    StreamRoutes(service, tails).add_to(routes)
    limits = Limits(idle_seconds=20.0, head_seconds=10.0, body_seconds=10.0)
    server = HttpServer(routes, limits=limits, clock=engine.world.clock, tasks=engine.world.tasks)
    await server.start(world.node, PORT)


class Client:
    """Requests to any broker; one connection that is made anew when it breaks."""

    def __init__(self, world: World, brokers: Sequence[str]) -> None:
        self.world = world
        self.brokers = brokers
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """The answer of some broker, however often it takes."""
        lines = [f"{method} {path} HTTP/1.1", "host: x", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        request = "\r\n".join(lines).encode() + b"\r\n\r\n" + body
        while True:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    answer = await self._try(request)
                if answer[0] not in LATER:
                    return answer
            except BROKEN:
                self.hang_up()
            if self.world.chance.random() < 0.5:
                self.hang_up()
            await asyncio.sleep(self.world.chance.uniform(0.05, 0.4))

    async def _try(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        if self._writer is None or self._reader is None:
            self._reader, self._writer = await asyncio.open_connection(self.world.chance.choice(self.brokers), PORT)
        self._writer.write(request)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection") == "close":
            self.hang_up()
        return int(lines[0].split(" ")[1]), headers, body

    def close(self) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._reader = self._writer = None


# ---- who writes and reads ------------------------------------------------------------------------------------------


async def append(
    client: Client, book: HttpBook, path: str, producer: str, seq: int, value: bytes, *, close: bool = False
) -> bool:
    """One append, once; False when the stream was closed by somebody else."""
    book.sent.setdefault(value, (path, producer, seq))
    headers = {"producer_id": producer, "producer_epoch": "0", "producer_seq": str(seq), "content_type": TEXT}
    if close:
        headers["stream_closed"] = "true"
    status, told, _ = await client.ask("POST", f"/v1/stream/{path}", value, **headers)
    end = parse(told["stream-next-offset"]).record
    if status == 200:
        book.told(path, end, value)
        if close:
            book.told_closed(path, end)
        return True
    if status == 204:  # a retry of something that was done; where, is seen when it is read
        book.acknowledged += 1
        if close:
            book.told_closed(path, end)
        return True
    assert status == 409, f"an append to {path} was answered {status}"
    assert told.get("stream-closed") == "true", f"an append to {path} out of order: {told}"
    book.told_closed(path, end)
    return False


def writers(count: int, paths: Sequence[str], brokers: Sequence[str], appends: int = 25) -> tuple[NodePlan, ...]:
    """Each writes to every stream; the first closes one of them with its last append."""

    async def main(world: World) -> None:
        with closing(Client(world, brokers)) as client:
            book = book_of(world.state)
            closes = world.node == "http-writer1"
            for path in paths:
                status, _, _ = await client.ask("PUT", f"/v1/stream/{path}", content_type=TEXT)
                assert status in {200, 201, 409}, f"making {path} was answered {status}"  # 409: it is closed by now
            for seq in range(appends):
                for path in paths:
                    close = closes and path == paths[0] and seq == appends // 2
                    if closes and path == paths[0] and seq > appends // 2:
                        continue
                    value = f"<{world.node} {path} {seq}>".encode()
                    await append(client, book, path, world.node, seq, value, close=close)
                await asyncio.sleep(world.chance.uniform(0.0, 0.3))

    return tuple(
        NodePlan(name=f"http-writer{number}", main=main, workload=True, mortal=False) for number in range(1, count + 1)
    )


def forkers(count: int, paths: Sequence[str], brokers: Sequence[str], forks: int = 4) -> tuple[NodePlan, ...]:
    """Each forks streams at places that are known to be there, and writes into the forks; some sources are forks."""

    async def main(world: World) -> None:
        with closing(Client(world, brokers)) as client:
            book = book_of(world.state)
            for number in range(forks):
                await asyncio.sleep(world.chance.uniform(0.5, 2.0))
                known = [path for path in (*paths, *book.forks) if book.ends.get(path)]
                if not known:
                    continue
                source = world.chance.choice(known)
                offset = world.chance.randint(0, book.ends[source])
                path = f"fork-{world.node}-{number}"
                book.forks[path] = (source, offset)
                status, told, _ = await client.ask(
                    "PUT",
                    f"/v1/stream/{path}",
                    stream_forked_from=f"/v1/stream/{source}",
                    stream_fork_offset=mint(offset),
                )
                assert status in {200, 201}, f"forking {source} at {offset} was answered {status}"
                assert parse(told["stream-next-offset"]).record == offset, (
                    f"a fork at {offset} begins elsewhere: {told}"
                )
                book.ends[path] = offset
                for seq in range(3):
                    await append(client, book, path, world.node, seq, f"<{world.node} {path} {seq}>".encode())

    return tuple(
        NodePlan(name=f"http-forker{number}", main=main, workload=True, mortal=False) for number in range(1, count + 1)
    )


def readers(count: int, paths: Sequence[str], brokers: Sequence[str]) -> tuple[NodePlan, ...]:
    """Each follows all streams and forks from their beginnings, with long-polls now and then."""

    async def main(world: World) -> None:
        with closing(Client(world, brokers)) as client:
            book = book_of(world.state)
            places: dict[str, int] = {}
            while True:
                for path in (*paths, *book.forks):
                    await follow(client, book, path, places)
                await asyncio.sleep(world.chance.uniform(0.0, 0.2))

    return tuple(NodePlan(name=f"http-reader{number}", main=main, mortal=False) for number in range(1, count + 1))


async def follow(client: Client, book: HttpBook, path: str, places: dict[str, int]) -> None:
    """One read; it must find what was acknowledged before it was asked."""
    at, floor = places.get(path, 0), book.ends.get(path, 0)
    live = "&live=long-poll" if client.world.chance.random() < 0.2 else ""
    status, told, body = await client.ask("GET", f"/v1/stream/{path}?offset={mint(at)}{live}")
    if status == 404 and not floor:
        return
    assert status in {200, 204}, f"reading {path} was answered {status}, {floor} records were acknowledged"
    behind = parse(told["stream-next-offset"]).record
    values = [value + b">" for value in body.split(b">") if value]
    assert behind - at == len(values), f"a read of {path} at {at} gave {len(values)} records and goes on at {behind}"
    for offset, value in enumerate(values, at):
        book.hold(path, offset, value)
    if "stream-up-to-date" in told:
        assert behind >= floor, f"{path} was said to end at {behind}, {floor} were acknowledged before"
    if "stream-closed" in told:
        book.told_closed(path, behind)
    places[path] = behind
