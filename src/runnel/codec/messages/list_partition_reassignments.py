"""ListPartitionReassignments: moves under way (API key 46)."""

from collections.abc import Sequence

from runnel.codec.declare import Int16, Int32, Message, String, Struct


class ListPartitionReassignmentsTopics(Struct):
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


class ListPartitionReassignmentsRequest(Message, key=46, first=0, last=0, flexible=0):
    timeout_ms: Int32 = 60_000
    topics: Sequence[ListPartitionReassignmentsTopics] | None = ()


class OngoingPartitionReassignment(Struct):
    partition_index: Int32 = 0
    replicas: Sequence[Int32] = ()
    adding_replicas: Sequence[Int32] = ()
    removing_replicas: Sequence[Int32] = ()


class OngoingTopicReassignment(Struct):
    name: String = ""
    partitions: Sequence[OngoingPartitionReassignment] = ()


class ListPartitionReassignmentsResponse(Message, key=46, first=0, last=0, flexible=0):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    topics: Sequence[OngoingTopicReassignment] = ()
