"""Nodes with an HTTP door each, on one store and one ledger, and a client that says what it wants."""

from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from runnel import Engine
from runnel.api.durable.routes import StreamRoutes
from runnel.api.durable.service import StreamService
from runnel.api.durable.tails import TailLimits, Tails
from runnel.api.durable.topics import TopicRoutes
from runnel.api.routes import Routes
from runnel.api.streams.words import PREFLIGHT
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects


class Skewed(SystemClock):
    """The machine's clock, and so many milliseconds more, so that a test can say: a minute later."""

    def __init__(self):
        self.ahead_ms = 0

    def now_ms(self):
        return super().now_ms() + self.ahead_ms


class Door:
    """One node: its engine, its service, and requests to its door, one connection each."""

    def __init__(self, engine, service, tails, server, connect):
        self.engine, self.service, self.tails, self.server, self.connect = engine, service, tails, server, connect

    async def __call__(self, method, path, body=b"", **headers):
        client = await self.connect()
        more = "".join(f"\r\n{name.replace('_', '-')}: {value}" for name, value in headers.items())
        answer = await client.ask(f"{method} {path} HTTP/1.1{more}", body, head_only=method == "HEAD")
        client.writer.close()
        return answer

    async def tail(self, path):
        """An open event stream; `await client.event()` gives (name, data) pairs."""
        client = await self.connect()
        client.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        status, headers = await client.head()
        assert status == 200, status
        return Events(client, headers)


class Events:
    def __init__(self, client, headers):
        self.client, self.headers, self.pending = client, headers, b""

    async def more(self):
        size = int(await self.client.reader.readline(), 16)
        self.pending += await self.client.reader.readexactly(size)
        await self.client.reader.readline()
        return size

    async def event(self):
        """The next event; None at the end."""
        while b"\n\n" not in self.pending:
            if not await self.more():
                return None
        event, _, self.pending = self.pending.partition(b"\n\n")
        if event == b":":
            return ("heartbeat", "")
        lines = event.decode().split("\n")
        assert lines[0].startswith("event: ")
        return lines[0][7:], "\n".join(line.removeprefix("data:") for line in lines[1:])


@pytest.fixture
def nodes(serving):
    @asynccontextmanager
    async def running(count=1, *, limits=None, **engine):
        objects, shelf = MemoryObjects(SystemClock()), MemoryShelf()
        async with AsyncExitStack() as parts:
            doors: list[Door] = []
            for _ in range(count):
                node = await parts.enter_async_context(
                    Engine(objects=objects, ledger=MemoryLedger(shelf), shards=4, **engine)
                )
                service = StreamService(node)
                tails = Tails(service, limits or TailLimits(long_poll_seconds=5.0))
                parts.callback(tails.close)
                routes = Routes(options=PREFLIGHT)
                StreamRoutes(service, tails).add_to(routes)
                TopicRoutes(service, tails).add_to(routes)
                server, connect = await parts.enter_async_context(serving(routes))
                doors.append(Door(node, service, tails, server, connect))
            yield doors

    return running


@pytest.fixture
def skewed():
    return Skewed()
