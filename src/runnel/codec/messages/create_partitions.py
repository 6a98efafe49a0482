"""CreatePartitions: more partitions for topics (API key 37)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int16, Int32, Message, String, Struct


class CreatePartitionsAssignment(Struct):
    broker_ids: Sequence[Int32] = ()


class CreatePartitionsTopic(Struct):
    name: String = ""
    count: Int32 = 0
    assignments: Sequence[CreatePartitionsAssignment] | None = ()


class CreatePartitionsRequest(Message, key=37, first=0, last=3, flexible=2):
    topics: Sequence[CreatePartitionsTopic] = ()
    timeout_ms: Int32 = 0
    validate_only: Bool = False


class CreatePartitionsTopicResult(Struct):
    name: String = ""
    error_code: Int16 = 0
    error_message: String | None = None


class CreatePartitionsResponse(Message, key=37, first=0, last=3, flexible=2):
    throttle_time_ms: Int32 = 0
    results: Sequence[CreatePartitionsTopicResult] = ()
