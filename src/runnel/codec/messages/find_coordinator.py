"""FindCoordinator: which broker answers for a group or a transactional id (API key 10)."""

from collections.abc import Sequence

from runnel.codec.declare import Int8, Int16, Int32, Message, String, Struct, field


class FindCoordinatorRequest(Message, key=10, first=0, last=6, flexible=3):
    key: String = field(default="", until=3)
    key_type: Int8 = field(default=0, since=1)
    coordinator_keys: Sequence[String] = field(default=(), since=4)


class Coordinator(Struct):
    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class FindCoordinatorResponse(Message, key=10, first=0, last=6, flexible=3):
    throttle_time_ms: Int32 = field(default=0, since=1)
    error_code: Int16 = field(default=0, until=3)
    error_message: String | None = field(default="", since=1, until=3)
    node_id: Int32 = field(default=0, until=3)
    host: String = field(default="", until=3)
    port: Int32 = field(default=0, until=3)
    coordinators: Sequence[Coordinator] = field(default=(), since=4)
