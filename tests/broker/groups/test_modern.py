"""Groups of the new protocol over the wire: both versions, what is told of them, and what classic requests meet."""

from tests.broker.groups.asking import Asker, commit, committed, join

from runnel.codec.errors import ErrorCode
from runnel.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from runnel.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from runnel.codec.messages.delete_groups import DeleteGroupsRequest
from runnel.codec.messages.describe_groups import DescribeGroupsRequest
from runnel.codec.messages.heartbeat import HeartbeatRequest
from runnel.codec.messages.list_groups import ListGroupsRequest
from runnel.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup


def beat(group="g", member="m", epoch=0, *, topics=("orders",), owned=(), **more):
    first = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(topics)} if epoch == 0 else {}
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        topic_partitions=[TopicPartitions(topic_id=each, partitions=list(rows)) for each, rows in owned],
        **(first | more),
    )


def test_both_versions_are_served_and_described(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client("billing") as client:
            topic = await node.engine.topics.create("orders", 2)
            for version in range(2):
                told = await client.ask(beat(group=f"g{version}", member="" if version == 0 else "m"), version)
                assert (told.error_code, told.member_epoch, told.heartbeat_interval_ms) == (0, 1, 5000)
                (parts,) = told.assignment.topic_partitions
                assert (parts.topic_id, parts.partitions) == (topic.id, [0, 1])
                ask = ConsumerGroupDescribeRequest(group_ids=[f"g{version}", "nobody"])
                known, unknown = (await client.ask(ask, version)).groups
                assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND
                assert (known.group_state, known.group_epoch, known.assignment_epoch) == ("Stable", 1, 1)
                (member,) = known.members
                assert member.member_id == told.member_id
                assert member.member_type == (1 if version else -1)
                for assignment in (member.assignment, member.target_assignment):
                    (parts,) = assignment.topic_partitions
                    assert (parts.topic_name, parts.partitions) == ("orders", [0, 1])
            told = await client.ask(ListGroupsRequest(types_filter=["consumer"]), 5)
            assert {(each.group_id, each.protocol_type, each.group_state) for each in told.groups} == {
                ("g0", "consumer", "Stable"), ("g1", "consumer", "Stable"),
            }  # fmt: skip
            (told,) = (await client.ask(DescribeGroupsRequest(groups=["g0"]), 6)).groups
            assert told.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(story())


def test_commits_and_fetches_are_fenced_by_the_members_epoch(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 2)
            await client.ask(beat(), 1)
            for member, epoch, code in (
                ("m", 1, 0),
                ("m", 2, ErrorCode.STALE_MEMBER_EPOCH),
                ("m", 0, ErrorCode.STALE_MEMBER_EPOCH),
                ("n", 1, ErrorCode.UNKNOWN_MEMBER_ID),
                ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
            ):
                for version in (9, 10):
                    told = await client.ask(commit("g", topic, {0: 5}, member=member, generation=epoch), version)
                    assert told.topics[0].partitions[0].error_code == code
                if epoch >= 0:
                    asked = OffsetFetchRequestGroup(group_id="g", member_id=member, member_epoch=epoch, topics=None)
                    told = await client.ask(OffsetFetchRequest(groups=[asked]), 9)
                    assert told.groups[0].error_code == code
            assert await committed(client, "g", topic, 9) == {0: 5, 1: -1}

    run(story())


def test_classic_requests_to_a_group_of_the_new_protocol_are_refused_while_it_has_members(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            await node.engine.topics.create("orders", 2)
            await client.ask(beat(), 1)
            assert (await client.ask(join("g", ""), 9)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            assert (await client.ask(HeartbeatRequest(group_id="g", member_id="m"), 4)).error_code == (
                ErrorCode.UNKNOWN_MEMBER_ID
            )
            told = await client.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
            assert told.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
            assert (await client.ask(beat(epoch=-1), 1)).member_epoch == -1
            entered = await Asker(client, "g").enter(9)
            assert entered.generation_id == 3, "generations go on"
            assert (await client.ask(beat(), 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
            told = (await client.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)).groups[0]
            assert told.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(story())


def test_another_broker_takes_the_group_over_and_its_members_keep_their_epochs(cluster, run):
    async def story():
        async with cluster.serve() as stays:
            topic = await stays.engine.topics.create("orders", 2)
            async with cluster.serve() as goes:
                await stays.engine.catch_up()
                await goes.engine.catch_up()
                number = goes.broker.routing.node_id
                name = next(
                    each for each in map(str, range(99)) if stays.broker.routing.coordinator(each).node == number
                )
                async with await goes.client() as client:
                    assert (await client.ask(beat(name), 1)).member_epoch == 1
            async with await stays.client() as client:
                again = beat(name, epoch=1, owned=[(topic.id, (0, 1))])
                code = ErrorCode.NOT_COORDINATOR
                while code == ErrorCode.NOT_COORDINATOR:
                    told = await client.ask(again, 1)
                    code = told.error_code
                assert (told.error_code, told.member_epoch, told.assignment) == (0, 1, None)

    run(story())
