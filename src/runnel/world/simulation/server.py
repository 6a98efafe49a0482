"""A listening port: what `create_server` returns in the simulation."""

import asyncio
from typing import TYPE_CHECKING

from runnel.world.simulation.connection import SimulatedTransport
from runnel.world.simulation.loop import ProtocolFactory, SimulatedLoop
from runnel.world.simulation.process import Process

if TYPE_CHECKING:
    from runnel.world.simulation.network import Network

Address = tuple[str, int]


class ListeningSocket:
    """As much of a socket as people ask a server for."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address


class SimulatedServer(asyncio.AbstractServer):
    """Accepts connections for one process until closed, or until the process dies."""

    def __init__(self, network: "Network", address: Address, factory: ProtocolFactory, process: Process | None) -> None:
        self.address = address
        self.process = process
        self._network = network
        self._factory = factory
        self._serving = True
        self._closed = network.loop.create_future()

    @property
    def sockets(self) -> tuple[ListeningSocket, ...]:
        return (ListeningSocket(self.address),) if self._serving else ()

    def accept(self, end: SimulatedTransport) -> None:
        """A connection has come in; the process hears of it when it runs next."""
        self._network.loop.call_soon(self._made, end, context=self._network.context_of(self.process))

    def _made(self, end: SimulatedTransport) -> None:
        if self._serving:
            end.begin(self._factory())
        else:
            end.abort()

    def close(self) -> None:
        if self._serving:
            self._serving = False
            self._network.stopped_serving(self)
            if not self._closed.done():
                self._closed.set_result(None)

    def is_serving(self) -> bool:
        return self._serving

    def get_loop(self) -> SimulatedLoop:
        return self._network.loop

    async def start_serving(self) -> None:
        """It does from the beginning."""

    async def serve_forever(self) -> None:
        try:
            await asyncio.shield(self._closed)
        finally:
            self.close()

    async def wait_closed(self) -> None:
        await asyncio.shield(self._closed)
