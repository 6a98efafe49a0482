"""StreamsGroupHeartbeat: a member of a streams group is alive, tells its topology and is told its tasks (API key 88)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int8, Int16, Int32, Int64, Message, String, Struct, Uint16, field


class KeyValue(Struct):
    key: String = ""
    value: String = ""


class TopicInfo(Struct):
    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: Sequence[KeyValue] = ()


class CopartitionGroup(Struct):
    source_topics: Sequence[Int16] = ()
    source_topic_regex: Sequence[Int16] = ()
    repartition_source_topics: Sequence[Int16] = ()


class Subtopology(Struct):
    subtopology_id: String = ""
    source_topics: Sequence[String] = ()
    source_topic_regex: Sequence[String] = ()
    state_changelog_topics: Sequence[TopicInfo] = ()
    repartition_sink_topics: Sequence[String] = ()
    repartition_source_topics: Sequence[TopicInfo] = ()
    copartition_groups: Sequence[CopartitionGroup] = ()


class Topology(Struct):
    epoch: Int32 = 0
    subtopologies: Sequence[Subtopology] = ()


class TaskIds(Struct):
    subtopology_id: String = ""
    partitions: Sequence[Int32] = ()


class Endpoint(Struct):
    host: String = ""
    port: Uint16 = 0


class TaskOffset(Struct):
    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


class StreamsGroupHeartbeatRequest(Message, key=88, first=0, last=0, flexible=0):
    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: Sequence[TaskIds] | None = ()
    standby_tasks: Sequence[TaskIds] | None = ()
    warmup_tasks: Sequence[TaskIds] | None = ()
    process_id: String | None = None
    user_endpoint: Endpoint | None = None
    client_tags: Sequence[KeyValue] | None = ()
    task_offsets: Sequence[TaskOffset] | None = ()
    task_end_offsets: Sequence[TaskOffset] | None = ()
    shutdown_application: Bool = False


class Status(Struct):
    status_code: Int8 = 0
    status_detail: String = ""


class TopicPartition(Struct):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = field(default=None)
    active_partitions: Sequence[TopicPartition] = ()
    standby_partitions: Sequence[TopicPartition] = ()


class StreamsGroupHeartbeatResponse(Message, key=88, first=0, last=0, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: Sequence[Status] | None = ()
    active_tasks: Sequence[TaskIds] | None = ()
    standby_tasks: Sequence[TaskIds] | None = ()
    warmup_tasks: Sequence[TaskIds] | None = ()
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: Sequence[EndpointToPartitions] | None = ()
