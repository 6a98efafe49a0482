"""Stock Kafka clients, each run in a process of its own: they keep threads and sockets, and warn about their own past.

In a test: `await stock("confluent_delete", address, topic="orders", offset=2)`; what the function gives back is JSON.
"""

import asyncio
import json
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
