"""WriteTxnMarkers: the outcome of transactions, into partitions; tools end hanging transactions with it (API key 27)."""

from collections.abc import Sequence

from runnel.codec.declare import Bool, Int8, Int16, Int32, Int64, Message, String, Struct, field


class WritableTxnMarkerTopic(Struct):
    name: String = ""
    partition_indexes: Sequence[Int32] = ()


class WritableTxnMarker(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: Sequence[WritableTxnMarkerTopic] = ()
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = field(default=0, since=2)


class WriteTxnMarkersRequest(Message, key=27, first=1, last=2, flexible=1):
    markers: Sequence[WritableTxnMarker] = ()


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: String = ""
    partitions: Sequence[WritableTxnMarkerPartitionResult] = ()


class WritableTxnMarkerResult(Struct):
    producer_id: Int64 = 0
    topics: Sequence[WritableTxnMarkerTopicResult] = ()


class WriteTxnMarkersResponse(Message, key=27, first=1, last=2, flexible=1):
    markers: Sequence[WritableTxnMarkerResult] = ()
