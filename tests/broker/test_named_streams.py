"""Streams of the HTTP door as Kafka clients meet them: topics with one partition, for those who name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.api.streams.names import stream_name as http_name
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from runnel.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from runnel.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from runnel.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from runnel.codec.records import Record, build_batch, read_records
from runnel.engine.topic_names import stream_name, topic_name, topic_of
from runnel.errors import Refused
from runnel.metadata.stream import Traits
from runnel.metadata.updates import DeleteStreams
from runnel.model import StreamId


@given(st.text(min_size=1, max_size=30))
def test_every_name_of_a_stream_leads_to_one_topic_and_back(path):
    try:
        name = http_name(path, "some-bucket")
    except Refused:
        return
    topic = topic_name(name)
    if topic is None:
        assert len(path.encode()) * 4 > 200
    else:
        assert stream_name(topic) == name
        assert topic.replace(".", "").replace("_", "").replace("-", "").isalnum()


@pytest.mark.parametrize("topic", ["orders", "a.", ".a", "some-bucket.a..2e", "b.a..zz", "b.a...", "b.ü"])
def test_what_is_no_streams_spelling_is_no_stream(topic):
    assert stream_name(topic) is None


async def metadata(client, *names, version=12, **more):
    topics = [MetadataRequestTopic(name=name) for name in names] if names else None
    return (await client.ask(MetadataRequest(topics=topics, **more), version)).topics


async def produce(client, topic, *values):
    batch = build_batch([Record(None, value, (), 1) for value in values])
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
    answer = await client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), 9)
    (told,) = answer.responses[0].partition_responses
    return told.error_code, told.base_offset


async def fetch(client, offset, *, version, topic="", topic_id=bytes(16)):
    asked = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=[asked])]
    answer = await client.ask(FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=topics), version)
    (told,) = answer.responses[0].partitions
    return told.error_code, [bytes(record.value) for record in read_records(bytes(told.records or b""))]


def test_a_stream_is_a_topic_for_who_names_it_on_any_node_and_in_no_listing(cluster, run):
    async def story():
        async with cluster.serve() as one, cluster.serve() as other, await other.client() as client:
            stream = await one.engine.open_stream(Traits("v1-stream/a/b"))
            (told,) = await metadata(client, "v1-stream.a..2Fb", allow_auto_topic_creation=True)
            assert (told.error_code, len(told.partitions)) == (0, 1)
            assert await produce(client, "v1-stream.a..2Fb", b"one", b"two") == (0, 0)
            read = await one.engine.read(stream, 0)
            assert [bytes(record.value) for record in read_records(read.data)] == [b"one", b"two"]
            assert await fetch(client, 1, version=12, topic="v1-stream.a..2Fb") == (0, [b"one", b"two"])
            assert await fetch(client, 1, version=13, topic_id=told.topic_id) == (0, [b"one", b"two"])
            assert [each.name for each in await metadata(client)] == []

    run(story())


def test_a_name_in_a_bucket_makes_no_topic_and_a_stream_is_not_deleted_as_one(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            (told,) = await metadata(client, "v1-stream.none", allow_auto_topic_creation=True)
            assert told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            await node.engine.open_stream(Traits("v1-stream/a"))
            asked = DeleteTopicsRequest(topics=[DeleteTopicState(name="v1-stream.a")], timeout_ms=1000)
            (told,) = (await client.ask(asked, 6)).responses
            assert told.error_code != 0
            assert node.engine.named.usable("v1-stream/a") is not None
            (told,) = await metadata(client, "v1-stream.a")
            assert told.error_code == 0

    run(story())


def test_a_closed_stream_takes_nothing_and_one_that_is_over_is_not_there(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            await node.engine.open_stream(Traits("v1-stream/closed"), closed=True)
            await node.engine.open_stream(Traits("v1-stream/over", expires_ms=1))
            assert (await produce(client, "v1-stream.closed", b"x"))[0] == ErrorCode.POLICY_VIOLATION
            assert (await produce(client, "v1-stream.over", b"x"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(story())


def test_a_fork_is_read_whole(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            source = await node.engine.open_stream(Traits("v1-stream/source"))
            await produce(client, "v1-stream.source", b"a", b"b", b"c")
            known = node.engine.named.usable("v1-stream/source")
            fork = await node.engine.named.fork(Traits("v1-stream/fork"), known, 2, asked=(None, 0))
            await produce(client, "v1-stream.source", b"later")
            assert await produce(client, "v1-stream.fork", b"own") == (0, 2)
            assert await fetch(client, 0, version=12, topic="v1-stream.fork") == (0, [b"a", b"b"])
            assert await fetch(client, 2, version=12, topic="v1-stream.fork") == (0, [b"own"])
            assert StreamId(source) != fork

    run(story())


def test_a_stream_that_is_given_a_setting_is_a_topic_like_any_until_it_is_removed(cluster, run):
    async def story():
        async with cluster.serve() as node, cluster.serve() as other, await other.client() as client:
            engine = node.engine
            stream = await engine.open_stream(Traits("v1-stream/notes", "application/json"))
            topic = topic_of(engine.named.known("v1-stream/notes"))
            made = await engine.topics.alter(topic, {"table.formats": "iceberg"})
            assert made.settings == {"retention.ms": "-1", "table.formats": "iceberg", "table.values": "json"}
            assert made.streams == [stream]
            (told,) = await metadata(client)
            assert (told.name, told.topic_id) == ("v1-stream.notes", topic.id)
            assert await produce(client, "v1-stream.notes", b"1") == (0, 0)
            assert await fetch(client, 0, version=13, topic_id=topic.id) == (0, [b"1"])
            with pytest.raises(Refused, match="one partition"):
                await engine.topics.add_partitions(made, 2)
            known = engine.named.known("v1-stream/notes")
            await engine.named.fork(Traits("v1-stream/fork"), known, 1, asked=(None, 0))
            with pytest.raises(Refused, match="is a fork"):
                await engine.topics.alter(topic_of(engine.named.known("v1-stream/fork")), {"table.formats": "delta"})
            await engine.named.remove(stream)
            assert await metadata(client) == []
            assert await fetch(client, 0, version=12, topic="v1-stream.fork") == (0, [b"1"])
            assert engine.topics.get("v1-stream.notes") is None

    run(story())


def test_deleting_the_topic_of_a_stream_leaves_its_forks_their_records(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            engine = node.engine
            await engine.open_stream(Traits("v1-stream/notes"))
            await produce(client, "v1-stream.notes", b"1")
            known = engine.named.known("v1-stream/notes")
            fork = await engine.named.fork(Traits("v1-stream/fork"), known, 1, asked=(None, 0))
            topic = await engine.topics.alter(topic_of(known), {"max.message.bytes": "5000"})
            await engine.topics.delete(topic)
            assert await fetch(client, 0, version=12, topic="v1-stream.fork") == (0, [b"1"])
            assert engine.named.usable("v1-stream/notes") is None
            await engine.named.remove(fork)
            assert engine.named.known("v1-stream/notes") is None

    run(story())


def test_upkeep_drops_the_topic_of_a_stream_that_is_gone(cluster, run):
    async def story():
        async with cluster.serve() as node:
            engine = node.engine
            stream = await engine.open_stream(Traits("v1-stream/notes"))
            await engine.topics.alter(topic_of(engine.named.known("v1-stream/notes")), {"max.message.bytes": "5000"})
            await engine.propose(engine.named.shard_of("v1-stream/notes"), DeleteStreams([stream]))
            assert await engine.named.mend() == 1
            assert engine.topics.all() == []
            assert not engine.root.leaving

    run(story())
