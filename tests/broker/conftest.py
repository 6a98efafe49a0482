"""A Kafka server over an engine, inside the test's own loop."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.broker.raw import RawClient

from runnel.broker.broker import Broker, limits_of
from runnel.broker.server import KafkaServer
from runnel.engine import Engine
from runnel.engine.membership import Presence
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
from runnel.settings import Settings
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects


class Served:
    """A server that runs: its broker, its engine, and clients for it."""

    def __init__(self, broker, server, address):
        self.broker, self.server, self.address = broker, server, address
        self.engine = broker.engine

    def client(self, client_id="raw"):
        return RawClient.connect(self.address, client_id)


class Cluster:
    """A store and a ledger that several served engines share."""

    def __init__(self):
        self.objects = MemoryObjects(SystemClock())
        self.shelf = MemoryShelf()

    @asynccontextmanager
    async def serve(self, *, zone="", limits=None, engine_limits=None, presence=True, **settings):
        settings = Settings(zone=zone, **settings)
        engine = Engine(
            objects=self.objects,
            ledger=MemoryLedger(self.shelf),
            shards=4,
            limits=engine_limits,
            presence=Presence(zone=zone, lease_ms=settings.lease_ms) if presence else None,
        )
        async with engine:
            broker = Broker.of(engine, settings, replace(limits_of(settings), **(limits or {})))
            server = KafkaServer(broker)
            host, port = await server.start("127.0.0.1", 0)
            broker.routing.announce(host, port, zone)
            if engine.membership is not None:
                await engine.membership.tell({"kafka": f"{host}:{port}"})
            try:
                yield Served(broker, server, f"{host}:{port}")
            finally:
                await server.drain(5)
                await asyncio.sleep(0)


@pytest.fixture
def cluster():
    return Cluster()
