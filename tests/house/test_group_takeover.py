"""Two real nodes, and the one that coordinates a group is killed: its members go on, and nothing committed goes back."""

import asyncio
import signal
import threading
from collections import Counter

import pytest
from tests.broker.groups.test_clients import Confluent, Modern
from tests.broker.raw import RawClient
from tests.house.test_processes import until

from runnel.codec.messages.find_coordinator import FindCoordinatorRequest
from runnel.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

pytestmark = pytest.mark.leaves("librdkafka ends its threads and sockets in its own time")
PARTITIONS = 4


def ask(address, request, version):
    async def talk():
        async with await RawClient.connect(address) as client:
            return await client.ask(request, version)

    return asyncio.run(talk())


def coordinator_of(address, group):
    (told,) = ask(address, FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators
    return f"{told.host}:{told.port}"


def committed(address, group):
    told = ask(address, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]), 8)
    (told,) = told.groups
    assert told.error_code == 0
    return {each.partition_index: each.committed_offset for topic in told.topics for each in topic.partitions}


class Writing:
    """Numbers into a topic, until told to stop."""

    def __init__(self, addresses):
        from confluent_kafka import Producer

        self.producer = Producer({"bootstrap.servers": addresses, "linger.ms": 5, "enable.idempotence": True})
        self.written = 0
        self.running = True
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        while self.running:
            self.producer.produce("orders", b"%d" % self.written, partition=self.written % PARTITIONS)
            self.written += 1
            self.producer.poll(0.02)
        self.producer.flush(20)

    def stop(self):
        self.running = False
        self.thread.join()


@pytest.mark.parametrize("kind", [Confluent, Modern])
def test_a_group_survives_its_coordinator(start, tmp_path, kind):
    from confluent_kafka.admin import AdminClient, NewTopic

    shared = ["--objects", f"file://{tmp_path}/objects", "--ledger", f"sqlite://{tmp_path}/ledger.sqlite"]
    shared += ["--lease-ms", "1500", "--object-age-ms-max", "20", "--consumer-heartbeat-ms", "200"]
    stays, goes = (start("--data-dir", tmp_path / name, *shared) for name in ("stays", "goes"))
    there, gone = (node.ready["ready"]["kafka"] for node in (stays, goes))
    addresses = f"{there},{gone}"
    admin = AdminClient({"bootstrap.servers": there})
    (made,) = admin.create_topics([NewTopic("orders", PARTITIONS)]).values()
    made.result(20)
    group = next(name for name in (f"readers-{number}" for number in range(99)) if coordinator_of(there, name) == gone)
    writing = Writing(addresses)
    readers = [kind(addresses, group_id=group) for _ in range(2)]
    for reader in readers:
        reader.forgives = True
    threads = [threading.Thread(target=reader.run) for reader in readers]
    for thread in threads:
        thread.start()
    try:
        until(lambda: all(len(reader.assigned) == PARTITIONS // 2 for reader in readers))
        until(lambda: all(len(reader.seen) > 20 for reader in readers))
        before = committed(gone, group)
        goes.stop(signal.SIGKILL)
        until(lambda: coordinator_of(there, group) == there)
        after = committed(there, group)
        assert all(after[partition] >= offset for partition, offset in before.items()), (before, after)
        seen = [len(reader.seen) for reader in readers]
        until(lambda: all(len(reader.seen) > count + 20 for reader, count in zip(readers, seen, strict=True)))
        writing.stop()
        until(
            lambda: (
                {value for reader in readers for value in reader.seen}
                >= {b"%d" % number for number in range(writing.written)}
            )
        )
    finally:
        writing.stop()
        for reader in readers:
            reader.running = False
        for thread in threads:
            thread.join()
    assert sum(committed(there, group).values()) == writing.written
    doubles = [
        value for value, count in Counter(value for reader in readers for value in reader.seen).items() if count > 1
    ]
    # A record is read twice at most where the answer to its commit was lost.
    assert len(doubles) <= len(readers) * PARTITIONS
