"""Topics are made, grown and removed through any broker, as Kafka's tools do it."""

import asyncio

import pytest

from runnel.codec.declare import NO_UUID
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from runnel.codec.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from runnel.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from runnel.codec.messages.metadata import MetadataRequest, MetadataRequestTopic


def wanted(name, partitions=-1, replicas=-1, assigned=(), **settings):
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in assigned
        ],
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in settings.items()],
    )


def test_a_topic_is_made_in_every_version_and_told_as_it_is(cluster, run):
    async def story():
        async with cluster.serve(topic_partitions=3) as node, await node.client() as client:
            for version in range(2, 8):
                asked = CreateTopicsRequest(topics=[wanted(f"v{version}", retention_ms=" 1000 ")])
                (told,) = (await client.ask(asked, version)).topics
                assert (told.name, told.error_code, told.error_message) == (f"v{version}", 0, None)
                topic = node.engine.topics.get(f"v{version}")
                assert (len(topic.streams), topic.settings) == (3, {"retention.ms": "1000"})
                if version >= 5:
                    assert (told.num_partitions, told.replication_factor) == (3, 1)
                    configs = {each.name: (each.value, each.config_source) for each in told.configs}
                    assert configs["retention.ms"] == ("1000", 1)
                    assert configs["max.message.bytes"] == ("1048588", 5)
                if version >= 7:
                    assert told.topic_id == topic.id != NO_UUID

    run(story())


def test_only_looking_makes_nothing(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topics = [wanted("good", 2), wanted("bad", 0)]
            answer = await client.ask(CreateTopicsRequest(topics=topics, validate_only=True), 7)
            assert [(each.error_code, each.num_partitions) for each in answer.topics] == [
                (0, 2),
                (ErrorCode.INVALID_PARTITIONS, -1),
            ]
            assert node.engine.topics.all() == []

    run(story())


@pytest.mark.parametrize(
    ("topic", "code", "says"),
    [
        (wanted("", 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "empty"),
        (wanted("..", 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "'..'"),
        (wanted("a b", 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "letters"),
        (wanted("a" * 250, 1), ErrorCode.INVALID_TOPIC_EXCEPTION, "249"),
        (wanted("taken", 1), ErrorCode.TOPIC_ALREADY_EXISTS, "already exists"),
        (wanted("t", 0), ErrorCode.INVALID_PARTITIONS, "1 or more"),
        (wanted("t", -2), ErrorCode.INVALID_PARTITIONS, "1 or more"),
        (wanted("t", 10_001), ErrorCode.POLICY_VIOLATION, "10,000"),
        (wanted("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR, "1 or more"),
        (wanted("t", 1, -1, [(0, [1])]), ErrorCode.INVALID_REQUEST, "must be -1"),
        (wanted("t", -1, 2, [(0, [1])]), ErrorCode.INVALID_REQUEST, "must be -1"),
        (wanted("t", -1, -1, [(1, [1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "0, 1, 2"),
        (wanted("t", -1, -1, [(0, [])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no broker"),
        (wanted("t", -1, -1, [(0, [1, 1])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT, "twice"),
        (wanted("t", 1, retention_mx="1"), ErrorCode.INVALID_CONFIG, "did you mean 'retention.ms'"),
        (wanted("t", 1, retention_ms="long"), ErrorCode.INVALID_CONFIG, "not a whole number"),
        (wanted("t", 1, retention_ms=None), ErrorCode.INVALID_CONFIG, "no value"),
        (wanted("t", 1, cleanup_policy="compact"), ErrorCode.INVALID_CONFIG, "compaction by key does not exist yet"),
        (wanted("t", 1, cleanup_policy="delete,compact"), ErrorCode.INVALID_CONFIG, "compaction by key"),
    ],
)
def test_a_topic_that_makes_no_sense_is_refused_with_the_reason(cluster, run, topic, code, says):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            await node.engine.topics.create("taken")
            (told,) = (await client.ask(CreateTopicsRequest(topics=[topic]), 7)).topics
            assert told.error_code == code
            assert says in told.error_message
            assert [each.name for each in node.engine.topics.all()] == ["taken"]

    run(story())


def test_replicas_and_brokers_that_are_not_there_are_taken_and_forgotten(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topics = [wanted("three", 2, 3), wanted("placed", -1, -1, [(1, [7, 8]), (0, [8, 9])])]
            answer = await client.ask(CreateTopicsRequest(topics=topics), 7)
            assert [(each.error_code, each.num_partitions, each.replication_factor) for each in answer.topics] == [
                (0, 2, 1),
                (0, 2, 1),
            ]
            asked = [MetadataRequestTopic(name="placed")]
            (told,) = (await client.ask(MetadataRequest(topics=asked), 12)).topics
            assert {tuple(each.replica_nodes) for each in told.partitions} == {(0,)}

    run(story())


def test_a_name_that_stands_twice_in_a_request_is_refused_once_and_the_others_go_on(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            answer = await client.ask(CreateTopicsRequest(topics=[wanted("a"), wanted("a"), wanted("b")]), 7)
            assert [(each.name, each.error_code) for each in answer.topics] == [
                ("a", ErrorCode.INVALID_REQUEST),
                ("b", 0),
            ]
            assert [each.name for each in node.engine.topics.all()] == ["b"]

    run(story())


def test_many_topics_in_one_request_and_one_topic_from_many_clients(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client, await node.client() as other:
            answer = await client.ask(CreateTopicsRequest(topics=[wanted(f"t{n}", 2) for n in range(100)]), 7)
            assert {each.error_code for each in answer.topics} == {0}
            both = await asyncio.gather(
                *(each.ask(CreateTopicsRequest(topics=[wanted("one")]), 7) for each in (client, other))
            )
            codes = sorted(each.topics[0].error_code for each in both)
            assert codes == [0, ErrorCode.TOPIC_ALREADY_EXISTS]

    run(story())


def test_a_topic_made_through_one_broker_can_be_removed_through_another(cluster, run):
    async def story():
        async with (
            cluster.serve() as here,
            cluster.serve() as there,
            await here.client() as client,
            await there.client() as other,
        ):
            (told,) = (await client.ask(CreateTopicsRequest(topics=[wanted("a", 2)]), 7)).topics
            asked = [DeleteTopicState(topic_id=told.topic_id)]
            (gone,) = (await other.ask(DeleteTopicsRequest(topics=asked), 6)).responses
            assert (gone.error_code, gone.name, gone.topic_id) == (0, "a", told.topic_id)
            (again,) = (await client.ask(CreateTopicsRequest(topics=[wanted("a", 1)]), 7)).topics
            assert again.error_code == 0
            assert again.topic_id != told.topic_id

    run(story())


def test_topics_are_removed_by_name_or_id_and_what_cannot_be_is_told(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            for version in range(1, 6):
                await node.engine.topics.create("a")
                answer = await client.ask(DeleteTopicsRequest(topic_names=["a", "b"]), version)
                assert [(each.name, each.error_code) for each in answer.responses] == [
                    ("a", 0),
                    ("b", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                ]
            topic = await node.engine.topics.create("a")
            asked = [
                DeleteTopicState(name="a", topic_id=topic.id),
                DeleteTopicState(),
                DeleteTopicState(topic_id=b"0123456789abcdef"),
                DeleteTopicState(name="twice"),
                DeleteTopicState(name="twice"),
                DeleteTopicState(name="a"),
            ]
            answer = await client.ask(DeleteTopicsRequest(topics=asked), 6)
            assert [each.error_code for each in answer.responses] == [
                ErrorCode.INVALID_REQUEST,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.UNKNOWN_TOPIC_ID,
                ErrorCode.INVALID_REQUEST,
                0,
            ]
            assert node.engine.topics.all() == []
            assert node.engine.root.leaving == {}

    run(story())


def test_a_topic_grows_and_never_shrinks(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            await node.engine.topics.create("a", 2)

            async def grow(count, name="a", assignments=None, *, validate_only=False, version=3):
                topics = [CreatePartitionsTopic(name=name, count=count, assignments=assignments)]
                asked = CreatePartitionsRequest(topics=topics, validate_only=validate_only)
                (told,) = (await client.ask(asked, version)).results
                return told.error_code, len(node.engine.topics.get("a").streams)

            assert await grow(5, validate_only=True) == (0, 2)
            assert await grow(3, version=0) == (0, 3)
            assert await grow(3) == (ErrorCode.INVALID_PARTITIONS, 3)
            assert await grow(1) == (ErrorCode.INVALID_PARTITIONS, 3)
            assert await grow(-1) == (ErrorCode.INVALID_PARTITIONS, 3)
            assert await grow(9, "b") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3)
            one = [CreatePartitionsAssignment(broker_ids=[5])]
            assert await grow(5, assignments=one) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, 3)
            assert await grow(4, assignments=one) == (0, 4)
            assert await grow(20_000) == (ErrorCode.POLICY_VIOLATION, 4)

    run(story())
