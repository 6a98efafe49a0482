"""Runs a scenario with a seed.

A run has three parts. While `working`, nodes and workloads run and faults happen. Then it is calm: the network is
healed, paused nodes wake, killed ones come back, and workloads have time to end. At the end the checkers look. The
first violation ends the run. Everything that is drawn comes from forks of the one seed, each with a name of its own, so
a new fault in a scenario changes nobody else's luck.
"""

import asyncio
import inspect
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from runnel.world.chance import Chance
from runnel.world.simulation.limits import SimulationStopped
from runnel.world.simulation.loop import SimulatedLoop
from runnel.world.simulation.network import Network
from runnel.world.simulation.nodes import Node, NodePlan
from runnel.world.simulation.process import current_process, in_the_world
from runnel.world.simulation.scenario import Checker, Fault, Registered, Scenario
from runnel.world.simulation.trace import Listener, Note, Trace
from runnel.world.telemetry import divert

WORLD = "world"
"""The name under which things outside the nodes are noted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one run."""

    scenario: str
    seed: int
    violation: str | None
    trace_hash: str
    notes: int
    steps: int
    virtual_ms: int
    last_notes: tuple[Note, ...]
    blame: str
    """The stack of the error behind the violation, if there was one. Not part of the trace."""

    @property
    def passed(self) -> bool:
        return self.violation is None

    @property
    def replay(self) -> str:
        """The one command that does all of it again."""
        return f"runnel sim --scenario {self.scenario} --seed {self.seed} --watch"


class Simulation:
    """One run under way: what faults act on and checkers look at."""

    def __init__(self, scenario: Scenario, loop: SimulatedLoop, chance: Chance, seed: int) -> None:
        self.scenario = scenario
        self.seed = seed
        self.loop = loop
        self.chance = chance
        self.trace = Trace(loop)
        self.network = Network(loop, chance.fork("network"), scenario.wire)
        self.state: Any = None
        self.working = True
        self.violation: str | None = None
        self.blame = ""
        self.nodes: dict[str, Node] = {}
        self._stirred = asyncio.Event()
        loop.on_unhandled = self._unhandled
        loop.at_end.append(self._end)

    # ---- for faults -----------------------------------------------------------------------------------------------

    def mortals(self) -> list[Node]:
        """The nodes that faults may touch."""
        return [node for node in self.nodes.values() if node.plan.mortal and not node.ended]

    def kill(self, name: str, *, power: bool = False) -> None:
        """End a node as kill -9 does; with `power`, as if its host lost power: nobody is told."""
        node = self.nodes[name]
        if node.running and node.process is not None:
            self.trace.note(name, "power lost" if power else "killed")
            if power:
                self.network.lose_power(name)
            self.loop.kill(node.process)

    def restart(self, name: str) -> None:
        self.nodes[name].start()

    def pause(self, name: str) -> None:
        node = self.nodes[name]
        if node.running and not node.paused and node.process is not None:
            self.trace.note(name, "paused")
            self.loop.pause(node.process)

    def wake(self, name: str) -> None:
        node = self.nodes[name]
        if node.paused and node.process is not None:
            self.trace.note(name, "woken")
            self.loop.wake(node.process)

    def skew(self, name: str, skew_ms: int) -> None:
        """Set a node's wall clock off by so much, now and in later incarnations."""
        self.trace.note(name, "clock set", skew_ms=skew_ms)
        self.nodes[name].set_skew(skew_ms)

    def doom(self, name: str, steps: int) -> None:
        """Kill a node just before the step that is so many steps away; it comes back after its `restart_ms`.

        A node that is down is killed that many steps into its next incarnation.
        """
        node = self.nodes[name]
        if node.running and node.process is not None:
            node.process.doomed_at_step = node.process.steps + max(1, steps)
        else:
            node.doomed_at_step = max(1, steps)

    def add_node(self, plan: NodePlan) -> Node:
        """A node that joins; `setup` may use it, and so may faults."""
        assert plan.name not in self.nodes, f"two nodes are called {plan.name}"
        node = self.nodes[plan.name] = Node(self, plan)
        return node

    def violate(self, message: str, error: BaseException | None = None) -> None:
        """The run has failed; only the first reason counts."""
        if self.violation is None:
            self.violation = message
            self.blame = "" if error is None else "".join(traceback.format_exception(error))
            self.trace.note(WORLD, "violation", message=message)
            self.stir()

    def _end(self, error: BaseException | None) -> None:
        """The run is over; what is cleared away from now on has no effects."""
        if isinstance(error, SimulationStopped):
            self.violate(_words(error), error)
        self.trace.close()
        self.loop.on_unhandled = None
        for node in self.nodes.values():
            if node.process is not None:
                node.process.alive = False

    def _unhandled(self, context: dict[str, Any]) -> None:
        """An error that nobody awaited: in a server it would be lost in a log, here it fails the run."""
        error = context.get("exception")
        self.violate(f"{str(context.get('message')).split(' <')[0]}: {error!r}", error)

    # ---- the run --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        scenario = self.scenario
        try:
            state = scenario.setup(self)
            self.state = await state if inspect.isawaitable(state) else state
            for checker in scenario.checkers:
                self._look_on(checker)
            for plan in scenario.nodes:
                self.add_node(plan)
            faults = [self._spawn(self._misfortune(fault), fault.name) for fault in scenario.faults]
            await asyncio.sleep(0)  # a fault may strike a node at its very first step
            for node in list(self.nodes.values()):
                node.start()
            await self._until_over(scenario.duration_ms)
            for fault in faults:
                fault.cancel()
            await asyncio.gather(*faults, return_exceptions=True)
            if self.violation is None:
                await self._calm_down()
        except (AssertionError, SimulationStopped) as error:
            self.violate(_words(error), error)

    async def _misfortune(self, fault: Fault) -> None:
        try:
            await fault.run(self, self.chance.fork(f"fault {fault.name}"))
        except Exception as error:  # noqa: BLE001 - a fault that cannot even happen proves nothing
            self.violate(f"fault {fault.name} failed: {error!r}", error)

    async def _calm_down(self) -> None:
        scenario = self.scenario
        self.working = False
        self.trace.note(WORLD, "calm")
        self.network.heal()
        scenario.calm(self)
        for name, node in self.nodes.items():
            node.doomed_at_step = None
            if node.process is not None and node.process.alive:
                node.process.doomed_at_step = None
            self.wake(name)
            self.restart(name)
        await self._until_over(scenario.calm_ms)
        if self.violation is None and (busy := self._busy_workloads()):
            names = ", ".join(node.plan.name for node in busy)
            self.violate(f"{names} did not end within {scenario.calm_ms / 1000:.0f} s of calm")
        if scenario.settle_ms:
            await asyncio.sleep(scenario.settle_ms / 1000)
        for checker in scenario.checkers:
            if self.violation is None and checker.at_end is not None:
                try:
                    await checker.at_end(self)
                except AssertionError as error:
                    self.violate(f"{checker.name}: {_words(error)}", error)

    def stir(self) -> None:
        """Something happened that may end the run: a violation, or the end of a workload."""
        self._stirred.set()

    async def _until_over(self, ms: int) -> None:
        """Wait until a violation, or the end of all workloads, or the end of this time."""
        workloads = any(node.plan.workload for node in self.nodes.values())
        if not workloads and not self.working:
            return  # nobody will end by itself
        try:
            async with asyncio.timeout(ms / 1000):
                while self.violation is None and not (workloads and not self._busy_workloads()):
                    self._stirred.clear()
                    await self._stirred.wait()
        except TimeoutError:
            return

    def _busy_workloads(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.plan.workload and not node.ended]

    def _look_on(self, checker: Checker) -> None:
        if checker.on_note is not None:
            self.trace.listeners.append(lambda note: self._hear(checker, note))
        if checker.every is not None:
            self._spawn(self._look_again(checker), checker.name)

    def _hear(self, checker: Checker, note: Note) -> None:
        if self.violation is None and checker.on_note is not None:
            try:
                checker.on_note(self, note)
            except AssertionError as error:
                self.violate(f"{checker.name}: {_words(error)}", error)

    async def _look_again(self, checker: Checker) -> None:
        assert checker.every is not None
        while True:
            await asyncio.sleep(checker.every_ms / 1000)
            try:
                checker.every(self)
            except AssertionError as error:
                self.violate(f"{checker.name}: {_words(error)}", error)
                return

    def _spawn(self, work: Any, name: str) -> asyncio.Task[None]:
        task: asyncio.Task[None] = self.loop.create_task(work, name=name, context=in_the_world())
        return task


def simulate(registered: Registered, seed: int, listeners: Sequence[Listener] = ()) -> Outcome:
    """Run a scenario once."""
    chance = Chance(f"{registered.name}/{seed}")
    scenario = registered.build()
    loop = SimulatedLoop(chance.fork("turns"), limits=scenario.limits, shuffle_tasks=scenario.shuffle_tasks)
    simulation: Simulation | None = None

    async def main() -> Simulation:
        nonlocal simulation
        simulation = Simulation(scenario, loop, chance, seed)
        simulation.trace.listeners.extend(listeners)
        await simulation.run()
        return simulation

    def log(_level: int, name: str, event: str, facts: Mapping[str, Any]) -> None:
        process = current_process()
        if simulation is not None and (process is None or process.alive):
            simulation.trace.note(WORLD if process is None else process.host, f"{name}.{event}", **facts)

    with divert(log, "info"), suppress(SimulationStopped):  # the latter is the run's violation by now
        loop.run(main())
    assert simulation is not None
    return Outcome(
        scenario=registered.name,
        seed=seed,
        violation=simulation.violation,
        trace_hash=simulation.trace.close(),
        notes=simulation.trace.count,
        steps=loop.steps,
        virtual_ms=round(loop.time() * 1000),
        last_notes=tuple(simulation.trace.last),
        blame=simulation.blame,
    )


def _words(error: BaseException) -> str:
    """The first line alone: what test tools add below it is not the same in every run."""
    return (str(error).splitlines() or [type(error).__name__])[0]
