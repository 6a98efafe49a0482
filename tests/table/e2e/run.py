"""From a stock producer to SQL on the table, with everybody else's readers: one run, one answer.

    python tests/table/e2e/run.py                                        starts a node of its own
    python tests/table/e2e/run.py --data-dir runnel-data --bootstrap localhost:9092 --registry http://localhost:8080

Registers an Avro schema, produces 100,000 records with a second version of the schema half-way and ten broken ones,
asks for `runnel table sync`, and compares counts and sums as pyiceberg, deltalake, DuckDB, Polars and Spark with
Iceberg's and Delta's own runtimes see them. Ten records must be in the dead-letter topic, and a Kafka consumer that
begins at offset 0 must get what was sent, byte for byte.

Prints one line per step, exits 1 if one fails. With `--without-spark-readers` it needs no jars from Maven.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[3]))

TOPIC = "orders"
V1 = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
  {"name": "id", "type": "long"},
  {"name": "customer", "type": "string"},
  {"name": "quantity", "type": "int"},
  {"name": "price", "type": "double"},
  {"name": "tags", "type": {"type": "array", "items": "string"}}]}"""
V2 = """{"type": "record", "name": "Order", "namespace": "shop", "fields": [
  {"name": "id", "type": "long"},
  {"name": "customer", "type": "string"},
  {"name": "quantity", "type": "long"},
  {"name": "price", "type": "double"},
  {"name": "tags", "type": {"type": "array", "items": "string"}},
  {"name": "discount", "type": ["null", "int"], "default": null}]}"""
BROKEN = 10


def order(number, count):
    made = {
        "id": number,
        "customer": f"customer-{number % 997}",
        "quantity": number % 13,
        "price": (number % 1000) / 4,
        "tags": [f"t{number % 7}"] * (number % 3),
    }
    if number >= count // 2:
        made["discount"] = number % 50 if number % 5 else None
    return made


class Steps:
    """Prints what was done and how long it took."""

    def __init__(self):
        self.failed = 0
        self.began = time.monotonic()

    def say(self, what, good=True, more=""):
        self.failed += not good
        print(
            f"{'ok  ' if good else 'FAIL'} {time.monotonic() - self.began:7.1f} s  {what}  {more}".rstrip(), flush=True
        )


@contextmanager
def node(options, folder):
    """The node that was named, or one of our own."""
    if options.bootstrap:
        yield options.bootstrap, options.registry, Path(options.data_dir)
        return
    data_dir = folder / "data"
    words = [sys.executable, "-m", "runnel", "serve", "--json", "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0"]
    words += ["--processes", "1", "--data-dir", str(data_dir), "--log-level", "warning"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        ready = json.loads(process.stdout.readline())["ready"]
        yield ready["kafka"], ready["http"], data_dir
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def produce(bootstrap, registry, count):
    """Stock clients alone; what was sent, by partition and offset."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2)])[TOPIC].result(30)
    client = SchemaRegistryClient({"url": registry})
    context = SerializationContext(TOPIC, MessageField.VALUE)
    writers = [AvroSerializer(client, text) for text in (V1, V2)]
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 20})
    sent = {}

    def delivered(error, message):
        assert error is None, error
        sent[message.partition(), message.offset()] = (message.key(), message.value())

    broken = {count * each // BROKEN + 7 + each % 2 for each in range(BROKEN)}
    for number in range(count):
        value = writers[number >= count // 2](order(number, count), context)
        producer.produce(TOPIC, key=b"%d" % (number % 997), value=value, on_delivery=delivered)
        if number in broken:
            bad = b"\0\0\0\0\1" + b"\xff" * 9 if number % 2 else b"no frame at all"
            producer.produce(TOPIC, key=b"broken", value=bad, on_delivery=delivered)
        producer.poll(0)
    producer.flush(60)
    return sent


def consume(bootstrap, topic, count, seconds=60):
    """The first records of a topic, as a stock consumer gets them."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "e2e", "enable.auto.commit": False})
    try:
        partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        found = {}
        until = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < until:
            for message in consumer.consume(1000, 1.0):
                assert message.error() is None, message.error()
                found[message.partition(), message.offset()] = message
        return found
    finally:
        consumer.close()


SUMS = 'count(*), sum(id), sum(quantity), sum(price), sum(discount), count(discount), max("offset")'


def expected(count, sent):
    orders = [order(number, count) for number in range(count)]
    discounts = [each["discount"] for each in orders if each.get("discount") is not None]
    good = [offset for (_, offset), (key, _) in sent.items() if key != b"broken"]
    return (
        count,
        sum(each["id"] for each in orders),
        sum(each["quantity"] for each in orders),
        sum(each["price"] for each in orders),
        sum(discounts),
        len(discounts),
        max(good),
    )


def readers(data_dir, folder, delta, with_spark):
    """Everybody's answer to the same question, by name."""
    import duckdb
    import polars as pl
    import pyarrow.compute as pc
    from deltalake import DeltaTable
    from pyiceberg.catalog import load_catalog

    def of_arrow(table):
        def total(name):
            return pc.sum(table[name]).as_py()

        return (
            table.num_rows,
            total("id"),
            total("quantity"),
            total("price"),
            total("discount"),
            pc.count(table["discount"]).as_py(),
            pc.max(table["offset"]).as_py(),
        )

    def of_polars(frame):
        column = pl.col
        return (
            frame.select(
                pl.len().alias("rows"),
                column("id").sum(),
                column("quantity").sum(),
                column("price").sum(),
                column("discount").sum(),
                column("discount").count().alias("discounts"),
                column("offset").max(),
            )
            .collect()
            .row(0)
        )

    catalog_file = data_dir.absolute() / "catalog.sqlite"
    catalog = load_catalog("runnel", type="sql", uri=f"sqlite:///{catalog_file}")
    iceberg = catalog.load_table(("runnel", TOPIC))
    yield "pyiceberg", lambda: of_arrow(iceberg.scan().to_arrow())
    yield "deltalake", lambda: of_arrow(DeltaTable(delta).to_pyarrow_table())

    def by_duckdb(name, reader):
        def ask():
            with duckdb.connect() as connection:
                connection.register(name, reader())
                return connection.sql(f"select {SUMS} from {name}").fetchone()

        return ask

    yield "DuckDB on Iceberg", by_duckdb("orders", lambda: iceberg.scan().to_arrow_batch_reader())
    yield "DuckDB on Delta", by_duckdb("orders", lambda: DeltaTable(delta).to_pyarrow_dataset())
    yield "Polars on Iceberg", lambda: of_polars(pl.scan_iceberg(iceberg))
    yield "Polars on Delta", lambda: of_polars(pl.scan_delta(delta))
    if not with_spark:
        return
    from tools.spark_runtimes import session

    sums = SUMS.replace('"', "`")
    warehouse = f"file://{data_dir.absolute() / 'objects' / 'tables'}"
    with session(folder, iceberg={"runnel": f"jdbc:sqlite:{catalog_file}"}, warehouse=warehouse) as spark:
        yield (
            "Spark with Iceberg's runtime",
            lambda: tuple(spark.sql(f"select {sums} from runnel.runnel.{TOPIC}").collect()[0]),
        )
        yield "Spark with Delta's runtime", lambda: tuple(spark.sql(f"select {sums} from delta.`{delta}`").collect()[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="")
    parser.add_argument("--registry", default="http://127.0.0.1:8080")
    parser.add_argument("--data-dir", default="runnel-data")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--without-spark-readers", action="store_true")
    options = parser.parse_args()
    for name in [name for name in os.environ if name.startswith("RUNNEL_")]:
        del os.environ[name]
    steps = Steps()
    with (
        tempfile.TemporaryDirectory(prefix="runnel-e2e-") as folder,
        node(options, Path(folder)) as (bootstrap, registry, data_dir),
    ):
        go(steps, options, Path(folder), bootstrap, registry, data_dir)
    return int(bool(steps.failed))


def go(steps, options, folder, bootstrap, registry, data_dir):
    sent = produce(bootstrap, registry, options.records)
    steps.say("produced", len(sent) == options.records + BROKEN, f"{len(sent):,} records, two versions of a schema")

    words = [sys.executable, "-m", "runnel", "table", "sync", TOPIC, "--json", "--data-dir", str(data_dir)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    synced = json.loads(done.stdout) if done.stdout else {}
    good = done.returncode == 0
    steps.say("runnel table sync", good, done.stderr[-500:] if not good else f"{synced['rows']:,} rows by this process")

    words[4:6] = ["status", TOPIC]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    (status,) = json.loads(done.stdout)["tables"]
    steps.say(
        "runnel table status",
        status["lag_offsets"] == 0 and not status["trouble"] and status["rows"] == options.records,
        f"lag {status['lag_offsets']}, {status['rows']:,} rows, ratio {status['ratio']} {status['trouble'] or ''}",
    )

    right = expected(options.records, sent)
    delta = status["known_as"]["delta"]["location"].removeprefix("file://")
    for name, ask in readers(data_dir, folder, delta, not options.without_spark_readers):
        try:
            found = tuple(ask())
        except Exception as error:  # noqa: BLE001  one reader's trouble is one line
            steps.say(name, good=False, more=repr(error)[:600])
        else:
            same = [
                abs(a - b) < 1e-6 * max(1, abs(b)) for a, b in zip(map(float, found), map(float, right), strict=True)
            ]
            steps.say(name, all(same), f"{found}" if all(same) else f"{found}, not {right}")

    letters = consume(bootstrap, f"{TOPIC}-dead-letters", BROKEN)
    reasons = {dict(message.headers())["runnel.reason"].decode() for message in letters.values()}
    bad = sorted(value for key, value in sent.values() if key == b"broken")
    same = sorted(message.value() for message in letters.values()) == bad
    steps.say("dead letters", len(letters) == BROKEN and same, f"{len(letters)}: {'; '.join(sorted(reasons))}")

    found = consume(bootstrap, TOPIC, len(sent))
    same = {place: (message.key(), message.value()) for place, message in found.items()} == sent
    steps.say("a consumer from offset 0", same, f"{len(found):,} records, byte for byte")


if __name__ == "__main__":
    sys.exit(main())
