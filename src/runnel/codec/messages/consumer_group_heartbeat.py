"""ConsumerGroupHeartbeat: a member of a new consumer group is alive, and is told its assignment (API key 68)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Int16, Int32, Message, String, Struct, Uuid, field


class TopicPartitions(Struct):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[Int32] = ()


class ConsumerGroupHeartbeatRequest(Message, key=68, first=0, last=1, flexible=0):
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: Sequence[String] | None = None
    subscribed_topic_regex: String | None = field(default=None, since=1)
    server_assignor: String | None = None
    topic_partitions: Sequence[TopicPartitions] | None = ()


class Assignment(Struct):
    topic_partitions: Sequence[TopicPartitions] = ()


class ConsumerGroupHeartbeatResponse(Message, key=68, first=0, last=1, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
