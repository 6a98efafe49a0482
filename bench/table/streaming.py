"""From a topic to Parquet: the table service beside Spark Structured Streaming with its own Kafka source.

    bench/run.py run table/streaming -- [--mb 200] [--shape avro] [--cores 2]

One node, one topic of four partitions, records of about 1 KB with ten fields (Avro, framed) or raw. Both jobs run on a
Spark of this machine with as many cores, started and warm before the time counts: ours commits to Iceberg and Delta and
replaces the write-ahead objects, the peer (`readStream … trigger(availableNow)`) writes Parquet files, with `from_avro`
where there is a schema. `mib_per_s` are of records by the clock, `mib_per_cpu_s` by the processor's time of all
processes of a job; the node that the peer reads from is not counted. Needs mvn for the peer's jars, fetched once.
"""

import argparse
import asyncio
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fastavro
import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.kafka._peers import runnel  # noqa: E402  the line above finds it

JARS = {
    "org.apache.spark:spark-sql-kafka-0-10_2.13": "4.1.1",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13": "4.0.0",
    "org.apache.spark:spark-avro_2.13": "4.1.1",
    "org.apache.kafka:kafka-clients": "3.9.1",
    "org.apache.commons:commons-pool2": "2.12.0",
}
CACHE = ROOT / ".cache" / "spark-kafka-4.1"
PARTITIONS = 4
SCHEMA = {
    "type": "record",
    "name": "View",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "at", "type": "long"},
        {"name": "user", "type": "long"},
        {"name": "session", "type": "string"},
        {"name": "page", "type": "string"},
        {"name": "referrer", "type": ["null", "string"]},
        {"name": "agent", "type": "string"},
        {"name": "country", "type": "string"},
        {"name": "took_ms", "type": "double"},
        {"name": "details", "type": "string"},
    ],
}


def values(count, seed=1):
    """Framed Avro values of about 1 KB."""
    luck = random.Random(seed)
    schema = fastavro.parse_schema(SCHEMA)
    agents = ["Mozilla/5.0 " + "".join(luck.choices("abcdefgh /;.", k=100)) for _ in range(40)]
    for number in range(count):
        out = io.BytesIO()
        fastavro.schemaless_writer(
            out,
            schema,
            {
                "id": f"{luck.getrandbits(128):032x}",
                "at": 1_760_000_000_000 + number * 7,
                "user": luck.randrange(100_000),
                "session": f"{luck.getrandbits(64):016x}",
                "page": f"/shop/{luck.randrange(500)}/item",
                "referrer": None if number % 3 else f"https://example.com/{luck.randrange(50)}",
                "agent": agents[luck.randrange(40)],
                "country": luck.choice(["de", "fr", "us", "jp", "br"]),
                "took_ms": luck.random() * 900,
                "details": " ".join(luck.choices(("red", "green", "cheap", "new", "large", "soft", "loud"), k=110)),
            },
        )
        yield out.getvalue()


def fill(bootstrap, registry, topic, mb, shape):
    """Produce; how many bytes of values."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

    admin = AdminClient({"bootstrap.servers": bootstrap})
    settings = {"table.values": "schema" if shape == "avro" else "raw"}
    admin.create_topics([NewTopic(topic, PARTITIONS, config=settings)])[topic].result(30)
    frame = b""
    if shape == "avro":
        client = SchemaRegistryClient({"url": registry})
        frame = b"\0" + client.register_schema(f"{topic}-value", Schema(json.dumps(SCHEMA), "AVRO")).to_bytes(4, "big")
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "lz4", "linger.ms": 50})
    some = [frame + each for each in values(20_000)]
    size = number = 0
    while size < mb * 1_000_000:
        value = some[number % len(some)]
        producer.produce(topic, value, key=b"%d" % number, partition=number // 500 % PARTITIONS)
        size += len(value)
        number += 1
        if not number % 1000:
            producer.poll(0.05)
            producer.flush(60) if not number % 50_000 else None
    producer.flush(120)
    return size, number


def tree_cpu():
    """Processor seconds of this process and all below it, those that ended and were waited for included."""
    total = 0.0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def ours(data_dir, topic, warm, cores):
    from runnel.settings import Settings
    from runnel.wiring import table_service

    settings = Settings(data_dir=str(data_dir), table_master=f"local[{cores}]", log_level="error")

    async def measure():
        async with table_service(settings, lambda _done, _all: None) as service:
            await service.sync(frozenset([warm]))
            cpu, began = tree_cpu(), time.monotonic()
            done = (await service.sync(frozenset([topic]))).round
            return time.monotonic() - began, tree_cpu() - cpu, done

    seconds, cpu, done = asyncio.run(measure())
    assert not done.trouble, done.trouble
    return {"seconds": seconds, "cpu_s": cpu, "rows": done.rows, "parquet_bytes": done.bytes}


def peer(bootstrap, topic, warm, shape, cores, folder):
    from pyspark.sql import SparkSession
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import expr

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    made = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    made = made.config("spark.jars", ",".join(map(str, sorted(jars().glob("*.jar")))))
    made = made.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    made = made.config("spark.driver.memory", "2g").config("spark.ui.showConsoleProgress", "false")
    made = made.config("spark.sql.parquet.compression.codec", "zstd")
    spark = made.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def run(name):
        rows = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap)
        rows = rows.option("subscribe", name).option("startingOffsets", "earliest").load()
        if shape == "avro":
            value = from_avro(expr("substring(value, 6)"), json.dumps(SCHEMA))
            rows = rows.select(value.alias("v"), "partition", "offset", "timestamp", "key")
            rows = rows.select("v.*", "partition", "offset", "timestamp", "key")
        else:
            rows = rows.select("value", "partition", "offset", "timestamp", "key")
        written = rows.writeStream.format("parquet").option("path", f"{folder}/{name}")
        query = written.option("checkpointLocation", f"{folder}/{name}-checkpoint").trigger(availableNow=True).start()
        query.awaitTermination()

    run(warm)
    cpu, began = tree_cpu(), time.monotonic()
    run(topic)
    seconds, cpu = time.monotonic() - began, tree_cpu() - cpu
    files = list(Path(folder, topic).glob("*.parquet"))
    count = spark.read.parquet(f"{folder}/{topic}").count()
    spark.stop()
    return {
        "seconds": seconds,
        "cpu_s": cpu,
        "rows": count,
        "parquet_bytes": sum(each.stat().st_size for each in files),
    }


def jars():
    done = CACHE / ".done"
    if not done.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
        dependencies = "".join(
            f"<dependency><groupId>{name.partition(':')[0]}</groupId><artifactId>{name.partition(':')[2]}</artifactId>"
            f"<version>{version}</version>{alone}</dependency>"
            for name, version in JARS.items()
        )
        (CACHE / "pom.xml").write_text(
            '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
            f"<groupId>peer</groupId><artifactId>kafka</artifactId><version>1</version><dependencies>{dependencies}"
            "</dependencies></project>"
        )
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={CACHE / 'jars'}"]
        subprocess.run(command, cwd=CACHE, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
        done.touch()
    return CACHE / "jars"


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--mb", type=int, default=200)
    words.add_argument("--shape", choices=("avro", "raw"), default="avro")
    words.add_argument("--cores", type=int, default=2)
    words.add_argument("--peer", nargs=2, metavar=("BOOTSTRAP", "FOLDER"), help="used by itself")
    args = words.parse_args()
    if args.peer:
        print(json.dumps(peer(args.peer[0], "views", "warm", args.shape, args.cores, args.peer[1])))
        return
    jars()
    with (
        tempfile.TemporaryDirectory(prefix="bench-streaming-") as folder,
        runnel(Path(folder), ("--processes", "1")) as node,
    ):
        registry = registry_of(Path(folder) / "data")
        fill(node.bootstrap, registry, "warm", 2, args.shape)
        size, count = fill(node.bootstrap, registry, "views", args.mb, args.shape)
        command = [sys.executable, __file__, "--shape", args.shape, "--cores", str(args.cores)]
        command += ["--peer", node.bootstrap, folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        theirs = json.loads(done.stdout.strip().splitlines()[-1])
        mine = ours(Path(folder) / "data", "views", "warm", args.cores)
    assert mine["rows"] == theirs["rows"] == count, (mine, theirs, count)
    for each in (mine, theirs):
        each["mib_per_s"] = round(size / each["seconds"] / 2**20, 1)
        each["mib_per_cpu_s"] = round(size / each["cpu_s"] / 2**20, 1)
        each["seconds"], each["cpu_s"] = round(each["seconds"], 2), round(each["cpu_s"], 2)
    result = {"shape": args.shape, "records": count, "value_bytes": size, "cores": args.cores}
    result |= {"runnel": mine, "structured_streaming": theirs}
    result["ratio"] = round(mine["mib_per_s"] / theirs["mib_per_s"], 2)
    result["cpu_ratio"] = round(mine["mib_per_cpu_s"] / theirs["mib_per_cpu_s"], 2)
    print(json.dumps(result, indent=2))


def registry_of(data_dir):
    """Where the node's schema registry is: its HTTP door."""
    from runnel.settings import Settings
    from runnel.wiring import table_look

    async def look():
        async with table_look(Settings(data_dir=str(data_dir))) as found:
            await found.status()
            return next(node.addresses["http"] for node in found._truth.root.nodes.values())  # noqa: SLF001

    return asyncio.run(look())


if __name__ == "__main__":
    main()
