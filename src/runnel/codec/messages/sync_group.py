"""SyncGroup: the leader hands out the assignment, each member gets its part (API key 14)."""

from collections.abc import Sequence

from runnel.codec.declare import Bytes, Int16, Int32, Message, String, Struct, field


class SyncGroupRequestAssignment(Struct):
    member_id: String = ""
    assignment: Bytes = b""


class SyncGroupRequest(Message, key=14, first=0, last=5, flexible=4):
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field(default=None, since=3)
    protocol_type: String | None = field(default=None, since=5)
    protocol_name: String | None = field(default=None, since=5)
    assignments: Sequence[SyncGroupRequestAssignment] = ()


class SyncGroupResponse(Message, key=14, first=0, last=5, flexible=4):
    throttle_time_ms: Int32 = field(default=0, since=1)
    error_code: Int16 = 0
    protocol_type: String | None = field(default=None, since=5)
    protocol_name: String | None = field(default=None, since=5)
    assignment: Bytes = b""
