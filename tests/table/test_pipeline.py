"""From streams to tables that others can read."""

import pytest
from tests.table.lake import Lake, produce

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
