"""Bugs that simulated clusters have found, told step by step."""

import asyncio

import pytest

from runnel import Engine, Record
from runnel.codec.records import build_batch
from runnel.engine import EngineLimits
from runnel.engine.cluster import find_cluster
from runnel.errors import Refused, Unavailable, Uncertain
from runnel.metadata.follower import FollowerLimits
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
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


def test_checkpoints_that_go_while_they_are_looked_for_lead_to_newer_ones(run):
    class Overtaken(MemoryObjects):
        """Between a list and the read that follows it, somebody else writes a newer checkpoint and removes the old."""

        overtake = None
        times = 2

        async def read(self, name, start=0, length=None):
            if self.overtake is not None and self.times and name.startswith("checkpoints/00001/"):
                self.times -= 1
                await self.overtake()
            return await super().read(name, start, length)

    async def story():
        store, shelf = Overtaken(SystemClock()), MemoryShelf()
        limits = EngineLimits(follower=FollowerLimits(checkpoints_kept=1))
        async with Engine(objects=store, ledger=MemoryLedger(shelf), shards=1, limits=limits) as engine:
            stream = (await engine.topics.create("orders")).streams[0]
            follower = engine.shards.follower(ShardId(1))
            sequences = iter(range(9))

            async def write_and_checkpoint():
                await engine.append(stream, batch(0, next(sequences)))
                await follower.checkpoint()

            await write_and_checkpoint()
            store.overtake = write_and_checkpoint
            async with Engine(objects=store, ledger=MemoryLedger(shelf), shards=1) as other:
                assert not store.times
                assert await other.bounds(stream) == (0, 3)

    run(story())


def test_a_trim_beyond_a_read_under_way_does_not_stop_a_follower_that_has_gone_on_meanwhile(run):
    class GatedReads(MemoryLedger):
        """Reads of the data shard stop at the gate, but for the first."""

        gate = None

        async def read(self, shard, after, limit=1000):
            if self.gate is not None and shard == 1:
                if self.passed:
                    self.reading.set()
                    await self.gate.wait()
                self.passed = True
            return await super().read(shard, after, limit)

    async def story():
        store, shelf = MemoryObjects(SystemClock()), MemoryShelf()
        limits = EngineLimits(follower=FollowerLimits(checkpoints_kept=1))
        ledger = GatedReads(shelf)
        async with (
            Engine(objects=store, ledger=ledger, shards=1, limits=limits) as engine,
            Engine(objects=store, ledger=MemoryLedger(shelf), shards=1, limits=limits) as other,
        ):
            stream = (await engine.topics.create("orders")).streams[0]
            ledger.gate, ledger.reading, ledger.passed = asyncio.Event(), asyncio.Event(), False
            await other.append(stream, batch(0, 0))
            await ledger.reading.wait()  # what the other one wrote is read, and whether there is more is being asked
            await engine.append(stream, batch(1, 1))
            assert await other.bounds(stream) == (0, 2)
            await other.shards.follower(ShardId(1)).checkpoint()
            ledger.gate.set()
            ledger.gate = None
            assert await engine.bounds(stream) == (0, 2)
            assert engine.trouble() is None

    run(story())


def test_of_several_nodes_one_writes_the_checkpoints(run):
    async def story():
        store, shelf = MemoryObjects(SystemClock()), MemoryShelf()
        limits = EngineLimits(follower=FollowerLimits(checkpoint_entries=20, checkpoints_kept=100))
        engines = [Engine(objects=store, ledger=MemoryLedger(shelf), shards=1, limits=limits) for _ in range(4)]
        for engine in engines:
            await engine.open()
        stream = (await engines[0].topics.create("orders")).streams[0]
        for sequence in range(200):
            await engines[sequence % 4].append(stream, batch(0, sequence))
            for engine in engines:
                await engine.bounds(stream)
        for engine in engines:
            await engine.close()
        written = [facts.name async for facts in store.list("checkpoints/00001/")]
        assert 200 // 30 - 1 <= len(written) <= 200 // 20 + 3

    run(story())
