"""Damaged bytes are found, named, and never guessed at; what is not damaged goes on being served."""

import asyncio

import pytest

from runnel import Engine, EngineLimits, Record
from runnel.engine.checkup import look_at_cluster
from runnel.engine.cluster import NAME, find_cluster
from runnel.engine.upkeep import UpkeepLimits
from runnel.errors import Corrupt, Refused
from runnel.log.names import PREFIX
from runnel.metadata.checkpoint import checkpoint_prefix
from runnel.metadata.encoding import NewerVersion
from runnel.metadata.follower import FollowerLimits
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
from runnel.model import ROOT, ShardId
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects
from runnel.world.world import real_world


class Lake:
    """A store and a ledger that can be damaged."""

    def __init__(self):
        self.objects = MemoryObjects(SystemClock())
        self.shelf = MemoryShelf()

    def engine(self, **limits):
        return Engine(objects=self.objects, ledger=MemoryLedger(self.shelf), shards=2, limits=EngineLimits(**limits))

    def damage_entry(self, shard, index, at=30):
        entries = self.shelf.shard(ShardId(shard)).entries
        entries[index] = flipped(entries[index], at)

    async def damage_objects(self, prefix, change):
        names = [facts.name async for facts in self.objects.list(prefix)]
        for name in names:
            body = bytes(await self.objects.read(name))
            await self.objects.delete([name])
            changed = change(body)
            if changed is not None:
                await self.objects.put_new(name, changed)
        return names

    async def checkup(self, *, whole=False):
        world = real_world(lambda _task, _error: None)
        return [
            (found.what, found.state, found.says)
            async for found in look_at_cluster(self.objects, MemoryLedger(self.shelf), world, whole=whole)
        ]


def flipped(data, at):
    damaged = bytearray(data)
    damaged[at] ^= 4
    return bytes(damaged)


@pytest.fixture
def lake():
    return Lake()


async def fill(lake, **limits):
    """A topic with two streams, one in each shard, and three records in each."""
    async with lake.engine(**limits) as engine:
        topic = await engine.topics.create("orders", 2)
        for number in range(3):
            for stream in topic.streams:
                await engine.append_records(stream, [Record(None, b"%d" % number, timestamp=1)])
        return topic.streams


def test_a_damaged_entry_stops_its_shard_and_no_other(lake, run):
    async def story():
        streams = await fill(lake)
        lake.damage_entry(1, 2)
        async with lake.engine() as engine:
            broken, sound = sorted(streams, key=lambda stream: stream % 2)
            assert engine.trouble() == "entry 3 of shard 1 fails its checksum"
            assert engine.vital_trouble() is None
            assert engine.needs_upgrade() is None
            assert "runnel_shards_stopped 1" in engine.world.metrics.render()
            for attempt in (engine.read(broken, 0), engine.append_records(broken, [Record(None, b"x")])):
                with pytest.raises(Corrupt, match="entry 3 of shard 1 fails its checksum"):
                    await attempt
            assert (await engine.append_records(sound, [Record(None, b"x")])).first == 3
            assert (await engine.read(sound, 0)).next == 4

    run(story())


def test_an_entry_that_is_damaged_while_it_is_followed_stops_the_shard_too(lake, run):
    async def story():
        streams = await fill(lake)
        async with lake.engine() as engine, lake.engine() as other:
            stream = min(streams)
            reading = asyncio.get_running_loop().create_task(engine.read(stream, 3, wait_s=20))
            await asyncio.sleep(0.01)
            # What arrives is not what the other one sent.
            ledger, sent = lake.shelf.shard(ShardId(1)), len(lake.shelf.shard(ShardId(1)).entries)
            ledger.entries.append(b"RE" + bytes(60))
            for room in lake.shelf.rooms:
                room.wake([ShardId(1)])
            with pytest.raises(Corrupt, match=f"entry {sent + 1} of shard 1"):
                await reading
            assert other.trouble() is not None

    run(story())


def test_an_entry_of_a_newer_version_asks_for_an_upgrade(lake, run):
    async def story():
        streams = await fill(lake)
        newer = bytearray(lake.shelf.shard(ShardId(1)).entries[-1])
        newer[2] = 9
        newer[4:8] = b"\1\2\3\4"
        lake.shelf.shard(ShardId(1)).entries.append(bytes(newer))
        async with lake.engine() as engine:
            position = len(lake.shelf.shard(ShardId(1)).entries)
            words = f"entry {position} of shard 1 has format 9, this program knows 1: upgrade runnel"
            assert engine.trouble() == engine.needs_upgrade() == words
            assert engine.vital_trouble() is None
            with pytest.raises(NewerVersion, match=words):
                await engine.read(min(streams), 0)

    run(story())


def test_a_damaged_root_keeps_the_engine_from_opening(lake, run):
    async def story():
        await fill(lake)
        lake.damage_entry(ROOT, 1)
        with pytest.raises(Corrupt, match="entry 2 of shard 0 fails its checksum"):
            async with lake.engine():
                pass

    run(story())


@pytest.mark.parametrize("change", [lambda body: body[:40], lambda body: flipped(body, 70)])
def test_a_damaged_object_is_named_with_the_place(lake, run, change):
    async def story():
        streams = await fill(lake)
        await lake.damage_objects(PREFIX, change)
        async with lake.engine() as engine:
            for stream in streams:
                with pytest.raises((Corrupt, Refused), match=r"wal/[0-9a-f-]+"):
                    await engine.read(stream, 0)
            assert (await engine.append_records(streams[0], [Record(None, b"x")])).first == 3
            assert (await engine.read(streams[0], 3)).next == 4

    run(story())


def test_one_damaged_checkpoint_costs_nothing_and_all_of_them_stop_the_shard(lake, run):
    async def story():
        streams = await fill(lake, follower=FollowerLimits(checkpoint_entries=1))
        stream = min(streams)
        names = await lake.damage_objects(checkpoint_prefix(ShardId(1)), lambda body: body)
        assert len(names) >= 2
        newest = max(names)
        await lake.damage_objects(newest, lambda body: flipped(body, 9))
        async with lake.engine() as engine:
            assert (await engine.read(stream, 0)).next == 3
        assert ("shard 1", "note") in [found[:2] for found in await lake.checkup()]
        await lake.damage_objects(checkpoint_prefix(ShardId(1)), lambda body: flipped(body, 40))
        async with lake.engine() as engine:
            with pytest.raises(
                Corrupt, match=r"shard 1: the ledger begins at \d+, this node is at 0 and no checkpoint"
            ):
                await engine.read(stream, 0)

    run(story())


def test_nothing_is_swept_while_a_shard_cannot_be_followed(lake, run):
    async def story():
        await fill(lake)
        lake.damage_entry(1, 0)
        async with lake.engine(upkeep=UpkeepLimits(sweep_grace_ms=0)) as engine:
            await asyncio.sleep(0.005)
            for _ in range(3):
                with pytest.raises(Corrupt, match="entry 1 of shard 1"):
                    await engine.sweep.run()
        assert len([facts async for facts in lake.objects.list(PREFIX)]) == 6

    run(story())


def test_every_flipped_bit_of_the_clusters_own_object_is_noticed(lake, run):
    async def story():
        cluster = await find_cluster(lake.objects, Chance(1), 2)
        body = bytes(await lake.objects.read(NAME))
        for at in range(8 * len(body)):
            damaged = bytearray(body)
            damaged[at // 8] ^= 1 << at % 8
            await lake.objects.delete([NAME])
            await lake.objects.put_new(NAME, bytes(damaged))
            try:
                found = await find_cluster(lake.objects, Chance(1), 2)
            except (Corrupt, Refused):
                continue
            assert found == cluster  # the flip was in the word "checksum"

    run(story())


# ---- the doctor ----------------------------------------------------------------------------------------------------


def test_the_doctor_finds_nothing_in_a_healthy_lake_and_changes_nothing(lake, run):
    async def story():
        assert await lake.checkup() == [("cluster", "good", "none yet: the first node that starts founds it")]
        assert not [facts async for facts in lake.objects.list("")]
        await fill(lake, follower=FollowerLimits(checkpoint_entries=3))
        before = [facts async for facts in lake.objects.list("")]
        found = await lake.checkup(whole=True)
        assert [(what, state) for what, state, _ in found] == [("shards", "good"), ("objects", "good")]
        assert "6 extents" in found[0][2]
        assert found[1][2].startswith("6 referred to and there")
        assert "every byte of 6 checked" in found[1][2]
        assert [facts async for facts in lake.objects.list("")] == before

    run(story())


def test_the_doctor_names_everything_that_is_wrong(lake, run):
    async def story():
        await fill(lake)
        async with lake.engine() as engine:
            missing = next(iter(engine.shards.follower(ShardId(1)).state.objects.slot_of))
        lake.damage_entry(2, 3)
        await lake.damage_objects(PREFIX, lambda body: flipped(body, 20))
        await lake.objects.delete([missing])
        found = await lake.checkup(whole=True)
        assert (
            "shard 2",
            "bad",
            "cannot be followed beyond position 3: entry 4 of shard 2 fails its checksum",
        ) in found
        bad = [says for what, state, says in found if (what, state) == ("objects", "bad")]
        assert f"{missing} is not in the store, shard 1 refers to it" in bad
        assert sum("at byte" in says for says in bad) == len(bad) - 1 >= 2

    run(story())
