"""JoinGroup (11), Heartbeat (12), LeaveGroup (13), SyncGroup (14): the classic protocol. What they mean is in `groups/`."""

from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.groups.classic import ClassicGroup
from runnel.broker.groups.member import Caller
from runnel.codec.declare import Message
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.heartbeat import HeartbeatResponse
from runnel.codec.messages.join_group import JoinGroupResponse
from runnel.codec.messages.leave_group import LeaveGroupResponse
from runnel.codec.messages.sync_group import SyncGroupResponse

SYNC_NAMES_PROTOCOL_FROM = 5


def handlers(broker: Broker) -> Mapping[int, Handler]:
    groups = broker.groups

    def join_group(call: Call) -> Message | None:
        ask = call.request
        if not ask.group_id:
            return JoinGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID, member_id=ask.member_id)
        if not groups.bounds.session_ms_min <= ask.session_timeout_ms <= groups.bounds.session_ms_max:
            return JoinGroupResponse(error_code=ErrorCode.INVALID_SESSION_TIMEOUT, member_id=ask.member_id)
        by = Caller(call.client.id, f"/{call.client.host}")
        fresh = "" if ask.member_id else groups.fresh_member_id(ask.group_instance_id or call.client.id)
        groups.submit(
            call,
            ask.group_id,
            lambda group, at: group.join(call, ask, version=call.version, by=by, fresh=fresh, at=at),
            ClassicGroup.kind,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        )
        return None

    def sync_group(call: Call) -> Message | None:
        ask = call.request
        if not ask.group_id:
            return SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        if call.version >= SYNC_NAMES_PROTOCOL_FROM and (ask.protocol_type is None or ask.protocol_name is None):
            return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        groups.submit(call, ask.group_id, lambda group, at: group.sync(call, ask, at=at), ClassicGroup.kind)
        return None

    def heartbeat(call: Call) -> Message | None:
        ask = call.request
        if not ask.group_id:
            return HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        groups.submit(call, ask.group_id, lambda group, at: group.heartbeat(call, ask, at=at), ClassicGroup.kind)
        return None

    def leave_group(call: Call) -> Message | None:
        ask = call.request
        if not ask.group_id:
            return LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        groups.submit(
            call,
            ask.group_id,
            lambda group, at: group.leave(call, ask, version=call.version, at=at),
            ClassicGroup.kind,
        )
        return None

    return {11: join_group, 12: heartbeat, 13: leave_group, 14: sync_group}
