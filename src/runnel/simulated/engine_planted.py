"""Engines with a planted bug each, so that every checker of a lake is seen to catch something.

They are not listed and run only when named. `FOUND_BY` says what the violation must speak of.
"""

from collections.abc import Iterable, Sequence

from runnel.engine import Engine
from runnel.engine.sweep import Sweep
from runnel.errors import RunnelError
from runnel.ingest.ticket import Answer, Ticket
from runnel.ingest.window import Producer
from runnel.metadata.follower import Follower
from runnel.metadata.state import Applied
from runnel.model import ObjectName, ShardId, StreamId
from runnel.read.reader import Ask, Reader
from runnel.simulated.door import serve
from runnel.simulated.engine import CALM_LAKE, SLOW_WRITERS, engines
from runnel.simulated.engine_work import Habits
from runnel.simulated.lake import BROKERS, LakeEngine
from runnel.world.simulation.faults import kills
from runnel.world.simulation.nodes import World
from runnel.world.simulation.scenario import Scenario, scenario

FOUND_BY = {
    "planted-hasty-answers": "acknowledged and is lost|was given offset|was .* and is",
    "planted-no-memory-of-producers": "comes after its record|was given offset",
    "planted-replica-that-errs": "got other results|has another state",
    "planted-stale-reads": "acknowledged before a read there|is outside",
    "planted-sweep-without-horizon": "which is not in the store|deleted while something refers to it",
    "planted-sweep-of-everything": "deleted while something refers to it",
    "planted-cache-without-end": "bytes of objects cached",
    "planted-trim-without-checkpoint": "no checkpoint leads there",
}


class HastyEngine(LakeEngine):
    """Answers from what it guesses, before anything is durable."""

    def submit(self, ticket: Ticket, producer: Producer | None) -> None:
        done, ticket.done = ticket.done, lambda _: None
        ends = [
            self.shards.of_stream(StreamId(batch.stream)).state.streams[batch.stream].end for batch in ticket.batches
        ]
        super().submit(ticket, producer)
        done([Answer(end) for end in ends])


@scenario(hidden=True)
def planted_hasty_answers() -> Scenario:
    """Brokers answer before they know. This scenario must fail."""
    return engines(kills(*BROKERS), lake=CALM_LAKE | {"engine_kind": HastyEngine})


class ForgetfulEngine(LakeEngine):
    """Takes every batch for one of a writer without identity."""

    def submit(self, ticket: Ticket, producer: Producer | None) -> None:
        ticket.batches = [batch._replace(producer=-1, epoch=-1, sequence=-1) for batch in ticket.batches]
        super().submit(ticket, producer)


@scenario(hidden=True)
def planted_no_memory_of_producers() -> Scenario:
    """Retries are appended again. This scenario must fail."""
    return engines(kills(*BROKERS), lake=CALM_LAKE | {"engine_kind": ForgetfulEngine})


class ErringEngine(LakeEngine):
    """One broker miscounts a stream once."""

    def _make_follower(self, shard: ShardId) -> Follower:
        follower = super()._make_follower(shard)

        def miscount(applied: Applied) -> None:
            if self._node == "broker2" and applied.position == 30:
                for stream in follower.state.streams.values():
                    stream.size += 1

        follower.on_applied(miscount)
        return follower


@scenario(hidden=True)
def planted_replica_that_errs() -> Scenario:
    """A broker's state is not what the ledger says. This scenario must fail."""
    return engines(lake=CALM_LAKE | {"engine_kind": ErringEngine})


class StaleReader(Reader):
    """Reads what is applied here, without asking whether there is more."""

    async def look_at_tails(self, asks: Iterable[Ask]) -> dict[Follower, RunnelError]:
        """The bug: what is applied here is all there is."""
        del asks
        return {}


class StaleEngine(LakeEngine):
    async def open(self) -> None:
        await super().open()
        self.reader.__class__ = StaleReader


@scenario(hidden=True)
def planted_stale_reads() -> Scenario:
    """A read may miss what was acknowledged before it. This scenario must fail."""
    return engines(lake={"store": CALM_LAKE["store"], "engine_kind": StaleEngine})


class LaxSweep(Sweep):
    async def _enter(self, shard: ShardId, horizon: int) -> None:
        """The bug: nobody is told that older objects may be gone."""


class BlindSweep(Sweep):
    def _unreferenced(self, names: Sequence[ObjectName]) -> list[ObjectName]:
        return list(names)


class LaxEngine(LakeEngine):
    sweep_kind: type[Sweep] = LaxSweep

    async def open(self) -> None:
        await super().open()
        self.sweep.__class__ = self.sweep_kind


class BlindEngine(LaxEngine):
    sweep_kind = BlindSweep


@scenario(hidden=True)
def planted_sweep_without_horizon() -> Scenario:
    """Objects whose entry is still on its way are swept. This scenario must fail."""
    return engines(**SLOW_WRITERS | {"lake": SLOW_WRITERS["lake"] | {"engine_kind": LaxEngine}})


@scenario(hidden=True)
def planted_sweep_of_everything() -> Scenario:
    """Objects are swept by their age alone. This scenario must fail."""
    return engines(lake=CALM_LAKE | {"engine_kind": BlindEngine})


class GreedyEngine(LakeEngine):
    async def open(self) -> None:
        await super().open()
        self.cache.bytes_max = 1 << 30


@scenario(hidden=True)
def planted_cache_without_end() -> Scenario:
    """A broker keeps every object that it ever saw. This scenario must fail."""
    return engines(lake=CALM_LAKE | {"engine_kind": GreedyEngine}, habits=Habits(batches=120, pause_s=0.05))


async def _serve_and_trim(world: World, engine: Engine) -> None:
    async def trim() -> None:
        for number in range(1, engine.cluster.shards + 1):
            tail = await engine.ledger.tail(ShardId(number))
            await engine.ledger.trim(ShardId(number), tail)

    world.tasks.spawn(trim(), name="trim")
    await serve(world, engine)


@scenario(hidden=True)
def planted_trim_without_checkpoint() -> Scenario:
    """The ledger forgets what no checkpoint holds. This scenario must fail."""
    return engines(lake=CALM_LAKE, serving=_serve_and_trim)
