"""Stock Kafka clients, each run in a process of its own: they keep threads and sockets, and warn about their own past.

In a test: `await stock("confluent_delete", address, topic="orders", offset=2)`; what the function gives back is JSON.
"""

import asyncio
import json
import subprocess
import sys
from typing import Any


async def stock(action: str, address: str, **facts: Any) -> Any:
    """Run one of the functions below."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, action, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(60):
            out, _ = await process.communicate(json.dumps({"address": address, **facts}).encode())
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    assert process.returncode == 0, f"{action} ended with {process.returncode}"
    return json.loads(out)


def begin(action: str, address: str, **facts: Any) -> "subprocess.Popen[str]":
    """The same for a test without an event loop: a process whose output `ended` takes."""
    process = subprocess.Popen(
        [sys.executable, __file__, action], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({"address": address, **facts}))
    process.stdin.close()
    process.stdin = None
    return process


def ended(process: "subprocess.Popen[str]") -> Any:
    try:
        out, _ = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    assert process.returncode == 0
    return json.loads(out)


def confluent_delete(address: str, topic: str, offset: int) -> int:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address})
    (done,) = admin.delete_records([TopicPartition(topic, 0, offset)]).values()
    return int(done.result(20).low_watermark)


def kafka_python_delete_and_sizes(address: str, topic: str, offset: int) -> str:
    import kafka

    admin = kafka.KafkaAdminClient(bootstrap_servers=address)
    try:
        deleted = admin.delete_records({kafka.TopicPartition(topic, 0): offset})
        return f"{deleted} {admin.describe_log_dirs()}"
    finally:
        admin.close()


def confluent_create(address: str, topic: str, partitions: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": address})
    (made,) = admin.create_topics([NewTopic(topic, partitions, 1)]).values()
    made.result(30)


def confluent_leaders(address: str, topic: str) -> dict[Any, Any]:
    """The leader of each partition; or, without a topic, the brokers."""
    from confluent_kafka.admin import AdminClient

    told = AdminClient({"bootstrap.servers": address}).list_topics(topic or None, timeout=30)
    if not topic:
        return {"brokers": sorted(told.brokers)}
    return {number: facts.leader for number, facts in told.topics[topic].partitions.items()}


def confluent_produce(address: str, topic: str, values: list[str], compression: str) -> int:
    from confluent_kafka import Producer

    settings = {"compression.type": compression, "linger.ms": 50, "message.max.bytes": 4_000_000}
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, **settings})
    failed = []
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(str(error)) if error else None)
    left = producer.flush(30)
    assert not failed, failed
    return left


def confluent_consume(address: str, topic: str, count: int) -> list[str]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[str] = []
    while len(found) < count:
        for message in consumer.consume(count - len(found), 1.0):
            assert message.error() is None, message.error()
            found.append(message.value().decode())
    consumer.close()
    return found


def confluent_produce_for(address: str, topic: str, partitions: int, seconds: float) -> dict[str, Any]:
    """Produce steadily with an idempotent producer; what was acknowledged, by partition, and what failed."""
    import time

    from confluent_kafka import Producer

    settings = {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5, "message.timeout.ms": 60_000}
    producer = Producer({**settings, "topic.metadata.refresh.interval.ms": 2000})
    acknowledged: dict[int, list[int]] = {number: [] for number in range(partitions)}
    failed: list[str] = []

    def answered(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(str(error))
        else:
            acknowledged[message.partition()].append(int(message.value()))

    end = time.monotonic() + seconds  # noqa: TID251  a program of its own
    count = 0
    while time.monotonic() < end:  # noqa: TID251  as above
        for _ in range(20):
            producer.produce(topic, str(count), partition=count % partitions, on_delivery=answered)
            count += 1
        producer.poll(0.01)
    left = producer.flush(60)
    return {"acknowledged": acknowledged, "failed": failed, "left": left, "count": count}


def confluent_read_all(address: str, topic: str, partitions: int) -> dict[int, list[int]]:
    """All that there is, by partition."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False})
    ends = {}
    for number in range(partitions):
        start, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
        assert start == 0
        ends[number] = end
    found: dict[int, list[int]] = {number: [] for number in range(partitions)}
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    while sum(map(len, found.values())) < sum(ends.values()):
        for message in consumer.consume(1000, 1.0):
            if message.error() is None:
                assert message.offset() == len(found[message.partition()])
                found[message.partition()].append(int(message.value()))
    consumer.close()
    return found


def kafka_python_consume(address: str, topic: str, count: int) -> list[str]:
    import kafka

    consumer = kafka.KafkaConsumer(bootstrap_servers=address, group_id=None, auto_offset_reset="earliest")
    try:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        return [next(consumer).value.decode() for _ in range(count)]
    finally:
        consumer.close()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](**json.load(sys.stdin))))
