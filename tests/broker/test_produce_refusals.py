"""Produce: acknowledgements, times, sizes, and everything that must not be taken, each with Kafka's error."""

import asyncio
import struct

import pytest
from tests.broker.raw import Hung
from tests.broker.stock import stock
from tests.broker.test_produce import batch, fetch, offsets_at, produce

from runnel.codec.batches import read_head
from runnel.codec.compression import Compression
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.api_versions import ApiVersionsRequest
from runnel.codec.messages.metadata import MetadataRequest
from runnel.codec.messages.produce import ProduceRequest
from runnel.codec.records import Record, build_batch, read_records


def told(answer):
    return [(each.error_code, each.base_offset) for topic in answer.responses for each in topic.partition_responses]


def changed(sealed, at, form, value, *, checksum=True):
    """A batch with one field written over, sealed again unless told otherwise."""
    from crc32c import crc32c

    body = bytearray(sealed)
    struct.pack_into(">" + form, body, at, value)
    if checksum:
        struct.pack_into(">I", body, 17, crc32c(memoryview(body)[21:]))
    return bytes(body)


SEALED = batch(b"a", b"b", b"c")
OLD = struct.pack(">qiIbb", 0, 26, 0, 1, 0) + bytes(20)
IDEMPOTENT = batch(b"a", producer=5, epoch=0, sequence=0)

REFUSED = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "a head and no more": (SEALED[:61], ErrorCode.CORRUPT_MESSAGE),
    "cut off": (SEALED[:-1], ErrorCode.CORRUPT_MESSAGE),
    "claims more than is there": (changed(SEALED, 8, "i", 1 << 30), ErrorCode.CORRUPT_MESSAGE),
    "claims to be shorter than a head": (changed(SEALED, 8, "i", 3), ErrorCode.CORRUPT_MESSAGE),
    "a flipped bit": (SEALED[:-1] + bytes([SEALED[-1] ^ 1]), ErrorCode.CORRUPT_MESSAGE),
    "a wrong checksum": (changed(SEALED, 17, "I", 7, checksum=False), ErrorCode.CORRUPT_MESSAGE),
    "two batches": (SEALED + SEALED, ErrorCode.INVALID_RECORD),
    "message format v1": (OLD, ErrorCode.INVALID_RECORD),
    "a format from the future": (changed(SEALED, 16, "b", 3, checksum=False), ErrorCode.INVALID_RECORD),
    "more records than it ends at": (changed(SEALED, 57, "i", 4), ErrorCode.INVALID_RECORD),
    "no records": (changed(changed(SEALED, 57, "i", 0), 23, "i", -1), ErrorCode.INVALID_RECORD),
    "a billion records": (changed(changed(SEALED, 57, "i", 1 << 30), 23, "i", (1 << 30) - 1), ErrorCode.INVALID_RECORD),
    "an unknown compression": (changed(SEALED, 21, "h", 7), ErrorCode.INVALID_RECORD),
    "a control batch": (batch(b"a", control=True, producer=5, epoch=0, sequence=0), ErrorCode.INVALID_RECORD),
    "append time": (changed(SEALED, 21, "h", 8), ErrorCode.INVALID_TIMESTAMP),
    "a time too far ahead": (batch(b"a", timestamp=1 << 50), ErrorCode.INVALID_TIMESTAMP),
    "too large": (batch(b"x" * 2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
    "transactional": (
        batch(b"a", transactional=True, producer=5, epoch=0, sequence=0),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    "a producer without a sequence": (changed(IDEMPOTENT, 53, "i", -1), ErrorCode.INVALID_RECORD),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_must_not_be_taken_is_refused_and_its_neighbours_are_taken(cluster, run, name):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 3)
            sealed, code = REFUSED[name]
            answer = await client.ask(produce(topic, SEALED, sealed, SEALED), 9)
            assert told(answer) == [(0, 0), (code, -1), (0, 0)]
            assert answer.responses[0].partition_responses[1].error_message
            assert await offsets_at(client, topic, -1) == [(0, 3)]
            fetched = await client.ask(fetch(topic, 0, 0, 0), 12)
            assert [len(list(read_records(each.records))) for each in fetched.responses[0].partitions] == [3, 0, 3]

    run(story())


def test_unknown_topics_partitions_and_ids_are_told_apart(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 1)
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert told(await client.ask(produce(topic, SEALED, SEALED), 9)) == [(0, 0), (unknown, -1)]
            request = produce(topic, SEALED)
            request.topic_data[0].name = "others"
            assert told(await client.ask(request, 9)) == [(unknown, -1)]
            request.topic_data[0].topic_id = bytes(15) + b"x"
            assert told(await client.ask(request, 13)) == [(ErrorCode.UNKNOWN_TOPIC_ID, -1)]
            request = produce(topic, SEALED)
            request.topic_data[0].partition_data[0].index = -1
            assert told(await client.ask(request, 9)) == [(unknown, -1)]
            assert told(await client.ask(ProduceRequest(acks=-1, timeout_ms=1, topic_data=[]), 9)) == []

    run(story())


def test_acknowledgements_are_none_one_or_all(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders")
            assert told(await client.ask(produce(topic, SEALED, acks=1), 9)) == [(0, 0)]
            assert told(await client.ask(produce(topic, SEALED, acks=-1), 9)) == [(0, 3)]
            for acks in (2, -2):
                code = ErrorCode.INVALID_REQUIRED_ACKS
                assert told(await client.ask(produce(topic, SEALED, acks=acks), 9)) == [(code, -1)]
            client.send(produce(topic, SEALED, acks=0), 9, expect=False)
            assert told(await client.ask(produce(topic, SEALED), 9)) == [(0, 9)]
            client.send(produce(topic, b"garbage", acks=0), 9, expect=False)
            with pytest.raises(Hung):
                await client.ask(produce(topic, SEALED), 9)
        assert node.engine.ingest.inflight_bytes == 0

    run(story())


def test_sizes_are_the_topics_own(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 1, {"max.message.bytes": str(len(SEALED))})
            assert told(await client.ask(produce(topic, SEALED), 9)) == [(0, 0)]
            topic = await node.engine.topics.alter(topic, {"max.message.bytes": str(len(SEALED) - 1)})
            assert told(await client.ask(produce(topic, SEALED), 9)) == [(ErrorCode.MESSAGE_TOO_LARGE, -1)]
            topic = await node.engine.topics.alter(topic, {"max.message.bytes": "20000000"})
            large = batch(b"x" * 15_000_000)
            assert told(await client.ask(produce(topic, large), 9)) == [(0, 3)]
            answer = await client.ask(fetch(topic, 3), 12)
            assert len(answer.responses[0].partitions[0].records) == len(large)

    run(story())


@pytest.mark.parametrize("compression", Compression)
def test_the_brokers_time_takes_the_place_of_the_producers_where_a_topic_says_so(cluster, run, compression):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 1, {"message.timestamp.type": "LogAppendTime"})
            before = node.engine.world.clock.now_ms()
            sealed = batch(b"a", b"b", timestamp=1000, compression=compression)
            answer = await client.ask(produce(topic, sealed), 9)
            stamp = answer.responses[0].partition_responses[0].log_append_time_ms
            assert before <= stamp <= node.engine.world.clock.now_ms()
            (partition,) = (await client.ask(fetch(topic, 0), 12)).responses[0].partitions
            head = read_head(partition.records, 0)
            assert (head.is_append_time, head.max_timestamp, head.base_timestamp) == (True, stamp, 1000)
            assert [each.timestamp for each in read_records(partition.records)] == [stamp, stamp]
            assert await offsets_at(client, topic, stamp, stamp + 1, 0) == [(0, 0), (0, -1), (0, 0)]
            far = batch(b"a", timestamp=1 << 50)
            assert told(await client.ask(produce(topic, far), 9)) == [(0, 2)]

    run(story())


def test_the_times_that_are_taken_are_the_topics_own(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            limits = {"message.timestamp.before.max.ms": "100000", "message.timestamp.after.max.ms": "200000"}
            topic = await node.engine.topics.create("orders", 1, limits)
            now = node.engine.world.clock.now_ms()
            for distance, code in ((-110_000, 32), (-90_000, 0), (190_000, 0), (260_000, 32)):
                answer = await client.ask(produce(topic, batch(b"a", timestamp=now + distance)), 9)
                assert told(answer)[0][0] == code, distance
            told_of = answer.responses[0].partition_responses[0]
            assert told_of.record_errors[0].batch_index == 0
            assert told_of.record_errors[0].batch_index_error_message

    run(story())


def test_idempotent_producers_are_told_what_kafka_tells_them(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders")

            async def send(sequence, epoch=0, count=1):
                sealed = batch(*[b"v"] * count, producer=7, epoch=epoch, sequence=sequence)
                return told(await client.ask(produce(topic, sealed), 9))[0]

            assert await send(0) == (0, 0)
            assert await send(1, count=3) == (0, 1)
            assert await send(0) == (0, 0)
            assert await send(1, count=3) == (0, 1)
            assert await send(9) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
            assert await send(0, epoch=1) == (0, 4)
            assert await send(4) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
            for sequence in range(1, 8):
                await send(sequence, epoch=1)
            assert await send(1, epoch=1) == (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, -1)
            assert await send(7, epoch=1) == (0, 11)

    run(story())


def test_requests_that_were_sent_without_waiting_are_answered_in_their_order(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 2)
            for turn in range(30):
                client.send(produce(topic, batch(b"%d" % turn)), 9)
                if turn % 3 == 0:
                    client.send(fetch(topic, turn), 12)
                if turn % 5 == 0:
                    client.send(ApiVersionsRequest(client_software_name="raw", client_software_version="1"), 3)
                    client.send(MetadataRequest(topics=None), 9)
            for turn in range(30):
                assert told(await client.receive()) == [(0, turn)]
                if turn % 3 == 0:
                    (partition,) = (await client.receive()).responses[0].partitions
                    assert [each.value for each in read_records(partition.records)] == [b"%d" % turn]
                if turn % 5 == 0:
                    assert (await client.receive()).api_keys
                    assert (await client.receive()).topics

    run(story())


def test_a_producer_that_leaves_in_the_middle_costs_nothing(cluster, run):
    async def story():
        async with cluster.serve() as node:
            topic = await node.engine.topics.create("orders")
            for _ in range(20):
                client = await node.client()
                client.send(produce(topic, batch(b"x" * 10_000)), 9)
                await asyncio.sleep(0)
                client.writer.transport.abort()
            async with await node.client() as client:
                await client.ask(produce(topic, SEALED), 9)
            await asyncio.sleep(0.05)
            assert node.engine.ingest.inflight_bytes == 0
            assert node.server.arenas.private_bytes == 0

    run(story())


CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("compression", CODECS)
def test_stock_clients_read_what_other_stock_clients_compressed(cluster, run, compression):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 1, {"max.message.bytes": "5000000"})
            values = [f"{number} {'x' * (number * 37 % 5000)}" for number in range(800)]
            await stock("confluent_produce", node.address, topic="orders", values=values, compression=compression)
            (partition,) = (await client.ask(fetch(topic, 0), 12)).responses[0].partitions
            assert read_head(partition.records, 0).compression == CODECS.index(compression)
            assert await stock("confluent_consume", node.address, topic="orders", count=len(values)) == values
            if compression in ("none", "gzip"):  # the others need libraries that it does not bring
                assert await stock("kafka_python_consume", node.address, topic="orders", count=len(values)) == values
                ours = build_batch(
                    [Record(b"k", b"v%d" % n, timestamp=1) for n in range(50)],
                    compression=Compression.GZIP if compression == "gzip" else Compression.NONE,
                )
                await client.ask(produce(topic, ours), 9)
                both = await stock("confluent_consume", node.address, topic="orders", count=len(values) + 50)
                assert both[len(values) :] == [f"v{n}" for n in range(50)]

    run(story())
