"""Retention: which records go, and that they do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel import Engine, Record
from runnel.engine import EngineLimits
from runnel.engine.retention import first_kept
from runnel.engine.upkeep import UpkeepLimits
from runnel.metadata.extents import Extents
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
from runnel.metadata.topic_settings import rules_of
from runnel.read.reader import OffsetOutOfRange
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects


def extents_of(*facts):
    """Extents of one record each, from (bytes, stamp); and the size of the stream."""
    extents = Extents()
    total = 0
    for number, (length, stamp) in enumerate(facts):
        total += length
        extents.append(number + 1, total, stamp, number, 0, length)
    return extents, total


def gone(facts, now_ms=1000, born=0, **settings):
    extents, size = extents_of(*facts)
    names = {name.replace("_", "."): str(value) for name, value in settings.items()}
    return first_kept(extents, size, rules_of(names, {}), now_ms, lambda _slot: born)


def test_what_is_older_than_the_topic_keeps_goes_from_the_front():
    facts = [(10, 100), (10, 500), (10, 899), (10, 900), (10, 100)]
    assert gone(facts, retention_ms=100) == 3
    assert gone(facts, retention_ms=-1) == 0
    assert gone(facts, retention_ms=2000) == 0
    assert gone(facts, retention_ms=0) == 5


def test_one_young_record_in_front_keeps_all_behind_it():
    assert gone([(10, 5000), (10, 1)], retention_ms=1) == 0


def test_at_least_the_bytes_that_are_to_be_kept_are_kept():
    facts = [(10, 900)] * 5
    assert gone(facts, retention_bytes=50) == 0
    assert gone(facts, retention_bytes=49) == 0
    assert gone(facts, retention_bytes=40) == 1
    assert gone(facts, retention_bytes=15) == 3
    assert gone(facts, retention_bytes=0) == 5
    assert gone(facts, retention_bytes=1000) == 0


def test_what_has_no_timestamp_is_as_old_as_its_object():
    assert gone([(10, -1)], born=950, retention_ms=100) == 0
    assert gone([(10, -1)], born=850, retention_ms=100) == 1


def test_an_empty_cleanup_policy_keeps_everything():
    assert gone([(10, 1)], retention_ms=1, retention_bytes=0, cleanup_policy="") == 0


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(-1, 2000)), max_size=20),
    st.integers(-1, 1500),
    st.integers(-1, 400),
)
def test_nothing_goes_that_either_rule_keeps(facts, age, size):
    count = gone(facts, retention_ms=age, retention_bytes=size)
    kept = facts[count:]
    for index in range(count):
        stamp = max(facts[index][1], 0)
        too_old = age >= 0 and stamp < 1000 - age
        too_much = size >= 0 and sum(length for length, _ in facts[index + 1 :]) >= size
        assert too_old or too_much
    if kept:
        assert age < 0 or max(kept[0][1], 0) >= 1000 - age
        assert size < 0 or sum(length for length, _ in kept[1:]) < size


async def fill(engine, stream, count, stamp):
    for number in range(count):
        await engine.append_records(stream, [Record(None, b"%05d" % number * 200, timestamp=stamp)])


def lake():
    return {"objects": MemoryObjects(SystemClock()), "ledger": MemoryLedger(MemoryShelf()), "shards": 4}


def test_old_records_become_unreadable_and_their_objects_are_swept(run):
    async def story():
        parts = lake()
        limits = EngineLimits(upkeep=UpkeepLimits(sweep_grace_ms=0))
        async with Engine(**parts, limits=limits) as engine:
            short = await engine.topics.create("short", 2, {"retention.ms": "60000"})
            long = await engine.topics.create("long")
            now = engine.world.clock.now_ms()
            for topic in (short, long):
                await fill(engine, topic.streams[0], 5, now - 120_000)
            await fill(engine, short.streams[0], 2, now)
            before = [facts.name async for facts in parts["objects"].list("wal/")]
            assert await engine.retention.run() == 1
            assert await engine.retention.run() == 0
            assert await engine.bounds(short.streams[0]) == (5, 7)
            assert await engine.bounds(short.streams[1]) == (0, 0)
            assert await engine.bounds(long.streams[0]) == (0, 5)
            with pytest.raises(OffsetOutOfRange):
                await engine.read(short.streams[0], 4)
            assert [record.offset async for record in engine.records(short.streams[0], 5)] == [5, 6]
            await engine.upkeep.round()
            await engine.upkeep.round()
            after = [facts.name async for facts in parts["objects"].list("wal/")]
            assert len(after) < len(before)
            assert [record.offset async for record in engine.records(long.streams[0])] == [0, 1, 2, 3, 4]

    run(story())


def test_a_topic_keeps_as_many_bytes_as_it_is_told_and_the_cluster_can_tell_all(run):
    async def story():
        from runnel.metadata.updates import SetSettings
        from runnel.model import ROOT

        async with Engine(**lake()) as engine:
            small = await engine.topics.create("small", 1, {"retention.bytes": "2500"})
            other = await engine.topics.create("other")
            now = engine.world.clock.now_ms()
            for topic in (small, other):
                await fill(engine, topic.streams[0], 6, now)
            await engine.retention.run()
            assert (await engine.bounds(small.streams[0])) == (3, 6)
            assert (await engine.bounds(other.streams[0])) == (0, 6)
            await engine.propose(ROOT, SetSettings({"log.retention.bytes": "0"}))
            assert await engine.retention.run() == 1
            assert (await engine.bounds(small.streams[0])) == (3, 6)
            assert (await engine.bounds(other.streams[0])) == (6, 6)
            await engine.append_records(other.streams[0], [Record(None, b"x")])
            assert (await engine.bounds(other.streams[0])) == (6, 7)

    run(story())


def test_rules_follow_the_settings(run):
    async def story():
        async with Engine(**lake()) as engine:
            topic = await engine.topics.create("t", 1, {"retention.ms": "5"})
            rules = engine.topics.rules(topic)
            assert rules.retention_ms == 5
            assert engine.topics.rules(topic) is rules
            topic = await engine.topics.alter(topic, {"retention.ms": "6"})
            assert engine.topics.rules(topic).retention_ms == 6
            topic = await engine.topics.alter(topic, {}, ["retention.ms"])
            assert engine.topics.rules(topic).retention_ms == 604_800_000

    run(story())


def test_upkeep_checks_retention_as_often_as_it_is_told(run):
    async def story():
        import asyncio

        limits = EngineLimits(upkeep=UpkeepLimits(retention_check_ms=10))
        async with Engine(**lake(), limits=limits) as engine:
            topic = await engine.topics.create("t", 1, {"retention.ms": "1000"})
            await fill(engine, topic.streams[0], 1, 1)
            async with asyncio.timeout(20):
                while await engine.bounds(topic.streams[0]) != (1, 1):  # noqa: ASYNC110  upkeep rings no bell
                    await asyncio.sleep(0.01)

    run(story())
