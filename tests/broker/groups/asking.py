"""Requests of group members, written short."""

from runnel.codec.errors import ErrorCode
from runnel.codec.messages.consumer_protocol import ConsumerProtocolSubscription
from runnel.codec.messages.heartbeat import HeartbeatRequest
from runnel.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from runnel.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from runnel.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from runnel.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from runnel.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from runnel.codec.wire import encode_bare


def subscription(*topics):
    """What a consumer says of itself inside the classic protocol."""
    return b"\0\3" + encode_bare(ConsumerProtocolSubscription(topics=list(topics)), 3)


def join(group, member, *, session=10_000, metadata=b"m", instance=None):
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session,
        rebalance_timeout_ms=20_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def sync(group, member, generation, assignments, *, name="range"):
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        protocol_type="consumer",
        protocol_name=name,
        assignments=[SyncGroupRequestAssignment(member_id=each, assignment=what) for each, what in assignments.items()],
    )


def commit(group, topic, offsets, *, member="", generation=-1, note="", epoch=-1):
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=epoch, committed_metadata=note
        )
        for index, offset in offsets.items()
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic.name, topic_id=topic.id, partitions=partitions)],
    )


async def committed(client, group, topic, version):
    """Offset by partition; of all topics if `topic` is None."""
    indexes = [] if topic is None else list(range(len(topic.streams)))
    if version >= 8:
        asked = None
        if topic is not None:
            asked = [OffsetFetchRequestTopics(name=topic.name, topic_id=topic.id, partition_indexes=indexes)]
        told = await client.ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=asked)]), version
        )
        (answer,) = told.groups
    else:
        asked = None if topic is None else [OffsetFetchRequestTopic(name=topic.name, partition_indexes=indexes)]
        answer = await client.ask(OffsetFetchRequest(group_id=group, topics=asked), version)
    assert answer.error_code == 0
    return {each.partition_index: each.committed_offset for one in answer.topics for each in one.partitions}


class Asker:
    """One member, and what it knows of itself."""

    def __init__(self, client, group, member="", generation=-1):
        self.client, self.group, self.member, self.generation = client, group, member, generation

    async def enter(self, version, **more):
        told = await self.client.ask(join(self.group, self.member, **more), version)
        if told.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            told = await self.client.ask(join(self.group, told.member_id, **more), version)
        assert told.error_code == 0, told
        self.member, self.generation = told.member_id, told.generation_id
        return told

    async def sync(self, version, assignments):
        return await self.client.ask(sync(self.group, self.member, self.generation, assignments), version)

    async def beat(self, version):
        ask = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member)
        return (await self.client.ask(ask, version)).error_code

    async def commit(self, topic, offsets, version):
        ask = commit(self.group, topic, offsets, member=self.member, generation=self.generation)
        return await self.client.ask(ask, version)

    async def leave(self, version):
        ask = LeaveGroupRequest(
            group_id=self.group, member_id=self.member, members=[MemberIdentity(member_id=self.member)]
        )
        told = await self.client.ask(ask, version)
        return told.error_code or (told.members[0].error_code if version >= 3 else 0)
