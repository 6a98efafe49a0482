"""Engines under faults: several brokers on one lake, idempotent writers, readers, and everything that goes wrong.

What must hold is in lake.py, witness.py and promises.py; who writes and reads, in engine_work.py.
"""

from dataclasses import replace
from typing import Any

from runnel.engine.upkeep import UpkeepLimits
from runnel.metadata.ledger.faulty import LedgerFaults
from runnel.simulated.door import serve
from runnel.simulated.engine_work import Habits, readers, writers
from runnel.simulated.lake import (
    BROKERS,
    CALM_LEDGER,
    LAKE_CHECKERS,
    SMALL_LIMITS,
    Serve,
    broker_names,
    brokers,
    calm,
    lake_with,
)
from runnel.world.objects.faulty import CALM
from runnel.world.simulation.faults import dooms, kills
from runnel.world.simulation.scenario import Checker, Fault, Scenario, scenario

CALM_LAKE: dict[str, Any] = {"store": CALM, "ledger": CALM_LEDGER}
SLOW_WRITERS: dict[str, Any] = {
    "lake": {
        "store": replace(CALM, delay=0.5, delay_s=4.0),
        "ledger": LedgerFaults(delay_ms_max=3000),
        "limits": replace(SMALL_LIMITS, upkeep=UpkeepLimits(sweep_every_ms=300, sweep_grace_ms=300)),
    },
}
"""Objects take seconds to become durable and entries seconds to arrive, while sweeps go by in between."""


def engines(
    *faults: Fault,
    lake: dict[str, Any] | None = None,
    count: int = 3,
    habits: Habits | None = None,
    serving: Serve = serve,
    present: bool = True,
    checkers: tuple[Checker, ...] = (),
    **more: Any,
) -> Scenario:
    """Brokers, two writers and two readers; `lake` are the words of `lake_with`."""
    names = broker_names(count)
    return Scenario(
        setup=lake_with(**(lake or {})),
        calm=calm,
        nodes=(*brokers(count, serving, present=present), *writers(2, names, habits), *readers(2, names)),
        faults=faults,
        checkers=(*LAKE_CHECKERS, *checkers),
        **{"duration_ms": 12_000, "settle_ms": 3000, **more},
    )


@scenario
def engine_in_peace() -> Scenario:
    """Nothing goes wrong: several brokers, writers that send things again, readers everywhere."""
    return engines(lake=CALM_LAKE, habits=Habits(repeats=0.4))


@scenario
def engine_under_kills() -> Scenario:
    """Brokers are killed at any step and come back."""
    return engines(kills(*BROKERS), dooms(*BROKERS), lake=CALM_LAKE)


@scenario
def engine_sweeps_beside_slow_writers() -> Scenario:
    """Objects and entries are seconds on their way, sweeps go by in between and must take none of them."""
    return engines(**SLOW_WRITERS)
