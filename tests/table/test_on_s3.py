"""Tables in a bucket: the same files, catalogs and logs over S3, read back by others over S3."""

import pytest
from deltalake import DeltaTable
from tests.contract.objects.servers import ACCESS_KEY, SECRET_KEY, seaweedfs
from tests.table.lake import Lake, produce

from runnel.model import ObjectName
from runnel.table.catalogs.places import Place
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.open import open_store

pytestmark = pytest.mark.leaves("pyiceberg keeps the threads of its pool, pyarrow its connections")


def test_a_topic_in_a_bucket_is_a_table_in_a_bucket(tmp_path, run, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)

    async def scenario(url):
        lake = Lake(tmp_path)
        await lake.objects.close()
        lake.url = url
        lake.objects = open_store(url, clock=SystemClock(), chance=Chance())
        await lake.objects.put_new(ObjectName("first"), b"")  # SeaweedFS makes a bucket with its first object
        place = Place(url)
        lake.properties |= {"warehouse": place.url("tables"), **place.iceberg()}
        async with lake.engine() as engine:
            topic = await engine.topics.create("t", 1)
            async with lake.service(engine) as service:
                for number in range(3):
                    await produce(engine, "t", 10, first=10 * number)
                    assert (await service.sync()).round.trouble == {}
            table = engine.root.tables[topic.id]
            assert sorted(lake.iceberg_rows("t", "offset")["offset"].to_pylist()) == list(range(30))
            delta = DeltaTable(place.url(table.folder), storage_options=place.delta())
            assert sorted(delta.to_pyarrow_table()["offset"].to_pylist()) == list(range(30))
            found = [record.value async for record in engine.records(topic.streams[0])]
            assert found == [b"%020d" % number for number in range(30)]
        await lake.close()

    with seaweedfs(tmp_path / "s3") as server:
        run(scenario(server.url("lake") + "&unordered=true"))
