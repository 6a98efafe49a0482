"""Live reads that count in records.

Each has a task of its own: they are fewer than ordinary tails (`api/durable/tails.py`), and no two need look alike.
A reader that takes nothing is not written to; after `recycle_seconds` it is sent back with the record that comes next.
"""

import json
from collections.abc import Sequence

from runnel.api.answer import Answer
from runnel.api.buckets import records
from runnel.api.buckets.pen import Pen
from runnel.api.buckets.records import RecordAsk
from runnel.api.buckets.service import BucketService, Records
from runnel.api.durable.tails import TailLimits
from runnel.api.streams import answers, json_mode, sse, words
from runnel.api.streams.offsets import mint
from runnel.metadata.stream import Stream
from runnel.model import StreamId


class RecordTails:
    """See the module."""

    def __init__(self, service: BucketService, limits: TailLimits) -> None:
        self._service = service
        self.limits = limits
        self._clock = service.world.clock

    async def poll(self, stream: Stream, first: int, ask: RecordAsk, seconds: float) -> Records:
        """Records from one on, waiting for the first of them."""
        found = await self._service.records(stream, first, most=ask.most)
        if not found.values and not found.closed:
            await self._service.engine.wait(StreamId(stream.id), first, seconds)
            found = await self._service.records(stream, first, most=ask.most)
        return found

    async def events(self, stream: Stream, first: int, ask: RecordAsk, respond: Answer) -> None:
        """An event stream of records, until it ends or has lasted long enough."""
        pen = Pen(respond)
        headers = answers.sse_headers(sse.CONTENT_TYPE, binary=False)
        if ask.envelope:
            headers[words.DATA_TYPE] = records.ENVELOPE_TYPE
        respond.begin(200, headers)
        over = self._clock.monotonic() + self.limits.recycle_seconds
        told = False
        while pen.goes_on and self._clock.monotonic() < over:
            found = await self._service.records(stream, first, most=ask.most)
            ends = found.closed and found.up_to_date
            if found.values or ends or not told:
                control = _control(found, ends=ends)
                await pen.write(b"".join(_data(found.first, found.values, envelope=ask.envelope)) + control)
                first, told = found.following, found.up_to_date
                if ends:
                    break
            else:
                left = min(self.limits.heartbeat_seconds, over - self._clock.monotonic())
                if not await self._service.engine.wait(StreamId(stream.id), first, left):
                    await pen.write(sse.HEARTBEAT)
        if not respond.gone:
            respond.end()


def _data(first: int, values: Sequence[bytes], *, envelope: bool) -> list[bytes]:
    if not values:
        return []
    if not envelope:
        return [sse.data_event(json_mode.join(values), binary=False)]
    return [sse.data_event(records.envelope(first + at, value), binary=False) for at, value in enumerate(values)]


def _control(found: Records, *, ends: bool) -> bytes:
    facts: dict[str, object] = {
        "streamNextOffset": mint(found.following),
        "streamFirstRecord": found.start,
        "streamNextRecord": found.following,
    }
    if ends:
        facts["streamClosed"] = True
    elif found.up_to_date:
        facts["upToDate"] = True
    return b"event: control\ndata:%b\n\n" % json.dumps(facts, separators=(",", ":")).encode()
