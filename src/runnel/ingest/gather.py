"""The gathering of requests into windows, and windows into flushes: the acting half of window.py.

Requests are taken in whole or not at all. Once their bytes under way reach `inflight_bytes_max`, `has_room` is False
and doors stop reading from their clients until `on_room` calls them back; a door that goes on regardless is refused at
twice the bound.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from runnel.errors import Overloaded, Unavailable
from runnel.ingest.flush import Flusher
from runnel.ingest.ticket import Ticket
from runnel.ingest.window import Producer, Reason, Upload, Window, WindowBounds
from runnel.log.builder import Sealed
from runnel.world.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestLimits:
    window: WindowBounds = field(default_factory=WindowBounds)
    inflight_bytes_max: int = 64 * 1024 * 1024


class Ingest:
    """Takes requests, answers them through their tickets. An idle one does nothing at all."""

    def __init__(self, flusher: Flusher, world: World, limits: IngestLimits | None = None) -> None:
        self.limits = limits or IngestLimits()
        self.inflight_bytes = 0
        self._flusher = flusher
        self._world = world
        self._window = Window(self.limits.window)
        self._gathered: list[Sealed] = []
        self._waiting_for_room: deque[Callable[[], None]] = deque()
        self._deciding = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False
        metrics = world.metrics
        self._closed_windows = metrics.counters("runnel_windows_closed_total", "Windows by reason.", ("reason",))
        self._bytes_in = metrics.counter("runnel_append_bytes_total", "Bytes of batches taken in.")
        metrics.gauge("runnel_inflight_bytes", "Bytes taken in and not yet answered.", read=lambda: self.inflight_bytes)

    @property
    def inflight_bytes_bound(self) -> int:
        """More is never under way, but for a single request that is larger than this by itself."""
        return 2 * self.limits.inflight_bytes_max

    @property
    def has_room(self) -> bool:
        return self.inflight_bytes < self.limits.inflight_bytes_max

    def on_room(self, call: Callable[[], None]) -> None:
        """Call back once there is room again, at once if there is."""
        if self.has_room:
            call()
        else:
            self._waiting_for_room.append(call)

    def offer(self, ticket: Ticket, producer: Producer | None) -> None:
        """Take in a request. The producer is whoever waits for the answer (see window.py)."""
        self._take_in(ticket)
        self._gathered += ticket.batches
        ticket.batches = []  # each refers to the ticket: otherwise all would wait for the collector
        reason = self._window.arrived(producer, ticket.size, self._world.clock.monotonic())
        if reason is not None:
            self._close_window(reason)
        elif not self._deciding:
            self._deciding = True
            asyncio.get_running_loop().call_soon(self._decide)

    def offer_together(self, ticket: Ticket) -> None:
        """Take in a request whose batches, all of one shard, are appended together or not at all.

        It gets an object of its own at once: others' batches between its own would have to be judged with it.
        """
        self._take_in(ticket)
        self._under_way += 1
        self._idle.clear()
        batches, ticket.batches = ticket.batches, []
        self._flusher.flush(batches, lambda _: self._done(ticket.size), together=True)

    def _take_in(self, ticket: Ticket) -> None:
        if self._closing:
            raise Unavailable("this node is closing")
        if self.inflight_bytes and self.inflight_bytes + ticket.size > self.inflight_bytes_bound:
            raise Overloaded(f"{self.inflight_bytes} bytes of appends are under way")
        count = len(ticket.batches)
        assert count, "a ticket holds something"
        ticket.answers = [None] * count
        ticket.missing = ticket.uncopied = count
        self.inflight_bytes += ticket.size
        self._bytes_in.add(ticket.size)

    def gone(self, producer: Producer) -> None:
        """A connection has ended."""
        self._window.gone(producer)
        self._decide_soon()

    def _decide_soon(self) -> None:
        if not self._deciding and self._gathered:
            self._deciding = True
            asyncio.get_running_loop().call_soon(self._decide)

    def _decide(self) -> None:
        """Once per turn in which something happened, and when the window is due."""
        self._deciding = False
        reason = self._window.decide(self._world.clock.monotonic())
        if reason is not None:
            self._close_window(reason)
        else:
            self._set_alarm()

    def _set_alarm(self) -> None:
        due = self._window.due()
        if due is None:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + max(0.0, due - self._world.clock.monotonic())
        if self._alarm is not None:
            if self._alarm_at <= at:
                return  # it rings earlier, and will be set anew then
            self._alarm.cancel()
        self._alarm = loop.call_at(at, self._rang)
        self._alarm_at = at

    def _rang(self) -> None:
        self._alarm = None
        self._decide()

    def _close_window(self, reason: Reason) -> None:
        upload = self._window.close(reason, self._world.clock.monotonic())
        batches, self._gathered = self._gathered, []
        self._closed_windows.at(reason.value).add()
        self._under_way += 1
        self._idle.clear()
        self._flusher.flush(batches, lambda ok: self._flushed(upload, ok=ok))

    def _flushed(self, upload: Upload, *, ok: bool) -> None:
        self._window.flushed(upload, self._world.clock.monotonic(), failed=not ok)
        self._done(upload.size)

    def _done(self, size: int) -> None:
        self.inflight_bytes -= size
        self._under_way -= 1
        if not self._under_way:
            self._idle.set()
        while self._waiting_for_room and self.has_room:
            self._waiting_for_room.popleft()()
        self._decide_soon()

    async def drain(self) -> None:
        """Flush what is gathered and return when everything is answered. Nothing more is taken in."""
        self._closing = True
        if self._gathered:
            self._close_window(Reason.DRAIN)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        await self._idle.wait()
