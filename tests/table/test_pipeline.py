"""From streams to tables that others can read."""

import io
import json

import fastavro
import pytest
from tests.table.lake import Lake, knows, produce

from runnel import Record

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
