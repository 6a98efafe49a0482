"""DescribeGroups: state and members of classic groups (API key 15)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Bytes, Int16, Int32, Message, String, Struct, field


class DescribeGroupsRequest(Message, key=15, first=0, last=6, flexible=5):
    groups: Sequence[String] = ()
    include_authorized_operations: Bool = field(default=False, since=3)


class DescribedGroupMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = field(default=None, since=4)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = field(default=None, since=6)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: Sequence[DescribedGroupMember] = ()
    authorized_operations: Int32 = field(default=-2_147_483_648, since=3)


class DescribeGroupsResponse(Message, key=15, first=0, last=6, flexible=5):
    throttle_time_ms: Int32 = field(default=0, since=1)
    groups: Sequence[DescribedGroup] = ()
