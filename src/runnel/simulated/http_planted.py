"""HTTP doors with a planted bug each, so that what their clients check is seen to catch something.

They are not listed and run only when named. `FOUND_BY` says what the violation must speak of.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from runnel.api.durable.chunks import Found
from runnel.api.durable.making import Maker
from runnel.api.durable.service import StreamService, Writer
from runnel.api.streams.answers import Appended
from runnel.api.streams.asks import AppendAsk
from runnel.api.streams.offsets import Place
from runnel.engine import Engine
from runnel.errors import RunnelError
from runnel.metadata.stream import Stream
from runnel.simulated.engine import CALM_LAKE
from runnel.simulated.http import http
from runnel.simulated.http_work import open_door
from runnel.simulated.lake import CALM_LEDGER, Serve
from runnel.world.objects.faulty import CALM
from runnel.world.simulation.faults import resets
from runnel.world.simulation.nodes import World
from runnel.world.simulation.scenario import Scenario, scenario

FOUND_BY = {
    "planted-http-forgets-producers": "comes after number|doubles|was .* and is",
    "planted-http-stale-tails": "were acknowledged",
    "planted-http-forks-go-on": "which has it of|has not|begins elsewhere",
}


def serving(kind: type[StreamService]) -> Serve:
    async def serve(world: World, engine: Engine) -> None:
        await open_door(world, engine, kind(engine, chunk_bytes_max=2_000))
        await asyncio.Event().wait()

    return serve


class Forgetful(StreamService):
    """Takes appends without asking who sends them."""

    def append(
        self, name: str, ask: AppendAsk, writer: Writer | None, done: Callable[[Appended | RunnelError], None]
    ) -> None:
        super().append(name, replace(ask, producer=None), writer, done)


@scenario(hidden=True)
def planted_http_forgets_producers() -> Scenario:
    """A retry is appended again. This scenario must fail."""
    lake = {"store": replace(CALM, delay=0.5, delay_s=0.5), "ledger": CALM_LEDGER}
    return http(resets(every_ms=(50, 200)), lake=lake, serving=serving(Forgetful))


class Stale(StreamService):
    """Says that it has reached the tail without having looked."""

    async def read(self, name: str, place: Place | None, *, earliest: bool = False) -> Found:
        stream = self.known(name)
        if stream is None or place is None or not stream.start <= place.record <= stream.end:
            return await super().read(name, place, earliest=earliest)
        chunk = await self.chunks.load(stream, place.record)
        return Found(stream, chunk, chunk.next, stream.closed)


@scenario(hidden=True)
def planted_http_stale_tails() -> Scenario:
    """A read may miss what another broker acknowledged before. This scenario must fail."""
    return http(lake=CALM_LAKE, serving=serving(Stale))


class LavishMaker(Maker):
    """Lets forks begin at the tail of their source, wherever they were asked to."""

    async def _cut(self, source: Stream, fork: object, *, json: bool) -> tuple[int, bytes]:
        del fork, json
        return source.end, b""


class Lavish(StreamService):
    def __init__(self, engine: Engine, *, chunk_bytes_max: int) -> None:
        super().__init__(engine, chunk_bytes_max=chunk_bytes_max)
        self.maker = LavishMaker(engine)


@scenario(hidden=True)
def planted_http_forks_go_on() -> Scenario:
    """A fork has what came to its source later. This scenario must fail."""
    return http(lake=CALM_LAKE, serving=serving(Lavish))
