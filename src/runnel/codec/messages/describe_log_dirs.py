"""DescribeLogDirs: disks, and how much partitions take there (API key 35)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int16, Int32, Int64, Message, String, Struct, field


class DescribableLogDirTopic(Struct):
    topic: String = ""
    partitions: Sequence[Int32] = ()


class DescribeLogDirsRequest(Message, key=35, first=1, last=5, flexible=2):
    topics: Sequence[DescribableLogDirTopic] | None = ()


class DescribeLogDirsPartition(Struct):
    partition_index: Int32 = 0
    partition_size: Int64 = 0
    offset_lag: Int64 = 0
    is_future_key: Bool = False


class DescribeLogDirsTopic(Struct):
    name: String = ""
    partitions: Sequence[DescribeLogDirsPartition] = ()


class DescribeLogDirsResult(Struct):
    error_code: Int16 = 0
    log_dir: String = ""
    topics: Sequence[DescribeLogDirsTopic] = ()
    total_bytes: Int64 = field(default=-1, since=4)
    usable_bytes: Int64 = field(default=-1, since=4)
    is_cordoned: Bool = field(default=False, since=5)


class DescribeLogDirsResponse(Message, key=35, first=1, last=5, flexible=2):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=3)
    results: Sequence[DescribeLogDirsResult] = ()
