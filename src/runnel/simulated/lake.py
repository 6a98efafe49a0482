"""A lake: one bucket, one ledger, and the engines that share them. What engine, Kafka and HTTP scenarios are built from.

    lake        what lies outside the nodes: bucket, ledger, their faults, the witness, the book of promises
    broker      a node with an engine inside, and whatever `serve` puts around it (a door, say)
    faults      stores and ledgers that are away, checkpoints that are lost or torn (kills and the like: world/simulation)
    checkers    what must hold: `LAKE_CHECKERS`, good for every scenario on a lake

A scenario with a door of its own takes three steps. `serve(world, engine)` opens the door in a broker and stays; the
writers and readers are nodes that talk to it over the simulated network, and write into `lake.book` what they send, are
told and see (promises.py); and the scenario puts them together:

    @scenario
    def kafka_under_kills() -> Scenario:
        '''Producers keep what they were promised while brokers are killed.'''
        return Scenario(
            setup=lake_with(topics={"orders": 3}), calm=calm,
            nodes=(*brokers(3, serve_kafka), NodePlan(name="writer1", main=producer, workload=True, mortal=False)),
            faults=(kills(*BROKERS), ledger_outages()),
            checkers=LAKE_CHECKERS,
        )

In a node, `world.state` is the `Lake`; `lake.streams["orders"]` are the ids of a topic's streams, made before the run.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runnel.codec.records import read_records
from runnel.engine import Engine, EngineLimits
from runnel.engine.membership import Presence
from runnel.engine.upkeep import UpkeepLimits
from runnel.ingest.flush import FlushLimits
from runnel.ingest.gather import IngestLimits
from runnel.ingest.window import WindowBounds
from runnel.metadata.checkpoint import checkpoint_prefix, position_of
from runnel.metadata.follower import Follower, FollowerLimits
from runnel.metadata.ledger.faulty import FaultyLedger, LedgerFaults
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
from runnel.metadata.ledger.objects import ObjectsLedger
from runnel.metadata.ledger.seam import Ledger
from runnel.metadata.proposer import ProposerLimits
from runnel.model import ObjectName, Position, ShardId, StreamId, shard_of
from runnel.simulated.promises import Book, hold_against
from runnel.simulated.services import ledger_of
from runnel.simulated.witness import Witness, WitnessedLedger, WitnessedObjects
from runnel.world.chance import Chance
from runnel.world.clock import LoopClock
from runnel.world.objects.faulty import STORMY, FaultPlan, FaultyObjects
from runnel.world.objects.memory import MemoryObjects
from runnel.world.objects.seam import ObjectStore
from runnel.world.simulation.faults import Span
from runnel.world.simulation.harness import Simulation
from runnel.world.simulation.nodes import NodePlan
from runnel.world.simulation.nodes import World as NodeWorld
from runnel.world.simulation.process import Process, current_process
from runnel.world.simulation.scenario import Checker, Fault, Scenario
from runnel.world.tasks import Tasks
from runnel.world.world import World

SHARDS = 3
LEASE_MS = 3000
CALM_LEDGER = LedgerFaults()
SHAKY_LEDGER = LedgerFaults(
    delay_ms_max=30,
    fail_share=0.03,
    lost_answer_share=0.03,
    lost_request_share=0.02,
    early_wait_share=0.1,
    late_wait_ms_max=100,
)
SMALL_LIMITS = EngineLimits(
    ingest=IngestLimits(window=WindowBounds(bytes_max=16_384, age_max=0.1), inflight_bytes_max=131_072),
    flush=FlushLimits(uploads_max=3, patience_s=20),
    follower=FollowerLimits(checkpoint_entries=15),
    proposer=ProposerLimits(waiting_max=200, append_entries_max=16, patience_s=20),
    upkeep=UpkeepLimits(sweep_every_ms=2000, sweep_grace_ms=3000, retention_check_ms=2000),
    cache_bytes_max=65_536,
    free_blocks_bytes_max=262_144,
    loading_bytes_max=131_072,
    ahead_bytes_max=32_768,
    ahead_bytes_per_stream=16_384,
)
"""Everything happens soon and every bound is met in a run of seconds."""

Serve = Callable[[NodeWorld, Engine], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Lake:
    """What lies outside the nodes."""

    durable: MemoryObjects
    objects: FaultyObjects
    ledger: FaultyLedger
    shelf: MemoryShelf
    witness: Witness
    limits: EngineLimits
    engine_kind: "type[LakeEngine]"
    ledger_in_bucket: bool = False
    book: Book = field(default_factory=Book)
    streams: dict[str, list[StreamId]] = field(default_factory=dict)
    engines: dict[str, tuple[Process, Engine]] = field(default_factory=dict)
    """The newest engine of each broker, and the process it lives in."""
    identities: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """What each broker keeps in its data directory."""
    work: dict[str, Any] = field(default_factory=dict)
    """For workloads: what must outlive their kills."""

    def living(self) -> list[tuple[str, Engine]]:
        return [(name, engine) for name, (process, engine) in self.engines.items() if process.alive]

    def all_streams(self) -> list[StreamId]:
        return [stream for streams in self.streams.values() for stream in streams]


class LakeEngine(Engine):
    """An engine whose applies the witness compares with its own."""

    def watched_by(self, witness: Witness, node: str) -> None:
        self._witness = witness
        self._node = node

    def _make_follower(self, shard: ShardId) -> Follower:
        follower = super()._make_follower(shard)
        follower.on_applied(lambda applied: self._witness.compare(self._node, applied, follower.state))
        return follower


def lake_with(
    *,
    topics: Mapping[str, int] | None = None,
    store: FaultPlan = STORMY,
    ledger: LedgerFaults = SHAKY_LEDGER,
    limits: EngineLimits = SMALL_LIMITS,
    shards: int = SHARDS,
    engine_kind: type[LakeEngine] = LakeEngine,
    founded: bool = True,
    ledger_in_bucket: bool = False,
) -> Callable[[Simulation], Awaitable[Lake]]:
    """The `setup` of a scenario on a lake. `topics` says how many partitions each topic begins with.

    A lake that is not `founded` is an empty bucket and an empty ledger. With `ledger_in_bucket` the bucket itself is the
    ledger, with the bucket's faults; then those of `ledger` mean nothing.
    """

    async def setup(simulation: Simulation) -> Lake:
        durable, shelf = MemoryObjects(LoopClock()), MemoryShelf()
        memory = MemoryLedger(shelf)
        witness = Witness(durable, shards, simulation.violate)
        lake = Lake(
            durable=durable,
            objects=FaultyObjects(WitnessedObjects(durable, witness), store, simulation.chance.fork("store")),
            ledger=FaultyLedger(WitnessedLedger(memory, witness), simulation.chance.fork("ledger"), ledger),
            shelf=shelf,
            witness=witness,
            limits=limits,
            engine_kind=engine_kind,
            ledger_in_bucket=ledger_in_bucket,
        )
        if not founded:
            return lake
        async with _founder(lake, simulation, "founder") as engine:
            for name, partitions in (topics or {"orders": 4}).items():
                topic = await engine.topics.create(name, partitions)
                lake.streams[name] = [StreamId(stream) for stream in topic.streams]
        return lake

    return setup


def _founder(lake: Lake, simulation: Simulation, name: str) -> LakeEngine:
    """An engine outside all nodes, on services without faults: for before and after a run."""
    tasks = Tasks(lambda task, error: simulation.violate(f"{name} died in {task} of {error!r}", error))
    world = World(clock=LoopClock(), chance=simulation.chance.fork(name), tasks=tasks)
    objects = WitnessedObjects(lake.durable, lake.witness)
    engine = LakeEngine(
        objects=objects,
        ledger=bucket_ledger(objects, world)
        if lake.ledger_in_bucket
        else WitnessedLedger(MemoryLedger(lake.shelf), lake.witness),
        world=world,
        limits=lake.limits,
        shards=len(lake.witness.states) - 1,
    )
    engine.watched_by(lake.witness, name)
    return engine


def bucket_ledger(objects: ObjectStore, world: World) -> Ledger:
    return ObjectsLedger(objects, clock=world.clock, chance=world.chance.fork("ledger"), tasks=world.tasks)


def calm(simulation: Simulation) -> None:
    """Bucket and ledger are as they should be."""
    lake: Lake = simulation.state
    lake.objects.on = False
    lake.objects.heal()
    lake.ledger.away = False
    lake.ledger.faults = CALM_LEDGER


# ---- brokers -------------------------------------------------------------------------------------------------------


def brokers(count: int, serve: Serve, *, present: bool = True) -> tuple[NodePlan, ...]:
    """Nodes `broker1`, `broker2` … that come back when they die. Without being `present` they take no lease."""

    async def main(world: NodeWorld) -> None:
        await run_engine(world, serve, present=present)

    return tuple(NodePlan(name=name, main=main) for name in broker_names(count))


def broker_names(count: int) -> tuple[str, ...]:
    return tuple(f"broker{number}" for number in range(1, count + 1))


async def run_engine(world: NodeWorld, serve: Serve, *, present: bool = True) -> None:
    """A broker's life: open an engine on the lake, serve, and close it again if serving ends."""
    lake: Lake = world.state
    process = current_process()
    assert process is not None, "an engine of a broker lives in its process"
    presence = Presence(zone="", lease_ms=LEASE_MS, former=lake.identities.get(world.node)) if present else None
    surroundings = World(clock=world.clock, chance=world.chance.fork("engine"), tasks=world.tasks)
    objects = world.objects(lake.objects)
    engine = lake.engine_kind(
        objects=objects,
        ledger=bucket_ledger(objects, surroundings) if lake.ledger_in_bucket else ledger_of(world, lake.ledger),
        world=surroundings,
        limits=lake.limits,
        shards=len(lake.witness.states) - 1,
        presence=presence,
    )
    engine.watched_by(lake.witness, world.node)
    async with engine:
        lake.engines[world.node] = (process, engine)
        if engine.membership is not None:
            lake.identities[world.node] = (engine.membership.id, engine.membership.incarnation)
        world.note("serves")
        await serve(world, engine)


# ---- faults --------------------------------------------------------------------------------------------------------


def store_outages(*, every_ms: Span = (1000, 6000), for_ms: Span = (100, 4000)) -> Fault:
    """The bucket is away for a while; requests on their way lose their answers."""

    def switch(lake: Lake, *, away: bool) -> None:
        (lake.objects.cut if away else lake.objects.heal)()

    return _outages("objects", switch, every_ms, for_ms)


def ledger_outages(*, every_ms: Span = (1000, 6000), for_ms: Span = (100, 4000)) -> Fault:
    """The ledger is away for a while; appends on their way lose their answers."""

    def switch(lake: Lake, *, away: bool) -> None:
        lake.ledger.away = away

    return _outages("ledger", switch, every_ms, for_ms)


def _outages(service: str, switch: Callable[..., None], every_ms: Span, for_ms: Span) -> Fault:
    async def run(simulation: Simulation, chance: Chance) -> None:
        while True:
            await asyncio.sleep(chance.uniform(*every_ms) / 1000)
            simulation.trace.note(service, "away")
            switch(simulation.state, away=True)
            await asyncio.sleep(chance.uniform(*for_ms) / 1000)
            simulation.trace.note(service, "back")
            switch(simulation.state, away=False)

    return Fault(name=f"{service} away", run=run)


def damaged_checkpoints(*, every_ms: Span = (100, 1500)) -> Fault:
    """The newest checkpoint of a shard is lost, cut off or has a flipped bit, wherever an older one still serves."""

    async def run(simulation: Simulation, chance: Chance) -> None:
        lake: Lake = simulation.state
        while True:
            await asyncio.sleep(chance.uniform(*every_ms) / 1000)
            shard = ShardId(chance.randrange(len(lake.witness.states)))
            await _damage(simulation, lake, shard, chance)

    return Fault(name="damaged checkpoints", run=run)


async def _damage(simulation: Simulation, lake: Lake, shard: ShardId, chance: Chance) -> None:
    listed = [facts.name async for facts in lake.durable.list(checkpoint_prefix(shard))]
    intact = await lake.witness.intact_checkpoints(shard)
    if len({position_of(name) for name in intact}) < 2 or len(intact) < len(listed):
        return  # the promise is about one damaged checkpoint at a time
    name = intact[-1]
    body = bytearray(await lake.durable.read(name))
    way = chance.choice(("lost", "cut off", "flipped"))
    await lake.durable.delete([name])
    if way == "cut off":
        await lake.durable.put_new(name, bytes(body[: chance.randrange(len(body))]))
    elif way == "flipped":
        body[chance.randrange(len(body))] ^= 1 << chance.randrange(8)
        await lake.durable.put_new(name, bytes(body))
    simulation.trace.note("objects", f"checkpoint {way}", name=name)


# ---- what must hold ------------------------------------------------------------------------------------------------


async def streams_keep_their_promises(simulation: Simulation) -> None:
    """Nothing acknowledged is lost, offsets are dense and unique, each producer's records are there once, in order.

    Read without the engine: by the witness' index, from the bucket itself.
    """
    lake: Lake = simulation.state
    shards = len(lake.witness.states) - 1
    for stream_id in lake.all_streams():
        if stream_id in lake.book.deleted:
            continue
        state = lake.witness.states[shard_of(stream_id, shards)]
        stream = state.streams[stream_id]
        contents: list[tuple[int, bytes]] = []
        for extent in stream.extents or ():
            name = ObjectName(state.objects.names[extent.slot])
            run = await lake.durable.read(name, extent.place, extent.length)
            contents += [(each.offset, each.value or b"") for each in read_records(run, first=extent.first)]
        kept = [(offset, value) for offset, value in contents if offset >= stream.start]
        hold_against(lake.book, stream_id, stream.start, stream.end, kept)


async def a_new_engine_finds_the_same(simulation: Simulation) -> None:
    """Whoever begins now, from checkpoints and ledger alone, has the same state and reads the same records."""
    lake: Lake = simulation.state
    async with _founder(lake, simulation, "newcomer") as engine:
        for follower in engine.shards:
            lake.witness.compare_now("a newcomer", follower.state)
        for stream in lake.all_streams():
            if stream in lake.book.deleted:
                continue
            start, end = await engine.bounds(stream)
            found = [(each.offset, each.value or b"") async for each in engine.records(stream, start)]
            hold_against(lake.book, stream, start, end, found)


async def brokers_agree_in_the_end(simulation: Simulation) -> None:
    """Once all is calm, every broker that is up catches up to the same state."""
    lake: Lake = simulation.state
    for name, engine in lake.living():
        for follower in list(engine.shards):
            if follower.stopped is not None:
                simulation.violate(f"{name} stopped following shard {follower.shard}: {follower.stopped}")
                return
    for name, engine in lake.living():
        for follower in list(engine.shards):
            state = lake.witness.states[follower.shard]
            async with asyncio.timeout(60):
                await follower.reach(Position(state.position))
            if follower.state.position == state.position:
                lake.witness.compare_now(name, follower.state)


def memory_is_bounded(simulation: Simulation) -> None:
    """Everything that grows has a largest size."""
    lake: Lake = simulation.state
    for name, engine in lake.living():
        for what, size, bound in memory_of(engine, lake.limits):
            assert size <= bound, f"{name} holds {size} {what}, {bound} are allowed"


def memory_of(engine: Engine, limits: EngineLimits) -> list[tuple[str, int, int]]:
    """What an engine holds, how much of it, and the bound that it promised."""
    return [(what, size, bound) for what, (size, bound) in engine.occupancy().items()] + [
        ("cached bytes by its limit", engine.cache.size, limits.cache_bytes_max)
    ]


LAKE_CHECKERS = (
    Checker(name="memory is bounded", every=memory_is_bounded, every_ms=50),
    Checker(name="brokers agree", at_end=brokers_agree_in_the_end),
    Checker(name="streams keep their promises", at_end=streams_keep_their_promises),
    Checker(name="a newcomer finds the same", at_end=a_new_engine_finds_the_same),
)
"""Besides these the witness judges each entry, apply, deletion and trim, and the book each answer and read."""

BROKERS = broker_names(3)


def on_a_lake(
    *faults: Fault,
    nodes: Sequence[NodePlan],
    checkers: Sequence[Checker] = (),
    lake: dict[str, Any] | None = None,
    topics: dict[str, int] | None = None,
    **more: Any,
) -> Scenario:
    """A scenario of brokers on one lake and of those who use them; `lake` are the words of `lake_with`."""
    made = {"topics": topics, **(lake or {})} if topics is not None else lake or {}
    return Scenario(
        setup=lake_with(**made),
        calm=calm,
        nodes=tuple(nodes),
        faults=faults,
        checkers=(*LAKE_CHECKERS, *checkers),
        **{"duration_ms": 12_000, "settle_ms": 3000, **more},
    )
