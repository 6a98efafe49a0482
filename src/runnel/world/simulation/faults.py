"""What goes wrong with nodes and the network: drawn from the seed, or scripted.

Each function gives a `Fault` for a scenario. Drawn ones happen again and again with random pauses between them, to
random nodes among the mortal ones (or those named). The faults of stores and ledgers are switched by their own
wrappers; a scenario's `setup` builds those and its `calm` quiets them.
"""

import asyncio
from collections.abc import Callable, Sequence

from runnel.world.chance import Chance
from runnel.world.simulation.harness import Simulation
from runnel.world.simulation.scenario import Fault

Span = tuple[int, int]
"""Milliseconds, from and to."""


async def _pass(chance: Chance, span: Span) -> None:
    await asyncio.sleep(chance.uniform(*span) / 1000)


def _again_and_again(name: str, every_ms: Span, strike: Callable[[Simulation, Chance], object]) -> Fault:
    """A fault whose strike is over at once, or goes on by itself when it is awaitable."""

    async def run(simulation: Simulation, chance: Chance) -> None:
        while True:
            await _pass(chance, every_ms)
            going_on = strike(simulation, chance)
            if asyncio.iscoroutine(going_on):
                await going_on

    return Fault(name=name, run=run)


def _victim(simulation: Simulation, chance: Chance, names: Sequence[str]) -> str | None:
    able = [node.plan.name for node in simulation.mortals() if node.running and (not names or node.plan.name in names)]
    return chance.choice(able) if able else None


def kills(*names: str, every_ms: Span = (500, 5000), down_ms: Span = (50, 5000), power: float = 0.1) -> Fault:
    """Kill a node, bring it back later. `power` is the share of kills in which its peers are told nothing."""

    async def strike(simulation: Simulation, chance: Chance) -> None:
        victim = _victim(simulation, chance, names)
        if victim is not None:
            simulation.kill(victim, power=chance.random() < power)
            await _pass(chance, down_ms)
            simulation.restart(victim)

    return _again_and_again("kills", every_ms, strike)


def dooms(*names: str, every_ms: Span = (200, 3000), steps: Span = (1, 100)) -> Fault:
    """Kill a node just before one of its next steps, so that it dies at any await there is, not at a quiet moment."""

    def strike(simulation: Simulation, chance: Chance) -> None:
        victim = _victim(simulation, chance, names)
        if victim is not None:
            simulation.doom(victim, chance.randint(*steps))

    return _again_and_again("dooms", every_ms, strike)


def kill_at_step(name: str, step: Callable[[int], int] = lambda seed: seed) -> Fault:
    """Kill a node's first incarnation at one step, chosen by the seed: seeds 1 to N sweep its first N steps."""

    async def run(simulation: Simulation, _chance: Chance) -> None:
        simulation.doom(name, step(simulation.seed))

    return Fault(name=f"kill {name} at a step", run=run)


def pauses(*names: str, every_ms: Span = (500, 5000), for_ms: Span = (10, 8000)) -> Fault:
    """Stop a node for a while; it wakes as if no time had passed, and its timers are late."""

    async def strike(simulation: Simulation, chance: Chance) -> None:
        victim = _victim(simulation, chance, names)
        if victim is not None:
            simulation.pause(victim)
            await _pass(chance, for_ms)
            simulation.wake(victim)

    return _again_and_again("pauses", every_ms, strike)


def partitions(*services: str, every_ms: Span = (500, 6000), for_ms: Span = (50, 8000)) -> Fault:
    """Split mortal nodes, and the services named, into two groups that do not reach each other; then heal."""

    async def strike(simulation: Simulation, chance: Chance) -> None:
        places = [*(node.plan.name for node in simulation.mortals()), *services]
        chance.shuffle(places)
        # One place alone is the partition that happens most.
        size = 1 if chance.random() < 0.5 or len(places) < 3 else chance.randint(1, len(places) - 1)
        simulation.trace.note("network", "partition", alone=",".join(sorted(places[:size])))
        simulation.network.partition(places[:size], places[size:])
        await _pass(chance, for_ms)
        simulation.trace.note("network", "healed")
        simulation.network.heal()

    return _again_and_again("partitions", every_ms, strike)


def one_way_cuts(*services: str, every_ms: Span = (500, 6000), for_ms: Span = (50, 8000)) -> Fault:
    """Let nothing pass from one place to another, while the other direction works."""

    async def strike(simulation: Simulation, chance: Chance) -> None:
        places = [*(node.plan.name for node in simulation.mortals()), *services]
        if len(places) < 2:
            return
        source, target = chance.sample(places, 2)
        simulation.trace.note("network", "cut", source=source, target=target)
        simulation.network.cut(source, target)
        await _pass(chance, for_ms)
        simulation.trace.note("network", "mended", source=source, target=target)
        simulation.network.mend(source, target)

    return _again_and_again("one-way cuts", every_ms, strike)


def resets(*, every_ms: Span = (100, 2000)) -> Fault:
    """Break a connection on both sides."""

    def strike(simulation: Simulation, chance: Chance) -> None:
        ends = simulation.network.connections()
        if ends:
            end = chance.choice(ends)
            simulation.trace.note("network", "reset", near=end.here[0], far=end.there[0])
            simulation.network.reset(end)

    return _again_and_again("resets", every_ms, strike)


def skews(*names: str, every_ms: Span = (1000, 8000), skew_ms: Span = (-5000, 5000)) -> Fault:
    """Set a node's wall clock to another time."""

    def strike(simulation: Simulation, chance: Chance) -> None:
        victim = _victim(simulation, chance, names)
        if victim is not None:
            simulation.skew(victim, chance.randint(*skew_ms))

    return _again_and_again("skews", every_ms, strike)


def scripted(name: str, *acts: tuple[int, Callable[[Simulation], object]]) -> Fault:
    """Do certain things at certain virtual milliseconds: `scripted("late", (500, lambda s: s.pause("a")), …)`."""

    async def run(simulation: Simulation, _chance: Chance) -> None:
        for at_ms, act in sorted(acts, key=lambda act: act[0]):
            await asyncio.sleep(at_ms / 1000 - simulation.loop.time())
            act(simulation)

    return Fault(name=name, run=run)
