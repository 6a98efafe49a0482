"""ShareGroupHeartbeat: a member of a share group is alive, and is told its assignment (API key 76)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Int16, Int32, Message, String, Struct, Uuid


class ShareGroupHeartbeatRequest(Message, key=76, first=1, last=1, flexible=1):
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: Sequence[String] | None = None


class TopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[Int32] = ()


class Assignment(Struct):
    topic_partitions: Sequence[TopicPartitions] = ()


class ShareGroupHeartbeatResponse(Message, key=76, first=1, last=1, flexible=1):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
