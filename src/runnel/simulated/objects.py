"""Clients on several nodes write objects through a faulty store.

What must hold: an object whose write was acknowledged is there at the end, with the bytes that were written; of all
who race for one name at most one is told that it won, and the bytes are the winner's; nothing is there that nobody
wrote. Clients are killed, paused and cut off in the middle, and their requests may arrive after their death.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from runnel.errors import AlreadyThere, NotThere, Unavailable, Uncertain
from runnel.model import ObjectName
from runnel.world.chance import Chance
from runnel.world.clock import LoopClock
from runnel.world.objects.faulty import STORMY, FaultPlan, FaultyObjects
from runnel.world.objects.memory import MemoryObjects
from runnel.world.objects.seam import ObjectStore
from runnel.world.simulation.faults import dooms, kill_at_step, kills, one_way_cuts, partitions, pauses, skews
from runnel.world.simulation.harness import Simulation
from runnel.world.simulation.nodes import NodePlan, World
from runnel.world.simulation.scenario import Checker, Fault, Scenario, scenario

WRITES_PER_CLIENT = 30
RACES = 10


@dataclass(slots=True)
class Notebook:
    """The store, and what clients tried and were told. It lies outside the nodes and outlives their kills."""

    store: ObjectStore
    faulty: FaultyObjects
    durable: MemoryObjects
    tried: dict[ObjectName, set[bytes]] = field(default_factory=dict)
    acknowledged: dict[ObjectName, bytes] = field(default_factory=dict)
    writes_left: dict[str, int] = field(default_factory=dict)


async def client(world: World) -> None:
    """Write, race and read back until enough was written or the time is over."""
    notebook: Notebook = world.state
    store = world.objects(notebook.store)
    left = notebook.writes_left
    left.setdefault(world.node, WRITES_PER_CLIENT)
    while left[world.node] > 0 and world.working:
        left[world.node] -= 1
        await asyncio.sleep(world.chance.uniform(0.0, 0.5))
        body = world.chance.randbytes(world.chance.randint(1, 64))
        race = world.chance.random() < 0.3
        name = f"race/{world.chance.randrange(RACES)}" if race else f"own/{world.node}/{left[world.node]:03}"
        await write(world, store, ObjectName(name), body)
        if notebook.acknowledged and world.chance.random() < 0.3:
            await read_back(world, store, world.chance.choice(list(notebook.acknowledged)))


async def write(world: World, store: ObjectStore, name: ObjectName, body: bytes) -> None:
    """The retry loop that every writer of write-once objects needs."""
    notebook: Notebook = world.state
    notebook.tried.setdefault(name, set()).add(body)
    while True:
        try:
            await store.put_new(name, body)
        except Unavailable:
            await asyncio.sleep(world.chance.uniform(0.05, 1.0))
            continue
        except (Uncertain, AlreadyThere):
            # A lost answer and a lost race look alike from here; the bytes tell them apart.
            if not await is_mine(world, store, name, body):
                world.note("lost the race", name=name)
                return
        acknowledge(world, name, body)
        return


async def is_mine(world: World, store: ObjectStore, name: ObjectName, body: bytes) -> bool:
    while True:
        try:
            return bytes(await store.read(name)) == body
        except NotThere:
            # It did not happen so far; a write under way may still come, so it is settled by writing again.
            try:
                await store.put_new(name, body)
                return True
            except (Unavailable, Uncertain, AlreadyThere):
                await asyncio.sleep(0.1)
        except Unavailable:
            await asyncio.sleep(world.chance.uniform(0.05, 1.0))


def acknowledge(world: World, name: ObjectName, body: bytes) -> None:
    notebook: Notebook = world.state
    if notebook.acknowledged.setdefault(name, body) != body:
        world.violate(f"two writers were told that {name} is theirs")
    world.note("wrote", name=name, size=len(body))


async def read_back(world: World, store: ObjectStore, name: ObjectName) -> None:
    notebook: Notebook = world.state
    try:
        found = bytes(await store.read(name))
    except Unavailable:
        return
    except NotThere:
        world.violate(f"{name} was acknowledged and is not there")
        return
    if found != notebook.acknowledged[name]:
        world.violate(f"{name} does not hold what was acknowledged")
    world.note("read", name=name, size=len(found))


async def nothing_acknowledged_is_lost(simulation: Simulation) -> None:
    notebook: Notebook = simulation.state
    for name, body in notebook.acknowledged.items():
        try:
            found = bytes(await notebook.durable.read(name))
        except NotThere:
            raise AssertionError(f"{name} was acknowledged and is lost") from None
        assert found == body, f"{name} was acknowledged and then overwritten"


async def nothing_comes_from_nowhere(simulation: Simulation) -> None:
    notebook: Notebook = simulation.state
    async for facts in notebook.durable.list(""):
        found = bytes(await notebook.durable.read(facts.name))
        assert found in notebook.tried.get(facts.name, ()), f"nobody wrote what is in {facts.name}"


def notebook_of(
    simulation: Simulation,
    *,
    plan: FaultPlan = STORMY,
    wrap: Callable[[MemoryObjects], ObjectStore] | None = None,
) -> Notebook:
    durable = MemoryObjects(LoopClock())
    faulty = FaultyObjects(durable, plan, simulation.chance.fork("store"))
    return Notebook(store=faulty if wrap is None else wrap(durable), faulty=faulty, durable=durable)


def calm(simulation: Simulation) -> None:
    notebook: Notebook = simulation.state
    notebook.faulty.on = False
    notebook.faulty.heal()


CHECKERS = (
    Checker(name="nothing acknowledged is lost", at_end=nothing_acknowledged_is_lost),
    Checker(name="nothing comes from nowhere", at_end=nothing_comes_from_nowhere),
)


def writers(*faults: Fault, clients: int = 3, wrap: Callable[[MemoryObjects], ObjectStore] | None = None) -> Scenario:
    return Scenario(
        setup=partial(notebook_of, wrap=wrap),
        calm=calm,
        nodes=tuple(NodePlan(name=f"client{number}", main=client, workload=True) for number in range(1, clients + 1)),
        faults=faults,
        checkers=CHECKERS,
    )


async def _outages(simulation: Simulation, chance: Chance) -> None:
    notebook: Notebook = simulation.state
    while True:
        await asyncio.sleep(chance.uniform(1, 5))
        simulation.trace.note("objects", "cut off")
        notebook.faulty.cut()
        await asyncio.sleep(chance.uniform(0.1, 3))
        simulation.trace.note("objects", "back")
        notebook.faulty.heal()


@scenario
def objects_on_a_faulty_store() -> Scenario:
    """Clients write through a store that fails, stalls, loses answers and is away for seconds."""
    return writers(Fault(name="outages", run=_outages))


@scenario
def objects_under_kills() -> Scenario:
    """Clients are killed at any step, and come back while their last requests are still on their way."""
    return writers(kills(), dooms())


@scenario
def objects_under_everything() -> Scenario:
    """Kills, pauses, partitions between clients and store, one-way cuts and wrong clocks, all at once."""
    return writers(kills(), dooms(), pauses(), partitions("objects"), one_way_cuts("objects"), skews(), clients=4)


@scenario
def objects_killed_at_each_step() -> Scenario:
    """The first client is killed at step N for seed N: a range of seeds sweeps every await it has."""
    return writers(kill_at_step("client1"), clients=2)
