"""ListOffsets (2): where a partition begins and ends, and which record was the first at a time.

A time is answered exactly: the index leads to the batch, and the batch is opened to find the record.
"""

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


def handlers(broker: Broker) -> Mapping[int, Handler]:
    async def list_offsets(call: Call) -> ListOffsetsResponse:
        topics = []
        seen: set[tuple[str, int]] = set()
        for asked in call.request.topics:
            partitions = []
            topic = broker.catalog.topic(asked.name)
            for wanted in asked.partitions:
                index = wanted.partition_index
                stream = broker.catalog.stream(topic, index) if topic is not None else None
                code: ErrorCode | None = None
                if (asked.name, index) in seen:
                    code = ErrorCode.INVALID_REQUEST
                elif stream is None:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif wanted.timestamp < 0 and call.version < _SINCE.get(wanted.timestamp, 1 << 15):
                    code = ErrorCode.UNSUPPORTED_VERSION
                else:
                    code = epoch_error(wanted.current_leader_epoch)
                seen.add((asked.name, index))
                if code is not None or stream is None:
                    partitions.append(ListOffsetsPartitionResponse(partition_index=index, error_code=code or 0))
                else:
                    partitions.append(await _find(broker, stream, index, wanted.timestamp))
            topics.append(ListOffsetsTopicResponse(name=asked.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    return {2: list_offsets}


async def _find(broker: Broker, stream: StreamId, index: int, time: int) -> ListOffsetsPartitionResponse:
    engine = broker.engine
    found: tuple[int, int] | None
    try:
        if time in (LATEST, EARLIEST, EARLIEST_LOCAL):
            start, end = await engine.bounds(stream)
            found = (end if time == LATEST else start, -1)
        elif time in (LATEST_TIERED, EARLIEST_PENDING):
            found = None  # as a broker without tiered storage says it
        elif time == LARGEST_TIME:
            found = await engine.reader.latest_stamp(stream)
        else:
            found = await engine.offset_at(stream, time)
    except RunnelError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=code_of(error))
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=index)
    return ListOffsetsPartitionResponse(
        partition_index=index, offset=found[0], timestamp=found[1], leader_epoch=LEADER_EPOCH
    )
