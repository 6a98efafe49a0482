"""DeleteRecords (21): partitions begin at a later offset from now on.

The records before it are unreadable at once, from every broker; their bytes go with the sweep.
"""

from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.problems import code_of
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from runnel.errors import RunnelError
from runnel.model import ShardId, StreamId, shard_of

TO_THE_END = -1
"""Asks for everything that was there when the request came."""


def handlers(broker: Broker) -> Mapping[int, Handler]:
    async def delete_records(call: Call) -> DeleteRecordsResponse:
        await broker.catalog.find_out(topic.name for topic in call.request.topics)
        topics = []
        by_shard: dict[ShardId, dict[StreamId, DeleteRecordsPartitionResult]] = {}
        wanted: dict[StreamId, int] = {}
        for asked in call.request.topics:
            topic = broker.catalog.topic(asked.name)
            partitions = []
            for each in asked.partitions:
                told = DeleteRecordsPartitionResult(partition_index=each.partition_index, low_watermark=-1)
                partitions.append(told)
                stream = broker.catalog.stream(topic, each.partition_index) if topic is not None else None
                if stream is None:
                    told.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif stream in wanted:
                    told.error_code = ErrorCode.INVALID_REQUEST
                else:
                    wanted[stream] = each.offset
                    by_shard.setdefault(shard_of(stream, broker.engine.cluster.shards), {})[stream] = told
            topics.append(DeleteRecordsTopicResult(name=asked.name, partitions=partitions))
        for places in by_shard.values():
            await _truncate(broker, places, wanted)
        return DeleteRecordsResponse(topics=topics)

    return {21: delete_records}


async def _truncate(
    broker: Broker, places: Mapping[StreamId, DeleteRecordsPartitionResult], wanted: Mapping[StreamId, int]
) -> None:
    """Move the starts of streams of one shard with one entry; how each fared is filled in."""
    starts: dict[StreamId, int] = {}
    for stream, bounds in (await broker.engine.bounds_of(places)).items():
        if isinstance(bounds, RunnelError):
            places[stream].error_code = code_of(bounds)
            continue
        _, end = bounds
        offset = end if wanted[stream] == TO_THE_END else wanted[stream]
        if 0 <= offset <= end:
            starts[stream] = offset
        else:
            places[stream].error_code = ErrorCode.OFFSET_OUT_OF_RANGE
    try:
        done = await broker.engine.truncate(starts)
    except RunnelError as error:
        for stream in starts:
            places[stream].error_code = code_of(error)
        return
    for stream in starts:
        if stream in done:
            places[stream].low_watermark = done[stream]
        else:
            places[stream].error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # it was deleted meanwhile
