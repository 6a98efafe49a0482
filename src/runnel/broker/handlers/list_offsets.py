"""ListOffsets (2): where a partition begins and ends, and which record was the first at a time.

A time is answered exactly: the index leads to the batch, and the batch is opened to find the record.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.problems import code_of
from runnel.broker.routing import LEADER_EPOCH, epoch_error
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from runnel.errors import RunnelError
from runnel.model import StreamId

LATEST, EARLIEST, LARGEST_TIME, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = -1, -2, -3, -4, -5, -6
_SINCE = {LATEST: 1, EARLIEST: 1, LARGEST_TIME: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING: 11}
"""From which version on a client may ask for what is not a time."""
TOGETHER_MAX = 32
"""Partitions of one request that are looked into at once."""


def handlers(broker: Broker) -> Mapping[int, Handler]:
    async def list_offsets(call: Call) -> ListOffsetsResponse:
        request = call.request
        await broker.catalog.find_out(topic.name for topic in request.topics)
        times_asked = Counter(
            (topic.name, each.partition_index) for topic in request.topics for each in topic.partitions
        )
        topics = []
        sought: list[tuple[ListOffsetsPartitionResponse, StreamId, int]] = []
        for asked in request.topics:
            topic = broker.catalog.topic(asked.name)
            partitions = []
            for wanted in asked.partitions:
                index, time = wanted.partition_index, wanted.timestamp
                told = ListOffsetsPartitionResponse(partition_index=index)
                partitions.append(told)
                stream = broker.catalog.stream(topic, index) if topic is not None else None
                epoch = epoch_error(wanted.current_leader_epoch)
                if times_asked[asked.name, index] > 1:
                    told.error_code = ErrorCode.INVALID_REQUEST
                elif stream is None:
                    told.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif time < 0 and call.version < _SINCE.get(time, 1 << 15):
                    told.error_code = ErrorCode.UNSUPPORTED_VERSION
                elif epoch is not None:
                    told.error_code = epoch
                else:
                    sought.append((told, stream, time))
            topics.append(ListOffsetsTopicResponse(name=asked.name, partitions=partitions))
        bounds = await broker.engine.bounds_of(stream for _, stream, _ in sought)
        for at in range(0, len(sought), TOGETHER_MAX):
            together = sought[at : at + TOGETHER_MAX]
            await asyncio.gather(
                *(_find(broker, told, bounds[stream], stream, time) for told, stream, time in together)
            )
        return ListOffsetsResponse(topics=topics)

    return {2: list_offsets}


async def _find(
    broker: Broker,
    told: ListOffsetsPartitionResponse,
    bounds: tuple[int, int] | RunnelError,
    stream: StreamId,
    time: int,
) -> None:
    reader = broker.engine.reader
    found: tuple[int, int] | None
    try:
        if isinstance(bounds, RunnelError):
            raise bounds
        if time in (LATEST, EARLIEST, EARLIEST_LOCAL):
            found = (bounds[1] if time == LATEST else bounds[0], -1)
        elif time in (LATEST_TIERED, EARLIEST_PENDING):
            found = None  # as a broker without tiered storage says it
        elif time == LARGEST_TIME:
            found = await reader.latest_stamp(stream, fresh=False)
        else:
            found = await reader.first_at(stream, time, fresh=False)
    except RunnelError as error:
        told.error_code = code_of(error)
        return
    if found is not None:
        told.offset, told.timestamp = found
        told.leader_epoch = LEADER_EPOCH
