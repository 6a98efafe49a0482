"""Buckets across shards and engines: made, listed in pages, measured, limited, deleted only when empty."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.test_engine import Lake

from runnel import Record
from runnel.engine.buckets import NotEmpty, OverLimit
from runnel.errors import AlreadyThere, NotThere
from runnel.metadata.stream import Traits
from runnel.metadata.updates import DeleteStreams, LeaveBucket, SealBucket
from runnel.model import ROOT, shard_of


async def fill(engine, *names):
    return [await engine.open_stream(Traits(name)) for name in names]


async def drop(engine, stream):
    await engine.propose(shard_of(stream, engine.cluster.shards), DeleteStreams([int(stream)]))


def test_a_bucket_is_made_found_from_anywhere_and_deleted_when_it_is_empty(run):
    async def story():
        lake = Lake()
        async with lake.engine() as here, lake.engine() as there:
            with pytest.raises(NotThere, match="PUT /demo"):
                await there.buckets.find("demo")
            await here.buckets.make("demo")
            assert (await there.buckets.find("demo")).name == "demo"
            with pytest.raises(AlreadyThere):
                await there.buckets.make("demo")
            (stream,) = await fill(here, "demo/a")
            with pytest.raises(NotEmpty, match="1 streams"):
                await there.buckets.delete("demo")
            await drop(here, stream)
            await there.buckets.delete("demo")
            with pytest.raises(NotThere):
                await here.open_stream(Traits("demo/a"))
            with pytest.raises(NotThere):
                await here.buckets.delete("demo")
            await here.buckets.make("demo")
            await fill(there, "demo/a", "demo/b", "demo/c", "demo/d")

    run(story())


def test_a_deletion_that_was_cut_short_goes_on_or_is_taken_back(run):
    async def story():
        async with Lake().engine() as engine:
            for again in (engine.buckets.delete, engine.buckets.make):
                await engine.buckets.make("demo")
                await engine.propose(ROOT, LeaveBucket("demo"))
                await engine.propose(engine.shard_of_stream_name("demo/a"), SealBucket("demo"))
                assert engine.buckets.known("demo") is None
                await again("demo")
            await fill(engine, "demo/a")

    run(story())


def test_deleting_and_filling_at_once_never_leaves_a_stream_without_its_bucket(run):
    async def story():
        lake = Lake()
        async with lake.engine() as here, lake.engine() as there:
            for turn in range(20):
                name = f"race{turn}"
                await here.buckets.make(name)
                await there.buckets.find(name)
                outcomes = await asyncio.gather(
                    here.buckets.delete(name), *(fill(there, f"{name}/{each}") for each in range(3)),
                    return_exceptions=True,
                )  # fmt: skip
                assert all(outcome is None or isinstance(outcome, (NotEmpty, NotThere, list)) for outcome in outcomes)
                exists = name in (await there.buckets.usage())
                await there.catch_up()
                streams = await there.buckets.count(name)
                assert exists or not streams
                assert streams == sum(isinstance(outcome, list) for outcome in outcomes)

    run(story())


@settings(max_examples=20)
@given(
    st.sets(st.text("ab/", min_size=1, max_size=4), max_size=20), st.integers(1, 5), st.sampled_from(["", "a", "ab"])
)
def test_pages_hold_every_stream_once_and_in_order(names, most, prefix):
    async def story():
        async with Lake().engine() as engine:
            await engine.buckets.make("demo")
            await fill(engine, *(f"demo/{name}" for name in names), "demoo/x")
            found, after = [], ""
            while True:
                page = await engine.buckets.page("demo", prefix=prefix, after=after, most=most)
                found += [name for name, _ in page.streams]
                wanted = sorted(name for name in names if name.startswith(prefix))
                assert page.total == len(wanted)
                if not page.more:
                    break
                after = found[-1]
            assert found == wanted

    asyncio.run(story())


def test_usage_remembers_what_went_through_streams_that_are_gone(run):
    async def story():
        async with Lake().engine() as engine:
            await engine.buckets.make("demo")
            one, two = await fill(engine, "demo/a", "demo/b")
            for stream in (one, two):
                await engine.append_records(stream, [Record(None, b"x" * 100)] * 3)
            before = (await engine.buckets.usage())["demo"]
            assert (before.streams, before.records_ever, before.bytes_kept) == (2, 6, before.bytes_ever)
            await drop(engine, one)
            after = (await engine.buckets.usage())["demo"]
            assert (after.streams, after.records_ever, after.bytes_ever) == (1, 6, before.bytes_ever)
            assert after.bytes_kept * 2 == before.bytes_kept

    run(story())


def test_limits_are_kept(run):
    async def story():
        async with Lake().engine() as engine:
            await engine.buckets.make("demo")
            await engine.buckets.limit("demo", streams_max=2, bytes_max=50)
            bucket = await engine.buckets.find("demo")
            engine.buckets.room_for_bytes(bucket)
            for name in ("demo/a", "demo/b"):
                engine.buckets.room_for_stream(bucket)
                (stream,) = await fill(engine, name)
            with pytest.raises(OverLimit, match="at most 2"):
                engine.buckets.room_for_stream(bucket)
            await engine.append_records(stream, [Record(None, b"x" * 100)])
            await asyncio.sleep(1.1)
            with pytest.raises(OverLimit, match="at most 50"):
                engine.buckets.room_for_bytes(bucket)
            await engine.buckets.limit("demo", streams_max=None, bytes_max=None)
            engine.buckets.room_for_stream(await engine.buckets.find("demo"))
            with pytest.raises(NotThere):
                await engine.buckets.limit("none", streams_max=1, bytes_max=None)

    run(story())
