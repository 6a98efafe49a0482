"""A ledger behind a portal: as a node sees it, through cuts and kills."""

import asyncio

from runnel.errors import Uncertain
from runnel.metadata.ledger.memory import MemoryLedger
from runnel.model import BEGINNING, ROOT
from runnel.simulated.services import ledger_of
from runnel.world.simulation.faults import scripted
from runnel.world.simulation.harness import simulate
from runnel.world.simulation.nodes import NodePlan
from runnel.world.simulation.scenario import Registered, Scenario


def run(*nodes, faults=(), duration_ms=20_000):
    scenario = Scenario(nodes=nodes, setup=lambda _: MemoryLedger(), faults=faults, duration_ms=duration_ms)
    outcome = simulate(Registered(name="test", about="", build=lambda: scenario, hidden=True, slow=False), 1)
    assert outcome.passed, outcome.violation


def test_a_waiting_reader_is_woken_by_another_nodes_append():
    seen = []

    async def reader(world):
        ledger = ledger_of(world, world.state)
        await ledger.wait(ROOT, BEGINNING)
        seen.extend(await ledger.read(ROOT, BEGINNING))
        seen.append(await ledger.tail(ROOT))

    async def writer(world):
        await asyncio.sleep(1)
        assert await ledger_of(world, world.state).append([(ROOT, b"entry")]) == [1]

    run(NodePlan(name="reader", main=reader, workload=True), NodePlan(name="writer", main=writer, workload=True))
    assert seen == [(1, b"entry"), 1]


def test_an_append_whose_answer_meets_a_cut_is_uncertain_and_done():
    seen = []

    async def writer(world):
        try:
            await ledger_of(world, world.state).append([(ROOT, b"entry")])
        except Uncertain:
            seen.append(await world.state.tail(ROOT))

    cut = scripted("cut", (0, lambda s: s.network.cut("ledger", "writer")))
    run(NodePlan(name="writer", main=writer, workload=True), faults=(cut,))
    assert seen == [1]


def test_a_wait_ends_with_its_caller():
    left = []

    async def waiter(world):
        if world.incarnation > 1:
            left.extend(task.get_name() for task in asyncio.all_tasks() if "wait at" in task.get_name())
            return
        ledger = ledger_of(world, world.state)
        try:
            await asyncio.wait_for(ledger.wait(ROOT, BEGINNING), 1)
        except TimeoutError:
            await ledger.wait(ROOT, BEGINNING)

    kill = scripted("kill", (3000, lambda s: s.kill("waiter")), (4000, lambda s: s.restart("waiter")))
    run(NodePlan(name="waiter", main=waiter, workload=True), faults=(kill,))
    assert left == []
