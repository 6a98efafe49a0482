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
        sys.executable, __file__, action, json.dumps({"address": address, **facts}), stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(60):
            out, _ = await process.communicate()
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


if __name__ == "__main__":
    sys.stdout.write(json.dumps(globals()[sys.argv[1]](**json.loads(sys.argv[2]))))
