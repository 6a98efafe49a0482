"""Fetch: record batches from offsets on, with sessions that carry only what changed (API key 1)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Int8, Int16, Int32, Int64, Message, Records, String, Struct, Uuid, field


class ReplicaState(Struct):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = field(default=-1, since=9)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = field(default=-1, since=12)
    log_start_offset: Int64 = field(default=-1, since=5)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = field(default=NO_UUID, since=17, tag=0)
    high_watermark: Int64 = field(default=9_223_372_036_854_775_807, since=18, tag=1)


class FetchTopic(Struct):
    topic: String = field(default="", until=12)
    topic_id: Uuid = field(default=NO_UUID, since=13)
    partitions: Sequence[FetchPartition] = ()


class ForgottenTopic(Struct):
    topic: String = field(default="", until=12)
    topic_id: Uuid = field(default=NO_UUID, since=13)
    partitions: Sequence[Int32] = ()


class FetchRequest(Message, key=1, first=4, last=18, flexible=12):
    cluster_id: String | None = field(default=None, since=12, tag=0)
    replica_id: Int32 = field(default=-1, until=14)
    replica_state: ReplicaState | None = field(default=None, since=15, tag=1)
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2_147_483_647
    isolation_level: Int8 = 0
    session_id: Int32 = field(default=0, since=7)
    session_epoch: Int32 = field(default=-1, since=7)
    topics: Sequence[FetchTopic] = ()
    forgotten_topics_data: Sequence[ForgottenTopic] = field(default=(), since=7)
    rack_id: String = field(default="", since=11)


class EpochEndOffset(Struct):
    epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = field(default=-1, since=5)
    diverging_epoch: EpochEndOffset | None = field(default=None, since=12, tag=0)
    current_leader: LeaderIdAndEpoch | None = field(default=None, since=12, tag=1)
    snapshot_id: SnapshotId | None = field(default=None, since=12, tag=2)
    aborted_transactions: Sequence[AbortedTransaction] | None = ()
    preferred_read_replica: Int32 = field(default=-1, since=11)
    records: Records | None = None


class FetchableTopicResponse(Struct):
    topic: String = field(default="", until=12)
    topic_id: Uuid = field(default=NO_UUID, since=13)
    partitions: Sequence[PartitionData] = ()


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class FetchResponse(Message, key=1, first=4, last=18, flexible=12):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(default=0, since=7)
    session_id: Int32 = field(default=0, since=7)
    responses: Sequence[FetchableTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = field(default=(), since=16, tag=0)
