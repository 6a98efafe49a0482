"""DescribeGroups (15), ListGroups (16), DeleteGroups (42), OffsetDelete (47): what people ask about groups.

A broker answers for the groups that it coordinates; clients ask all brokers. Simple groups, which only commit, are told
as empty classic ones, as in Kafka.
"""

from collections.abc import Mapping
from typing import Any

from runnel.broker import authorized
from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.groups.classic import ClassicGroup
from runnel.broker.groups.held import code_of
from runnel.broker.groups.kept import decode_classic
from runnel.broker.groups.subscriptions import CONSUMERS
from runnel.codec.declare import Message
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from runnel.codec.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from runnel.codec.messages.list_groups import ListedGroup, ListGroupsResponse
from runnel.codec.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from runnel.errors import RunnelError
from runnel.metadata.groups import Group
from runnel.metadata.updates import DeleteGroups, DeleteOffsets

EMPTY, STABLE, DEAD = "Empty", "Stable", "Dead"
SAYS_WHY_FROM = 6
"""DescribeGroups: a group that does not exist is an error from this version on, and dead before."""


def handlers(broker: Broker) -> Mapping[int, Handler]:
    async def describe_groups(call: Call) -> Message:
        told = [await _described(broker, call, name) for name in call.request.groups]
        return DescribeGroupsResponse(groups=told)

    async def list_groups(call: Call) -> Message:
        states = {each.lower() for each in call.request.states_filter}
        types = {each.lower() for each in call.request.types_filter}
        try:
            groups = await broker.groups.all_kept()
        except RunnelError as error:
            return ListGroupsResponse(error_code=code_of(error))
        told = [_listed(broker, group) for group in groups]
        return ListGroupsResponse(
            groups=[
                each
                for each in told
                if (not states or each.group_state.lower() in states)
                and (not types or each.group_type.lower() in types)
            ]
        )

    async def delete_groups(call: Call) -> Message:
        names = list(dict.fromkeys(call.request.groups_names))
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=name, error_code=await _delete(broker, name)) for name in names]
        )

    async def offset_delete(call: Call) -> Message:
        return await _delete_offsets(broker, call.request)

    return {15: describe_groups, 16: list_groups, 42: delete_groups, 47: offset_delete}


def _listed(broker: Broker, group: Group) -> ListedGroup:
    machine = broker.groups.machine(group.name)
    if group.kind == "consumer":
        protocol_type = CONSUMERS
    elif machine is not None and machine.kind == "classic":
        protocol_type = getattr(machine, "protocol_type", "")
    else:
        protocol_type = decode_classic(group.members, group.name).protocol_type if group.kind == "classic" else ""
    return ListedGroup(
        group_id=group.name,
        protocol_type=protocol_type,
        group_state=machine.state if machine is not None else STABLE if group.has_members else EMPTY,
        group_type="Consumer" if group.kind == "consumer" else "Classic",
    )


async def _described(broker: Broker, call: Call, name: str) -> DescribedGroup:
    found = await broker.groups.look(name)
    if isinstance(found, ErrorCode):
        return DescribedGroup(group_id=name, error_code=found)
    group, machine = found
    if not isinstance(machine, ClassicGroup) or (group is None and machine.is_idle):
        if call.version < SAYS_WHY_FROM:
            return DescribedGroup(group_id=name, group_state=DEAD)
        why = f"group '{name}' is not a classic group" if group is not None else f"group '{name}' does not exist"
        return DescribedGroup(
            group_id=name, group_state=DEAD, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=why
        )
    return DescribedGroup(
        group_id=name,
        group_state=machine.state,
        protocol_type=machine.protocol_type,
        protocol_data=machine.protocol if machine.state == STABLE else "",
        members=machine.described(),
        authorized_operations=authorized.GROUP if call.request.include_authorized_operations else authorized.NOT_ASKED,
    )


async def _delete(broker: Broker, name: str) -> ErrorCode:
    if not broker.groups.coordinates(name):
        return ErrorCode.NOT_COORDINATOR
    try:
        group = await broker.groups.kept(name)
        machine = await broker.groups.loaded(name)
        if not machine.is_idle:
            return ErrorCode.NON_EMPTY_GROUP
        if group is None:
            return ErrorCode.GROUP_ID_NOT_FOUND
        gone = await broker.engine.propose(broker.groups.shard_of(name), DeleteGroups({name: group.generation}))
    except RunnelError as error:
        return code_of(error)
    return ErrorCode.NONE if gone else ErrorCode.NON_EMPTY_GROUP


async def _delete_offsets(broker: Broker, request: Any) -> Message:
    name = request.group_id
    if not broker.groups.coordinates(name):
        return OffsetDeleteResponse(error_code=ErrorCode.NOT_COORDINATOR)
    try:
        group = await broker.groups.kept(name)
        if group is None:
            return OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        machine = await broker.groups.loaded(name)
        if isinstance(machine, ClassicGroup) and machine.members and machine.protocol_type != CONSUMERS:
            return OffsetDeleteResponse(error_code=ErrorCode.NON_EMPTY_GROUP)
        await broker.catalog.refresh()
        dead: dict[bytes, list[int]] = {}
        told = []
        for asked in request.topics:
            topic, code = broker.catalog.find(asked.name, b"", by_id=False)
            if topic is not None:
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if machine.reads(asked.name) else ErrorCode.NONE
            partitions = [each.partition_index for each in asked.partitions]
            if topic is not None and code == ErrorCode.NONE:
                dead.setdefault(topic.id, []).extend(partitions)
            told.append(
                OffsetDeleteResponseTopic(
                    name=asked.name,
                    partitions=[
                        OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in partitions
                    ],
                )
            )
        if dead:
            await broker.engine.propose(broker.groups.shard_of(name), DeleteOffsets(name, dead))
    except RunnelError as error:
        return OffsetDeleteResponse(error_code=code_of(error))
    return OffsetDeleteResponse(topics=told)
