"""What a scenario is, and the register of their names.

Higher floors add scenarios from outside:

    @scenario
    def appends_survive_kills() -> Scenario:
        '''Idempotent producers keep their order while brokers are killed.'''
        return Scenario(setup=..., nodes=(...), faults=(...), checkers=(...))

The function's name, with dashes, is the scenario's name; its docstring says what it shows.
"""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from runnel.errors import Refused
from runnel.world.chance import Chance
from runnel.world.simulation.limits import LoopLimits
from runnel.world.simulation.network import Wire
from runnel.world.simulation.nodes import NodePlan
from runnel.world.simulation.trace import Note

if TYPE_CHECKING:
    from runnel.world.simulation.harness import Simulation


class Violation(AssertionError):
    """Something happened that must never happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong, for as long as `run` runs; its luck is its own. It is cancelled when calm begins."""

    name: str
    run: Callable[["Simulation", Chance], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """Something that must hold. Each of the three ways raises `Violation`, or any AssertionError.

    `at_end` looks when all is calm, `every` looks again and again while faults happen, `on_note` sees each note.
    """

    name: str
    at_end: Callable[["Simulation"], Awaitable[None]] | None = None
    every: Callable[["Simulation"], None] | None = None
    every_ms: int = 1000
    on_note: Callable[["Simulation", Note], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A cluster, what is done with it, what goes wrong, and what must hold."""

    nodes: tuple[NodePlan, ...]
    setup: Callable[["Simulation"], Any] = lambda _: None
    """Builds what is outside the nodes: services, the notebook of the checkers. Its result is `simulation.state`."""
    calm: Callable[["Simulation"], None] = lambda _: None
    """Ends the faults of the services that `setup` built, when the network is healed and the nodes are up again."""
    faults: tuple[Fault, ...] = ()
    checkers: tuple[Checker, ...] = ()
    duration_ms: int = 20_000
    """For how long faults happen and workloads work."""
    calm_ms: int = 120_000
    """How long workloads may then take to end."""
    settle_ms: int = 0
    """How long servers are left alone after that, before the checkers look."""
    wire: Wire = field(default_factory=Wire)
    limits: LoopLimits = field(default_factory=lambda: LoopLimits(virtual_s_max=1_000_000, steps_max=20_000_000))
    shuffle_tasks: bool = True


Build = Callable[[], Scenario]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A scenario with its name."""

    name: str
    about: str
    build: Callable[[], Scenario]
    hidden: bool
    slow: bool


_register: dict[str, Registered] = {}


@overload
def scenario(build: Build) -> Build: ...


@overload
def scenario(*, hidden: bool = False, slow: bool = False) -> Callable[[Build], Build]: ...


def scenario(
    build: Build | None = None, *, hidden: bool = False, slow: bool = False
) -> Build | Callable[[Build], Build]:
    """Register a scenario.

    Slow ones are run when they are named. Hidden ones too, and are not listed: they fail on purpose, to test checkers.
    """
    if build is None:
        return lambda function: _enter(function, hidden=hidden, slow=slow)
    return _enter(build, hidden=hidden, slow=slow)


def _enter(build: Build, *, hidden: bool, slow: bool) -> Build:
    name = build.__name__.replace("_", "-")
    assert name not in _register, f"two scenarios are called {name}"
    _register[name] = Registered(name=name, about=inspect.getdoc(build) or "", build=build, hidden=hidden, slow=slow)
    return build


def scenarios(*, hidden: bool = False) -> list[Registered]:
    """All scenarios that were imported, by name."""
    return [entry for _, entry in sorted(_register.items()) if hidden or not entry.hidden]


def scenario_named(name: str) -> Registered:
    if name not in _register:
        known = ", ".join(entry.name for entry in scenarios())
        raise Refused(f"there is no scenario {name!r}; there are: {known}")
    return _register[name]
