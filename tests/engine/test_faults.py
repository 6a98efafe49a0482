"""Bugs that simulated clusters have found, told step by step."""

import asyncio

import pytest

from runnel import Engine, Record
from runnel.codec.records import build_batch
from runnel.engine.cluster import find_cluster
from runnel.errors import Refused, Unavailable, Uncertain
from runnel.metadata.ledger.memory import MemoryLedger
from runnel.metadata.updates import EnterHorizon
from runnel.model import ShardId
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects


class GatedObjects(MemoryObjects):
    """Write-ahead objects become durable only when the gate is open."""

    def __init__(self):
        super().__init__(SystemClock())
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()

    async def put_new(self, name, body):
        if name.startswith("wal/"):
            self.begun.set()
            await self.gate.wait()
        await super().put_new(name, body)


def batch(number, sequence):
    return build_batch([Record(None, b"%d" % number, timestamp=1)], producer=5, epoch=0, sequence=sequence)


def test_what_comes_behind_a_sweep_is_refused_and_nothing_behind_it_overtakes(run):
    async def story():
        store = GatedObjects()
        async with Engine(objects=store, ledger=MemoryLedger(), shards=1) as engine:
            stream = (await engine.topics.create("orders")).streams[0]
            spawn = asyncio.get_running_loop().create_task
            store.gate.clear()
            first = spawn(engine.append(stream, batch(0, 0)))
            await store.begun.wait()
            store.begun.clear()
            await engine.propose(ShardId(1), EnterHorizon(engine.world.clock.now_ms() + 1000))
            second = spawn(engine.append(stream, batch(1, 1)))
            await asyncio.sleep(0.01)
            store.gate.set()
            with pytest.raises(Unavailable, match="behind a sweep"):
                await first
            with pytest.raises(Refused):
                await second
            assert (await engine.append(stream, batch(0, 0))).first == 0
            assert (await engine.append(stream, batch(1, 1))).first == 1

    run(story())


def test_a_cluster_is_founded_although_the_first_attempt_is_lost(run):
    class LosesFirst(MemoryObjects):
        lost = 0

        async def put_new(self, name, body):
            if not self.lost:
                self.lost += 1
                raise Uncertain("no answer")
            await super().put_new(name, body)

    async def story():
        store = LosesFirst(SystemClock())
        cluster = await find_cluster(store, Chance(1), 7)
        assert (cluster.shards, store.lost) == (7, 1)
        assert await find_cluster(store, Chance(2), 9) == cluster

    run(story())


def test_an_engine_opens_although_its_store_asks_to_wait(run):
    class AwayAtFirst(MemoryObjects):
        turned_away = 0

        async def read(self, name, start=0, length=None):
            if self.turned_away < 3:
                self.turned_away += 1
                raise Unavailable("slow down")
            return await super().read(name, start, length)

    async def story():
        store = AwayAtFirst(SystemClock())
        async with Engine(objects=store, ledger=MemoryLedger(), shards=1) as engine:
            await engine.topics.create("orders")
        assert store.turned_away == 3

    run(story())
