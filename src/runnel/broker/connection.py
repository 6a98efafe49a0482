"""One client's connection: bytes become requests, answers leave in the order of the requests.

Bytes are received into arenas and stay there: a request's records are views. What is left of a read behind the last
whole request moves to an arena of the connection's own, which grows as the bytes really come, never on a claim alone.

Kafka takes one request of a connection after another. Here Produce requests that follow each other go side by side
(the engine keeps their order), because a producer with five in flight should not wait for five uploads; everything else
begins when all before it is answered. What may not begin yet stays unread in its arena, and the socket is not read.
"""

import asyncio
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any

from runnel.broker.arenas import READ_BYTES_MAX, Arena
from runnel.broker.call import Call, Client
from runnel.codec.framing import REQUEST_BYTES_MIN

if TYPE_CHECKING:
    from runnel.broker.server import KafkaServer

SIZE_BYTES = 4
PIPELINED = 0
"""Produce."""
JOINED_BYTES_MAX = 256 * 1024
"""Answers up to this size are written as one buffer: copying is cheaper than a longer list of buffers."""
READ_BYTES_LEAST = 4096
"""An arena with less room than this is not read into any more."""
GROW_BYTES = 1024 * 1024
"""An unfinished request gets so much memory, or eight times what has come of it."""

_size_and_key = Struct(">ih").unpack_from
_size = Struct(">i").unpack_from


class Connection(asyncio.BufferedProtocol):
    """See the module."""

    __slots__ = (
        "begin", "blocked", "calls", "client", "crowded_out", "feeding", "own", "paused_reading", "reading", "serial", "server", "since",
        "stalled_since", "transport", "unanswered", "wanted", "writable",
    )  # fmt: skip

    def __init__(self, server: "KafkaServer") -> None:
        self.server = server
        self.transport: Any = None
        self.client = Client("", 0)
        self.calls: deque[Call] = deque()
        self.own: Arena | None = None
        """Where an unfinished request, or one that may not begin yet, lies; from `begin` to `own.at`."""
        self.begin = 0
        self.wanted = 0
        """How many bytes from `begin` the first request in `own` has; 0 while that is unknown."""
        self.reading: Arena | None = None
        self.unanswered = 0
        self.serial = 0
        """Those of the unanswered that nothing may begin beside."""
        self.feeding = False
        self.blocked = False
        self.crowded_out = False
        self.writable = True
        self.paused_reading = False
        self.since = server.now
        self.stalled_since: float | None = None

    # --- the transport's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=self.server.limits.write_buffer_bytes_max)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.client = Client(str(peer[0]), int(peer[1]))
        if not self.server.admit(self):
            transport.abort()

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.transport = None
        self._drop_own()
        calls, self.calls = self.calls, deque()
        for call in calls:
            if not call.answered:
                if call.task is not None:
                    call.task.cancel()
                if call.when_gone is not None:
                    call.when_gone()
        self.server.forget(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        own = self.own
        if own is None:
            arena = self.reading = self.server.arenas.shared()
            return arena.view[arena.at : arena.at + READ_BYTES_MAX]
        if own.at == own.size:
            own = self._grown(own)
        self.reading = own
        return own.view[own.at :]

    def buffer_updated(self, nbytes: int) -> None:
        arena = self.reading
        assert arena is not None, "bytes come into a buffer that was asked for"
        self.reading = None
        filled = arena.at
        end = arena.at = filled + nbytes
        self.feeding = True
        if self.own is None:
            # The shared arena: what is left over moves out of it before anyone else is read from.
            left = self._take_requests(arena, filled, end)
            if left < end and self.transport is not None:
                self._keep(arena.view[left:end])
        else:
            self._take_own()
        self.feeding = False
        if self.calls:
            self.flush()
        if self._may_go_on():
            self.server.soon(self)
        self._balance()

    def eof_received(self) -> bool:
        """A Kafka client that ends its side has nothing more to hear."""
        return False

    def pause_writing(self) -> None:
        self.writable = False
        self.stalled_since = self.server.now

    def resume_writing(self) -> None:
        self.writable = True
        self.stalled_since = None
        if self.blocked:
            self.server.soon(self)

    # --- requests -------------------------------------------------------------------------------------------------

    def _take_requests(self, arena: Arena, at: int, end: int) -> int:
        """Begin the whole requests between `at` and `end`, as far as they may; where the rest begins."""
        view = arena.view
        server = self.server
        size_max = server.limits.request_bytes_max
        self.blocked = self.crowded_out = False
        self.wanted = 0
        while end - at >= SIZE_BYTES + 2:
            size, key = _size_and_key(view, at)
            if not REQUEST_BYTES_MIN <= size <= size_max:
                server.refuse_frame(self, size)
                return end
            after = at + SIZE_BYTES + size
            if after > end:
                self.wanted = SIZE_BYTES + size
                return at
            if (
                (self.unanswered and (self.serial or key != PIPELINED))
                or len(self.calls) >= server.limits.pipeline_max
                or not self.writable
                or self._lacks_room(key)
            ):
                self.blocked = True
                self.wanted = SIZE_BYTES + size
                return at
            server.begin(self, arena, view[at + SIZE_BYTES : after])
            at = after
            if self.transport is None or self.transport.is_closing():
                return end
        if end - at >= SIZE_BYTES:
            (size,) = _size(view, at)
            if not REQUEST_BYTES_MIN <= size <= size_max:
                server.refuse_frame(self, size)
                return end
        return at

    def _lacks_room(self, key: int) -> bool:
        """Whether an append has to wait until others are done; the server tells when they are."""
        self.crowded_out = key == PIPELINED and not self.server.has_room(self)
        return self.crowded_out

    def _may_go_on(self) -> bool:
        """Whether what was held back may begin as soon as this turn is over: nobody else will say so."""
        return self.blocked and not self.unanswered and self.writable and not self.crowded_out

    def _take_own(self) -> None:
        """Take what lies in our own arena."""
        own = self.own
        if own is None:
            return
        begin = self._take_requests(own, self.begin, own.at)
        if self.own is not own:
            return  # the connection ended meanwhile
        if begin == own.at:
            self._drop_own()
            return
        self.begin = begin
        if begin and own.size - begin < max(self.wanted, READ_BYTES_LEAST):
            # The rest does not fit behind what was taken: to the front of the block, or into another one.
            rest = own.view[begin : own.at]
            if own.references > 1:
                self.own = None
                self._keep(rest)
                self.server.arenas.give_private(own)
            else:
                own.view[: len(rest)] = rest
                own.at, self.begin = len(rest), 0

    def _keep(self, rest: memoryview) -> None:
        """Move an unfinished or waiting request into an arena of our own."""
        left = len(rest)
        size = max(left, min(self.wanted, max(GROW_BYTES, 8 * left)))
        own = self.own = self.server.arenas.private(max(size + READ_BYTES_LEAST, READ_BYTES_MAX // 4))
        own.view[:left] = rest
        own.at = left
        self.begin = 0
        self.since = self.server.now

    def _grown(self, own: Arena) -> Arena:
        """A larger arena with what is in this one."""
        since = self.since
        self._keep(own.view[self.begin : own.at])
        self.since = since
        self.server.arenas.give_private(own)
        assert self.own is not None
        return self.own

    def _drop_own(self) -> None:
        if self.own is not None:
            self.server.arenas.give_private(self.own)
            self.own = None
            self.server.memory_is_free()
        self.begin = 0

    # --- answers --------------------------------------------------------------------------------------------------

    def ready(self, call: Call) -> None:
        """A call has its answer; it leaves at the end of this turn, with all others that are ready by then."""
        self.unanswered -= 1
        if not call.pipelined:
            self.serial -= 1
        if len(call.out) > 1 and self.transport is not None:
            self.server.broker.unsent.answered(self, sum(map(len, call.out)))
        if not self.feeding and self.transport is not None:
            self.server.soon(self)

    def unsent(self) -> int:
        """Bytes of answers that have not gone yet."""
        if self.transport is None:
            return 0
        waiting = sum([len(part) for call in self.calls if call.answered for part in call.out])
        return waiting + int(self.transport.get_write_buffer_size())

    def flush(self) -> None:
        """Write all answers that are next in line, with one call."""
        calls = self.calls
        out: list[Any] = []
        while calls and calls[0].answered:
            out += calls.popleft().out
        transport = self.transport
        if not out or transport is None:
            return
        if not calls:
            self.since = self.server.now
        if len(out) == 1:
            transport.write(out[0])
        elif sum(map(len, out)) <= JOINED_BYTES_MAX:
            transport.write(b"".join(out))
        else:
            transport.writelines(out)

    def go_on(self) -> None:
        """At the end of a turn in which something happened to this connection."""
        self.flush()
        if self.blocked and self.transport is not None and not self.transport.is_closing():
            self.feeding = True
            self._take_own()
            self.feeding = False
            self.flush()
            if self._may_go_on():
                self.server.soon(self)
        self._balance()

    def _balance(self) -> None:
        """Read only while what is read may begin."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return
        busy = self.blocked or (self.own is not None and not self.server.has_memory(self))
        if busy != self.paused_reading:
            self.paused_reading = busy
            if busy:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    # --- time -----------------------------------------------------------------------------------------------------

    def sweep(self, now: float) -> None:
        """Called by the server's one timer: end what takes too long."""
        limits, waited = self.server.limits, now - self.since
        if self.stalled_since is not None:
            if now - self.stalled_since > limits.write_stall_seconds:
                self.abort()
        elif self.own is not None and not self.blocked:
            patience = limits.frame_seconds + (self.own.at - self.begin) / limits.frame_bytes_per_second_min
            if waited > patience:
                self.abort()
        elif not self.calls and waited > limits.idle_seconds:
            self.transport.close()
        self._balance()

    def drain(self) -> None:
        """The server goes down: what has begun is finished, what has not is left to the client to send elsewhere."""
        if not self.calls and self.transport is not None:
            self.transport.close()
