"""ShareFetch: records of a share group to work on, with acknowledgements of earlier ones (API key 78)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Bool, Int8, Int16, Int32, Int64, Message, Records, String, Struct, Uuid, field


class AcknowledgementBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: Sequence[Int8] = ()


class FetchPartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: Sequence[AcknowledgementBatch] = ()


class FetchTopic(Struct):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[FetchPartition] = ()


class ForgottenTopic(Struct):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[Int32] = ()


class ShareFetchRequest(Message, key=78, first=1, last=2, flexible=1):
    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2_147_483_647
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Int8 = field(default=0, since=2)
    is_renew_ack: Bool = field(default=False, since=2)
    topics: Sequence[FetchTopic] = ()
    forgotten_topics_data: Sequence[ForgottenTopic] = ()


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch = field(default=None)
    records: Records = None
    acquired_records: Sequence[AcquiredRecords] = ()


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[PartitionData] = ()


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class ShareFetchResponse(Message, key=78, first=1, last=2, flexible=1):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: Sequence[ShareFetchableTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()
