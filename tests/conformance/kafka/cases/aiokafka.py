"""aiokafka, a client on asyncio: its documented producer, consumer, groups and admin."""

import asyncio
import functools
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError
from aiokafka.structs import OffsetAndMetadata
from tests.conformance.kafka.ledger import case as plain_case


def case(**marks):
    """A case that is a coroutine."""

    def marked(coroutine):
        @functools.wraps(coroutine)
        def run(stage):
            asyncio.run(coroutine(stage))

        return plain_case(**marks)(run)

    return marked


def producing(stage, **more):
    return AIOKafkaProducer(bootstrap_servers=stage.bootstrap, **more)


def consuming(stage, *topics, **more):
    chosen = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 500}
    return AIOKafkaConsumer(*topics, bootstrap_servers=stage.bootstrap, **{**chosen, **more})


async def gathered(consumer, count, patience=40.0):
    found = []
    end = time.monotonic() + patience
    while len(found) < count and time.monotonic() < end:
        for batch in (await consumer.getmany(timeout_ms=300)).values():
            found += batch
    assert len(found) >= count, f"{len(found)} of {count} records came"
    return found


@case()
async def records_with_keys_headers_and_timestamps(stage):
    topic = stage.topic(1)
    async with producing(stage) as producer:
        headers = [("a", b"1"), ("b", b""), ("a", b"\xff")]
        first = await producer.send_and_wait(topic, b"v", key=b"k", headers=headers, timestamp_ms=1_700_000_000_123)
        second = await producer.send_and_wait(topic, None, key=b"only")
        third = await producer.send_and_wait(topic, b"")
    assert [each.offset for each in (first, second, third)] == [0, 1, 2]
    async with consuming(stage, topic) as consumer:
        found = await gathered(consumer, 3)
    assert [(each.key, each.value) for each in found] == [(b"k", b"v"), (b"only", None), (None, b"")]
    assert list(found[0].headers) == headers
    assert found[0].timestamp == 1_700_000_000_123


@case()
async def order_and_every_compression(stage):
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        topic = stage.topic(2)
        async with producing(stage, compression_type=codec, linger_ms=10) as producer:
            waiting = [await producer.send(topic, b"%06d" % n, partition=n % 2) for n in range(1000)]
            await asyncio.gather(*waiting)
        async with consuming(stage, topic) as consumer:
            found = await gathered(consumer, 1000)
        for number in range(2):
            own = [int(each.value) for each in found if each.partition == number]
            assert own == list(range(number, 1000, 2)), codec


@case()
async def an_idempotent_producer(stage):
    topic = stage.topic(3)
    async with producing(stage, enable_idempotence=True) as producer:
        waiting = [await producer.send(topic, b"%d" % n, partition=n % 3) for n in range(3000)]
        answers = await asyncio.gather(*waiting)
    assert sorted((each.partition, each.offset) for each in answers) == [(p, o) for p in range(3) for o in range(1000)]
    async with consuming(stage, topic) as consumer:
        found = await gathered(consumer, 3000)
    assert sorted(int(each.value) for each in found) == list(range(3000))


@case()
async def a_batch_that_is_built_by_hand(stage):
    topic = stage.topic(1)
    async with producing(stage) as producer:
        batch = producer.create_batch()
        for n in range(50):
            assert batch.append(key=None, value=b"%d" % n, timestamp=None) is not None
        answer = await (await producer.send_batch(batch, topic, partition=0))
    assert answer.offset == 0
    async with consuming(stage, topic) as consumer:
        assert [each.value for each in await gathered(consumer, 50)] == [b"%d" % n for n in range(50)]


@case()
async def a_record_that_is_too_large(stage):
    topic = stage.topic(1, max_message_bytes=5000)
    async with producing(stage) as producer:
        try:
            await producer.send_and_wait(topic, b"x" * 50_000)
        except MessageSizeTooLargeError:
            return
    raise AssertionError("a record larger than max.message.bytes was taken")


@case()
async def seek_position_and_ends(stage):
    topic = stage.topic(1)
    async with producing(stage) as producer:
        for n in range(20):
            await producer.send_and_wait(topic, b"%d" % n, timestamp_ms=1_700_000_000_000 + n * 10)
    where = TopicPartition(topic, 0)
    async with consuming(stage) as consumer:
        consumer.assign([where])
        assert await consumer.beginning_offsets([where]) == {where: 0}
        assert await consumer.end_offsets([where]) == {where: 20}
        consumer.seek(where, 7)
        assert (await consumer.getone()).offset == 7
        assert await consumer.position(where) == 8
        await consumer.seek_to_beginning(where)
        assert (await consumer.getone()).offset == 0
        found = await consumer.offsets_for_times({where: 1_700_000_000_035})
        assert (found[where].offset, found[where].timestamp) == (4, 1_700_000_000_040)
        assert (await consumer.offsets_for_times({where: 1_900_000_000_000}))[where] is None
        consumer.seek(where, 999)
        try:
            async with consuming(stage, auto_offset_reset="none") as strict:
                strict.assign([where])
                strict.seek(where, 999)
                await asyncio.wait_for(strict.getone(), 20)
        except OffsetOutOfRangeError:
            return
    raise AssertionError("offset 999 of 20 was not out of range")


@case()
async def pause_and_resume(stage):
    topic = stage.topic(2)
    async with producing(stage) as producer:
        for n in range(10):
            await producer.send_and_wait(topic, b"%d" % n, partition=n % 2)
    async with consuming(stage) as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        consumer.pause(TopicPartition(topic, 0))
        found = await gathered(consumer, 5)
        assert {each.partition for each in found} == {1}
        consumer.resume(TopicPartition(topic, 0))
        found += await gathered(consumer, 5)
        assert sorted(int(each.value) for each in found) == list(range(10))


@case()
async def a_long_poll_wakes_up_with_the_record(stage):
    topic = stage.topic(1)
    async with producing(stage) as producer, consuming(stage, fetch_max_wait_ms=20_000) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        waiting = asyncio.ensure_future(consumer.getone())
        await asyncio.sleep(2)
        await producer.send_and_wait(topic, b"awake")
        assert (await asyncio.wait_for(waiting, 15)).value == b"awake"


@case(seconds=90)
async def two_members_share_and_one_goes_on(stage):
    topic = stage.topic(4)
    async with producing(stage) as producer:
        for n in range(100):
            await producer.send(topic, b"%d" % n, partition=n % 4)
        await producer.flush()
        first, second = (consuming(stage, topic, group_id=stage.name) for _ in range(2))
        await first.start()
        await second.start()
        seen = set()
        end = time.monotonic() + 40
        while time.monotonic() < end and not (
            len(first.assignment()) == len(second.assignment()) == 2 and len(seen) == 100
        ):
            for each in (first, second):
                for batch in (await each.getmany(timeout_ms=200)).values():
                    seen.update(int(record.value) for record in batch)
        assert len(seen) == 100
        assert not first.assignment() & second.assignment()
        await second.stop()
        for n in range(100, 140):
            await producer.send(topic, b"%d" % n, partition=n % 4)
        await producer.flush()
        while time.monotonic() < end + 20 and len(seen) < 140:
            for batch in (await first.getmany(timeout_ms=200)).values():
                seen.update(int(record.value) for record in batch)
        assert len(seen) == 140
        await first.stop()


@case()
async def commits_with_metadata(stage):
    topic = stage.topic(1)
    where = TopicPartition(topic, 0)
    async with producing(stage) as producer:
        await producer.send_and_wait(topic, b"1")
    async with consuming(stage, topic, group_id=stage.name, enable_auto_commit=False) as consumer:
        await gathered(consumer, 1)
        await consumer.commit({where: OffsetAndMetadata(1, "noted")})
        assert await consumer.committed(where) == 1
    async with consuming(stage, topic, group_id=stage.name, enable_auto_commit=False) as consumer:
        assert not await consumer.getmany(timeout_ms=2000)


@case(seconds=90)
async def a_static_member(stage):
    topic = stage.topic(2)
    for _ in range(2):
        async with consuming(stage, topic, group_id=stage.name, group_instance_id="one") as consumer:
            end = time.monotonic() + 30
            while len(consumer.assignment()) < 2 and time.monotonic() < end:
                await consumer.getmany(timeout_ms=200)
            assert len(consumer.assignment()) == 2


@case(seconds=90)
async def a_pattern_finds_topics(stage):
    topic = stage.topic(1)
    consumer = consuming(stage, group_id=stage.name, metadata_max_age_ms=1000)
    consumer.subscribe(pattern=f"^{stage.name}-.*")
    async with consumer, producing(stage) as producer:
        await producer.send_and_wait(topic, b"1")
        assert [each.value for each in await gathered(consumer, 1)] == [b"1"]
        later = stage.topic(1)
        await producer.send_and_wait(later, b"2")
        assert [each.value for each in await gathered(consumer, 1)] == [b"2"]


@case()
async def the_admin_makes_and_deletes_topics(stage):
    admin = AIOKafkaAdminClient(bootstrap_servers=stage.bootstrap)
    await admin.start()
    try:
        name = f"{stage.name}-made"
        await admin.create_topics([NewTopic(name, 2, 1, topic_configs={"retention.ms": "5000"})])
        try:
            answer = await admin.create_topics([NewTopic(name, 2, 1)])
            assert answer.topic_errors[0][1] == 36
        except TopicAlreadyExistsError:
            pass
        await admin.create_partitions({name: NewPartitions(3)})
        end = time.monotonic() + 20
        while True:
            described = await admin.describe_topics([name])
            if len(described[0]["partitions"]) == 3:
                break
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
        assert name in await admin.list_topics()
        assert (await admin.describe_cluster())["brokers"]
        await admin.delete_topics([name])
        while name in await admin.list_topics():
            assert time.monotonic() < end
            await asyncio.sleep(0.1)
    finally:
        await admin.close()


@case()
async def the_admin_sees_groups(stage):
    topic = stage.topic(1)
    async with producing(stage) as producer:
        await producer.send_and_wait(topic, b"1")
    admin = AIOKafkaAdminClient(bootstrap_servers=stage.bootstrap)
    async with consuming(stage, topic, group_id=stage.name) as consumer:
        await gathered(consumer, 1)
        await consumer.commit()
        await admin.start()
        try:
            assert stage.name in {each[0] for each in await admin.list_consumer_groups()}
            offsets = await admin.list_consumer_group_offsets(stage.name)
            assert offsets[TopicPartition(topic, 0)].offset == 1
            described = await admin.describe_consumer_groups([stage.name])
            assert "Stable" in str(described[0])
        finally:
            await admin.close()


@case(seconds=120, ends_brokers=True)
async def an_idempotent_producer_across_a_killed_broker(stage):
    """kill -9 mid-stream: every record is there once, in order."""
    with stage.node() as node:
        topic = stage.topic(2, bootstrap=node.bootstrap)
        more = {"enable_idempotence": True, "request_timeout_ms": 5000, "retry_backoff_ms": 100}
        async with AIOKafkaProducer(bootstrap_servers=node.bootstrap, **more) as producer:
            waiting = []
            for n in range(2000):
                waiting.append(await producer.send(topic, b"%d" % n, partition=n % 2))
                if n == 1000:
                    await asyncio.gather(*waiting[:500])
                    await asyncio.to_thread(node.kill)
                    await asyncio.to_thread(node.start)
            answers = await asyncio.wait_for(asyncio.gather(*waiting), 60)
        assert sorted((each.partition, each.offset) for each in answers) == [
            (p, o) for p in range(2) for o in range(1000)
        ]
        consumer = AIOKafkaConsumer(topic, bootstrap_servers=node.bootstrap, auto_offset_reset="earliest")
        async with consumer:
            found = await gathered(consumer, 2000)
        for number in range(2):
            own = [int(each.value) for each in found if each.partition == number]
            assert own == list(range(number, 2000, 2))
