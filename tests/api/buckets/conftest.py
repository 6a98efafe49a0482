"""Nodes whose HTTP door has the addresses of buckets, on one store and one ledger."""

from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.api.durable.conftest import Door

from runnel import Engine
from runnel.api.buckets.routes import BucketRoutes
from runnel.api.buckets.service import BucketService
from runnel.api.buckets.tails import RecordTails
from runnel.api.durable.routes import StreamRoutes
from runnel.api.durable.service import StreamService
from runnel.api.durable.tails import TailLimits, Tails
from runnel.api.routes import Routes
from runnel.api.streams.words import PREFLIGHT
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects


@pytest.fixture
def nodes(serving):
    @asynccontextmanager
    async def running(count=1, *, limits=None, **engine):
        objects, shelf = MemoryObjects(SystemClock()), MemoryShelf()
        limits = limits or TailLimits(long_poll_seconds=5.0)
        async with AsyncExitStack() as parts:
            doors = []
            for _ in range(count):
                node = await parts.enter_async_context(
                    Engine(objects=objects, ledger=MemoryLedger(shelf), shards=4, **engine)
                )
                service = StreamService(node)
                tails = Tails(service, limits)
                parts.callback(tails.close)
                routes = Routes(options=PREFLIGHT)
                routes.add("GET", "/healthz", lambda *_: None)
                protocol = StreamRoutes(service, tails)
                protocol.add_to(routes)
                buckets = BucketService(service)
                BucketRoutes(buckets, protocol, RecordTails(buckets, limits)).add_to(routes)
                server, connect = await parts.enter_async_context(serving(routes))
                doors.append(Door(node, service, tails, server, connect))
            yield doors

    return running


@pytest.fixture
def door(nodes, run):
    """Tell a story at one door, in a bucket called demo."""

    def tell(story, **how):
        async def told():
            async with nodes(**how) as doors:
                assert (await doors[0]("PUT", "/demo"))[0] == 201
                await story(*doors)

        run(told())

    return tell
