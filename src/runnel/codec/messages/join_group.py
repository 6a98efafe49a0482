"""JoinGroup: a member enters a classic group, and learns its generation (API key 11)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Bytes, Int16, Int32, Message, String, Struct, field


class JoinGroupRequestProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


class JoinGroupRequest(Message, key=11, first=0, last=9, flexible=6):
    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = field(default=-1, since=1)
    member_id: String = ""
    group_instance_id: String | None = field(default=None, since=5)
    protocol_type: String = ""
    protocols: Sequence[JoinGroupRequestProtocol] = ()
    reason: String | None = field(default=None, since=8)


class JoinGroupResponseMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = field(default=None, since=5)
    metadata: Bytes = b""


class JoinGroupResponse(Message, key=11, first=0, last=9, flexible=6):
    throttle_time_ms: Int32 = field(default=0, since=2)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = field(default=None, since=7)
    protocol_name: String | None = field(default="", nullable=7)
    leader: String = ""
    skip_assignment: Bool = field(default=False, since=9)
    member_id: String = ""
    members: Sequence[JoinGroupResponseMember] = ()
