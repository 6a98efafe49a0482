"""ShareAcknowledge: what became of records of a share group (API key 79)."""

from collections.abc import Sequence

from runnel.codec.declare import NO_UUID, Bool, Int8, Int16, Int32, Int64, Message, String, Struct, Uuid, field


class AcknowledgementBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: Sequence[Int8] = ()


class AcknowledgePartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: Sequence[AcknowledgementBatch] = ()


class AcknowledgeTopic(Struct):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[AcknowledgePartition] = ()


class ShareAcknowledgeRequest(Message, key=79, first=1, last=2, flexible=1):
    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Bool = field(default=False, since=2)
    topics: Sequence[AcknowledgeTopic] = ()


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch = field(default=None)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid = NO_UUID
    partitions: Sequence[PartitionData] = ()


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class ShareAcknowledgeResponse(Message, key=79, first=1, last=2, flexible=1):
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = field(default=0, since=2)
    responses: Sequence[ShareAcknowledgeTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()
