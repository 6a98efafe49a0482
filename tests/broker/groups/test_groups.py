"""Groups over the wire: who coordinates, what is committed, what outlives a coordinator, and bad input."""

import asyncio

import pytest
from tests.broker.groups.asking import Asker, commit, committed, join, sync

from runnel.codec.errors import ErrorCode
from runnel.codec.messages.find_coordinator import FindCoordinatorRequest
from runnel.codec.messages.heartbeat import HeartbeatRequest
from runnel.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from runnel.codec.messages.offset_commit import OffsetCommitRequest


def test_all_versions_name_the_same_coordinator_and_groups_come_in_batches(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            for version in range(7):
                ask = FindCoordinatorRequest(key="g", coordinator_keys=["g", "h"], key_type=0)
                told = await client.ask(ask, version)
                each = told.coordinators if version >= 4 else [told]
                assert {(one.error_code, f"{one.host}:{one.port}") for one in each} == {(0, node.address)}
                assert len(each) == (2 if version >= 4 else 1)
            told = await client.ask(FindCoordinatorRequest(coordinator_keys=["g:x:0"], key_type=2), 6)
            assert told.coordinators[0].error_code == ErrorCode.INVALID_REQUEST

    run(story())


def test_a_member_joins_syncs_beats_commits_and_leaves_in_every_version(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 2)
            for version in range(10):
                asker = Asker(client, f"g{version}")
                told = await asker.enter(version)
                assert told.generation_id == 1
                synced = await asker.sync(min(version, 5), {told.member_id: b"mine"})
                assert (synced.error_code, synced.assignment) == (0, b"mine")
                assert await asker.beat(min(version, 4)) == 0
                for commit_version in range(2, 11):
                    told = await asker.commit(topic, {0: commit_version, 1: 7, 9: 1}, commit_version)
                    assert [each.error_code for each in told.topics[0].partitions] == [
                        0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    ]  # fmt: skip
                assert await asker.leave(min(version, 5)) == 0
                for fetch_version in range(1, 11):
                    assert await committed(client, asker.group, topic, fetch_version) == {0: 10, 1: 7}
                    everything = (
                        await committed(client, asker.group, None, fetch_version) if fetch_version > 1 else None
                    )
                    assert everything in (None, {0: 10, 1: 7})

    run(story())


def test_committed_offsets_keep_what_was_said_with_them(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 1)
            told = await client.ask(commit("g", topic, {0: 5}, note="so far", epoch=3), 9)
            assert told.topics[0].partitions[0].error_code == 0
            from runnel.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

            told = await client.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 9)
            (partition,) = told.groups[0].topics[0].partitions
            assert (partition.committed_offset, partition.committed_leader_epoch, partition.metadata) == (
                5,
                3,
                "so far",
            )
            told = await client.ask(commit("g", topic, {0: 6}, note="x" * 5000), 9)
            assert told.topics[0].partitions[0].error_code == ErrorCode.OFFSET_METADATA_TOO_LARGE
            assert await committed(client, "g", topic, 9) == {0: 5}
            assert await committed(client, "other", topic, 9) == {0: -1}

    run(story())


def test_a_topic_that_does_not_exist_has_no_offsets(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("gone", 1)
            await client.ask(commit("g", topic, {0: 5}), 9)
            await node.engine.topics.delete(topic)
            told = await client.ask(commit("g", topic, {0: 6}), 9)
            assert told.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            told = await client.ask(commit("g", topic, {0: 6}), 10)
            assert told.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
            assert await committed(client, "g", None, 9) == {}
            again = await node.engine.topics.create("gone", 1)
            assert await committed(client, "g", again, 9) == {0: -1}, "a new topic of the same name begins anew"

    run(story())


def test_groups_without_names_and_absurd_sessions_are_refused(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            assert (await client.ask(join("", ""), 9)).error_code == ErrorCode.INVALID_GROUP_ID
            assert (await client.ask(sync("", "", 1, {}), 5)).error_code == ErrorCode.INVALID_GROUP_ID
            assert (await client.ask(HeartbeatRequest(), 4)).error_code == ErrorCode.INVALID_GROUP_ID
            assert (await client.ask(LeaveGroupRequest(), 4)).error_code == ErrorCode.INVALID_GROUP_ID
            for session in (-1, 0, 5999, 1_800_001, 2**31 - 1):
                told = await client.ask(join("g", "", session=session), 9)
                assert told.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
            told = await client.ask(sync("g", "m", 1, {}, name=None), 5)
            assert told.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            assert (await client.ask(HeartbeatRequest(group_id="g", member_id="m"), 4)).error_code == (
                ErrorCode.UNKNOWN_MEMBER_ID
            )
            ask = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])
            assert (await client.ask(ask, 4)).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
            topic = await node.engine.topics.create("orders", 1)
            told = await client.ask(commit("g", topic, {0: 1}, member="m", generation=3), 9)
            assert told.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert node.broker.groups.machine("g") is None, "nothing is kept of groups that nobody is in"
            assert (await client.ask(OffsetCommitRequest(group_id="g"), 9)).topics == []

    run(story())


def test_a_broker_that_is_not_the_coordinator_says_so(cluster, run):
    async def story():
        async with cluster.serve() as one, cluster.serve() as two:
            await one.engine.catch_up()
            topic = await two.engine.topics.create("orders", 1)
            await one.engine.catch_up()
            nodes = {one.broker.routing.node_id: one, two.broker.routing.node_id: two}
            names = [f"g{number}" for number in range(30)]
            owners = {name: one.broker.routing.coordinator(name).node for name in names}
            assert set(owners.values()) == set(nodes)
            assert {name: two.broker.routing.coordinator(name).node for name in names} == owners
            for name, owner in owners.items():
                for number, node in nodes.items():
                    async with await node.client() as client:
                        told = await client.ask(HeartbeatRequest(group_id=name, member_id="m"), 4)
                        right, wrong = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR
                        assert told.error_code == (right if number == owner else wrong)
                        told = await client.ask(commit(name, topic, {0: 1}), 9)
                        expected = 0 if number == owner else ErrorCode.NOT_COORDINATOR
                        assert told.topics[0].partitions[0].error_code == expected

    run(story())


def test_another_broker_takes_a_group_over_with_its_members_and_offsets(cluster, run):
    async def story():
        async with cluster.serve() as stays:
            topic = await stays.engine.topics.create("orders", 1)
            async with cluster.serve() as goes:
                await asyncio.gather(stays.engine.catch_up(), goes.engine.catch_up())
                number = goes.broker.routing.node_id
                name = next(
                    each for each in map(str, range(99)) if stays.broker.routing.coordinator(each).node == number
                )
                async with await goes.client() as client:
                    asker = Asker(client, name)
                    told = await asker.enter(9)
                    await asker.sync(5, {told.member_id: b"mine"})
                    assert (await asker.commit(topic, {0: 5}, 9)).topics[0].partitions[0].error_code == 0
            async with await stays.client() as client, asyncio.timeout(20):
                there = Asker(client, name, told.member_id, told.generation_id)
                while (code := await there.beat(4)) == ErrorCode.NOT_COORDINATOR:  # noqa: ASYNC110  as clients do
                    await asyncio.sleep(0.05)
                assert code == 0, "a member with an assignment goes on as if nothing had happened"
                assert (await there.sync(5, {})).assignment == b"mine"
                assert await committed(client, name, topic, 9) == {0: 5}
                assert (await there.commit(topic, {0: 6}, 9)).topics[0].partitions[0].error_code == 0

    run(story())


def test_a_coordinator_that_lost_its_group_without_knowing_commits_nothing_and_tells_nobody(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 1)
            asker = Asker(client, "g")
            told = await asker.enter(9)
            await asker.sync(5, {told.member_id: b"mine"})
            from runnel.metadata.updates import TakeGroup

            shard = node.engine.shard_of_name("g")
            held = node.broker.groups.hold("g")
            follower = node.engine.shards.follower(shard)
            follower._on_applied.clear()  # it does not hear of it
            await node.engine.propose(shard, TakeGroup("g", b"somebody else"))
            told = await asker.commit(topic, {0: 5}, 9)
            assert told.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
            assert await asker.leave(5) == ErrorCode.NOT_COORDINATOR
            assert held.dropped
            assert await committed(client, "g", topic, 9) == {0: -1}

    run(story())


@pytest.mark.parametrize("garbage", [b"", b"\xff" * 100, b"\x00\x01" * 5000])
def test_what_members_say_of_themselves_is_nobodys_business(cluster, run, garbage):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            asker = Asker(client, "g")
            told = await asker.enter(9, metadata=garbage)
            assert told.members[0].metadata == garbage
            assert (await asker.sync(5, {told.member_id: garbage, "nobody": b"x"})).assignment == garbage

    run(story())
