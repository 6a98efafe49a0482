"""The simulated network: hosts by name, TCP-like connections between them, delays, cuts and resets from a seed.

What holds here as on a real network:

- Bytes of a connection arrive whole, in order and once, cut into other pieces than they were written in, or the
  connection breaks. Each direction has its own delay.
- A cut is one-way (`cut`) or between groups (`partition`). Bytes that meet a cut wait for it to heal; after
  `patience_s` their sender's end breaks with `TimeoutError`, while the other end may never hear of it.
- A killed process' ends are closed by its host: the peer reads the end of the stream, or a reset. A host that loses
  power says nothing. A paused process' host goes on accepting connections and bytes until its buffers are full.
- A sender may have `window_bytes` under way; what is beyond is its write buffer, and `pause_writing` and
  `resume_writing` of its protocol are called as asyncio's transports call them.

Code that uses asyncio's own `create_server`, `create_connection`, `start_server` and `open_connection` runs here
unchanged: the simulated loop sends these calls to `serve` and `dial`. The caller's process says which host it is on.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from runnel.world.chance import Chance
from runnel.world.simulation.connection import Pipe, SimulatedTransport
from runnel.world.simulation.loop import ProtocolFactory, SimulatedLoop
from runnel.world.simulation.process import Process, current_process, in_the_world
from runnel.world.simulation.server import Address, SimulatedServer

HERE = frozenset({"", "localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - names of the caller's own host
OUTSIDE = "world"
"""The host of code that belongs to no process: workloads of tests, checkers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """How the network behaves when nothing is cut."""

    delay_ms: tuple[float, float] = (0.2, 2.0)
    slow: float = 0.01
    """The share of deliveries that take `slow_ms` instead."""
    slow_ms: tuple[float, float] = (10.0, 200.0)
    patience_s: float = 15.0
    """How long bytes may wait for an acknowledgement until their connection breaks."""
    connect_patience_s: float = 10.0
    window_bytes: int = 65_536


class Network:
    """All hosts and what lies between them."""

    def __init__(self, loop: SimulatedLoop, chance: Chance, wire: Wire | None = None) -> None:
        self.loop = loop
        self.chance = chance
        self.wire = wire or Wire()
        self._servers: dict[Address, SimulatedServer] = {}
        self._dark: set[str] = set()
        self._cuts: set[tuple[str, str]] = set()
        self._healed = asyncio.Event()
        # Connections in the order they were made; an end leaves when it is closed.
        self._ends: dict[SimulatedTransport, None] = {}
        self._stuck: dict[Pipe, None] = {}
        self._next_port = 30_000
        self._watched: set[Process] = set()
        loop.sockets = self
        loop.at_end.append(self._end)

    # ---- for protocols --------------------------------------------------------------------------------------------

    async def listen(self, host: str | None, port: int, factory: ProtocolFactory) -> SimulatedServer:
        """Accept connections at a port of the caller's host; 0 takes a free one."""
        process = current_process()
        if process is not None:
            process.must_live()
        own = self._own_host()
        if host not in HERE and host not in (None, own):
            raise OSError(99, f"cannot listen at {host}: this process runs on {own}")
        address = (own, port or self.free_port())
        if address in self._servers:
            raise OSError(98, f"port {port} of {own} is in use")
        server = SimulatedServer(self, address, factory, process)
        self._servers[address] = server
        if process is not None:
            process.on_kill.append(server.close)
        return server

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        """Make a connection, as `loop.create_connection` does, with the errors that it has."""
        process = current_process()
        if process is not None:
            process.must_live()
        own = self._own_host()
        there = own if host in HERE else host
        if not await self._reaches(own, there):
            raise TimeoutError(110, f"no answer from {there}:{port}")
        await asyncio.sleep(self.delay_s(own, there))
        server = self._servers.get((there, port))
        if server is None:
            if there in self._dark or not await self._reaches(there, own):
                await asyncio.sleep(self.wire.connect_patience_s)
                raise TimeoutError(110, f"no answer from {there}:{port}")
            await asyncio.sleep(self.delay_s(there, own))
            raise ConnectionRefusedError(111, f"nobody listens at {there}:{port}")
        near = SimulatedTransport(self, process, (own, self.free_port()), server.address)
        far = SimulatedTransport(self, server.process, server.address, near.here)
        near.join(far)
        server.accept(far)
        try:
            if not await self._reaches(there, own):
                raise TimeoutError(110, f"no answer from {there}:{port}")  # noqa: TRY301 - one way out for all failures
            await asyncio.sleep(self.delay_s(there, own))
            near.raise_if_lost()
        except BaseException:
            near.abort()
            raise
        protocol = factory()
        near.begin(protocol)
        return near, protocol

    async def serve(self, factory: ProtocolFactory, host: str | None, port: int) -> SimulatedServer:
        return await self.listen(host, port, factory)

    async def dial(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[SimulatedTransport, asyncio.BaseProtocol]:
        return await self.connect(host, port, factory)

    # ---- for faults -----------------------------------------------------------------------------------------------

    def cut(self, source: str, target: str) -> None:
        """From now on nothing goes from one host to another; the other direction is not touched."""
        self._cuts.add((source, target))

    def mend(self, source: str, target: str) -> None:
        self._cuts.discard((source, target))
        self._flow_again()

    def partition(self, *groups: Iterable[str]) -> None:
        """Nothing goes between these groups any more; hosts that are in none still reach everybody."""
        sides = [sorted(group) for group in groups]
        for side in sides:
            for other in sides:
                if other is not side:
                    self._cuts.update((here, there) for here in side for there in other)

    def heal(self) -> None:
        """Take away all cuts."""
        self._cuts.clear()
        self._flow_again()

    def connections(self) -> list[SimulatedTransport]:
        """Every open end, oldest first."""
        return list(self._ends)

    def reset(self, end: SimulatedTransport) -> None:
        """Break a connection on both sides, as a router that forgot it."""
        for side in (end, end.peer):
            side.lose(ConnectionResetError(104, "connection reset by peer"))

    def lose_power(self, host: str) -> None:
        """The host vanishes without a word; its peers only notice that nothing comes back."""
        self._dark.add(host)
        for end in list(self._ends):
            if end.here[0] == host:
                end.vanish()

    def power_up(self, host: str) -> None:
        self._dark.discard(host)

    # ---- for those who carry things -------------------------------------------------------------------------------

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cuts

    async def passable(self, source: str, target: str, patience_s: float) -> bool:
        """Wait until the way is free, or not any longer than this."""
        deadline = self.loop.time() + patience_s
        while self.is_cut(source, target):
            healed = self._healed
            try:
                async with asyncio.timeout_at(deadline):
                    await healed.wait()
            except TimeoutError:
                return False
        return True

    def delay_s(self, source: str, target: str) -> float:
        if source == target:
            return 0.00005
        wire, chance = self.wire, self.chance
        low, high = wire.slow_ms if chance.random() < wire.slow else wire.delay_ms
        return (low + (high - low) * chance.random()) / 1000

    def free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def opened(self, end: SimulatedTransport) -> None:
        self._ends[end] = None
        process = end.process
        if process is not None and process not in self._watched:
            self._watched.add(process)
            process.on_kill.append(partial(self._process_died, process))

    def _process_died(self, process: Process) -> None:
        self._watched.discard(process)
        for end in [end for end in self._ends if end.process is process]:
            end.process_died()

    def closed(self, end: SimulatedTransport) -> None:
        self._ends.pop(end, None)

    def stopped_serving(self, server: SimulatedServer) -> None:
        self._servers.pop(server.address, None)

    def stuck(self, pipe: Pipe) -> None:
        """A pipe's bytes met a cut; it wants to be told when that may have changed."""
        self._stuck[pipe] = None

    def _end(self, _error: BaseException | None) -> None:
        """The run is over: nobody hears of anything any more."""
        for end in list(self._ends):
            end.vanish()

    def _flow_again(self) -> None:
        stuck, self._stuck = self._stuck, {}
        for pipe in stuck:
            pipe.flow_again()
        self._healed.set()
        self._healed = asyncio.Event()

    async def _reaches(self, source: str, target: str) -> bool:
        return await self.passable(source, target, self.wire.connect_patience_s)

    def _own_host(self) -> str:
        process = current_process()
        return OUTSIDE if process is None else process.host

    def context_of(self, process: Process | None) -> Any:
        return in_the_world() if process is None else process.context()
