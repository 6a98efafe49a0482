"""What people ask about groups: lists, descriptions, deletions, and offsets that go."""

import asyncio

import pytest
from tests.broker.groups.asking import Asker, commit, committed, subscription

from runnel.codec.errors import ErrorCode
from runnel.codec.messages.delete_groups import DeleteGroupsRequest
from runnel.codec.messages.describe_groups import DescribeGroupsRequest
from runnel.codec.messages.list_groups import ListGroupsRequest
from runnel.codec.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from runnel.engine import EngineLimits
from runnel.engine.upkeep import UpkeepLimits

DAY = 86_400_000


async def listed(client, version=5, **filters):
    told = await client.ask(ListGroupsRequest(**filters), version)
    return {each.group_id: (each.protocol_type, each.group_state, each.group_type) for each in told.groups}


async def deleted(client, *groups, version=2):
    told = await client.ask(DeleteGroupsRequest(groups_names=list(groups)), version)
    return {each.group_id: each.error_code for each in told.results}


def forget(group, topic, *partitions, name=None):
    asked = [OffsetDeleteRequestPartition(partition_index=each) for each in partitions]
    return OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=name or topic.name, partitions=asked)]
    )


def test_groups_are_listed_with_their_states_and_filtered(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 1)
            await client.ask(commit("simple", topic, {0: 1}), 9)
            busy, left = Asker(client, "busy"), Asker(client, "left")
            told = await busy.enter(9)
            assert (await listed(client))["busy"] == ("consumer", "CompletingRebalance", "Classic")
            await busy.sync(5, {told.member_id: b""})
            await left.enter(9)
            await left.leave(5)
            everything = {
                "simple": ("", "Empty", "Classic"),
                "busy": ("consumer", "Stable", "Classic"),
                "left": ("consumer", "Empty", "Classic"),
            }
            assert await listed(client) == everything
            for version in range(5):
                assert (await listed(client, version)).keys() == everything.keys()
            assert (await listed(client, states_filter=["stable"])).keys() == {"busy"}
            assert await listed(client, types_filter=["consumer"]) == {}
            assert (await listed(client, types_filter=["classic", "share"])).keys() == everything.keys()
            assert await listed(client, states_filter=["Dancing"]) == {}

    run(story())


def test_a_group_is_described_in_every_version(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client("billing") as client:
            asker = Asker(client, "g")
            told = await asker.enter(9, metadata=b"what I want")
            for version in range(7):
                ask = DescribeGroupsRequest(groups=["g", "nobody"], include_authorized_operations=True)
                known, unknown = (await client.ask(ask, version)).groups
                assert (known.group_state, known.protocol_data) == ("CompletingRebalance", "")
                assert (unknown.group_state, unknown.error_code) == (
                    "Dead", ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0,
                )  # fmt: skip
            await asker.sync(5, {told.member_id: b"what I get"})
            (known,) = (await client.ask(DescribeGroupsRequest(groups=["g"]), 6)).groups
            (member,) = known.members
            assert (known.group_state, known.protocol_type, known.protocol_data) == ("Stable", "consumer", "range")
            assert (member.client_id, member.client_host) == ("billing", "/127.0.0.1")
            assert (member.member_metadata, member.member_assignment) == (b"what I want", b"what I get")
            await asker.leave(5)
            (known,) = (await client.ask(DescribeGroupsRequest(groups=["g"]), 6)).groups
            assert (known.error_code, known.group_state, known.members) == (0, "Empty", [])

    run(story())


def test_a_group_with_members_is_not_deleted_and_one_without_is_gone_with_its_offsets(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 1)
            asker = Asker(client, "g")
            told = await asker.enter(9)
            await asker.sync(5, {told.member_id: b""})
            await asker.commit(topic, {0: 5}, 9)
            assert await deleted(client, "g", "nobody") == {
                "g": ErrorCode.NON_EMPTY_GROUP, "nobody": ErrorCode.GROUP_ID_NOT_FOUND,
            }  # fmt: skip
            await asker.leave(5)
            await client.ask(commit("simple", topic, {0: 1}), 9)
            assert await deleted(client, "g", "simple", "g", version=0) == {"g": 0, "simple": 0}
            assert await committed(client, "g", topic, 9) == {0: -1}
            assert await listed(client) == {}
            assert (await Asker(client, "g").enter(9)).generation_id == 1

    run(story())


def test_offsets_are_deleted_but_not_of_topics_that_members_read(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            read = await node.engine.topics.create("read", 2)
            other = await node.engine.topics.create("other", 1)
            asker = Asker(client, "g")
            told = await asker.enter(9, metadata=subscription("read"))
            await asker.sync(5, {told.member_id: b""})
            await asker.commit(read, {0: 5, 1: 6}, 9)
            await asker.commit(other, {0: 7}, 9)
            told = await client.ask(forget("g", read, 0), 0)
            assert told.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            told = await client.ask(forget("g", other, 0), 0)
            assert (told.error_code, told.topics[0].partitions[0].error_code) == (0, 0)
            told = await client.ask(forget("g", other, 0, name="no such topic"), 0)
            assert told.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert (await client.ask(forget("nobody", other, 0), 0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
            assert await committed(client, "g", other, 9) == {0: -1}
            await asker.leave(5)
            assert (await client.ask(forget("g", read, 0), 0)).topics[0].partitions[0].error_code == 0
            assert await committed(client, "g", read, 9) == {0: -1, 1: 6}

    run(story())


@pytest.mark.parametrize(
    "metadata", [b"", b"\x00", b"\xff\xff", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x09\x00\x00\x00\x01"]
)
def test_of_a_consumer_that_cannot_be_understood_all_topics_are_taken_to_be_read(cluster, run, metadata):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 1)
            await Asker(client, "g").enter(9, metadata=metadata)
            told = await client.ask(forget("g", topic, 0), 0)
            assert told.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

    run(story())


def test_offsets_of_deserted_groups_expire_and_those_of_deleted_topics_go(cluster, run):
    limits = EngineLimits(upkeep=UpkeepLimits(offsets_kept_ms=DAY))

    async def story():
        async with cluster.serve(engine_limits=limits) as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 2)
            gone = await node.engine.topics.create("gone", 1)
            stays, left = Asker(client, "stays"), Asker(client, "left")
            for asker in (stays, left):
                told = await asker.enter(9)
                await asker.sync(5, {told.member_id: b""})
                await asker.commit(topic, {0: 5}, 9)
                await asker.commit(gone, {0: 5}, 9)
            await left.leave(5)
            await client.ask(commit("simple", topic, {0: 1}), 9)
            await node.engine.topics.delete(gone)
            await node.engine.upkeep.round()
            for name in ("stays", "left"):
                kept = await node.broker.groups.kept(name)
                assert list(kept.offsets) == [topic.id], "offsets of a deleted topic go at once"
            shard = node.engine.shard_of_name("simple")
            from runnel.metadata.groups import Committed
            from runnel.metadata.updates import CommitOffsets, ExpireOffsets

            now = node.engine.world.clock.now_ms()
            await node.engine.propose(
                shard, CommitOffsets("simple", {topic.id: {1: Committed(2, at_ms=now + 2 * DAY)}})
            )
            for number in range(1, 5):
                await node.engine.propose(number, ExpireOffsets(now + DAY))
            assert await committed(client, "stays", topic, 9) == {0: 5, 1: -1}
            assert await node.broker.groups.kept("left") is None
            assert await committed(client, "simple", topic, 9) == {0: -1, 1: 2}

    run(story())


@pytest.mark.leaves("librdkafka ends its threads in its own time")
def test_the_admin_client_of_librdkafka_lists_describes_alters_and_deletes(cluster, run):
    def administer(address):
        from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, TopicPartition
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": address})
        place = ConsumerGroupTopicPartitions("g", [TopicPartition("orders", 0, 7)])
        (altered,) = admin.alter_consumer_group_offsets([place]).values()
        altered.result(20)
        told = admin.list_consumer_groups().result(20)
        assert [(each.group_id, each.state) for each in told.valid] == [("g", ConsumerGroupState.EMPTY)]
        (described,) = admin.describe_consumer_groups(["g"]).values()
        assert described.result(20).state == ConsumerGroupState.EMPTY
        (offsets,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("g")]).values()
        assert [each.offset for each in offsets.result(20).topic_partitions] == [7]
        (deleted,) = admin.delete_consumer_groups(["g"]).values()
        deleted.result(20)
        assert admin.list_consumer_groups().result(20).valid == []

    async def story():
        async with cluster.serve() as node, cluster.serve():
            await node.engine.topics.create("orders", 1)
            await asyncio.to_thread(administer, node.address)

    run(story())
