"""librdkafka through confluent-kafka: records, offsets, settings. What belongs to groups is in confluent_groups.

From the documentation of librdkafka (INTRODUCTION.md, CONFIGURATION.md) and of confluent-kafka-python.
"""

import time

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)
from tests.conformance.kafka.ledger import case
from tests.conformance.kafka.stage import settings, until


def sent(stage, topic, records, *, bootstrap=None, **more):
    """Produce records and return what was answered, in order: a record is a dictionary of produce()'s arguments."""
    answers = []

    def answered(error, message):
        assert error is None, error
        answers.append(message)

    producer = Producer(
        settings(bootstrap or stage.bootstrap, **{"linger_ms": 5, "message_timeout_ms": 30_000, **more})
    )
    for record in records:
        while True:
            try:
                producer.produce(topic, on_delivery=answered, **record)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(40)
    assert left == 0, f"{left} were never answered"
    return answers


def read(stage, topic, count, *, partitions=1, start=OFFSET_BEGINNING, patience=30.0, bootstrap=None, **more):
    """The first so many records from a place in all partitions."""
    consumer = Consumer(
        settings(bootstrap or stage.bootstrap, **{"group_id": "none", "enable_auto_commit": False, **more})
    )
    consumer.assign([TopicPartition(topic, number, start) for number in range(partitions)])
    found = []
    end = time.monotonic() + patience
    while len(found) < count and time.monotonic() < end:
        for message in consumer.consume(min(1000, count - len(found)), 0.2):
            assert message.error() is None, message.error()
            found.append(message)
    consumer.close()
    assert len(found) == count, f"{len(found)} of {count} records came"
    return found


def values(messages):
    return [message.value() for message in messages]


def admin_of(stage):
    return AdminClient({"bootstrap.servers": stage.bootstrap})


@case()
def order_within_each_partition(stage):
    topic = stage.topic(3)
    sent(stage, topic, ({"value": b"%d" % n, "partition": n % 3} for n in range(6000)), batch_num_messages=50)
    by_partition = {number: [] for number in range(3)}
    for message in read(stage, topic, 6000, partitions=3):
        by_partition[message.partition()].append((message.offset(), int(message.value())))
    for number, seen in by_partition.items():
        assert seen == [(offset, offset * 3 + number) for offset in range(2000)]


@case()
def keys_stay_in_their_partition(stage):
    """The same key always goes to one partition, for each of librdkafka's partitioners."""
    for partitioner in ("consistent_random", "murmur2_random", "fnv1a_random"):
        topic = stage.topic(7)
        sent(stage, topic, ({"key": b"k%d" % (n % 20), "value": b""} for n in range(400)), partitioner=partitioner)
        where = {}
        for message in read(stage, topic, 400, partitions=7):
            where.setdefault(message.key(), set()).add(message.partition())
        assert all(len(partitions) == 1 for partitions in where.values())
        assert len({next(iter(each)) for each in where.values()}) > 1


@case()
def acks_none_one_and_all(stage):
    topic = stage.topic()
    for acks in ("0", "1", "all"):
        sent(stage, topic, [{"value": acks.encode()}], acks=acks)
    until(lambda: sorted(values(read(stage, topic, 3))) == [b"0", b"1", b"all"])


@case()
def delivery_reports_name_the_offset(stage):
    topic = stage.topic()
    answers = sent(stage, topic, ({"value": b"%d" % n} for n in range(500)), batch_num_messages=7)
    assert [message.offset() for message in answers] == list(range(500))
    assert values(answers) == values(read(stage, topic, 500))


@case()
def all_compressions(stage):
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = stage.topic()
        records = [{"value": b"%s %d " % (codec.encode(), n) * 20, "key": b"%d" % n} for n in range(300)]
        sent(stage, topic, records, compression_type=codec, linger_ms=50)
        assert values(read(stage, topic, 300, check_crcs=True)) == [record["value"] for record in records]


@case()
def compressed_batches_of_several_megabytes(stage):
    """Batches that are small on the wire and 8 MB for whoever opens them."""
    topic = stage.topic(max_message_bytes=10_000_000)
    records = [{"value": b"%06d" % n + b"x" * 9994} for n in range(1600)]
    for codec in ("gzip", "lz4", "zstd", "snappy"):
        sent(
            stage, topic, records, compression_type=codec, batch_size=9_000_000, message_max_bytes=10_000_000,
            linger_ms=300, batch_num_messages=10_000,
        )  # fmt: skip
    found = values(read(stage, topic, 6400, fetch_message_max_bytes=1_000_000))
    assert found == [record["value"] for record in records] * 4


@case()
def large_records(stage):
    """900 KB by default, 8 MB where the topic allows it, and a clear no where it does not."""
    topic = stage.topic()
    body = bytes(range(256)) * 3500
    sent(stage, topic, [{"value": body}])
    assert values(read(stage, topic, 1)) == [body]
    large = stage.topic(max_message_bytes=10_000_000)
    body *= 9
    sent(stage, large, [{"value": body}], message_max_bytes=10_000_000)
    assert values(read(stage, large, 1, fetch_message_max_bytes=50_000)) == [body]
    said = []
    producer = Producer(settings(stage.bootstrap, message_max_bytes=10_000_000))
    producer.produce(topic, body, on_delivery=lambda error, _: said.append(error.code()))
    assert producer.flush(30) == 0
    assert said == [KafkaError.MSG_SIZE_TOO_LARGE]


@case()
def null_keys_null_values_and_empty_ones(stage):
    topic = stage.topic()
    given = [(None, None), (b"", b""), (None, b"v"), (b"k", None), (b"k", b""), (b"", None)]
    sent(stage, topic, [{"key": key, "value": value} for key, value in given])
    assert [(message.key(), message.value()) for message in read(stage, topic, 6)] == given


@case()
def headers_with_their_order_doubles_and_nulls(stage):
    topic = stage.topic()
    headers = [("a", b"1"), ("b", None), ("a", b""), ("ü", b"\x00\xff"), ("long", b"x" * 5000)]
    sent(stage, topic, [{"value": b"v", "headers": headers}, {"value": b"w"}])
    found = read(stage, topic, 2)
    assert found[0].headers() == headers
    assert not found[1].headers()


@case()
def timestamps_of_the_producer(stage):
    topic = stage.topic()
    moments = [1_700_000_000_000 + n * 1000 for n in (5, 1, 9, 3)]
    sent(stage, topic, [{"value": b"", "timestamp": moment} for moment in moments])
    assert [message.timestamp() for message in read(stage, topic, 4)] == [(1, moment) for moment in moments]


@case()
def timestamps_of_the_broker(stage):
    """message.timestamp.type=LogAppendTime: the broker's clock, whatever the producer says."""
    topic = stage.topic(message_timestamp_type="LogAppendTime")
    before = time.time() * 1000
    sent(stage, topic, [{"value": b"", "timestamp": 1_000_000_000_000}])
    kind, moment = read(stage, topic, 1)[0].timestamp()
    assert kind == 2
    assert before - 2000 <= moment <= time.time() * 1000 + 2000


@case()
def offsets_by_time_are_exact(stage):
    """offsets_for_times inside batches, between them, before the first and after the last; gzip and plain."""
    for codec in ("none", "gzip"):
        topic = stage.topic(2)
        moments = [1_700_000_000_000 + n * 10 for n in range(500)]
        sent(
            stage, topic, ({"value": b"", "timestamp": moment, "partition": 0} for moment in moments),
            compression_type=codec, batch_num_messages=60,
        )  # fmt: skip
        consumer = Consumer(settings(stage.bootstrap, group_id="none"))

        def asked(moment, consumer=consumer, topic=topic):
            return consumer.offsets_for_times([TopicPartition(topic, 0, moment)], 10)[0].offset

        for wanted in (0, 1, 59, 60, 61, 123, 499):
            assert asked(moments[wanted]) == wanted
            assert asked(moments[wanted] - 5) == wanted
        assert asked(0) == 0
        assert asked(moments[-1] + 1) == OFFSET_END
        assert consumer.offsets_for_times([TopicPartition(topic, 1, 0)], 10)[0].offset == OFFSET_END
        consumer.close()


@case()
def list_offsets_of_every_kind(stage):
    topic = stage.topic(2)
    moments = [1_700_000_000_000 + n for n in (5, 900, 30)]
    sent(stage, topic, [{"value": b"", "timestamp": moment, "partition": 0} for moment in moments])
    admin = admin_of(stage)

    def asked(spec, partition=0, **more):
        where = TopicPartition(topic, partition)
        return admin.list_offsets({where: spec}, **more)[where].result(20)

    assert asked(OffsetSpec.earliest()).offset == 0
    assert asked(OffsetSpec.latest()).offset == 3
    assert asked(OffsetSpec.latest(), isolation_level=IsolationLevel.READ_COMMITTED).offset == 3
    newest = asked(OffsetSpec.max_timestamp())
    assert (newest.offset, newest.timestamp) == (1, moments[1])
    found = asked(OffsetSpec.for_timestamp(moments[0] + 1))
    assert (found.offset, found.timestamp) == (1, moments[1])
    assert asked(OffsetSpec.max_timestamp(), 1).offset == -1
    assert asked(OffsetSpec.for_timestamp(5), 1).offset == -1


@case()
def watermarks(stage):
    topic = stage.topic()
    sent(stage, topic, [{"value": b"%d" % n} for n in range(10)])
    consumer = Consumer(settings(stage.bootstrap, group_id="none"))
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 10) == (0, 10)
    consumer.close()


@case()
def delete_records_moves_the_beginning(stage):
    topic = stage.topic(2)
    sent(stage, topic, [{"value": b"%d" % n, "partition": 0} for n in range(100)], batch_num_messages=8)
    admin = admin_of(stage)
    where = TopicPartition(topic, 0, 37)
    assert admin.delete_records([where])[where].result(20).low_watermark == 37
    assert values(read(stage, topic, 63)) == [b"%d" % n for n in range(37, 100)]
    consumer = Consumer(settings(stage.bootstrap, group_id="none"))
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), 10) == (37, 100)
    consumer.close()
    everything = TopicPartition(topic, 0, OFFSET_END)
    assert admin.delete_records([everything])[everything].result(20).low_watermark == 100


@case()
def offset_out_of_range_is_reset_as_was_said(stage):
    """auto.offset.reset earliest, latest, and error."""
    topic = stage.topic()
    sent(stage, topic, [{"value": b"%d" % n} for n in range(5)])
    assert values(read(stage, topic, 5, start=999, auto_offset_reset="earliest")) == [b"%d" % n for n in range(5)]
    consumer = Consumer(settings(stage.bootstrap, group_id="none", auto_offset_reset="error"))
    consumer.assign([TopicPartition(topic, 0, 999)])
    said = None
    end = time.monotonic() + 20
    while said is None and time.monotonic() < end:
        message = consumer.poll(0.5)
        said = message and message.error()
    assert said is not None
    assert said.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
    consumer.close()


@case()
def latest_starts_with_what_comes(stage):
    topic = stage.topic()
    sent(stage, topic, [{"value": b"old"}])
    consumer = Consumer(settings(stage.bootstrap, group_id="none", enable_partition_eof=True))
    consumer.assign([TopicPartition(topic, 0, OFFSET_END)])
    message = consumer.poll(20)
    assert message.error().code() == KafkaError._PARTITION_EOF
    sent(stage, topic, [{"value": b"new"}])
    message = consumer.poll(20)
    assert message.value() == b"new"
    consumer.close()


@case()
def seek_forwards_and_back(stage):
    topic = stage.topic()
    sent(stage, topic, [{"value": b"%d" % n} for n in range(200)], batch_num_messages=9)
    consumer = Consumer(settings(stage.bootstrap, group_id="none"))
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(20).offset() == 0
    for wanted in (150, 3, 77, 199, 0):
        consumer.seek(TopicPartition(topic, 0, wanted))
        message = consumer.poll(20)
        assert (message.offset(), message.value()) == (wanted, b"%d" % wanted)
        assert consumer.position([TopicPartition(topic, 0)])[0].offset == wanted + 1
    consumer.close()


@case()
def pause_and_resume(stage):
    topic = stage.topic(2)
    consumer = Consumer(settings(stage.bootstrap, group_id="none"))
    consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
    consumer.poll(0.5)
    consumer.pause([TopicPartition(topic, 0)])
    sent(stage, topic, [{"value": b"%d" % n, "partition": n % 2} for n in range(20)])
    seen = []
    until(lambda: seen.extend(consumer.consume(20, 0.2)) or len(seen) >= 10)
    seen += consumer.consume(20, 1.0)
    assert {message.partition() for message in seen} == {1}
    consumer.resume([TopicPartition(topic, 0)])
    until(lambda: seen.extend(consumer.consume(20, 0.2)) or len(seen) >= 20)
    assert sorted(int(value) for value in values(seen)) == list(range(20))
    consumer.close()


@case()
def the_end_of_a_partition_is_told(stage):
    topic = stage.topic()
    sent(stage, topic, [{"value": b"1"}])
    consumer = Consumer(settings(stage.bootstrap, group_id="none", enable_partition_eof=True))
    consumer.assign([TopicPartition(topic, 0, 0)])
    assert consumer.poll(20).value() == b"1"
    end = consumer.poll(20)
    assert (end.error().code(), end.offset()) == (KafkaError._PARTITION_EOF, 1)
    consumer.close()


@case()
def a_long_poll_wakes_up_with_the_record(stage):
    """fetch.wait.max.ms of 20 s: the record comes long before, with the answer to the fetch that was waiting."""
    topic = stage.topic()
    consumer = Consumer(settings(stage.bootstrap, group_id="none", fetch_wait_max_ms=20_000, socket_timeout_ms=60_000))
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(2.0)
    begun = time.monotonic()
    sent(stage, topic, [{"value": b"awake"}])
    message = consumer.poll(19)
    assert message is not None
    assert message.value() == b"awake"
    assert time.monotonic() - begun < 15
    consumer.close()


@case()
def a_fetch_waits_for_its_least_bytes(stage):
    """fetch.min.bytes: small records are held back until there are enough or the wait is over."""
    topic = stage.topic()
    consumer = Consumer(settings(stage.bootstrap, group_id="none", fetch_min_bytes=20_000, fetch_wait_max_ms=3000))
    consumer.assign([TopicPartition(topic, 0, 0)])
    consumer.poll(0.5)
    sent(stage, topic, [{"value": b"x" * 100}])
    message = consumer.poll(15)
    assert message is not None and message.value() == b"x" * 100
    sent(stage, topic, [{"value": b"y" * 30_000}])
    message = consumer.poll(15)
    assert message is not None and message.value() == b"y" * 30_000
    consumer.close()


@case()
def many_consumers_of_one_partition(stage):
    topic = stage.topic()
    sent(stage, topic, [{"value": b"%d" % n} for n in range(1000)])
    consumers = [Consumer(settings(stage.bootstrap, group_id=f"none-{n}")) for n in range(8)]
    for consumer in consumers:
        consumer.assign([TopicPartition(topic, 0, 0)])
    for consumer in consumers:
        seen = []
        until(lambda consumer=consumer, seen=seen: seen.extend(consumer.consume(1000, 0.2)) or len(seen) >= 1000)
        assert values(seen) == [b"%d" % n for n in range(1000)]
        consumer.close()


@case(seconds=120)
def many_partitions(stage):
    """1,000 partitions: all are written, all are read, each in order."""
    topic = stage.topic(1000)
    sent(stage, topic, ({"value": b"%d" % n, "partition": n % 1000} for n in range(10_000)))
    seen = {}
    for message in read(stage, topic, 10_000, partitions=1000, patience=60):
        seen.setdefault(message.partition(), []).append(int(message.value()))
    assert seen == {number: [number + 1000 * n for n in range(10)] for number in range(1000)}


@case()
def a_topic_is_made_by_producing(stage):
    """auto.create.topics.enable, as Kafka ships it."""
    topic = f"{stage.name}-automatic"
    sent(stage, topic, [{"value": b"first"}])
    assert values(read(stage, topic, 1)) == [b"first"]


@case()
def a_consumer_makes_no_topic(stage):
    topic = f"{stage.name}-absent"
    consumer = Consumer(settings(stage.bootstrap, group_id="none", allow_auto_create_topics=False))
    consumer.assign([TopicPartition(topic, 0, 0)])
    for _ in range(10):
        message = consumer.poll(0.3)
        assert message is None or message.error() is not None
    consumer.close()
    assert topic not in admin_of(stage).list_topics(timeout=10).topics


@case()
def a_partition_that_is_not_there(stage):
    topic = stage.topic(2)
    said = []
    producer = Producer(settings(stage.bootstrap))
    try:
        producer.produce(topic, b"", partition=7, on_delivery=lambda error, _: said.append(error.code()))
        producer.flush(20)
    except KafkaException as error:
        said.append(error.args[0].code())
    assert said == [KafkaError._UNKNOWN_PARTITION]


@case()
def an_idempotent_producer(stage):
    topic = stage.topic(4)
    count = 20_000
    sent(
        stage,
        topic,
        ({"value": b"%d" % n, "partition": n % 4} for n in range(count)),
        enable_idempotence=True,
        batch_num_messages=100,
    )
    seen = {}
    for message in read(stage, topic, count, partitions=4):
        seen.setdefault(message.partition(), []).append(int(message.value()))
    assert seen == {number: list(range(number, count, 4)) for number in range(4)}


@case(seconds=120, ends_brokers=True)
def idempotence_across_a_killed_broker(stage):
    """kill -9 mid-stream, twice: every acknowledged record is there once, in order, and nothing else twice."""
    with stage.node() as node:
        topic = stage.topic(3, bootstrap=node.bootstrap)
        producer = Producer(
            settings(
                node.bootstrap, enable_idempotence=True, linger_ms=2, message_timeout_ms=60_000,
                reconnect_backoff_max_ms=500, retry_backoff_ms=50, batch_num_messages=50,
            )
        )  # fmt: skip
        acknowledged = []
        failed = []

        def answered(error, message):
            (failed if error else acknowledged).append(
                error or (message.partition(), message.offset(), message.value())
            )

        for n in range(9000):
            producer.produce(topic, b"%d" % n, partition=n % 3, on_delivery=answered)
            producer.poll(0)
            if n in (3000, 6000):
                until(lambda n=n: producer.poll(0.05) is None or len(acknowledged) > n - 2500)
                node.kill()
                node.start()
            time.sleep(0.0002)
        assert producer.flush(60) == 0
        assert failed == []
        assert len(acknowledged) == 9000
        found = [
            (message.partition(), message.offset(), message.value())
            for message in read(stage, topic, 9000, partitions=3, bootstrap=node.bootstrap)
        ]
        assert sorted(found) == sorted(acknowledged)
        for number in range(3):
            own = [int(value) for partition, _, value in sorted(found) if partition == number]
            assert own == list(range(number, 9000, 3))


@case(seconds=90, ends_brokers=True)
def a_consumer_across_a_killed_broker(stage):
    """Reading goes on where it was, nothing missing, nothing twice."""
    with stage.node() as node:
        topic = stage.topic(bootstrap=node.bootstrap)
        sent(stage, topic, [{"value": b"%d" % n} for n in range(3000)], bootstrap=node.bootstrap)
        consumer = Consumer(
            settings(node.bootstrap, group_id="none", queued_min_messages=1, fetch_message_max_bytes=5000)
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        seen = []
        until(lambda: seen.extend(consumer.consume(50, 0.2)) or len(seen) >= 200)
        node.kill()
        node.start()
        sent(stage, topic, [{"value": b"%d" % n} for n in range(3000, 3100)], bootstrap=node.bootstrap)
        end = time.monotonic() + 40
        while len(seen) < 3100 and time.monotonic() < end:
            seen += [message for message in consumer.consume(500, 0.2) if message.error() is None]
        consumer.close()
        assert values(seen) == [b"%d" % n for n in range(3100)]


@case()
def read_committed_reads_plain_records(stage):
    topic = stage.topic()
    sent(stage, topic, [{"value": b"%d" % n} for n in range(10)])
    for isolation in ("read_committed", "read_uncommitted"):
        assert values(read(stage, topic, 10, isolation_level=isolation)) == [b"%d" % n for n in range(10)]


@case()
def metadata_tells_of_new_partitions(stage):
    """A producer that runs learns of partitions that are added."""
    topic = stage.topic(1)
    producer = Producer(settings(stage.bootstrap, topic_metadata_refresh_interval_ms=500))
    producer.produce(topic, b"0")
    assert producer.flush(20) == 0
    admin = admin_of(stage)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    until(lambda: len(producer.list_topics(topic, 10).topics[topic].partitions) == 3)
    said = []
    producer.produce(topic, b"2", partition=2, on_delivery=lambda error, _: said.append(error))
    assert producer.flush(20) == 0
    assert said == [None]
    assert values(read(stage, topic, 2, partitions=3)) is not None


@case()
def a_topic_that_is_deleted_and_made_again(stage):
    """The new one begins at offset 0 and has another id."""
    admin = admin_of(stage)
    topic = stage.topic()
    sent(stage, topic, [{"value": b"old"}] * 3)

    def identity():
        return str(admin.describe_topics(TopicCollection([topic]))[topic].result(20).topic_id)

    before = identity()
    admin.delete_topics([topic])[topic].result(20)
    until(lambda: topic not in admin.list_topics(timeout=10).topics)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    until(lambda: topic in admin.list_topics(timeout=10).topics)
    assert identity() != before
    answers = sent(stage, topic, [{"value": b"new"}])
    assert [message.offset() for message in answers] == [0]
    assert values(read(stage, topic, 1)) == [b"new"]


@case()
def topics_are_made_described_and_deleted(stage):
    admin = admin_of(stage)
    name = f"{stage.name}-made"
    admin.create_topics([NewTopic(name, 3, 1, config={"retention.ms": "12345"})])[name].result(20)
    described = admin.describe_topics(TopicCollection([name]))[name].result(20)
    assert (described.name, described.is_internal, len(described.partitions)) == (name, False, 3)
    brokers = {node.id for node in admin.describe_cluster().result(20).nodes}
    assert all(partition.leader.id in brokers for partition in described.partitions)
    for asked, code in [
        (NewTopic(name, 1, 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic("a/b", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic(f"{name}-x", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic(f"{name}-x", 1, 1, config={"nonsense": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic(f"{name}-x", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
    ]:
        try:
            admin.create_topics([asked])[asked.topic].result(20)
        except KafkaException as error:
            assert error.args[0].code() == code, error
        else:
            raise AssertionError(f"{asked} was made")
    seen = NewTopic(f"{name}-seen", 1, 1)
    admin.create_topics([seen], validate_only=True)[seen.topic].result(20)
    assert seen.topic not in admin.list_topics(timeout=10).topics
    admin.delete_topics([name])[name].result(20)
    until(lambda: name not in admin.list_topics(timeout=10).topics)
    try:
        admin.delete_topics([name])[name].result(20)
    except KafkaException as error:
        assert error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


@case()
def settings_are_set_read_and_reset(stage):
    admin = admin_of(stage)
    topic = stage.topic()

    def entries():
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        return next(iter(admin.describe_configs([resource]).values())).result(20)

    def alter(name, operation, value=None):
        change = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[change])
        next(iter(admin.incremental_alter_configs([resource]).values())).result(20)

    assert entries()["retention.ms"].value == "604800000"
    assert ConfigSource(entries()["retention.ms"].source) == ConfigSource.DEFAULT_CONFIG
    alter("retention.ms", AlterConfigOpType.SET, "1000000")
    until(lambda: entries()["retention.ms"].value == "1000000")
    assert ConfigSource(entries()["retention.ms"].source) == ConfigSource.DYNAMIC_TOPIC_CONFIG
    alter("retention.ms", AlterConfigOpType.DELETE)
    until(lambda: entries()["retention.ms"].value == "604800000")
    alter("cleanup.policy", AlterConfigOpType.APPEND, "delete")
    assert entries()["cleanup.policy"].value == "delete"
    for name in ("compression.type", "max.message.bytes", "min.insync.replicas", "segment.bytes", "retention.bytes"):
        assert name in entries()


@case()
def settings_of_a_broker(stage):
    admin = admin_of(stage)
    node = admin.describe_cluster().result(20).nodes[0].id
    resource = ConfigResource(ConfigResource.Type.BROKER, str(node))
    entries = next(iter(admin.describe_configs([resource]).values())).result(20)
    assert {"num.partitions", "auto.create.topics.enable", "message.max.bytes", "node.id"} <= set(entries)
    assert entries["node.id"].value == str(node)


@case()
def the_cluster_is_described(stage):
    admin = admin_of(stage)
    found = admin.describe_cluster().result(20)
    assert found.cluster_id
    assert found.cluster_id == admin.cluster_id(10)
    assert found.controller.id in {node.id for node in found.nodes}
    assert all(node.host and node.port for node in found.nodes)


@case()
def a_transactional_id_is_taken_or_refused_at_once(stage):
    """init_transactions either works or says in a standard error that it cannot; it does not hang."""
    producer = Producer(settings(stage.bootstrap, transactional_id=stage.name))
    begun = time.monotonic()
    try:
        producer.init_transactions(30)
    except KafkaException as error:
        assert not error.args[0].retriable(), error
        assert error.args[0].code() != KafkaError._TIMED_OUT
    assert time.monotonic() - begun < 25


@case(seconds=90)
def transactions_are_committed_and_aborted(stage):
    """What was aborted is seen by read_uncommitted alone; offsets go with the transaction."""
    topic = stage.topic(2)
    producer = Producer(settings(stage.bootstrap, transactional_id=stage.name, transaction_timeout_ms=30_000))
    producer.init_transactions(30)
    for turn in range(4):
        producer.begin_transaction()
        for n in range(10):
            producer.produce(topic, b"%d" % (turn * 10 + n), partition=n % 2)
        assert producer.flush(30) == 0
        (producer.abort_transaction if turn % 2 else producer.commit_transaction)(30)
    seen = values(read(stage, topic, 20, partitions=2, isolation_level="read_committed"))
    assert sorted(int(value) for value in seen) == [*range(10), *range(20, 30)]
    everything = values(read(stage, topic, 40, partitions=2, isolation_level="read_uncommitted"))
    assert sorted(int(value) for value in everything) == list(range(40))


@case()
def twenty_producers_at_once(stage):
    topic = stage.topic(5)
    producers = [Producer(settings(stage.bootstrap, enable_idempotence=True, linger_ms=1)) for _ in range(20)]
    said = []
    for n in range(4000):
        producers[n % 20].produce(
            topic, b"%d" % n, key=b"%d" % (n % 20), on_delivery=lambda error, _: said.append(error)
        )
    for producer in producers:
        assert producer.flush(40) == 0
    assert said == [None] * 4000
    seen = {}
    for message in read(stage, topic, 4000, partitions=5):
        seen.setdefault(message.key(), []).append(int(message.value()))
    assert seen == {b"%d" % k: list(range(k, 4000, 20)) for k in range(20)}
