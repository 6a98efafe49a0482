"""ListGroups: the groups there are, by state and type (API key 16)."""

from collections.abc import Sequence

from runnel.codec.declare import Int16, Int32, Message, String, Struct, field


class ListGroupsRequest(Message, key=16, first=0, last=5, flexible=3):
    states_filter: Sequence[String] = field(default=(), since=4)
    types_filter: Sequence[String] = field(default=(), since=5)


class ListedGroup(Struct):
    group_id: String = ""
    protocol_type: String = ""
    group_state: String = field(default="", since=4)
    group_type: String = field(default="", since=5)


class ListGroupsResponse(Message, key=16, first=0, last=5, flexible=3):
    throttle_time_ms: Int32 = field(default=0, since=1)
    error_code: Int16 = 0
    groups: Sequence[ListedGroup] = ()
