"""Where a run ends that does not end by itself, and the errors that say so."""

from dataclasses import dataclass


class NotSimulated(RuntimeError):
    """Something from outside the simulation was called."""


class SimulationStopped(Exception):
    """The run cannot go on."""


class Deadlock(SimulationStopped):
    """Nobody is ready, no timer is set, and the main task waits."""


class TooLong(SimulationStopped):
    """The limit of virtual time is reached."""


class TooBusy(SimulationStopped):
    """The limit of steps is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimits:
    """Where a run ends that does not end by itself."""

    virtual_s_max: float = 3_600_000.0
    steps_max: int = 100_000_000
    steps_at_one_moment_max: int = 200_000
    steps_between_collections: int = 200_000
