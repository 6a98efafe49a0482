"""What every part of a node is handed: time, luck, supervised tasks and metrics, in one hand."""

from dataclasses import dataclass, field

from runnel.world.chance import Chance
from runnel.world.clock import Clock, SystemClock
from runnel.world.tasks import Death, Tasks
from runnel.world.telemetry import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The surroundings of one node. A simulation hands out one whose time and luck are its own."""

    clock: Clock
    chance: Chance
    tasks: Tasks
    metrics: Metrics = field(default_factory=Metrics)


def real_world(on_death: Death) -> World:
    """The machine's own time and luck."""
    return World(clock=SystemClock(), chance=Chance(), tasks=Tasks(on_death))
