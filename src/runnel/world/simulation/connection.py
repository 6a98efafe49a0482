"""One connection: two transports, joined by a pipe in each direction.

A `Pipe` carries what its source wrote, in order, each piece no earlier than its delay: bytes, then perhaps the end
of the stream or a reset. A `SimulatedTransport` is what a protocol sees. Arrival happens in the world's name; whatever
calls into a protocol runs in the name of the process that owns it, so a paused process reads nothing and a dead one
never again.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, Any

from runnel.world.simulation.process import Process, in_the_world

if TYPE_CHECKING:
    from runnel.world.simulation.network import Network

Address = tuple[str, int]
PIECE_BYTES_MAX = 262_144
"""asyncio's own transports read at most this much at a time."""


class Sign(Enum):
    """What a pipe carries beside bytes."""

    END = "end of stream"
    RESET = "reset"


class Pipe:
    """One direction of a connection."""

    __slots__ = ("_armed", "_gives_up", "_last_due", "_network", "_target", "_under_way", "queued", "source")

    def __init__(self, network: "Network", source: "SimulatedTransport", target: "SimulatedTransport") -> None:
        self.source = source
        # Bytes written and not yet read by the other protocol.
        self.queued = 0
        self._network = network
        self._target = target
        self._under_way: deque[tuple[float, bytes | Sign]] = deque()
        self._last_due = 0.0
        self._armed = False
        self._gives_up: asyncio.TimerHandle | None = None

    def send(self, what: bytes | Sign) -> None:
        network = self._network
        now = network.loop.time()
        due = max(self._last_due, now + network.delay_s(self.source.here[0], self._target.here[0]))
        self._last_due = due
        self._under_way.append((due, what))
        if not isinstance(what, Sign):
            self.queued += len(what)
        self._arm()

    def drop(self) -> None:
        """Forget what is under way."""
        self._under_way.clear()

    def consumed(self, count: int) -> None:
        self.queued -= count
        self.source.buffer_shrank()

    def flow_again(self) -> None:
        """A cut may be gone."""
        if self._gives_up is not None:
            self._gives_up.cancel()
            self._gives_up = None
        self._last_due = self._network.loop.time() + self._network.delay_s(self.source.here[0], self._target.here[0])
        self._under_way = deque((max(due, self._last_due), what) for due, what in self._under_way)
        self._arm()

    def _arm(self) -> None:
        if self._under_way and not self._armed and self._gives_up is None:
            self._armed = True
            self._network.loop.call_at(self._under_way[0][0], self._arrive, context=in_the_world())

    def _arrive(self) -> None:
        self._armed = False
        network = self._network
        if not self._under_way:
            return
        if network.is_cut(self.source.here[0], self._target.here[0]) or self._target.vanished:
            network.stuck(self)
            self._gives_up = network.loop.call_later(network.wire.patience_s, self._give_up, context=in_the_world())
            return
        now = network.loop.time()
        while self._under_way and self._under_way[0][0] <= now:
            _, what = self._under_way.popleft()
            self._target.receive(what)
        self._arm()

    def _give_up(self) -> None:
        self.drop()
        self.source.lose(TimeoutError(110, f"no answer from {self._target.here[0]}:{self._target.here[1]}"))


class SimulatedTransport(asyncio.Transport):
    """One end of a connection."""

    peer: "SimulatedTransport"
    out: Pipe

    def __init__(self, network: "Network", process: Process | None, here: Address, there: Address) -> None:
        super().__init__(extra={"peername": there, "sockname": here})
        self.here = here
        self.there = there
        self.process = process
        self.vanished = False
        self._network = network
        self._loop = network.loop
        self._context = network.context_of(process)
        self._protocol: asyncio.BaseProtocol | None = None
        self._unread: deque[bytes | Sign] = deque()
        self._pump_is_set = False
        self._reading = True
        self._closing = False
        self._ended_writing = False
        self._lost: BaseException | bool = False
        self._told_lost = False
        self._writing_paused = False
        self._low, self._high = 16_384, 65_536
        network.opened(self)

    # ---- for the network ------------------------------------------------------------------------------------------

    def join(self, peer: "SimulatedTransport") -> None:
        self.peer, peer.peer = peer, self
        self.out = Pipe(self._network, self, peer)
        peer.out = Pipe(self._network, peer, self)

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Give the connection to its protocol; called in the name of the process that owns it."""
        self._protocol = protocol
        protocol.connection_made(self)
        if self._lost is not False:
            self._say_lost()
        elif self._unread:
            self._set_pump()

    def raise_if_lost(self) -> None:
        if isinstance(self._lost, BaseException):
            raise self._lost

    def receive(self, what: bytes | Sign) -> None:
        """Something has come over the wire."""
        if self._lost is not False or (self._closing and not isinstance(what, Sign)):
            # Nobody is here to read it: the host answers with a reset.
            if not isinstance(what, Sign) and not self.vanished:
                self.out.drop()
                self.out.send(Sign.RESET)
            return
        if what is Sign.RESET:
            self.lose(ConnectionResetError(104, "connection reset by peer"))
            return
        self._unread.append(what)
        self._set_pump()

    def lose(self, error: Exception | None) -> None:
        """The connection is gone; the protocol hears why."""
        if self._lost is not False:
            return
        self._lost = True if error is None else error
        self._closing = True
        self._unread.clear()
        self._network.closed(self)
        self._say_lost()

    def vanish(self) -> None:
        """The host lost its power."""
        self.vanished = True
        self._lost = self._told_lost = self._closing = True
        self.out.drop()
        self._network.closed(self)

    def buffer_shrank(self) -> None:
        size = self.get_write_buffer_size()
        if self._writing_paused and size <= self._low:
            # The news travels back to the writer.
            delay = self._network.delay_s(self.there[0], self.here[0])
            self._loop.call_later(delay, self._resume_writing, context=self._context)
        if self._closing and size == 0 and self._lost is False:
            self.lose(None)

    def process_died(self) -> None:
        """Its host closes what the process leaves open."""
        if self._lost is not False:
            return
        unread, was_closing = bool(self._unread), self._closing
        self._lost = self._told_lost = self._closing = True
        self._network.closed(self)
        if not was_closing or unread:
            self.out.send(Sign.RESET if unread else Sign.END)

    # ---- reading --------------------------------------------------------------------------------------------------

    def _set_pump(self) -> None:
        if not self._pump_is_set and self._reading and self._protocol is not None:
            self._pump_is_set = True
            self._loop.call_soon(self._pump, context=self._context)

    def _pump(self) -> None:
        """Hand the next piece to the protocol; one piece a turn, as a socket does."""
        self._pump_is_set = False
        if not self._reading or not self._unread or self._lost is not False or self._closing:
            return
        protocol = self._protocol
        try:
            if isinstance(self._unread[0], Sign):
                self._unread.popleft()
                assert isinstance(protocol, asyncio.Protocol | asyncio.BufferedProtocol)
                if not protocol.eof_received():
                    self.close()
            elif isinstance(protocol, asyncio.BufferedProtocol):
                buffer = protocol.get_buffer(-1)
                room = memoryview(buffer).cast("B")
                piece = self._take(len(room))
                room[: len(piece)] = piece
                protocol.buffer_updated(len(piece))
            else:
                assert isinstance(protocol, asyncio.Protocol)
                protocol.data_received(self._take(PIECE_BYTES_MAX))
        except Exception as error:  # noqa: BLE001 - as asyncio: a protocol's error ends its connection
            self._loop.call_exception_handler(
                {"message": "the protocol raised while it was reading", "exception": error, "protocol": protocol}
            )
            self.lose(error)
            return
        if self._unread:
            self._set_pump()

    def _take(self, most: int) -> bytes:
        """The next bytes, cut somewhere: at the writer's cuts, at none, or in the middle of one."""
        luck = self._network.chance.random()
        pieces = [self._unread.popleft()]
        size = len(pieces[0])  # type: ignore[arg-type]
        if luck > 0.3:
            while self._unread and size < most and not isinstance(self._unread[0], Sign):
                size += len(self._unread[0])
                pieces.append(self._unread.popleft())
        found = b"".join(pieces)  # type: ignore[arg-type]
        wanted = min(most, self._network.chance.randint(1, len(found)) if luck < 0.1 else len(found))
        if wanted < len(found):
            self._unread.appendleft(found[wanted:])
            found = found[:wanted]
        self.peer.out.consumed(len(found))
        return found

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading:
            self._reading = True
            if self._unread:
                self._set_pump()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    # ---- writing --------------------------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._ended_writing:
            raise RuntimeError("cannot write after write_eof")
        if not self._may_act() or self._closing or not len(data):
            return
        self.out.send(bytes(data))
        if not self._writing_paused and self.get_write_buffer_size() > self._high:
            self._writing_paused = True
            assert self._protocol is not None
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        if not self._ended_writing and self._may_act():
            self._ended_writing = True
            self.out.send(Sign.END)

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return max(0, self.out.queued - self._network.wire.window_bytes)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = 65_536 if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low

    def _resume_writing(self) -> None:
        if self._writing_paused and self.get_write_buffer_size() <= self._low and self._lost is False:
            self._writing_paused = False
            assert self._protocol is not None
            self._protocol.resume_writing()

    # ---- ending ---------------------------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if self._closing or not self._may_act():
            return
        self._closing = True
        if not self._ended_writing:
            self.out.send(Sign.END)
        if self.get_write_buffer_size() == 0:
            self.lose(None)

    def abort(self) -> None:
        if self._lost is not False or not self._may_act():
            return
        self.out.drop()
        self.out.send(Sign.RESET)
        self.lose(None)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def _may_act(self) -> bool:
        """The dead write nothing."""
        return self._lost is False and (self.process is None or self.process.alive)

    def _say_lost(self) -> None:
        if not self._told_lost and self._protocol is not None:
            self._told_lost = True
            error = self._lost if isinstance(self._lost, Exception) else None
            self._loop.call_soon(self._protocol.connection_lost, error, context=self._context)
