"""AlterReplicaLogDirs: move replicas between disks (API key 34)."""

from collections.abc import Sequence

from runnel.codec.declare import Int16, Int32, Message, String, Struct


class AlterReplicaLogDirTopic(Struct):
    name: String = ""
    partitions: Sequence[Int32] = ()


class AlterReplicaLogDir(Struct):
    path: String = ""
    topics: Sequence[AlterReplicaLogDirTopic] = ()


class AlterReplicaLogDirsRequest(Message, key=34, first=1, last=2, flexible=2):
    dirs: Sequence[AlterReplicaLogDir] = ()


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: String = ""
    partitions: Sequence[AlterReplicaLogDirPartitionResult] = ()


class AlterReplicaLogDirsResponse(Message, key=34, first=1, last=2, flexible=2):
    throttle_time_ms: Int32 = 0
    results: Sequence[AlterReplicaLogDirTopicResult] = ()
