"""ShareGroupDescribe: state and members of share groups (API key 77)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Bool, Int16, Int32, Message, String, Struct, Uuid, field


class ShareGroupDescribeRequest(Message, key=77, first=1, last=1, flexible=1):
    group_ids: Sequence[String] = ()
    include_authorized_operations: Bool = False


class TopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    topic_name: String = ""
    partitions: Sequence[Int32] = ()


class Assignment(Struct):
    topic_partitions: Sequence[TopicPartitions] = ()


class Member(Struct):
    member_id: String = ""
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: Sequence[String] = ()
    assignment: Assignment = field(default=None)


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: Sequence[Member] = ()
    authorized_operations: Int32 = -2_147_483_648


class ShareGroupDescribeResponse(Message, key=77, first=1, last=1, flexible=1):
    throttle_time_ms: Int32 = 0
    groups: Sequence[DescribedGroup] = ()
