"""The clients that drive a broker, each in a process of its own: librdkafka (confluent-kafka) and Kafka's Java tools."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tools.apache_kafka import java_tool


def make_topic(bootstrap: str, name: str, partitions: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1)], operation_timeout=60).values():
        future.result()
    for _ in range(300):
        topic = admin.list_topics(name, timeout=30).topics[name]
        if topic.error is None and len(topic.partitions) == partitions:
            return
        time.sleep(0.1)
    raise SystemExit(f"topic {name} did not come up")


def child(action: str, **facts: Any) -> dict[str, Any]:
    """Run one of the functions below in a process of its own."""
    done = subprocess.run([sys.executable, __file__, action, json.dumps(facts)], stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def begin(action: str, **facts: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, __file__, action, json.dumps(facts)], stdout=subprocess.PIPE)


def ended(process: "subprocess.Popen[bytes]") -> dict[str, Any]:
    out, _ = process.communicate()
    return dict(json.loads(out))


def produce(
    bootstrap: str,
    topic: str,
    partitions: int,
    size: int,
    seconds: float,
    rate: float = 0.0,
    linger_ms: float = 5.0,
    **more: Any,
) -> dict[str, Any]:
    """Produce records of `size` bytes round robin for so long; with `rate`, so many bytes a second."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": linger_ms, "batch.size": 1_000_000}
    settings |= {"queue.buffering.max.messages": 2_000_000, "queue.buffering.max.kbytes": 262_144}
    producer = Producer(settings | more)
    body = bytes(range(256)) * (size // 256 + 1)
    value = body[:size]
    late: list[float] = []
    failed = 0

    def answered(error: Any, message: Any) -> None:
        nonlocal failed
        if error is not None:
            failed += 1
        else:
            late.append(message.latency())

    sent = count = 0
    # A latency is kept of every hundredth record when records are small: keeping all would cost more than sending.
    every = 1 if rate else max(1, 10_000 // size)
    run = 256  # records in a row for one partition: what a sticky partitioner does
    begun = time.perf_counter()
    end = begun + seconds
    while (now := time.perf_counter()) < end:
        if rate and sent > (now - begun) * rate:
            producer.poll(0.0005)
            continue
        for _ in range(1 if rate else 200):
            partition = (count // (1 if rate else run)) % partitions
            while True:
                try:
                    producer.produce(
                        topic, value, partition=partition, on_delivery=answered if count % every == 0 else None
                    )
                    break
                except BufferError:
                    producer.poll(0.01)
            count += 1
            sent += size
        producer.poll(0)
    left = producer.flush(60)
    took = time.perf_counter() - begun
    late.sort()
    return {
        "records": count,
        "bytes": sent,
        "failed": failed + left,
        "seconds": took,
        "mb_s": sent / took / 1e6,
        "p50_ms": 1e3 * late[len(late) // 2] if late else 0.0,
        "p99_ms": 1e3 * late[int(len(late) * 0.99)] if late else 0.0,
        "p999_ms": 1e3 * late[int(len(late) * 0.999)] if late else 0.0,
    }


def consume(bootstrap: str, topic: str, records: int, partitions: int, patience: float = 120.0) -> dict[str, Any]:
    """Read a topic from its beginning until so many records have come."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False}
    settings |= {"fetch.message.max.bytes": 8_388_608, "queued.max.messages.kbytes": 262_144, "check.crcs": False}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    count = size = 0
    begun = first = None
    start = time.perf_counter()
    while count < records and time.perf_counter() - start < patience:
        messages = consumer.consume(10_000, 0.5)
        if messages and begun is None:
            begun = time.perf_counter()
            first = start
        for message in messages:
            if message.error() is None:
                count += 1
                size += len(message.value())
    took = time.perf_counter() - (first or start)
    consumer.close()
    return {"records": count, "bytes": size, "seconds": took, "mb_s": size / took / 1e6}


def tail(bootstrap: str, topic: str, seconds: float, partitions: int) -> dict[str, Any]:
    """Follow a topic's end for so long."""
    from confluent_kafka import OFFSET_END, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "tail", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, OFFSET_END) for number in range(partitions)])
    count = size = 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for message in consumer.consume(1000, 0.2):
            if message.error() is None:
                count += 1
                size += len(message.value())
    consumer.close()
    return {"records": count, "bytes": size, "mb_s": size / seconds / 1e6}


def java_produce(bootstrap: str, topic: str, size: int, records: int) -> dict[str, float]:
    words = ["--topic", topic, "--num-records", str(records), "--record-size", str(size), "--throughput", "-1"]
    words += ["--command-property", f"bootstrap.servers={bootstrap}", "acks=all", "linger.ms=5", "batch.size=262144"]
    words += ["buffer.memory=134217728"]
    tool = java_tool("org.apache.kafka.tools.ProducerPerformance", *words, heap="512m")
    done = subprocess.run(tool, capture_output=True, text=True, check=True)
    last = done.stdout.strip().splitlines()[-1]
    found = re.search(r"\(([\d.]+) MB/sec\).*?, (\d+) ms 50th.*?, (\d+) ms 99th", last)
    assert found is not None, last
    return {"mb_s": float(found[1]) * 1.048576, "p50_ms": float(found[2]), "p99_ms": float(found[3])}


def java_consume(bootstrap: str, topic: str, records: int) -> dict[str, float]:
    words = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records), "--timeout", "60000"]
    tool = java_tool("org.apache.kafka.tools.ConsumerPerformance", *words, heap="512m")
    done = subprocess.run(tool, capture_output=True, text=True, check=True)
    rows = [line.split(", ") for line in done.stdout.strip().splitlines() if ", " in line]
    facts = dict(zip((name.strip() for name in rows[0]), rows[-1], strict=True))
    return {"mb_s": float(facts["fetch.MB.sec"]) * 1.048576}


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))
