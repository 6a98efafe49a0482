"""StreamsGroupDescribe: state, topology and members of streams groups (API key 89)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int16, Int32, Int64, Message, String, Struct, Uint16, field


class StreamsGroupDescribeRequest(Message, key=89, first=0, last=0, flexible=0):
    group_ids: Sequence[String] = ()
    include_authorized_operations: Bool = False


class KeyValue(Struct):
    key: String = ""
    value: String = ""


class TopicInfo(Struct):
    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: Sequence[KeyValue] = ()


class Subtopology(Struct):
    subtopology_id: String = ""
    source_topics: Sequence[String] = ()
    repartition_sink_topics: Sequence[String] = ()
    state_changelog_topics: Sequence[TopicInfo] = ()
    repartition_source_topics: Sequence[TopicInfo] = ()


class Topology(Struct):
    epoch: Int32 = 0
    subtopologies: Sequence[Subtopology] | None = ()


class Endpoint(Struct):
    host: String = ""
    port: Uint16 = 0


class TaskOffset(Struct):
    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


class TaskIds(Struct):
    subtopology_id: String = ""
    partitions: Sequence[Int32] = ()


class Assignment(Struct):
    active_tasks: Sequence[TaskIds] = ()
    standby_tasks: Sequence[TaskIds] = ()
    warmup_tasks: Sequence[TaskIds] = ()


class Member(Struct):
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: Endpoint | None = None
    client_tags: Sequence[KeyValue] = ()
    task_offsets: Sequence[TaskOffset] = ()
    task_end_offsets: Sequence[TaskOffset] = ()
    assignment: Assignment = field(default=None)
    target_assignment: Assignment = field(default=None)
    is_classic: Bool = False


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Topology | None = None
    members: Sequence[Member] = ()
    authorized_operations: Int32 = -2_147_483_648


class StreamsGroupDescribeResponse(Message, key=89, first=0, last=0, flexible=0):
    throttle_time_ms: Int32 = 0
    groups: Sequence[DescribedGroup] = ()
