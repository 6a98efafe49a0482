"""A node's end, when nobody asked for it; and what its doors say meanwhile."""

import asyncio
import json

import pytest

from runnel.api.messages import Request
from runnel.api.routes import Routes
from runnel.api.vitals import add_vitals
from runnel.node import EXIT_OF_A_DEAD_TASK, Ending, Node
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.tasks import Tasks
from runnel.world.telemetry import Health, Metrics, capture
from runnel.world.world import World


class QuietDoor:
    name = "quiet"

    def __init__(self):
        self.opened = False
        self.drained = []

    async def open(self):
        self.opened = True
        return "quiet://here"

    async def drain(self, seconds):
        self.drained.append(seconds)


class ClosedDoor(QuietDoor):
    async def open(self):
        raise OSError("no")


@pytest.fixture
def parts():
    ending = Ending()
    world = World(clock=SystemClock(), chance=Chance(1), tasks=Tasks(ending.died))
    return ending, world, Health()


def node_of(parts, *doors, drain_ms_max=5000):
    ending, world, health = parts
    return Node(world=world, health=health, doors=doors, ending=ending, drain_ms_max=drain_ms_max)


@pytest.fixture(autouse=True)
def _collector_as_before():
    import gc

    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_a_dying_task_brings_its_node_down_loudly(run, parts):
    _, world, health = parts
    door = QuietDoor()
    announced = []

    async def dying():
        raise ValueError("boom")

    async def life():
        node = node_of(parts, door)

        def announce(addresses):
            announced.append(addresses)
            assert health.ready().good
            world.tasks.spawn(dying(), name="flush")

        return await node.run(announce)

    with capture() as events:
        assert run(life()) == EXIT_OF_A_DEAD_TASK
    assert announced == [{"quiet": "quiet://here"}]
    assert door.drained == [0.0], "a node that is broken keeps nobody waiting"
    assert health.alive().reasons["tasks"] == "task flush died"
    (died,) = [event for event in events if event[2] == "task_died"]
    assert died[0] == "error"
    assert died[3]["task"] == "flush"
    assert "ValueError: boom" in died[3]["trace"]


def test_a_node_that_was_asked_to_stop_drains_and_exits_with_0(run, parts):
    ending, _, health = parts
    door = QuietDoor()
    assert run(node_of(parts, door).run(lambda _: ending.ask("test"))) == 0
    assert door.drained == [5.0]
    assert not health.ready().good
    assert health.alive().good


def test_a_door_that_does_not_open_closes_those_that_did(run, parts):
    first, second = QuietDoor(), ClosedDoor()
    with pytest.raises(OSError, match="no"):
        run(node_of(parts, first, second).run(lambda _: pytest.fail("it is not ready")))
    assert first.drained == [5.0]
    assert second.drained == []


def test_a_second_request_to_stop_waits_for_no_door(run, parts):
    ending, _, _ = parts

    class SlowDoor(QuietDoor):
        async def drain(self, seconds):
            self.drained.append(seconds)
            if seconds:
                ending.ask("again")
                await asyncio.Event().wait()

    door = SlowDoor()
    assert run(node_of(parts, door).run(lambda _: ending.ask("once"))) == 0
    assert door.drained == [5.0, 0]


def asked(path, health, metrics, **headers):
    answers = []
    routes = Routes()
    add_vitals(routes, health, metrics)
    routes(Request("GET", path, "", headers, b""), answers.append)
    return answers[0]


def test_vital_signs_name_what_is_wrong():
    health, metrics = Health(), Metrics()
    health.vital("flush", lambda: "stuck for 9 s")
    answer = asked("/healthz", health, metrics)
    assert (answer.status, answer.body) == (503, b"flush: stuck for 9 s\n")
    answer = asked("/readyz", health, metrics, accept="application/json")
    assert answer.status == 503
    assert json.loads(answer.body) == {
        "ok": False,
        "checks": {"node": "the node is starting", "flush": "stuck for 9 s"},
    }
    assert asked("/metrics", health, metrics).status == 200
