"""DeleteRecords: partitions begin at a later offset from now on (API key 21)."""

from collections.abc import Sequence

from runnel.codec.declare import Int16, Int32, Int64, Message, String, Struct


class DeleteRecordsPartition(Struct):
    partition_index: Int32 = 0
    offset: Int64 = 0


class DeleteRecordsTopic(Struct):
    name: String = ""
    partitions: Sequence[DeleteRecordsPartition] = ()


class DeleteRecordsRequest(Message, key=21, first=0, last=2, flexible=2):
    topics: Sequence[DeleteRecordsTopic] = ()
    timeout_ms: Int32 = 0


class DeleteRecordsPartitionResult(Struct):
    partition_index: Int32 = 0
    low_watermark: Int64 = 0
    error_code: Int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: String = ""
    partitions: Sequence[DeleteRecordsPartitionResult] = ()


class DeleteRecordsResponse(Message, key=21, first=0, last=2, flexible=2):
    throttle_time_ms: Int32 = 0
    topics: Sequence[DeleteRecordsTopicResult] = ()
