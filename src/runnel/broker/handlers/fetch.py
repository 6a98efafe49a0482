"""Fetch (1): records from offsets on."""

import asyncio
from collections.abc import Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.problems import code_of
from runnel.broker.routing import epoch_error
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from runnel.model import StreamId
from runnel.read.reader import Ask, Read

BY_ID_FROM = 13


def handlers(broker: Broker) -> Mapping[int, Handler]:
    async def fetch(call: Call) -> FetchResponse:
        request = call.request
        by_id = call.version >= BY_ID_FROM
        told: list[FetchableTopicResponse] = []
        asks: list[Ask] = []
        places: list[PartitionData] = []
        failed = False
        left = min(request.max_bytes, broker.limits.fetch_bytes_max)
        for asked in request.topics:
            topic, missing = broker.catalog.find(asked.topic, asked.topic_id, by_id=by_id)
            partitions = []
            for wanted in asked.partitions:
                data = PartitionData(partition_index=wanted.partition, high_watermark=-1, records=b"")
                partitions.append(data)
                stream = broker.catalog.stream(topic, wanted.partition) if topic is not None else None
                code = epoch_error(wanted.current_leader_epoch)
                if stream is None:
                    data.error_code = missing if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    failed = True
                elif code is not None:
                    data.error_code = code
                    failed = True
                else:
                    asks.append(Ask(stream, wanted.fetch_offset, wanted.partition_max_bytes))
                    places.append(data)
            told.append(FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=partitions))
        deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
        fresh = True
        while True:
            reads = await _read(broker, asks, left, fresh=fresh)
            size = sum(len(read.data) for read in reads)
            wait = deadline - asyncio.get_running_loop().time()
            if failed or size >= request.min_bytes or wait <= 0 or any(read.error for read in reads):
                break
            positions = [(StreamId(read.stream), read.end) for read in reads]
            await broker.engine.reader.wait(positions, wait)
            fresh = False
        for data, read in zip(places, reads, strict=True):
            data.high_watermark = data.last_stable_offset = read.end
            data.log_start_offset = read.start
            if read.error is not None:
                data.error_code = code_of(read.error)
            data.records = read.data
        return FetchResponse(responses=told)

    return {1: fetch}


async def _read(broker: Broker, asks: list[Ask], left: int, *, fresh: bool) -> list[Read]:
    reads = await broker.engine.read_many(asks, fresh=fresh)
    for read in reads:
        if left <= 0:
            read.data = bytearray()
        left -= len(read.data)
    return reads
