"""OffsetForLeaderEpoch (23): where an epoch ended.

Consumers ask it when a leader has changed, to find out whether records they have read were lost. Nothing is ever lost
here by a change of leaders, and there is one epoch for ever: it ends where the partition ends.
"""

from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.problems import code_of
from runnel.broker.routing import LEADER_EPOCH, epoch_error
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from runnel.errors import RunnelError
from runnel.model import StreamId


def handlers(broker: Broker) -> Mapping[int, Handler]:
    async def offset_for_leader_epoch(call: Call) -> OffsetForLeaderEpochResponse:
        await broker.catalog.find_out(topic.topic for topic in call.request.topics)
        topics = []
        sought: list[tuple[StreamId, EpochEndOffset]] = []
        for asked in call.request.topics:
            topic = broker.catalog.topic(asked.topic)
            told = []
            for wanted in asked.partitions:
                end = EpochEndOffset(partition=wanted.partition)
                told.append(end)
                stream = broker.catalog.stream(topic, wanted.partition) if topic is not None else None
                code = epoch_error(wanted.current_leader_epoch)
                if stream is None:
                    end.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                elif code is not None:
                    end.error_code = code
                elif wanted.leader_epoch == LEADER_EPOCH:  # else an epoch that never was: -1, as Kafka says it
                    sought.append((stream, end))
            topics.append(OffsetForLeaderTopicResult(topic=asked.topic, partitions=told))
        found = await broker.engine.bounds_of(stream for stream, _ in sought)
        for stream, end in sought:
            bounds = found[stream]
            if isinstance(bounds, RunnelError):
                end.error_code = code_of(bounds)
            else:
                end.leader_epoch, end.end_offset = LEADER_EPOCH, bounds[1]
        return OffsetForLeaderEpochResponse(topics=topics)

    return {23: offset_for_leader_epoch}
