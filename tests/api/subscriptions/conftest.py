"""Nodes with streams and subscriptions, and somebody's webhook."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.api.durable.conftest import Door

from runnel import Engine
from runnel.api.durable.routes import StreamRoutes
from runnel.api.durable.service import StreamService
from runnel.api.durable.tails import TailLimits, Tails
from runnel.api.messages import Response
from runnel.api.routes import Routes
from runnel.api.server import HttpServer
from runnel.api.subscriptions.desk import Desk
from runnel.api.subscriptions.routes import SubscriptionRoutes
from runnel.api.subscriptions.waker import Waker
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects


class Hook:
    """A webhook that remembers what it was told and answers with what it was given, in order."""

    def __init__(self):
        self.answers = []
        self.told = asyncio.Queue()
        self.url = ""

    def __call__(self, request, respond):
        self.told.put_nowait((json.loads(request.body), dict(request.headers), bytes(request.body)))
        status, body = self.answers.pop(0) if self.answers else (200, {})
        respond(Response(status, {"content-type": "application/json"}, json.dumps(body).encode()))

    async def wake(self):
        return (await asyncio.wait_for(self.told.get(), 20))[0]


@pytest.fixture
def hooked(serving):
    """`async with hooked(2) as (hook, one, other)`: the first node is the one that wakes, until `stop_waking`."""

    @asynccontextmanager
    async def running(count=1, **engine):
        objects, shelf = MemoryObjects(SystemClock()), MemoryShelf()
        async with AsyncExitStack() as parts:
            hook = Hook()
            receiver = HttpServer(hook, clock=SystemClock())
            host, port = await receiver.start("127.0.0.1", 0)
            parts.push_async_callback(receiver.drain, 1)
            hook.url = f"http://{host}:{port}/hook"
            doors = []
            asleep = []
            for index in range(count):
                node = await parts.enter_async_context(
                    Engine(objects=objects, ledger=MemoryLedger(shelf), shards=4, **engine)
                )
                service = StreamService(node)
                tails = Tails(service, TailLimits())
                parts.callback(tails.close)
                routes = Routes()
                StreamRoutes(service, tails).add_to(routes)
                desk = Desk(service, local=True)
                SubscriptionRoutes(desk).add_to(routes)
                waker = Waker(desk, lambda index=index: index == len(asleep))
                parts.push_async_callback(waker.close)
                server, connect = await parts.enter_async_context(serving(routes))
                desk.base = "http://cluster"
                door = Door(node, service, tails, server, connect)
                door.desk, door.stop_waking = desk, lambda: asleep.append(True)
                doors.append(door)
            yield hook, *doors

    return running
