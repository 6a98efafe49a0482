"""Spark reads topics: what there is, and what comes."""

import os
import shutil
import sys

import pytest
from tests.lake.conftest import ORDER, ORDER_2, Place, avro, record

pytestmark = [
    pytest.mark.leaves("Spark keeps a JVM and its sockets"),
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.timeout(180),
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(folder))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.extraJavaOptions", "-Dlog4j2.level=ERROR")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    made = Place(tmp_path_factory.mktemp("cluster"))
    first, second = made.register("orders-value", ORDER, ORDER_2)
    halves = [
        [record(avro(first, n, "a")) for n in range(500)],
        [record(avro(second, n, "b", n / 2)) for n in range(500, 1000)],
    ]
    made.fill(
        "orders",
        [(n % 3, half[n::10]) for half in halves for n in range(10)] + [(0, [record(b"broken")])],
        partitions=3,
    )
    return made


def reading(place, reader, topic, **more):
    reader = reader.format("runnel").option("topic", topic)
    for name, value in {**place.settings, **more}.items():
        reader = reader.option(name, str(value))
    return reader.load()


def test_a_topic_is_a_table_without_any_registration(spark, place):
    orders = reading(place, spark.read, "orders", bytesPerPartition=2000)
    assert orders.columns[:3] == ["id", "note", "price"]
    orders.createOrReplaceTempView("orders")
    (row,) = spark.sql("select count(*) n, sum(id) s, sum(price) p, count(distinct partition) d from orders").collect()
    assert (row.n, row.s, row.p, row.d) == (1000, sum(range(1000)), sum(range(500, 1000)) / 2, 3)
    assert orders.rdd.getNumPartitions() > 3
    few = reading(place, spark.read, "orders", startingOffsets='{"0": 10, "1": -1, "2": -1}', endingOffsets=20)
    assert sorted(row.offset for row in few.where("partition = 0").collect()) == list(range(10, 20))
    narrow = reading(place, spark.read.schema("offset long, note string"), "orders", endingOffsets=1)
    assert [tuple(row) for row in narrow.collect()] == [(0, "a")] * 3


def test_a_mistake_is_told_in_our_words(spark, place):
    with pytest.raises(Exception, match="topic 'nowhere' does not exist"):
        reading(place, spark.read, "nowhere").count()
    with pytest.raises(Exception, match="did you mean 'startingOffsets'"):
        reading(place, spark.read, "orders", startingOffset=1).count()


def stream(spark, place, topic, tmp_path, name, trigger, **more):
    """A query into memory that can be taken up again."""
    seen = []

    def take(batch, number):
        seen.append(
            (number, sorted((row.partition, row.offset) for row in batch.select("partition", "offset").collect()))
        )

    made = reading(place, spark.readStream, topic, **more).writeStream.foreachBatch(take)
    return made.option("checkpointLocation", str(tmp_path / name)).trigger(**trigger), seen


def test_available_now_reads_to_the_end_once_and_goes_on_where_it_was(spark, place, tmp_path):
    place.fill("now", [(n % 2, [record(b"x")] * 5) for n in range(4)], partitions=2)
    options = {"startingOffsets": "earliest"}
    query, seen = stream(spark, place, "now", tmp_path, "now", {"availableNow": True}, **options)
    query.start().awaitTermination(120)
    assert sorted(row for _, rows in seen for row in rows) == [(p, n) for p in range(2) for n in range(10)]
    place.fill("now", [(1, [record(b"y")])])
    query, seen = stream(spark, place, "now", tmp_path, "now", {"availableNow": True}, **options)
    query.start().awaitTermination(120)
    assert [row for _, rows in seen for row in rows] == [(1, 10)]


def test_a_stream_takes_so_much_at_once_also_after_it_was_taken_up_again(spark, place, tmp_path):
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 30}
    taken = {}
    for first in (0, 25):
        place.fill("paced", [(partition, [record(b"x")] * 25) for partition in range(2)], partitions=2)
        query, seen = stream(spark, place, "paced", tmp_path, "paced", {"processingTime": "0 seconds"}, **options)
        running = query.start()
        running.processAllAvailable()
        running.stop()
        for number, rows in seen:
            assert len(rows) <= 30
            assert taken.setdefault(number, rows) == rows  # a batch that was not finished is given again, the same
        everything = sorted(row for rows in taken.values() for row in rows)
        assert everything == [(partition, n) for partition in range(2) for n in range(first + 25)]
