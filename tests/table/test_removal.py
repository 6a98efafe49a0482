"""What streams lose goes out of their tables and then out of the store, and nothing else does."""

import asyncio

import pytest
from tests.table.lake import Lake, produce

from runnel.metadata.updates import TruncateStreams
from runnel.model import ObjectName, StreamId, shard_of
from runnel.table.files.facts import Sizes, stem_of, trail_name

pytestmark = pytest.mark.leaves("pyiceberg keeps the threads of its pool")


async def truncate(engine, stream, start):
    await engine.propose(shard_of(StreamId(stream), 2), TruncateStreams({stream: start}))


async def names(lake, folder):
    return {facts.name async for facts in lake.objects.list(folder)}


def offsets(rows):
    return sorted(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))


async def filled(engine, service):
    """Three commits of partition 0; the second one has partition 1 in it as well."""
    topic = await engine.topics.create("orders", 2)
    for n in range(3):
        await produce(engine, "orders", 10, first=n * 10)
        if n == 1:
            await produce(engine, "orders", 5, partition=1)
        assert not (await service.sync()).round.trouble
    return topic


def test_files_go_when_all_their_records_have_gone_and_their_objects_a_while_later(tmp_path, run):
    async def scenario():
        lake = Lake(tmp_path)
        lake.grace_ms = 50
        async with lake.engine() as engine, lake.service(engine) as service:
            topic = await filled(engine, service)
            table = engine.root.tables[topic.id]
            before = await names(lake, f"{table.folder}/data/")
            await truncate(engine, topic.streams[0], 20)
            removed = await lake.removal.run(table)
            assert (removed.groups, removed.files, removed.objects) == (1, 1, 0)
            left = [(0, n) for n in range(10, 30)] + [(1, n) for n in range(5)]  # the second commit has live records
            assert offsets(lake.iceberg_rows("orders")) == left
            assert offsets(lake.delta_rows(table)) == left
            assert await names(lake, f"{table.folder}/data/") == before
            snapshot = lake.iceberg_table("orders").current_snapshot()
            assert snapshot.summary["runnel.offsets"] == "0:30,1:5"
            await asyncio.sleep(0.06)
            again = await lake.removal.run(engine.root.tables[topic.id])
            assert again.objects == 2
            assert len(before - await names(lake, f"{table.folder}/data/")) == 2
            assert offsets(lake.iceberg_rows("orders")) == offsets(lake.delta_rows(table)) == left
            await truncate(engine, topic.streams[1], 5)
            assert (await lake.removal.run(engine.root.tables[topic.id])).groups == 1
            assert offsets(lake.iceberg_rows("orders")) == [(0, n) for n in range(20, 30)]
            await produce(engine, "orders", 10, first=30)
            assert not (await service.sync()).round.trouble
            for rows in (lake.iceberg_rows("orders"), lake.delta_rows(engine.root.tables[topic.id])):
                assert offsets(rows) == [(0, n) for n in range(20, 40)]
        await lake.close()

    run(scenario())


def test_a_table_that_is_made_again_has_no_files_that_were_taken_out(tmp_path, run):
    async def scenario():
        lake = Lake(tmp_path)
        async with lake.engine() as engine, lake.service(engine) as service:
            topic = await filled(engine, service)
            await truncate(engine, topic.streams[0], 10)
            assert (await lake.removal.run(engine.root.tables[topic.id])).objects == 2
            left = offsets(lake.iceberg_rows("orders"))
            lake.iceberg_table("orders")
            lake.iceberg()._catalog().drop_table(("runnel", "orders"))
            assert not (await service.rebuild("orders")).trouble
            assert offsets(lake.iceberg_rows("orders")) == left
            assert (0, 9) not in left
            assert (0, 10) in left
        await lake.close()

    run(scenario())


def test_orphans_go_and_committed_files_stay_whoever_points_at_them(tmp_path, run):
    async def scenario():
        lake = Lake(tmp_path)
        async with lake.engine() as engine, lake.service(engine, swap=False) as service:
            topic = await filled(engine, service)
            table = engine.root.tables[topic.id]
            before = await names(lake, f"{table.folder}/data/")
            orphan = stem_of(f"{table.folder}/data", table.recent[1].stamp, 77)
            some = next(name for name in before if name.endswith(".trail"))
            await lake.objects.put_new(ObjectName(f"{orphan}-000.parquet"), b"PAR1")
            await lake.objects.put_new(trail_name(orphan), bytes(await lake.objects.read(ObjectName(some))))
            torn = stem_of(f"{table.folder}/data", table.recent[0].stamp - 10, 78)
            await lake.objects.put_new(ObjectName(f"{torn}-000.parquet"), b"PAR1")
            await asyncio.sleep(0.01)
            removed = await lake.removal.run(table)
            assert (removed.groups, removed.objects) == (0, 3)
            assert await names(lake, f"{table.folder}/data/") == before
            assert len(offsets(lake.iceberg_rows("orders"))) == 35
        await lake.close()

    run(scenario())


def test_the_tables_of_a_deleted_topic_go_and_another_topic_may_have_its_name(tmp_path, run):
    async def scenario():
        lake = Lake(tmp_path, sizes=Sizes(chunk_bytes=200))
        lake.grace_ms = 50
        async with lake.engine() as engine, lake.service(engine) as service:
            topic = await filled(engine, service)
            folder = engine.root.tables[topic.id].folder
            await engine.topics.delete(topic)
            await engine.topics.create("orders")
            await produce(engine, "orders", 7)
            assert not (await service.sync()).round.trouble
            assert offsets(lake.iceberg_rows("orders")) == [(0, n) for n in range(7)]
            assert await names(lake, folder)
            await asyncio.sleep(0.06)
            await produce(engine, "orders", 1, first=7)
            assert not (await service.sync()).round.trouble
            assert await names(lake, f"{folder}/") == set()
            assert topic.id not in engine.root.tables
            assert len(offsets(lake.iceberg_rows("orders"))) == 8
        await lake.close()

    run(scenario())
