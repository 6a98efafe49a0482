"""Kafka under faults: brokers with the Kafka door on one lake, idempotent producers, fetchers with sessions.

What must hold is in lake.py, witness.py and promises.py; the door and its clients are in kafka_work.py.
"""

from dataclasses import replace
from typing import Any

from runnel.engine.upkeep import UpkeepLimits
from runnel.simulated.engine import CALM_LAKE, work_was_done
from runnel.simulated.kafka_work import Habits, cutters, fetchers, producers, serve_kafka
from runnel.simulated.lake import (
    BROKERS,
    CALM_LEDGER,
    LEASE_MS,
    SMALL_LIMITS,
    Serve,
    brokers,
    ledger_outages,
    on_a_lake,
    store_outages,
)
from runnel.world.objects.faulty import CALM
from runnel.world.simulation.faults import dooms, kills, one_way_cuts, partitions, pauses, resets
from runnel.world.simulation.nodes import NodePlan
from runnel.world.simulation.scenario import Checker, Fault, Scenario, scenario

TOPIC = "orders"
PARTITIONS = 3


def kafka(
    *faults: Fault,
    lake: dict[str, Any] | None = None,
    serving: Serve = serve_kafka,
    habits: Habits | None = None,
    writing: int = 2,
    others: tuple[NodePlan, ...] = (),
    **more: Any,
) -> Scenario:
    """Brokers, producers and two fetchers; `lake` are the words of `lake_with`."""
    return on_a_lake(
        *faults,
        nodes=(
            *brokers(len(BROKERS), serving),
            *producers(writing, TOPIC, BROKERS, habits),
            *fetchers(2, TOPIC, BROKERS),
            *others,
        ),
        checkers=(Checker(name="work was done", at_end=work_was_done),),
        lake=lake,
        topics={TOPIC: PARTITIONS},
        **more,
    )


@scenario
def kafka_in_peace() -> Scenario:
    """Nothing goes wrong, but producers stray from the leaders that they are told."""
    return kafka(lake=CALM_LAKE, habits=Habits(strays=0.6))


@scenario
def kafka_under_kills() -> Scenario:
    """Brokers die at any step and come back; producers go to others with what has no answer yet."""
    return kafka(kills(*BROKERS), dooms(*BROKERS), resets(), lake={"store": CALM, "ledger": CALM_LEDGER})


@scenario
def kafka_paused_beyond_the_lease() -> Scenario:
    """Brokers stop for longer than their lease, lose their shards, and wake with requests half done."""
    return kafka(pauses(*BROKERS, for_ms=(LEASE_MS // 2, 4 * LEASE_MS)), lake=CALM_LAKE, duration_ms=30_000)


@scenario
def kafka_cut_off() -> Scenario:
    """Brokers, clients, store and ledger do not reach each other, or in one direction only."""
    return kafka(partitions("objects", "ledger"), one_way_cuts("objects", "ledger"), lake=CALM_LAKE)


@scenario
def kafka_on_a_slow_store() -> Scenario:
    """Objects take seconds, some of them, so that the second request may be durable before the first."""
    return kafka(
        lake={"store": replace(CALM, delay=0.5, delay_s=3.0), "ledger": CALM_LEDGER},
        habits=Habits(batches=12),
        duration_ms=40_000,
    )


@scenario
def kafka_with_deletions() -> Scenario:
    """Beginnings are cut off while records are written and read and brokers die."""
    return kafka(
        kills(*BROKERS),
        lake={
            "store": CALM,
            "limits": replace(SMALL_LIMITS, upkeep=UpkeepLimits(sweep_every_ms=500, sweep_grace_ms=1000)),
        },
        others=cutters(1, TOPIC, BROKERS),
    )


@scenario
def kafka_under_everything() -> Scenario:
    """Kills, pauses, cuts, resets and outages, all at once."""
    return kafka(
        kills(*BROKERS),
        dooms(*BROKERS),
        pauses(*BROKERS),
        partitions("objects", "ledger"),
        one_way_cuts("objects", "ledger"),
        resets(),
        store_outages(),
        ledger_outages(),
        others=cutters(1, TOPIC, BROKERS),
        duration_ms=30_000,
    )
