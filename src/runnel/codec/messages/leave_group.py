"""LeaveGroup: members leave a classic group (API key 13)."""

from collections.abc import Sequence

from runnel.codec.declare import Int16, Int32, Message, String, Struct, field


class MemberIdentity(Struct):
    member_id: String = ""
    group_instance_id: String | None = None
    reason: String | None = field(default=None, since=5)


class LeaveGroupRequest(Message, key=13, first=0, last=5, flexible=4):
    group_id: String = ""
    member_id: String = field(default="", until=2)
    members: Sequence[MemberIdentity] = field(default=(), since=3)


class MemberResponse(Struct):
    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


class LeaveGroupResponse(Message, key=13, first=0, last=5, flexible=4):
    throttle_time_ms: Int32 = field(default=0, since=1)
    error_code: Int16 = 0
    members: Sequence[MemberResponse] = field(default=(), since=3)
