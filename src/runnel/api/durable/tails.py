"""Readers that wait at the tail of a stream: long-polls and event streams.

A stream that somebody tails is watched once, however many readers it has. An apply that touches it asks the loop for
one turn of `_Tail.serve`, which runs before the loop waits for anything again: it answers the long-polls and writes to
the event streams. Readers at the same place get the same chunk and the same bytes; nothing is read or rendered twice.
A reader costs no task and no timer: one alarm for all of them ends long-polls, sends heartbeats and recycles old
event streams, whose readers then come back with the offset they have.

A slow reader is not written to until its connection takes bytes again; meanwhile it costs its place in the stream, a
number. It is then served from that place, with whatever has come.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from runnel.api.answer import Answer
from runnel.api.durable.chunks import Chunk, Found
from runnel.api.durable.service import StreamService
from runnel.api.durable.trouble import answer_of
from runnel.api.durable.views import View, Where
from runnel.api.messages import Response
from runnel.api.streams import answers, sse
from runnel.api.streams.caching import next_cursor
from runnel.errors import NotThere, RunnelError, Unavailable
from runnel.metadata.stream import Stream
from runnel.model import StreamId
from runnel.world.telemetry import get_log

log = get_log("tails")


@dataclass(frozen=True, slots=True, kw_only=True)
class TailLimits:
    long_poll_seconds: float = 20.0
    recycle_seconds: float = 60.0
    heartbeat_seconds: float = 15.0


class Poll:
    """One long-poll that waits."""

    __slots__ = ("ask", "offset", "respond", "view")

    def __init__(self, respond: Answer, view: View, offset: int, ask: Any) -> None:
        self.respond = respond
        self.view = view
        self.offset = offset
        self.ask = ask


class Subscriber:
    """One event stream. `told` says that its reader knows that it is at the tail."""

    __slots__ = ("cursor", "offset", "respond", "told", "view", "written_at")

    def __init__(self, respond: Answer, view: View, offset: int, cursor: str | None, now: float) -> None:
        self.respond = respond
        self.view = view
        self.offset = offset
        self.cursor = cursor
        self.told = False
        self.written_at = now


class Tails:
    """All live readers of one node."""

    def __init__(self, service: StreamService, limits: TailLimits | None = None) -> None:
        self.service = service
        self.limits = limits or TailLimits()
        self.readers = 0
        self.clock = service.world.clock
        self.chance = service.world.chance.fork("cursors")
        self._tails: dict[int, _Tail] = {}
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        service.world.metrics.gauge(
            "runnel_http_live_readers", "Long-polls and event streams that are open.", read=lambda: self.readers
        )

    def cursor(self, given: str | None) -> str:
        return next_cursor(self.clock.now_ms(), given, self.chance)

    # --- what comes in

    def poll(self, found: Found, view: View, ask: Any, respond: Answer) -> None:
        """Answer a long-poll that found nothing, once there is something; `found` is where it stands."""
        tail = self._tail(found.stream)
        poll = Poll(respond, view, found.chunk.next, ask)
        tail.polls[poll] = None
        self.readers += 1

        def over() -> None:
            if poll in tail.polls:
                tail.leave(poll)
                stream = tail.stream()
                respond(nothing_new(stream, poll) if stream is not None else answers.missing())

        respond.when_gone = lambda: tail.leave(poll)
        respond.when_draining = over
        self.at(self.limits.long_poll_seconds, over)
        tail.soon()  # something may have come while we looked

    def subscribe(self, stream: Stream, view: View, offset: int, cursor: str | None, respond: Answer) -> None:
        """Begin an event stream at an offset; `cursor` is the one that its reader came with."""
        tail = self._tail(stream)
        subscriber = Subscriber(respond, view, offset, cursor, self.clock.monotonic())
        tail.subscribers[subscriber] = None
        self.readers += 1

        def recycle() -> None:
            if subscriber in tail.subscribers:
                tail.leave(subscriber)
                respond.end()

        def beat() -> None:
            if subscriber not in tail.subscribers:
                return
            idle = self.clock.monotonic() - subscriber.written_at
            if idle >= self.limits.heartbeat_seconds:
                if respond.writable:
                    respond.write(sse.HEARTBEAT)
                subscriber.written_at = self.clock.monotonic()
                idle = 0.0
            self.at(self.limits.heartbeat_seconds - idle, beat)

        respond.when_gone = lambda: tail.leave(subscriber)
        respond.when_draining = recycle
        respond.when_writable = lambda: tail.pump_quietly(subscriber)
        respond.begin(200, view.headers(stream))
        self.at(self.limits.recycle_seconds, recycle)
        if self.limits.heartbeat_seconds < self.limits.recycle_seconds:
            self.at(self.limits.heartbeat_seconds, beat)
        tail.pump_quietly(subscriber)

    def _tail(self, stream: Stream) -> "_Tail":
        tail = self._tails.get(stream.id)
        if tail is None:
            tail = self._tails[stream.id] = _Tail(self, stream.id)
        return tail

    def forget(self, number: int) -> None:
        del self._tails[number]

    # --- time

    def at(self, seconds: float, call: Callable[[], None]) -> None:
        """Call so much later; one alarm of the loop for all."""
        due = self.clock.monotonic() + seconds
        heapq.heappush(self._alarms, (due, next(self._order), call))
        if self._alarms[0][0] == due:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._alarms:
            seconds = max(0.0, self._alarms[0][0] - self.clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(seconds, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self.clock.monotonic()
        while self._alarms and self._alarms[0][0] <= now:
            heapq.heappop(self._alarms)[2]()
        self._set_timer()

    def close(self) -> None:
        """No more alarms; for the end of a node."""
        self._alarms.clear()
        self._set_timer()


class _Tail:
    """The live readers of one stream."""

    __slots__ = ("_follower", "_loading", "_rendered", "_soon", "number", "polls", "subscribers", "tails")

    def __init__(self, tails: Tails, number: int) -> None:
        self.tails = tails
        self.number = number
        self.polls: dict[Poll, None] = {}
        self.subscribers: dict[Subscriber, None] = {}
        self._soon = False
        self._loading: set[tuple[View, int]] = set()
        self._rendered: dict[tuple[object, ...], bytes] = {}
        self._follower = tails.service.engine.shards.of_stream(StreamId(number))
        self._follower.watch(number, self._woken)

    def stream(self) -> Stream | None:
        """The stream as it is now; None when it is gone."""
        stream = self._follower.state.streams.get(self.number)
        return None if stream is None or (stream.traits is not None and stream.traits.leaving) else stream

    def leave(self, reader: Poll | Subscriber) -> None:
        if isinstance(reader, Poll):
            there = reader in self.polls
            self.polls.pop(reader, None)
        else:
            there = reader in self.subscribers
            self.subscribers.pop(reader, None)
        if there:
            self.tails.readers -= 1
            if not self.polls and not self.subscribers:
                self._follower.unwatch(self.number, self._woken)
                self.tails.forget(self.number)

    def _woken(self, _: int) -> None:
        self.soon()

    def soon(self) -> None:
        if not self._soon:
            self._soon = True
            asyncio.get_running_loop().call_soon(self._serve)

    def _serve(self) -> None:
        self._soon = False
        self._rendered.clear()
        for poll in list(self.polls):
            try:
                self._answer(poll)
            except Exception as error:  # noqa: BLE001  one reader's mishap is not the others'
                self._mishap(poll, error)
        for subscriber in list(self.subscribers):
            self.pump_quietly(subscriber)

    def _mishap(self, reader: Poll | Subscriber, error: BaseException) -> None:
        if not isinstance(error, RunnelError):
            log.crash("tail_failed", error, stream=self.number)
        self.leave(reader)
        if isinstance(reader, Poll) and not reader.respond.started:
            reader.respond(answer_of(error if isinstance(error, RunnelError) else Unavailable("try again")))
        else:
            reader.respond.abort()

    # --- chunks

    def _chunk(self, stream: Stream, view: View, offset: int) -> Chunk | None:
        """The chunk at an offset, or None: it is being read, and all will be served again when it is there."""
        chunk = view.chunks.now(stream, offset)
        if chunk is None and (view, offset) not in self._loading:
            self._loading.add((view, offset))
            self.tails.service.world.tasks.spawn(self._load(stream, view, offset), name="load for tail")
        return chunk

    async def _load(self, stream: Stream, view: View, offset: int) -> None:
        try:
            await view.chunks.load(stream, offset)
        except RunnelError as error:
            self._loading.discard((view, offset))
            readers: list[Poll | Subscriber] = [*self.polls, *self.subscribers]
            for reader in readers:
                if reader.view is view and reader.offset == offset:
                    self._mishap(reader, error)
        else:
            self._loading.discard((view, offset))
            self._serve()

    # --- long-polls

    def _answer(self, poll: Poll) -> None:
        stream = self.stream()
        if stream is None:
            raise NotThere("there is no such stream")
        if stream.end > poll.offset:
            chunk = self._chunk(stream, poll.view, poll.offset)
            if chunk is None:
                return
            self.leave(poll)
            poll.respond(poll.view.answer(Found(stream, chunk, stream.end, stream.closed), poll.ask))
        elif stream.closed:
            self.leave(poll)
            poll.respond(nothing_new(stream, poll))

    # --- event streams

    def pump_quietly(self, subscriber: Subscriber) -> None:
        try:
            self._pump(subscriber)
        except Exception as error:  # noqa: BLE001  as above
            self._mishap(subscriber, error)

    def _pump(self, subscriber: Subscriber) -> None:
        """Write what there is for one reader, for as long as its connection takes it."""
        respond = subscriber.respond
        while subscriber in self.subscribers and respond.writable:
            stream = self.stream()
            if stream is None:
                self.leave(subscriber)
                respond.end()
                return
            if subscriber.offset >= stream.end:
                self._say_where(subscriber, stream)
                return
            chunk = self._chunk(stream, subscriber.view, subscriber.offset)
            if chunk is None:
                return
            ends = stream.closed and chunk.next >= stream.end
            where = Where(chunk.next, subscriber.cursor, chunk.next >= stream.end, ends)
            events = self._events(stream, subscriber.view, chunk, where)
            subscriber.offset = chunk.next
            subscriber.told = chunk.next >= stream.end
            subscriber.written_at = self.tails.clock.monotonic()
            respond.write(events)
            if ends:
                self.leave(subscriber)
                if not respond.gone:
                    respond.end()
                return

    def _say_where(self, subscriber: Subscriber, stream: Stream) -> None:
        """At the tail: the first control event, or the last."""
        if subscriber.told and not stream.closed:
            return
        subscriber.told = True
        subscriber.written_at = self.tails.clock.monotonic()
        where = Where(subscriber.offset, subscriber.cursor, up_to_date=True, ends=stream.closed)
        subscriber.respond.write(subscriber.view.control(stream, where))
        if stream.closed:
            self.leave(subscriber)
            if not subscriber.respond.gone:
                subscriber.respond.end()

    def _events(self, stream: Stream, view: View, chunk: Chunk, where: Where) -> bytes:
        """A chunk's events and what is said behind them; made once for all who are at the same place."""
        key = (view, chunk.start, where)
        events = self._rendered.get(key)
        if events is None:
            events = view.data(stream, chunk) + view.control(stream, where)
            if where.cursor is None:
                self._rendered[key] = events
        return events


def nothing_new(stream: Stream, poll: Poll) -> Response:
    """The answer to a long-poll that has waited for nothing."""
    chunk = Chunk(poll.offset, poll.offset, b"", 0)
    return poll.view.nothing(Found(stream, chunk, stream.end, stream.closed), poll.ask)
