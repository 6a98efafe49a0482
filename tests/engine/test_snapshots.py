"""Snapshots beside streams: stored, replaced, swept, never lost."""

import asyncio

import pytest
from tests.engine.test_engine import Lake

from runnel import Record
from runnel.engine.upkeep import UpkeepLimits
from runnel.errors import AlreadyThere, Fenced, NotThere, Unavailable
from runnel.metadata.stream import Traits
from runnel.metadata.updates import RetainStream
from runnel.model import shard_of


async def ten_records(engine):
    stream = await engine.open_stream(Traits("demo/a"))
    await engine.append_records(stream, [Record(None, b"x")] * 10)
    return stream


def test_a_snapshot_is_stored_once_and_replaced_by_a_newer_one(run):
    async def story():
        lake = Lake()
        async with lake.engine() as here, lake.engine() as there:
            stream = await ten_records(here)
            await there.catch_up(shard_of(stream, 4))
            first = await there.snapshots.publish(stream, 4, b"four", "text/plain")
            assert await here.snapshots.body(first) == b"four"
            assert (await there.snapshots.publish(stream, 4, b"four", "text/plain")) == first
            with pytest.raises(AlreadyThere):
                await here.snapshots.publish(stream, 4, b"other", "text/plain")
            with pytest.raises(Fenced):
                await here.snapshots.publish(stream, 6, b"six", "text/plain", match="wrong")
            second = await here.snapshots.publish(stream, 6, b"", "text/plain", match=first.digest)
            assert await there.snapshots.body(second) == b""
            await there.propose(shard_of(stream, 4), RetainStream(int(stream), 6))
            assert await here.bounds(stream) == (6, 10)

    run(story())


def test_the_sweep_takes_what_was_replaced_and_what_was_never_published(run):
    async def story():
        lake = Lake()
        async with lake.engine(upkeep=UpkeepLimits(sweep_grace_ms=0)) as engine:
            stream = await ten_records(engine)
            old = await engine.snapshots.publish(stream, 4, b"four", "text/plain")
            new = await engine.snapshots.publish(stream, 6, b"six", "text/plain")
            with pytest.raises(AlreadyThere):
                await engine.snapshots.publish(stream, 6, b"refused", "text/plain")
            swept = []
            for _ in range(3):
                await asyncio.sleep(0.005)
                swept += await engine.sweep.run()
            assert old.object in swept
            assert len(swept) == 2
            with pytest.raises(NotThere, match="record 4 is gone"):
                await engine.snapshots.body(old)
            assert await engine.snapshots.body(new) == b"six"
            later = await engine.snapshots.publish(stream, 7, b"seven", "text/plain")
            assert await engine.snapshots.body(later) == b"seven"

    run(story())


def test_a_store_that_fails_now_and_then_is_tried_again(run):
    async def story():
        lake = Lake()
        async with lake.engine() as engine:
            stream = await ten_records(engine)
            engine.snapshots._objects = _Refusing(lake.objects, 2)
            found = await engine.snapshots.publish(stream, 4, b"four", "text/plain")
            assert await engine.snapshots.body(found) == b"four"
            engine.snapshots._objects = _Refusing(lake.objects, 9)
            with pytest.raises(Unavailable, match="try again"):
                await engine.snapshots.publish(stream, 5, b"five", "text/plain")

    run(story())


class _Refusing:
    """A store whose first puts fail."""

    def __init__(self, inner, times):
        self.inner = inner
        self.times = times

    async def put_new(self, name, body):
        self.times -= 1
        if self.times >= 0:
            raise Unavailable("slow down")
        await self.inner.put_new(name, body)

    async def read(self, *place):
        return await self.inner.read(*place)
