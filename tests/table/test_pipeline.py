"""From streams to tables that others can read."""

import asyncio
import io
import json

import fastavro
import pytest
from tests.table.lake import Lake, knows, produce

from runnel import Record
from runnel.errors import Fenced, NotThere, Refused, Unavailable
from runnel.metadata.updates import RenewPlanning
from runnel.model import ROOT
from runnel.table.executor import Threads
from runnel.table.plan import Bounds
from runnel.table.schemas import Schemas

pytestmark = pytest.mark.leaves("pyiceberg keeps the threads of its pool")


async def two_partitions(engine):
    topic = await engine.topics.create("orders", 2)
    await produce(engine, "orders", 100, partition=0)
    await produce(engine, "orders", 50, partition=1, first=1000)
    return topic


def test_a_raw_topic_becomes_a_table_in_both_formats(tmp_path, run):
    async def scenario():
        lake = Lake(tmp_path)
        async with lake.engine() as engine:
            topic = await two_partitions(engine)
            async with lake.service(engine) as service:
                synced = await service.sync()
            assert synced.round.trouble == {}
            assert (synced.round.rows, synced.round.commits) == (150, 1)
            rows = lake.iceberg_rows("orders").sort_by([("partition", "ascending"), ("offset", "ascending")])
            assert rows["partition"].to_pylist() == [0] * 100 + [1] * 50
            assert rows["offset"].to_pylist() == [*range(100), *range(50)]
            assert rows["value"].to_pylist()[100] == b"%020d" % 1000
            delta = lake.delta_table(engine.root.tables[topic.id])
            assert delta.to_pyarrow_table().num_rows == 150
            files = {task.file.file_path.split("/")[-1] for task in lake.iceberg_table("orders").scan().plan_files()}
            assert files == {uri.split("/")[-1] for uri in delta.file_uris()}
        await lake.close()

    run(scenario())


def avro(*fields):
    return json.dumps({"type": "record", "name": "R", "fields": [{"name": n, "type": t} for n, t in fields]})


def framed(number, schema, value):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_columns_come_and_types_grow_in_both_formats(tmp_path, run):
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}
    wider = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "long"}, {"name": "y", "type": "string"}]}
    before = avro(("n", "int"), ("f", "float"), ("inner", inner))
    after = avro(("n", "long"), ("f", "double"), ("inner", wider), ("more", ["null", "string"]))

    async def scenario():
        lake = Lake(tmp_path)
        knows(lake.schemas, 1, before)
        knows(lake.schemas, 2, after)
        async with lake.engine() as engine:
            topic = await engine.topics.create("t", 1, {"table.values": "schema"})
            async with lake.service(engine) as service:
                for number, schema, value in (
                    (1, before, {"n": 1, "f": 0.5, "inner": {"x": 1}}),
                    (2, after, {"n": 1 << 40, "f": 0.1, "inner": {"x": 1 << 40, "y": "new"}, "more": "here"}),
                    (1, before, {"n": 3, "f": 0.25, "inner": {"x": 3}}),
                ):
                    await engine.append_records(topic.streams[0], [Record(None, framed(number, schema, value))])
                    assert (await service.sync()).round.trouble == {}
            iceberg = lake.iceberg_rows("t").sort_by("offset")
            delta = lake.delta_rows(engine.root.tables[topic.id]).sort_by("offset")
            for rows in (iceberg, delta):
                assert rows["n"].to_pylist() == [1, 1 << 40, 3]
                assert rows["f"].to_pylist() == [0.5, 0.1, 0.25]
                assert rows["inner"].to_pylist() == [
                    {"x": 1, "y": None},
                    {"x": 1 << 40, "y": "new"},
                    {"x": 3, "y": None},
                ]
                assert rows["more"].to_pylist() == [None, "here", None]
        await lake.close()

    run(scenario())


def test_a_table_that_is_partitioned_by_a_field_and_by_days(tmp_path, run):
    schema = avro(("country", "string"), ("n", "int"))

    async def scenario():
        lake = Lake(tmp_path)
        knows(lake.schemas, 1, schema)
        async with lake.engine() as engine:
            settings = {"table.values": "schema", "table.partition": "country, day(timestamp)"}
            topic = await engine.topics.create("t", 1, settings)
            day = 86_400_000
            async with lake.service(engine) as service:
                for first in (0, 10):
                    records = [
                        Record(None, framed(1, schema, {"country": "ab"[n % 2], "n": n}), (), (20_000 + n % 3) * day)
                        for n in range(first, first + 10)
                    ]
                    await engine.append_records(topic.streams[0], records)
                    assert (await service.sync()).round.trouble == {}
            table = lake.iceberg_table("t")
            assert sorted(lake.iceberg_rows("t")["n"].to_pylist()) == list(range(20))
            assert sorted(table.scan(row_filter="country == 'a'").to_arrow()["n"].to_pylist()) == list(range(0, 20, 2))
            assert len(list(table.scan(row_filter="country == 'a'").plan_files())) == 6
            delta = lake.delta_table(engine.root.tables[topic.id])
            assert delta.metadata().partition_columns == ["country", "timestamp_day"]
            found = delta.to_pyarrow_table(filters=[("country", "=", "b")])
            assert sorted(found["n"].to_pylist()) == list(range(1, 20, 2))
            assert len(delta.file_uris()) == 12
        await lake.close()

    run(scenario())


def test_a_registry_that_is_away_is_waited_for_and_nobody_else_waits(tmp_path, run):
    schema = avro(("n", "int"))

    async def scenario():
        lake = Lake(tmp_path)
        lake.schemas = Schemas(lake.schemas.addresses, tries_max=1)
        async with lake.engine() as engine:
            framed_topic = await engine.topics.create("framed", 1, {"table.values": "schema"})
            await engine.append_records(framed_topic.streams[0], [Record(None, framed(1, schema, {"n": 7}))])
            await engine.topics.create("raw", 1)
            await produce(engine, "raw", 5)
            async with lake.service(engine) as service:
                why = (await service.sync()).round.trouble
                assert list(why) == ["framed"]
                assert "cannot be had from the schema registry" in why["framed"]
                assert engine.root.tables[framed_topic.id].trouble == why["framed"]
                assert lake.iceberg_rows("raw").num_rows == 5
                knows(lake.schemas, 1, schema)
                assert (await service.sync()).round.trouble == {}
            assert lake.iceberg_rows("framed")["n"].to_pylist() == [7]
            assert engine.root.tables[framed_topic.id].trouble == ""
        await lake.close()

    run(scenario())


def test_a_setting_that_makes_no_sense_is_the_trouble_of_its_table_alone(tmp_path, run):
    async def scenario():
        lake = Lake(tmp_path)
        async with lake.engine() as engine:
            for name, settings in (("good", {}), ("bad", {"table.values": "yaml"})):
                await engine.topics.create(name, 1, settings)
                await produce(engine, name, 5)
            async with lake.service(engine) as service:
                why = (await service.sync()).round.trouble
                assert list(why) == ["bad"]
                assert "none of auto, raw, schema" in why["bad"]
                assert lake.iceberg_rows("good").num_rows == 5
                await engine.topics.alter(engine.topics.get("bad"), {"table.values": "raw"})
                assert (await service.sync()).round.trouble == {}
            assert lake.iceberg_rows("bad").num_rows == 5
        await lake.close()

    run(scenario())


def test_work_that_fails_holds_up_what_is_behind_it_in_its_partition_and_nothing_else(tmp_path, run):
    class Faulty:
        """Executors on which one piece of work never gets done."""

        def __init__(self, lake):
            self.inner = Threads(lake.url, lake.schemas)
            self.broken = True

        async def run(self, works):
            async for number, outcome in self.inner.run(works):
                mine = works[number].ranges[0]
                if self.broken and mine.partition == 0 and mine.first == 40:
                    yield number, Unavailable("work for topic 't' failed on somewhere: the disk is full")
                else:
                    yield number, outcome

        async def close(self):
            await self.inner.close()

    async def scenario():
        lake = Lake(tmp_path, bounds=Bounds(task_bytes=1200))
        async with lake.engine() as engine:
            topic = await engine.topics.create("t", 2)
            for first in range(0, 100, 20):
                await produce(engine, "t", 20, partition=0, first=first)
                await produce(engine, "t", 20, partition=1, first=first)
            faulty = Faulty(lake)
            async with lake.service(engine, workers=faulty) as service:
                why = (await service.sync()).round.trouble
                assert "the disk is full" in why["t"]
                table = engine.root.tables[topic.id]
                assert table.ends == {0: 40, 1: 100}
                assert lake.iceberg_rows("t").num_rows == 140
                faulty.broken = False
                assert (await service.sync()).round.trouble == {}
            assert table.ends == {0: 100, 1: 100}
            rows = lake.iceberg_rows("t")
            found = sorted(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
            assert found == [(p, n) for p in range(2) for n in range(100)]
        await lake.close()

    run(scenario())


def test_a_new_table_learns_from_its_first_values_and_the_rest_is_worked_on_once(tmp_path, run):
    class Counted(Threads):
        """Executors that tell what they were given."""

        def __init__(self, lake):
            super().__init__(lake.url, lake.schemas)
            self.given = []

        async def run(self, works):
            self.given.append([(each.is_a_look, sum(len(of.slices) for of in each.ranges)) for each in works])
            async for outcome in super().run(works):
                yield outcome

    async def scenario():
        lake = Lake(tmp_path, bounds=Bounds(task_bytes=1200))
        async with lake.engine() as engine:
            await engine.topics.create("t", 2)
            for first in range(0, 100, 20):
                await produce(engine, "t", 20, partition=0, first=first)
                await produce(engine, "t", 20, partition=1, first=first)
            counted = Counted(lake)
            async with lake.service(engine, workers=counted) as service:
                assert (await service.sync()).round.trouble == {}
                look, works = counted.given
                assert [is_a_look for is_a_look, _ in look] == [True]
                assert [is_a_look for is_a_look, _ in works] == [False] * len(works)
                assert (len(works) > 1, sum(slices for _, slices in works)) == (True, 10)
                assert lake.iceberg_rows("t").num_rows == 200
                counted.given.clear()
                await produce(engine, "t", 20, partition=0, first=100)
                assert (await service.sync()).round.rows == 20
                assert counted.given == [[(False, 1)]]
        await lake.close()

    run(scenario())


def test_two_planners_take_turns_and_one_that_was_paused_is_fenced(tmp_path, run):
    async def scenario():
        lake = Lake(tmp_path, lease_ms=300)
        async with lake.engine() as engine:
            await engine.topics.create("t", 1)
            await produce(engine, "t", 5)
            async with lake.service(engine, holder="first") as first, lake.service(engine, holder="second") as second:
                assert (await first.sync()).round.rows == 5
                await produce(engine, "t", 5)
                first._lease._renewing.cancel()  # the process is stopped: it renews no more
                assert (await second.sync()).round.rows == 5
                with pytest.raises(Fenced):
                    await first._pipeline._commits._truth.propose(ROOT, RenewPlanning(first._lease.epoch))
                await produce(engine, "t", 5)
                waited = asyncio.gather(first.sync())
                await asyncio.sleep(0.1)
                assert not waited.done(), "the other one is alive: it is waited for"
                await second.sync()
                (seen,) = await waited
                assert (seen.round.rows, seen.by) == (0, "second")
            assert sorted(lake.iceberg_rows("t")["offset"].to_pylist()) == list(range(15))
        await lake.close()

    run(scenario())


def test_a_topic_that_is_not_there_or_has_no_table_is_said(tmp_path, run):
    async def scenario():
        lake = Lake(tmp_path)
        async with lake.engine() as engine:
            await engine.topics.create("orders", 1)
            await engine.topics.create("bare", 1, {"table.formats": ""})
            async with lake.service(engine) as service:
                with pytest.raises(NotThere, match="'order' does not exist: did you mean 'orders'"):
                    await service.sync(frozenset(["order"]))
                with pytest.raises(Refused, match=r"'bare' has no table: its setting table\.formats is empty"):
                    await service.sync(frozenset(["bare"]))
                assert (await service.sync(frozenset(["orders"]))).round.tasks == 0
        await lake.close()

    run(scenario())


def test_a_planner_that_waits_for_more_lends_its_lease_to_a_sync(tmp_path, run):
    async def scenario():
        lake = Lake(tmp_path)
        async with lake.engine() as engine:
            await engine.topics.create("t", 1)
            async with lake.service(engine, holder="idle") as idle, lake.service(engine, patience_s=0.1) as now:
                assert (await idle.sync()).round.tasks == 0
                assert await idle._lease.take()
                await produce(engine, "t", 5)
                assert (await now.sync()).round.rows == 5
                with pytest.raises(Fenced):
                    await idle._lease._truth.propose(ROOT, RenewPlanning(idle._lease.epoch))
                await now._lease.give_up()
                await produce(engine, "t", 5)
                assert (await idle.sync()).round.rows == 5
        await lake.close()

    run(scenario())
