"""DescribeShareGroupOffsets: where share groups begin (API key 90)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Int16, Int32, Int64, Message, String, Struct, Uuid, field


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""
    partitions: Sequence[Int32] = ()


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: String = ""
    topics: Sequence[DescribeShareGroupOffsetsRequestTopic] | None = ()


class DescribeShareGroupOffsetsRequest(Message, key=90, first=0, last=1, flexible=0):
    groups: Sequence[DescribeShareGroupOffsetsRequestGroup] = ()


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Int64 = field(default=-1, since=1)
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = NO_UUID
    partitions: Sequence[DescribeShareGroupOffsetsResponsePartition] = ()


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: String = ""
    topics: Sequence[DescribeShareGroupOffsetsResponseTopic] = ()
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponse(Message, key=90, first=0, last=1, flexible=0):
    throttle_time_ms: Int32 = 0
    groups: Sequence[DescribeShareGroupOffsetsResponseGroup] = ()
