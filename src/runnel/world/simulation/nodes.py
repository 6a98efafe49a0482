"""Simulated nodes: what they run, what they are given, how they die and come back.

A node runs its plan's `main(world)` as the process `name#1`, after a restart as `name#2` and so on. It ends

- by returning: the process exits; what it left running is gone, its connections are closed;
- by an error: the process dies; a node that `restarts` comes back, otherwise the run has failed. An assertion is our
  mistake and always fails the run;
- by a kill: see `process`.

Whatever has effects outside the process goes through the world it was given, and that refuses the dead.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from runnel.errors import RunnelError
from runnel.world.chance import Chance
from runnel.world.clock import LoopClock
from runnel.world.objects.seam import ObjectStore
from runnel.world.simulation.network import Network
from runnel.world.simulation.portal import Portal, RemoteObjects
from runnel.world.simulation.process import Process, in_the_world
from runnel.world.tasks import Tasks

if TYPE_CHECKING:
    from runnel.world.simulation.harness import Simulation

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePlan:
    """A node of a scenario."""

    name: str
    main: Callable[["World"], Awaitable[None]]
    workload: bool = False
    """A workload ends by itself; the run waits for it, and it is a violation when it never ends."""
    restarts: bool = True
    """Whether a supervisor brings it back after an error of the world (never after an assertion)."""
    restart_ms: tuple[int, int] = (50, 2000)
    mortal: bool = True
    """Whether faults may kill, pause or cut it off."""
    skew_ms: int = 0


class World:
    """All that a node's code is given. Nothing else reaches outside."""

    def __init__(self, simulation: "Simulation", node: "Node", process: Process) -> None:
        self.node = node.plan.name
        self.incarnation = node.incarnation
        self.process = process
        self.chance: Chance = simulation.chance.fork(f"node {process.name}")
        self.clock = LoopClock(skew_ms=node.skew_ms)
        self.network: Network = simulation.network
        self.tasks = Tasks(on_death=lambda name, error: node.died(process, name, error))
        self._simulation = simulation

    @property
    def state(self) -> Any:
        """What the scenario's `setup` returned: services, and the notebook of the checkers."""
        return self._simulation.state

    @property
    def working(self) -> bool:
        """False once the scenario's duration is over: workloads should come to their end."""
        return self._simulation.working

    def note(self, event: str, **facts: Any) -> None:
        """Write into the trace; the dead write nothing."""
        if self.process.alive:
            self._simulation.trace.note(self.node, event, **facts)

    def violate(self, message: str) -> None:
        """A workload saw something that must never be seen."""
        if self.process.alive:
            self._simulation.violate(message)

    def portal(self, service: str) -> Portal:
        """The way to a service outside the node; the name is what `cut` and `partition` know it by."""
        return Portal(self.network, self.process, service)

    def objects(self, store: ObjectStore, service: str = "objects") -> ObjectStore:
        """A store outside the node, as this node sees it."""
        return RemoteObjects(self.portal(service), store)


class Node:
    """One node through all its incarnations."""

    def __init__(self, simulation: "Simulation", plan: NodePlan) -> None:
        self.plan = plan
        self.incarnation = 0
        self.process: Process | None = None
        self.ended = False
        self.skew_ms = plan.skew_ms
        # For the next incarnation.
        self.doomed_at_step: int | None = None
        self._clock: LoopClock | None = None
        self._simulation = simulation
        self._chance = simulation.chance.fork(f"restarts of {plan.name}")

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def paused(self) -> bool:
        return self.process is not None and self.process.paused

    def set_skew(self, skew_ms: int) -> None:
        self.skew_ms = skew_ms
        if self._clock is not None:
            self._clock.skew_ms = skew_ms

    def start(self) -> None:
        """Begin a new incarnation, unless one is running or the workload has ended."""
        if self.running or self.ended:
            return
        simulation = self._simulation
        self.incarnation += 1
        self.process = process = Process(f"{self.plan.name}#{self.incarnation}", host=self.plan.name)
        process.doomed_at_step, self.doomed_at_step = self.doomed_at_step, None
        process.on_kill.append(lambda: self._gone(process))
        simulation.network.power_up(self.plan.name)
        simulation.trace.note(self.plan.name, "starts", incarnation=self.incarnation)
        world = World(simulation, self, process)
        self._clock = world.clock
        simulation.loop.create_task(self._main(world), name=f"main of {process.name}", context=process.context())

    async def _main(self, world: World) -> None:
        loop, process = self._simulation.loop, world.process
        try:
            await self.plan.main(world)
        except Exception as error:  # noqa: BLE001 - judged by `died`
            loop.call_soon(self.died, process, "main", error, context=in_the_world())
        else:
            loop.call_soon(self._returned, process, context=in_the_world())

    def _returned(self, process: Process) -> None:
        if process.alive:
            self.ended = True
            self._simulation.trace.note(self.plan.name, "ends")
            self._simulation.loop.kill(process)
            self._simulation.stir()

    def died(self, process: Process, task: str, error: BaseException) -> None:
        """The process dies of an error in one of its tasks."""
        if not process.alive:
            return
        simulation = self._simulation
        text = f"{type(error).__name__}: {error}"
        simulation.trace.note(self.plan.name, "dies", task=task, error=text)
        simulation.loop.kill(process)
        if isinstance(error, RunnelError | OSError) and self.plan.restarts:
            delay_s = self._chance.randint(*self.plan.restart_ms) / 1000
            simulation.loop.call_later(delay_s, self.start, context=in_the_world())
        else:
            simulation.violate(f"node {self.plan.name} died in {task} of {text}", error)

    def _gone(self, process: Process) -> None:
        """However it came to that, the process is no more."""
        self._simulation.trace.note(self.plan.name, "is gone", steps=process.steps)
        if process.doomed_at_step is not None and process.steps >= process.doomed_at_step:
            delay_s = self._chance.randint(*self.plan.restart_ms) / 1000
            self._simulation.loop.call_later(delay_s, self.start, context=in_the_world())
