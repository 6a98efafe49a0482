"""ConsumerGroupHeartbeat (68), ConsumerGroupDescribe (69): the new protocol (KIP-848). What they mean is in `groups/`."""

from collections.abc import Mapping

from runnel.broker import authorized
from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.groups.assignors import Parts
from runnel.broker.groups.consumer import JOINS, Consumer, ConsumerGroup, Refusal, by_topic, check
from runnel.broker.groups.member import Caller
from runnel.codec.declare import Message
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from runnel.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse

CLASSIC_MEMBER, NEW_MEMBER = 0, 1
"""A member's type: which protocol it speaks itself."""


def handlers(broker: Broker) -> Mapping[int, Handler]:
    groups = broker.groups

    def heartbeat(call: Call) -> Message | None:
        ask = call.request
        try:
            check(ask, call.version)
        except Refusal as refusal:
            return ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=str(refusal))
        by = Caller(call.client.id, f"/{call.client.host}")
        fresh = "" if ask.member_id else groups.fresh_member_id(call.client.id)
        groups.submit(
            call,
            ask.group_id,
            lambda group, at: group.heartbeat(
                call, ask, version=call.version, by=by, fresh=fresh, topics=groups.topics(), at=at
            ),
            ConsumerGroup.kind,
            ErrorCode.GROUP_ID_NOT_FOUND,
            joins=ask.member_epoch == JOINS,
        )
        return None

    async def describe(call: Call) -> Message:
        return ConsumerGroupDescribeResponse(
            groups=[await _described(broker, call, name) for name in call.request.group_ids]
        )

    return {68: heartbeat, 69: describe}


async def _described(broker: Broker, call: Call, name: str) -> DescribedGroup:
    found = await broker.groups.look(name)
    if isinstance(found, ErrorCode):
        return DescribedGroup(group_id=name, error_code=found)
    group, machine = found
    if group is None or not isinstance(machine, ConsumerGroup):
        why = "does not exist" if group is None else "is not a group of the new protocol"
        return DescribedGroup(
            group_id=name, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=f"group '{name}' {why}"
        )
    names = broker.engine.root.topic_names
    return DescribedGroup(
        group_id=name,
        group_state=machine.state,
        group_epoch=machine.generation,
        assignment_epoch=machine.target_epoch,
        assignor_name=machine.assignor,
        members=[_member(member, names) for member in machine.members.values()],
        authorized_operations=authorized.GROUP if call.request.include_authorized_operations else authorized.NOT_ASKED,
    )


def _member(member: Consumer, names: Mapping[bytes, str]) -> Member:
    return Member(
        member_id=member.id,
        instance_id=member.instance,
        rack_id=member.rack,
        member_epoch=member.reading.epoch,
        client_id=member.caller.client_id,
        client_host=member.caller.host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern,
        assignment=_told(member.reading.assigned, names),
        target_assignment=_told(member.target, names),
        member_type=CLASSIC_MEMBER if member.protocols else NEW_MEMBER,
    )


def _told(parts: Parts, names: Mapping[bytes, str]) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic, topic_name=names.get(topic, ""), partitions=indexes)
            for topic, indexes in by_topic(parts).items()
        ]
    )
