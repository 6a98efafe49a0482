"""Members of both protocols in one group, over the wire."""

from tests.broker.groups.asking import Asker, join, subscription
from tests.broker.groups.test_modern import beat

from runnel.broker.groups.subscriptions import assignment_in, assignment_of
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from runnel.codec.messages.list_groups import ListGroupsRequest

WANTS = subscription("orders")


def machine_of(node):
    return node.broker.groups.machine("g")


async def stable(node, client):
    """A classic consumer that reads all of a topic."""
    topic = await node.engine.topics.create("orders", 4)
    old = Asker(client, "g")
    told = await old.enter(9, metadata=WANTS)
    await old.sync(
        5, {told.member_id: assignment_of(frozenset((topic.id, each) for each in range(4)), {topic.id: "orders"})}
    )
    return topic, old


def test_a_classic_group_of_consumers_takes_a_member_of_the_new_protocol_and_becomes_classic_again(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client, await node.client() as other:
            topic, old = await stable(node, client)
            told = await other.ask(beat(member="new"), 1)
            assert (told.error_code, told.member_epoch, told.assignment.topic_partitions) == (0, 2, [])
            assert machine_of(node).kind == "consumer"
            (listed,) = (await other.ask(ListGroupsRequest(), 5)).groups
            assert (listed.group_type, listed.group_state) == ("Consumer", "Reconciling")
            described = (await other.ask(ConsumerGroupDescribeRequest(group_ids=["g"]), 1)).groups[0]
            assert {each.member_id: each.member_type for each in described.members} == {old.member: 0, "new": 1}

            assert await old.beat(4) == ErrorCode.REBALANCE_IN_PROGRESS
            committed = await old.commit(topic, {0: 3}, 9)
            assert committed.topics[0].partitions[0].error_code == 0, "it reads on until it joins"
            told = await old.enter(9, metadata=WANTS)
            assert (told.generation_id, told.leader, told.members, told.protocol_name) == (2, "", [], "range")
            mine = assignment_in((await old.sync(5, {})).assignment)["orders"]
            assert len(mine) == 2
            assert await old.beat(4) == 0
            told = await other.ask(beat(member="new", epoch=2, owned=()), 1)
            (rest,) = told.assignment.topic_partitions
            assert sorted([*rest.partitions, *mine]) == [0, 1, 2, 3]
            old.generation = 1
            assert await old.beat(4) == ErrorCode.ILLEGAL_GENERATION
            committed = await old.commit(topic, {0: 4}, 9)
            assert committed.topics[0].partitions[0].error_code == ErrorCode.ILLEGAL_GENERATION

            assert (await other.ask(beat(member="new", epoch=-1), 1)).error_code == 0
            assert machine_of(node).kind == "classic"
            old.generation = 3
            assert await old.beat(4) == ErrorCode.REBALANCE_IN_PROGRESS
            told = await old.enter(9, metadata=WANTS)
            assert (told.generation_id, told.leader) == (4, old.member)
            kept = await node.broker.groups.kept("g")
            assert (kept.kind, kept.generation) == ("classic", 4)

    run(story())


def test_classic_members_of_a_new_group_are_checked_as_ever(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client, await node.client() as other:
            await node.engine.topics.create("orders", 4)
            await other.ask(beat(member="new"), 1)
            for metadata in (b"", b"\xff" * 9):
                told = await client.ask(join("g", "", metadata=metadata), 9)
                assert told.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            told = await client.ask(join("g", "", metadata=WANTS), 9)
            assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
            stranger = Asker(client, "g", "nobody", 1)
            assert await stranger.beat(4) == ErrorCode.UNKNOWN_MEMBER_ID
            assert (await stranger.sync(5, {})).error_code == ErrorCode.UNKNOWN_MEMBER_ID
            assert await stranger.leave(5) == ErrorCode.UNKNOWN_MEMBER_ID
            named = Asker(client, "g", "new", 1)
            assert await named.beat(4) == ErrorCode.UNKNOWN_MEMBER_ID, "it speaks the other protocol"
            old = Asker(client, "g")
            await old.enter(3, metadata=WANTS)
            assert await old.leave(2) == 0
            assert list(machine_of(node).members) == ["new"]

    run(story())


def test_a_classic_group_is_left_alone_by_what_cannot_join_it(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client, await node.client() as other:
            _, old = await stable(node, client)
            for ask, code in (
                (beat(member="new", epoch=3), ErrorCode.GROUP_ID_NOT_FOUND),
                (beat(member="new", server_assignor="mine"), ErrorCode.UNSUPPORTED_ASSIGNOR),
                (beat(member="new", subscribed_topic_regex="("), ErrorCode.INVALID_REGULAR_EXPRESSION),
            ):
                assert (await other.ask(ask, 1)).error_code == code
                assert await old.beat(4) == 0, "nobody has to join again because of that"
            connect = Asker(client, "workers")
            await connect.enter(9, metadata=b"not a consumer's")
            assert (await other.ask(beat(group="workers", member="new"), 1)).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(story())


def test_a_mixed_group_is_taken_over_as_it_is(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client, await node.client() as other:
            _, old = await stable(node, client)
            await other.ask(beat(member="new"), 1)
            await old.beat(4)
            await old.enter(9, metadata=WANTS)
            held = node.broker.groups.hold("g")
            before = held.machine.kept()
            held.drop(ErrorCode.NOT_COORDINATOR)
            assert await old.beat(4) == 0
            assert machine_of(node) is not held.machine
            assert machine_of(node).kept() == before

    run(story())
