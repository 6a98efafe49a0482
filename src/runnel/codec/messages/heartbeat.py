"""Heartbeat: a member of a classic group is alive (API key 12)."""

from runnel.codec.declare import Int16, Int32, Message, String, field


class HeartbeatRequest(Message, key=12, first=0, last=4, flexible=4):
    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field(default=None, since=3)


class HeartbeatResponse(Message, key=12, first=0, last=4, flexible=4):
    throttle_time_ms: Int32 = field(default=0, since=1)
    error_code: Int16 = 0
