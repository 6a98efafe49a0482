"""Engines under faults: several brokers on one lake, idempotent writers, readers, and everything that goes wrong.

What must hold is in lake.py, witness.py and promises.py; who writes and reads, in engine_work.py.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any

from runnel.engine import Engine, EngineLimits
from runnel.engine.upkeep import UpkeepLimits
from runnel.errors import Unavailable
from runnel.ingest.gather import IngestLimits
from runnel.ingest.window import WindowBounds
from runnel.log.names import PREFIX
from runnel.metadata.follower import FollowerLimits
from runnel.metadata.ledger.faulty import LedgerFaults
from runnel.model import ROOT
from runnel.simulated.door import serve
from runnel.simulated.engine_work import Habits, clerks, readers, trimmers, writers
from runnel.simulated.lake import (
    BROKERS,
    CALM_LEDGER,
    LAKE_CHECKERS,
    LEASE_MS,
    SHAKY_LEDGER,
    SMALL_LIMITS,
    Lake,
    Serve,
    broker_names,
    brokers,
    calm,
    damaged_checkpoints,
    lake_with,
    ledger_outages,
    on_a_lake,
    store_outages,
)
from runnel.simulated.promises import Book
from runnel.world.objects.faulty import CALM, FaultPlan
from runnel.world.simulation.faults import (
    dooms,
    kill_at_step,
    kills,
    one_way_cuts,
    partitions,
    pauses,
    resets,
    scripted,
    skews,
)
from runnel.world.simulation.harness import Simulation
from runnel.world.simulation.nodes import NodePlan, World
from runnel.world.simulation.scenario import Checker, Fault, Scenario, scenario
from runnel.world.simulation.trace import Note

BREEZY = FaultPlan(delay=0.1, fail_before=0.01, fail_after=0.01, lose_answer=0.01, patience_s=2.0, truncate=0.01)
"""For a bucket that is asked very often."""

ACKNOWLEDGED_MIN = 5
QUIET_FROM_MS = 10_000
STEPS_SWEPT = 1999
"""As many steps as a broker takes in the scenario that kills it at each. A prime, so that any stride meets all."""

CALM_LAKE: dict[str, Any] = {"store": CALM, "ledger": CALM_LEDGER}
SLOW_WRITERS: dict[str, Any] = {
    "lake": {
        "store": replace(CALM, delay=0.3, delay_s=2.0),
        "ledger": LedgerFaults(delay_ms_max=1200),
        "limits": replace(SMALL_LIMITS, upkeep=UpkeepLimits(sweep_every_ms=300, sweep_grace_ms=400)),
    },
    "duration_ms": 60_000,
}
"""Objects take seconds to become durable and entries seconds to arrive, while sweeps go by in between."""


def engines(
    *faults: Fault,
    lake: dict[str, Any] | None = None,
    count: int = 3,
    serving: Serve = serve,
    present: bool = True,
    habits: Habits | None = None,
    writing: int = 2,
    mortal_writers: bool = False,
    others: tuple[NodePlan, ...] = (),
    checkers: tuple[Checker, ...] = (),
    **more: Any,
) -> Scenario:
    """Brokers, writers and two readers; `lake` are the words of `lake_with`."""
    names = broker_names(count)
    return on_a_lake(
        *faults,
        nodes=(
            *brokers(count, serving, present=present),
            *writers(writing, names, habits, mortal=mortal_writers),
            *readers(2, names),
            *others,
        ),
        checkers=(Checker(name="work was done", at_end=work_was_done), *checkers),
        lake=lake,
        **more,
    )


def limits_with(**parts: Any) -> EngineLimits:
    return replace(SMALL_LIMITS, **parts)


# ---- nothing and one fault at a time -------------------------------------------------------------------------------------------


@scenario
def engine_idle() -> Scenario:
    """Two minutes of brokers that nobody talks to: they write nothing but their leases."""
    return Scenario(
        setup=lake_with(**CALM_LAKE),
        calm=calm,
        nodes=brokers(3, serve),
        faults=(scripted("quiet", (QUIET_FROM_MS, _remember_what_is_written)),),
        checkers=(*LAKE_CHECKERS, Checker(name="nothing is written", at_end=nothing_but_leases_was_written)),
        duration_ms=120_000,
    )


@scenario
def engine_in_peace() -> Scenario:
    """Nothing goes wrong, but writers go from broker to broker and send things again that were acknowledged."""
    return engines(lake=CALM_LAKE, habits=Habits(repeats=0.4, hops=0.2))


@scenario
def engine_under_kills() -> Scenario:
    """Brokers are killed at any step and come back; what they had sent may arrive after that."""
    return engines(
        kills(*BROKERS),
        dooms(*BROKERS),
        lake={"store": replace(CALM, delay=0.3), "ledger": LedgerFaults(delay_ms_max=50)},
    )


@scenario
def engine_with_plain_writers() -> Scenario:
    """Writers without identity: what they send again may be there twice, but nothing acknowledged is lost or moved."""
    return engines(kills(*BROKERS), lake={"store": replace(CALM, delay=0.3)}, habits=Habits(idempotent=False, hops=0.1))


@scenario
def engine_killed_at_each_step() -> Scenario:
    """A broker is killed at one step of its life, another for each seed: so many seeds sweep every await it reaches."""
    return engines(
        kill_at_step("broker1", lambda seed: 1 + seed * 367 % STEPS_SWEPT),
        lake=CALM_LAKE | {"limits": limits_with(follower=FollowerLimits(checkpoint_entries=8))},
        count=2,
        habits=Habits(batches=25, pause_s=0.1),
        duration_ms=4000,
        others=(*trimmers(1, ("broker1",)), *clerks(1, ("broker1",))),
    )


@scenario
def engine_on_a_faulty_store() -> Scenario:
    """The store fails, stalls, loses answers, asks to slow down and is away for seconds."""
    return engines(store_outages(), lake={"ledger": CALM_LEDGER})


@scenario
def engine_on_a_slow_store() -> Scenario:
    """Objects take seconds, some of them, so that they finish in another order than they began."""
    return engines(
        lake={
            "store": replace(CALM, delay=0.5, delay_s=3.0),
            "ledger": CALM_LEDGER,
            "limits": limits_with(upkeep=UpkeepLimits(sweep_every_ms=2000, sweep_grace_ms=30_000)),
        },
        duration_ms=40_000,
    )


@scenario
def engine_on_a_shaky_ledger() -> Scenario:
    """The ledger is slow, fails, loses requests and answers, and wakes its waiters late or for nothing."""
    return engines(
        lake={
            "store": CALM,
            "ledger": replace(SHAKY_LEDGER, fail_share=0.1, lost_answer_share=0.1, lost_request_share=0.1),
        }
    )


@scenario
def engine_while_the_ledger_is_away() -> Scenario:
    """The ledger is away, sometimes for longer than anyone is patient."""
    return engines(ledger_outages(every_ms=(500, 4000), for_ms=(500, 30_000)), lake={"store": CALM}, duration_ms=60_000)


@scenario
def engine_cut_off() -> Scenario:
    """Brokers, store and ledger do not reach each other, or in one direction only."""
    return engines(partitions("objects", "ledger"), one_way_cuts("objects", "ledger"), lake=CALM_LAKE)


@scenario
def engine_paused_beyond_its_lease() -> Scenario:
    """Brokers stop for longer than their lease, are taken for dead, and wake as if nothing had been."""
    return engines(pauses(*BROKERS, for_ms=(LEASE_MS // 2, 4 * LEASE_MS)), duration_ms=30_000)


@scenario
def engine_with_wrong_clocks() -> Scenario:
    """Clocks are hours off, while stamps of objects decide what a sweep may take."""
    return engines(
        skews(*BROKERS, every_ms=(200, 2000), skew_ms=(-7_200_000, 7_200_000)),
        kills(*BROKERS),
        others=trimmers(1, BROKERS),
        lake={"limits": limits_with(upkeep=UpkeepLimits(sweep_every_ms=500, sweep_grace_ms=1000))},
    )


# ---- ledgers and checkpoints ---------------------------------------------------------------------------------------


@scenario
def engine_with_a_lagging_follower() -> Scenario:
    """A broker hears nothing of the ledger while the others go on and trim it; it begins again from a checkpoint."""
    far_behind = scripted(
        "lagging",
        (1000, lambda simulation: simulation.network.cut("ledger", "broker1")),
        (9000, lambda simulation: simulation.network.mend("ledger", "broker1")),
    )
    return engines(
        far_behind,
        lake=CALM_LAKE | {"limits": limits_with(follower=FollowerLimits(checkpoint_entries=4))},
        habits=Habits(batches=100),
        checkers=(_noted("broker1", "follower.shard_reloaded"),),
    )


@scenario
def engine_with_the_bucket_as_its_ledger() -> Scenario:
    """No database: entries are packs in the bucket, claimed by their names, while the store fails and brokers die."""
    return engines(
        kills(*BROKERS),
        dooms(*BROKERS, every_ms=(1000, 5000)),
        lake={"ledger_in_bucket": True, "store": BREEZY},
        duration_ms=20_000,
    )


@scenario
def engine_with_damaged_checkpoints() -> Scenario:
    """Checkpoints are lost, cut off and flipped, one at a time, while brokers come and go that need them."""
    return engines(
        damaged_checkpoints(),
        kills(*BROKERS, every_ms=(200, 2000), down_ms=(50, 500)),
        lake=CALM_LAKE | {"limits": limits_with(follower=FollowerLimits(checkpoint_entries=5))},
    )


# ---- what is swept -------------------------------------------------------------------------------------------------


@scenario
def engine_sweeps_beside_slow_writers() -> Scenario:
    """Objects and entries are seconds on their way, sweeps go by in between and must take none of them."""
    return engines(**SLOW_WRITERS)


@scenario
def engine_truncates_and_sweeps() -> Scenario:
    """Streams begin later and later, brokers die and leave orphans; in the end only what is referred to is left."""
    return engines(
        kills(*BROKERS),
        dooms(*BROKERS),
        others=trimmers(2, BROKERS),
        lake={"limits": limits_with(upkeep=UpkeepLimits(sweep_every_ms=500, sweep_grace_ms=1000))},
        settle_ms=8000,
        checkers=(Checker(name="orphans go", at_end=orphans_go),),
    )


@scenario
def engine_makes_and_removes_topics() -> Scenario:
    """Topics come and go while brokers are killed; what is half done is finished by others."""
    return engines(
        kills(*BROKERS, every_ms=(200, 2000)),
        dooms(*BROKERS),
        others=clerks(2, BROKERS),
        settle_ms=8000,
        checkers=(Checker(name="nothing is left half-way", at_end=no_topic_is_leaving),),
    )


@scenario
def engine_founded_by_many() -> Scenario:
    """All brokers find an empty bucket at the same time, through faults: one cluster comes of it, and topics."""
    return Scenario(
        setup=lake_with(topics={}, founded=False, ledger=SHAKY_LEDGER),
        calm=calm,
        nodes=(*brokers(3, serve), *clerks(2, BROKERS)),
        faults=(dooms(*BROKERS),),
        checkers=LAKE_CHECKERS,
        duration_ms=10_000,
        settle_ms=3000,
    )


# ---- bounds, restarts, everything ----------------------------------------------------------------------------------


@scenario
def engine_at_its_bounds() -> Scenario:
    """More is written than a slow store takes, and every bound is met."""
    return engines(
        lake={
            "store": replace(CALM, delay=0.9, delay_s=1.0),
            "ledger": LedgerFaults(delay_ms_max=200),
            "limits": limits_with(
                ingest=IngestLimits(window=WindowBounds(bytes_max=8192, age_max=0.1), inflight_bytes_max=16_384),
                proposer=replace(SMALL_LIMITS.proposer, waiting_max=6),
                cache_bytes_max=20_000,
            ),
        },
        count=2,
        writing=5,
        habits=Habits(batches=40, under_way=6, pause_s=0.02, value_bytes=(300, 3000)),
        checkers=(_noted(None, "breaks off", why="Overloaded"),),
    )


@scenario
def engine_restarted_in_turn() -> Scenario:
    """Brokers are asked to go, answer what is under way, and come back: the way an upgrade goes."""
    return engines(
        serving=_serve_for_a_while, lake={"store": replace(CALM, delay=0.5), "ledger": LedgerFaults(delay_ms_max=50)}
    )


@scenario
def engine_under_everything() -> Scenario:
    """Kills, pauses, cuts, outages, wrong clocks, damaged checkpoints, truncation and topics, all at once."""
    return engines(
        kills(*BROKERS, every_ms=(2000, 9000)),
        dooms(*BROKERS, every_ms=(2000, 9000)),
        pauses(*BROKERS, every_ms=(2000, 9000)),
        partitions("objects", "ledger", every_ms=(3000, 15_000)),
        one_way_cuts("objects", "ledger", every_ms=(3000, 15_000)),
        skews(*BROKERS),
        resets(),
        store_outages(every_ms=(3000, 15_000)),
        ledger_outages(every_ms=(3000, 15_000)),
        damaged_checkpoints(every_ms=(500, 4000)),
        mortal_writers=True,
        others=(*trimmers(1, BROKERS), *clerks(1, BROKERS)),
        duration_ms=60_000,
    )


async def _serve_for_a_while(world: World, engine: Engine) -> None:
    """Leave in an orderly way after a time, and come back by the supervisor's hand."""
    with suppress(TimeoutError):
        async with asyncio.timeout(world.chance.uniform(1, 6) if world.working else None):
            await serve(world, engine)
    world.note("is asked to go")
    await engine.close()
    raise Unavailable("asked to go")


# ---- more that must hold -------------------------------------------------------------------------------------------


async def work_was_done(simulation: Simulation) -> None:
    """A run in which nobody was served proves nothing."""
    book: Book = simulation.state.book
    acknowledged = sum(book.ends.values())
    assert acknowledged >= ACKNOWLEDGED_MIN, f"only {acknowledged} records were acknowledged"
    assert book.reads >= ACKNOWLEDGED_MIN, f"only {book.reads} reads were answered"


def _remember_what_is_written(simulation: Simulation) -> None:
    lake: Lake = simulation.state
    lake.work["quiet"] = _written(lake)


def _written(lake: Lake) -> tuple[int, int, int]:
    """Write-ahead objects, entries of data shards, entries of the root."""
    positions = {shard: state.position for shard, state in lake.witness.states.items()}
    return lake.witness.objects_written, sum(positions.values()) - positions[ROOT], positions[ROOT]


async def nothing_but_leases_was_written(simulation: Simulation) -> None:
    lake: Lake = simulation.state
    objects, entries, leases = _written(lake)
    objects_before, entries_before, leases_before = lake.work["quiet"]
    assert objects == objects_before, f"idle brokers wrote {objects - objects_before} objects"
    assert entries == entries_before, f"idle brokers wrote {entries - entries_before} entries into data shards"
    allowed = len(lake.engines) * (simulation.scenario.duration_ms - QUIET_FROM_MS) / (LEASE_MS / 3 * 0.8)
    assert leases - leases_before <= allowed, f"{leases - leases_before} entries for leases, {allowed:.0f} are due"


async def orphans_go(simulation: Simulation) -> None:
    """After a few sweeps in peace, every object in the bucket is one that something refers to."""
    lake: Lake = simulation.state
    left = [facts.name async for facts in lake.durable.list(PREFIX) if not lake.witness.referred_to(facts.name)]
    assert not left, f"{len(left)} objects are left that nothing refers to, {left[0]} among them"


async def no_topic_is_leaving(simulation: Simulation) -> None:
    lake: Lake = simulation.state
    leaving = [topic.name for topic in lake.witness.states[ROOT].leaving.values()]
    assert not leaving, f"topics {leaving} were removed, their streams are still there"


def _noted(node: str | None, event: str, **facts: Any) -> Checker:
    """The scenario shows what it is for: this was noted at least once."""
    seen: list[Note] = []

    def look(_: Simulation, note: Note) -> None:
        if note.event == event and node in (None, note.node) and facts.items() <= dict(note.facts).items():
            seen.append(note)

    async def at_end(_: Simulation) -> None:
        assert seen, f"it never came to {event!r}"

    return Checker(name=f"it comes to {event!r}", on_note=look, at_end=at_end)
