"""kafka-python, a client in plain Python: its documented producer, consumer, groups and admin."""

import time

from kafka import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    OffsetAndMetadata,
    TopicPartition,
)
from kafka.admin import NewTopic
from kafka.errors import KafkaError, MessageSizeTooLargeError, TopicAlreadyExistsError
from tests.conformance.kafka.ledger import case
from tests.conformance.kafka.stage import until

POLL_MS = 1000
"""Longer than a join takes, on a busy disk as well. kafka-python 3.0.12 forgets a rejoin that does not end within the
poll() that began it, or does it again, whatever the broker: see FINDINGS.md."""


def producing(stage, **more):
    return KafkaProducer(bootstrap_servers=stage.bootstrap, **more)


def consuming(stage, *topics, **more):
    chosen = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 500, "session_timeout_ms": 10_000}
    return KafkaConsumer(*topics, bootstrap_servers=stage.bootstrap, **{**chosen, **more})


def gathered(consumers, count, patience=40.0):
    found = []
    end = time.monotonic() + patience
    while len(found) < count and time.monotonic() < end:
        for consumer in consumers:
            for batch in consumer.poll(timeout_ms=POLL_MS).values():
                found += batch
    assert len(found) >= count, f"{len(found)} of {count} records came"
    return found


@case()
def records_with_keys_headers_and_timestamps(stage):
    topic = stage.topic(1)
    producer = producing(stage)
    headers = [("a", b"1"), ("b", b""), ("a", b"\xff")]
    answers = [
        producer.send(topic, b"v", key=b"k", headers=headers, timestamp_ms=1_700_000_000_123).get(30),
        producer.send(topic, None, key=b"only").get(30),
        producer.send(topic, b"").get(30),
    ]
    producer.close()
    assert [each.offset for each in answers] == [0, 1, 2]
    consumer = consuming(stage, topic)
    found = gathered([consumer], 3)
    consumer.close()
    assert [(each.key, each.value) for each in found] == [(b"k", b"v"), (b"only", None), (None, b"")]
    assert list(found[0].headers) == headers
    assert found[0].timestamp == 1_700_000_000_123


@case()
def order_and_compression(stage):
    for codec in (None, "gzip"):
        topic = stage.topic(2)
        producer = producing(stage, compression_type=codec, linger_ms=10)
        for n in range(1000):
            producer.send(topic, b"%06d" % n, partition=n % 2)
        producer.flush(40)
        producer.close()
        consumer = consuming(stage, topic)
        found = gathered([consumer], 1000)
        consumer.close()
        for number in range(2):
            own = [int(each.value) for each in found if each.partition == number]
            assert own == list(range(number, 1000, 2)), codec


@case()
def acks_none_and_all(stage):
    topic = stage.topic(1)
    for acks in (0, 1, "all"):
        producer = producing(stage, acks=acks, enable_idempotence=False)
        producer.send(topic, str(acks).encode())
        producer.flush(30)
        producer.close()
    consumer = consuming(stage, topic)
    assert sorted(each.value for each in gathered([consumer], 3)) == [b"0", b"1", b"all"]
    consumer.close()


@case()
def an_idempotent_producer(stage):
    topic = stage.topic(3)
    producer = producing(stage, enable_idempotence=True)
    waiting = [producer.send(topic, b"%d" % n, partition=n % 3) for n in range(3000)]
    answers = [each.get(40) for each in waiting]
    producer.close()
    assert sorted((each.partition, each.offset) for each in answers) == [(p, o) for p in range(3) for o in range(1000)]
    consumer = consuming(stage, topic)
    assert sorted(int(each.value) for each in gathered([consumer], 3000)) == list(range(3000))
    consumer.close()


@case()
def a_record_that_is_too_large(stage):
    topic = stage.topic(1, max_message_bytes=5000)
    producer = producing(stage)
    try:
        producer.send(topic, b"x" * 50_000).get(30)
    except MessageSizeTooLargeError:
        return
    finally:
        producer.close()
    raise AssertionError("a record larger than max.message.bytes was taken")


@case()
def seek_position_and_ends(stage):
    topic = stage.topic(1)
    producer = producing(stage)
    for n in range(20):
        producer.send(topic, b"%d" % n, timestamp_ms=1_700_000_000_000 + n * 10)
    producer.flush(30)
    producer.close()
    where = TopicPartition(topic, 0)
    consumer = consuming(stage)
    consumer.assign([where])
    assert consumer.beginning_offsets([where]) == {where: 0}
    assert consumer.end_offsets([where]) == {where: 20}
    consumer.seek(where, 7)
    assert gathered([consumer], 1)[0].offset == 7
    consumer.seek_to_end(where)
    assert consumer.position(where) == 20
    consumer.seek_to_beginning(where)
    assert gathered([consumer], 20)[0].offset == 0
    found = consumer.offsets_for_times({where: 1_700_000_000_035})
    assert (found[where].offset, found[where].timestamp) == (4, 1_700_000_000_040)
    assert consumer.offsets_for_times({where: 1_900_000_000_000})[where] is None
    consumer.close()


@case()
def pause_and_resume(stage):
    topic = stage.topic(2)
    producer = producing(stage)
    for n in range(10):
        producer.send(topic, b"%d" % n, partition=n % 2)
    producer.flush(30)
    producer.close()
    consumer = consuming(stage)
    consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    consumer.pause(TopicPartition(topic, 0))
    found = gathered([consumer], 5)
    assert {each.partition for each in found} == {1}
    consumer.resume(TopicPartition(topic, 0))
    found += gathered([consumer], 5)
    assert sorted(int(each.value) for each in found) == list(range(10))
    consumer.close()


@case(seconds=90)
def two_members_share(stage):
    topic = stage.topic(4)
    producer = producing(stage)
    for n in range(100):
        producer.send(topic, b"%d" % n, partition=n % 4)
    producer.flush(30)
    members = [consuming(stage, topic, group_id=stage.name) for _ in range(2)]
    seen = set()

    def look():
        for each in members:
            for batch in each.poll(timeout_ms=POLL_MS).values():
                seen.update(int(record.value) for record in batch)
        return len(seen) == 100 and [len(each.assignment()) for each in members] == [2, 2]

    try:
        until(look, 40, "two members to share four partitions")
    except AssertionError:
        shares = [sorted(each.assignment()) for each in members]
        raise AssertionError(f"{len(seen)} of 100 records read, shares {shares}") from None
    assert not members[0].assignment() & members[1].assignment()
    members.pop().close()
    until(lambda: look() or len(members[0].assignment()) == 4, 40)
    members[0].close()
    producer.close()


@case()
def commits_with_metadata(stage):
    topic = stage.topic(1)
    where = TopicPartition(topic, 0)
    producer = producing(stage)
    producer.send(topic, b"1").get(30)
    producer.close()
    consumer = consuming(stage, topic, group_id=stage.name, enable_auto_commit=False)
    gathered([consumer], 1)
    consumer.commit({where: OffsetAndMetadata(1, "noted", -1)})
    assert consumer.committed(where) == 1
    assert consumer.committed(where, metadata=True).metadata == "noted"
    consumer.close()


@case()
def the_admin_makes_describes_and_deletes(stage):
    admin = KafkaAdminClient(bootstrap_servers=stage.bootstrap)
    name = f"{stage.name}-made"
    admin.create_topics([NewTopic(name, 2, 1, topic_configs={"retention.ms": "5000"})])
    try:
        admin.create_topics([NewTopic(name, 2, 1)])
    except TopicAlreadyExistsError:
        pass
    else:
        raise AssertionError("a topic was made twice")
    admin.create_partitions({name: 3})
    until(lambda: len(admin.describe_topics([name])[0]["partitions"]) == 3)
    assert name in admin.list_topics()
    assert admin.describe_cluster()["brokers"]
    admin.delete_topics([name])
    until(lambda: name not in admin.list_topics())
    admin.close()


@case()
def the_admin_deletes_records(stage):
    topic = stage.topic(1)
    producer = producing(stage)
    for n in range(10):
        producer.send(topic, b"%d" % n)
    producer.flush(30)
    producer.close()
    admin = KafkaAdminClient(bootstrap_servers=stage.bootstrap)
    admin.delete_records({TopicPartition(topic, 0): 6})
    admin.close()
    consumer = consuming(stage, topic)
    assert [each.value for each in gathered([consumer], 4)] == [b"6", b"7", b"8", b"9"]
    consumer.close()


@case()
def the_admin_sees_groups(stage):
    topic = stage.topic(1)
    producer = producing(stage)
    producer.send(topic, b"1").get(30)
    producer.close()
    consumer = consuming(stage, topic, group_id=stage.name)
    gathered([consumer], 1)
    consumer.commit()
    admin = KafkaAdminClient(bootstrap_servers=stage.bootstrap)
    assert stage.name in str(admin.list_groups())
    assert "Stable" in str(admin.describe_groups([stage.name])) or "STABLE" in str(admin.describe_groups([stage.name]))
    consumer.close()
    until(lambda: _deleted(admin, stage.name))
    assert stage.name not in str(admin.list_groups())
    admin.close()


def _deleted(admin, group):
    try:
        answer = admin.delete_groups([group])
    except KafkaError:
        return False
    return "NonEmpty" not in str(answer)


@case(seconds=120, ends_brokers=True)
def an_idempotent_producer_across_a_killed_broker(stage):
    """kill -9 mid-stream: every record is there once, in order."""
    with stage.node() as node:
        topic = stage.topic(2, bootstrap=node.bootstrap)
        producer = KafkaProducer(
            bootstrap_servers=node.bootstrap,
            enable_idempotence=True,
            request_timeout_ms=5000,
            delivery_timeout_ms=90_000,
        )
        waiting = []
        for n in range(2000):
            waiting.append(producer.send(topic, b"%d" % n, partition=n % 2))
            if n == 1000:
                for each in waiting[:500]:
                    each.get(30)
                node.kill()
                node.start()
        answers = [each.get(60) for each in waiting]
        producer.close()
        assert sorted((each.partition, each.offset) for each in answers) == [
            (p, o) for p in range(2) for o in range(1000)
        ]
        consumer = KafkaConsumer(topic, bootstrap_servers=node.bootstrap, auto_offset_reset="earliest")
        found = gathered([consumer], 2000)
        consumer.close()
        for number in range(2):
            own = [int(each.value) for each in found if each.partition == number]
            assert own == list(range(number, 2000, 2))
