"""CreateTopics: topics with partitions, assignments and settings (API key 19)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Bool, Int8, Int16, Int32, Message, String, Struct, Uuid, field


class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = 0
    broker_ids: Sequence[Int32] = ()


class CreatableTopicConfig(Struct):
    name: String = ""
    value: String | None = ""


class CreatableTopic(Struct):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: Sequence[CreatableReplicaAssignment] = ()
    configs: Sequence[CreatableTopicConfig] = ()


class CreateTopicsRequest(Message, key=19, first=2, last=7, flexible=5):
    topics: Sequence[CreatableTopic] = ()
    timeout_ms: Int32 = 60_000
    validate_only: Bool = False


class CreatableTopicConfigs(Struct):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


class CreatableTopicResult(Struct):
    name: String = ""
    topic_id: Uuid = field(default=NO_UUID, since=7)
    error_code: Int16 = 0
    error_message: String | None = ""
    topic_config_error_code: Int16 = field(default=0, since=5, tag=0)
    num_partitions: Int32 = field(default=-1, since=5)
    replication_factor: Int16 = field(default=-1, since=5)
    configs: Sequence[CreatableTopicConfigs] | None = field(default=(), since=5)


class CreateTopicsResponse(Message, key=19, first=2, last=7, flexible=5):
    throttle_time_ms: Int32 = 0
    topics: Sequence[CreatableTopicResult] = ()
