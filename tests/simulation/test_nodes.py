"""Nodes in a simulation: death, return, pause, and the border that requests cross."""

import asyncio
from contextlib import suppress

import pytest

from runnel.errors import Fenced, NotThere, Unavailable, Uncertain
from runnel.model import ObjectName
from runnel.world.clock import LoopClock
from runnel.world.objects.faulty import CALM, FaultPlan, FaultyObjects
from runnel.world.objects.memory import MemoryObjects
from runnel.world.simulation.faults import kill_at_step, scripted
from runnel.world.simulation.harness import simulate
from runnel.world.simulation.nodes import NodePlan
from runnel.world.simulation.scenario import Checker, Fault, Registered, Scenario
from runnel.world.telemetry import get_log


def outcome_of(*nodes, seed=1, heard=None, **parts):
    """Run a scenario that exists only here."""
    scenario = Scenario(nodes=nodes, **parts)
    registered = Registered(name="test", about="", build=lambda: scenario, hidden=True, slow=False)
    return simulate(registered, seed, [] if heard is None else [heard.append])


def events(heard, node=None):
    return [note.event for note in heard if node is None or note.node == node]


async def writer(world):
    store = world.objects(world.state)
    world.note("begins")
    try:
        await store.put_new(ObjectName(f"it/{world.incarnation}"), b"x")
        world.note("wrote")
        await asyncio.sleep(100)
    finally:
        world.note("cleans up")
        await store.put_new(ObjectName("never"), b"x")


def slow_store(simulation):
    return FaultyObjects(
        MemoryObjects(LoopClock()), FaultPlan(delay=1.0, delay_s=10.0), simulation.chance.fork("store")
    )


async def names_in(simulation):
    return [facts.name async for facts in simulation.state.inner.list("")]


def test_a_request_goes_on_when_its_sender_is_killed_and_the_senders_clean_up_has_no_effect():
    heard, found = [], []

    async def look(simulation):
        found.extend(await names_in(simulation))

    outcome = outcome_of(
        NodePlan(name="n", main=writer),
        setup=slow_store,
        faults=(scripted("kill", (10, lambda s: s.kill("n"))),),
        checkers=(Checker(name="look", at_end=look),),
        duration_ms=60_000,
        heard=heard,
    )
    assert outcome.passed, outcome
    assert "it/1" in found
    assert "never" not in found
    assert "cleans up" not in events(heard)
    assert events(heard, "n")[:4] == ["starts", "begins", "killed", "is gone"]


def test_a_restarted_node_is_a_new_incarnation():
    heard = []
    outcome_of(
        NodePlan(name="n", main=writer),
        setup=slow_store,
        faults=(scripted("again", (10, lambda s: s.kill("n")), (20, lambda s: s.restart("n"))),),
        heard=heard,
    )
    assert [dict(note.facts)["incarnation"] for note in heard if note.event == "starts"] == [1, 2]


def test_the_dead_are_fenced_even_within_the_step_that_killed_them():
    seen = []

    async def suicidal(world):
        if world.incarnation > 1:
            return
        store = world.objects(world.state)
        loop = asyncio.get_running_loop()
        loop.kill(world.process)
        world.note("speaks from the grave")
        for effect in (store.put_new(ObjectName("a"), b""), asyncio.open_connection("n", 1), store.delete(["a"])):
            try:
                await effect
            except Fenced:
                seen.append("fenced")

    heard = []
    outcome_of(NodePlan(name="n", main=suicidal), setup=slow_store, heard=heard)
    assert seen == ["fenced"] * 3
    assert "speaks from the grave" not in events(heard)


def test_a_lost_answer_of_a_change_is_uncertain_and_of_a_read_unavailable():
    seen = []

    async def unlucky(world):
        store = world.objects(world.state)
        for label, work in (
            ("put", lambda: store.put_new(ObjectName("a"), b"x")),
            ("read", lambda: store.read(ObjectName("a"))),
        ):
            try:
                await work()
            except (Uncertain, Unavailable) as error:
                seen.append((label, type(error)))

    def play(source, target):
        seen.clear()
        outcome_of(
            NodePlan(name="n", main=unlucky, workload=True, mortal=False),
            setup=lambda s: FaultyObjects(MemoryObjects(LoopClock()), CALM, s.chance),
            faults=(scripted("cut", (0, lambda s: s.network.cut(source, target))),),
            duration_ms=60_000,
        )
        return list(seen)

    assert play("objects", "n") == [("put", Uncertain), ("read", Unavailable)]
    assert play("n", "objects") == [("put", Unavailable), ("read", Unavailable)]


def test_a_node_that_dies_of_the_world_comes_back_and_one_that_dies_of_itself_fails_the_run():
    async def unlucky(world):
        if world.incarnation < 3:
            raise Unavailable("not yet")

    async def wrong(world):
        await asyncio.sleep(1)
        raise AssertionError("our mistake")

    heard = []
    assert outcome_of(NodePlan(name="n", main=unlucky, workload=True), heard=heard).passed
    assert events(heard).count("starts") == 3
    outcome = outcome_of(NodePlan(name="n", main=wrong))
    assert outcome.violation == "node n died in main of AssertionError: our mistake"
    assert "our mistake" in outcome.blame
    assert not outcome_of(NodePlan(name="n", main=unlucky, workload=True, restarts=False)).passed


def test_a_background_task_that_dies_takes_its_node_along():
    async def main(world):
        async def work():
            await asyncio.sleep(1)
            raise NotThere("gone")

        world.tasks.spawn(work(), name="the keeper")
        await asyncio.sleep(5)

    heard = []
    outcome_of(NodePlan(name="n", main=main, workload=True), duration_ms=3000, calm_ms=100, heard=heard)
    assert ("dies", "the keeper") in [(note.event, dict(note.facts).get("task")) for note in heard]


def test_a_workload_that_never_ends_is_a_violation_that_names_it():
    async def stubborn(world):
        await asyncio.Event().wait()

    outcome = outcome_of(NodePlan(name="mule", main=stubborn, workload=True), duration_ms=1000, calm_ms=5000)
    assert outcome.violation == "mule did not end within 5 s of calm"


def test_errors_that_nobody_awaits_fail_the_run():
    async def careless(world):
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1)

    outcome = outcome_of(NodePlan(name="n", main=careless, workload=True))
    assert "ZeroDivisionError" in outcome.violation


def test_a_spinning_node_is_stopped_and_named():
    async def spinning(world):
        while True:
            await asyncio.sleep(0)

    outcome = outcome_of(NodePlan(name="dizzy", main=spinning))
    assert "steps" in outcome.violation
    assert "dizzy#1" in outcome.violation


def test_a_pause_makes_a_node_late_and_nobody_else():
    times = {"a": [], "b": []}

    async def ticking(world):
        while True:
            await asyncio.sleep(1)
            times[world.node].append(world.clock.monotonic())

    outcome_of(
        NodePlan(name="a", main=ticking),
        NodePlan(name="b", main=ticking),
        faults=(scripted("nap", (1500, lambda s: s.pause("a")), (5250, lambda s: s.wake("a"))),),
        duration_ms=8000,
    )
    assert times["a"][:4] == [1.0, 5.25, 6.25, 7.25]
    assert times["b"][:7] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]


def test_a_clock_can_be_set_while_a_node_runs():
    seen = []

    async def looking(world):
        true = LoopClock()
        for _ in range(2):
            seen.append(world.clock.now_ms() - true.now_ms())
            await asyncio.sleep(1)

    outcome_of(
        NodePlan(name="n", main=looking, skew_ms=7, workload=True),
        faults=(scripted("set", (500, lambda s: s.skew("n", -900))),),
    )
    assert seen == [7, -900]


def test_seeds_sweep_every_step_of_a_node():
    def furthest(seed):
        heard = []

        async def three_awaits(world):
            for number in range(3):
                world.note("reached", number=number)
                await asyncio.sleep(0.1)

        outcome_of(
            NodePlan(name="n", main=three_awaits, workload=True, restart_ms=(60_000, 60_000)),
            seed=seed,
            faults=(kill_at_step("n"),),
            duration_ms=10_000,
            heard=heard,
        )
        first_life = heard[: next(place for place, note in enumerate(heard) if note.event == "is gone")]
        return events(first_life).count("reached")

    assert [furthest(seed) for seed in range(1, 8)] == [0, 1, 1, 2, 2, 3, 3]


def test_the_first_violation_counts_and_ends_the_run():
    async def main(world):
        await asyncio.sleep(1)
        world.violate("first")
        world.violate("second")
        await asyncio.sleep(1000)

    outcome = outcome_of(NodePlan(name="n", main=main, workload=True))
    assert (outcome.violation, outcome.virtual_ms) == ("first", 1000)


def test_checkers_can_look_at_each_note_and_again_and_again():
    async def main(world):
        for number in range(10):
            world.note("tick", number=number)
            await asyncio.sleep(1)

    def no_five(_simulation, note):
        assert dict(note.facts).get("number") != 5, "five"

    def not_after_three_seconds(simulation):
        assert simulation.loop.time() < 3, "too late"

    node = NodePlan(name="n", main=main, workload=True)
    by_note = outcome_of(node, checkers=(Checker(name="notes", on_note=no_five),))
    assert (by_note.violation, by_note.virtual_ms) == ("notes: five", 5000)
    by_time = outcome_of(node, checkers=(Checker(name="times", every=not_after_three_seconds, every_ms=500),))
    assert (by_time.violation, by_time.virtual_ms) == ("times: too late", 3000)


def test_a_fault_that_cannot_happen_fails_the_run():
    async def main(world):
        await asyncio.sleep(1)

    outcome = outcome_of(NodePlan(name="n", main=main), faults=(scripted("typo", (1, lambda s: s.kill("nobody"))),))
    assert "fault typo failed" in outcome.violation


def test_a_new_fault_changes_nobody_elses_luck():
    drawn = []

    async def main(world):
        drawn.append(world.chance.random())

    async def busy(simulation, chance):
        while True:
            chance.random()
            await asyncio.sleep(0.01)

    for faults in ((), (Fault(name="busy", run=busy),)):
        outcome_of(NodePlan(name="n", main=main, workload=True), faults=faults)
    assert drawn[0] == drawn[1]


def test_power_loss_keeps_a_node_unreachable_until_it_is_back():
    answers = []

    async def server(world):
        async def serve(reader, writer):
            writer.close()

        async with await asyncio.start_server(serve, None, 80) as listening:
            await listening.serve_forever()

    async def client(world):
        while world.working:
            before = world.clock.monotonic()
            try:
                async with asyncio.timeout(1):
                    _, writer = await asyncio.open_connection("server", 80)
                writer.close()
                answers.append("yes")
            except TimeoutError:
                answers.append("silence")
            except ConnectionRefusedError:
                answers.append("no")
            with suppress(TimeoutError):
                await asyncio.sleep(before + 2 - world.clock.monotonic())

    outcome_of(
        NodePlan(name="server", main=server),
        NodePlan(name="client", main=client, workload=True),
        faults=(
            scripted(
                "off and on",
                (1000, lambda s: s.kill("server", power=True)),
                (5000, lambda s: s.restart("server")),
                (7000, lambda s: s.kill("server")),
            ),
        ),
        duration_ms=9000,
    )
    assert answers[:5] == ["yes", "silence", "silence", "yes", "no"]


@pytest.mark.parametrize("seed", range(3))
def test_a_remote_list_keeps_what_came_before_it_broke_off(seed):
    seen = []

    async def main(world):
        store = world.objects(world.state)
        for number in range(20):
            await world.state.inner.put_new(ObjectName(f"{number:02}"), b"")
        try:
            async for facts in store.list(""):
                seen.append(facts.name)
        except Unavailable:
            seen.append("broke off")

    outcome_of(
        NodePlan(name="n", main=main, workload=True),
        setup=lambda s: FaultyObjects(MemoryObjects(LoopClock()), FaultPlan(truncate=1.0), s.chance.fork("store")),
        seed=seed,
    )
    assert seen[-1] == "broke off"
    assert seen[:-1] == [f"{number:02}" for number in range(len(seen) - 1)]


def test_what_a_node_logs_is_noted_under_its_name():
    async def node(world):
        get_log("speaker").info("said", node=3, object="x")
        get_log("speaker").debug("whispered")

    heard = []
    assert outcome_of(NodePlan(name="one", main=node, workload=True), heard=heard).passed
    (note,) = [note for note in heard if "speaker" in note.event]
    assert (note.node, note.event, note.facts) == ("one", "speaker.said", (("node", 3), ("object", "x")))
