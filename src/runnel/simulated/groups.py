"""Consumer groups under faults: members of both protocols come and go, coordinators die, stop and wake again.

What must hold, beside what holds for every lake: in the end the members that live read every partition exactly once; of
a generation nobody is given what another was given; what is committed never goes back, neither for a client nor in the
ledger; generations only grow. The members and their book are in groups_work.py.
"""

from typing import Any

from runnel.simulated.engine import CALM_LAKE
from runnel.simulated.groups_work import Classic, GroupBook, Modern, Plain, member_names, members, serve_groups
from runnel.simulated.lake import (
    BROKERS,
    CALM_LEDGER,
    LEASE_MS,
    Lake,
    Serve,
    brokers,
    ledger_outages,
    on_a_lake,
    store_outages,
)
from runnel.world.objects.faulty import CALM
from runnel.world.simulation.faults import dooms, kills, one_way_cuts, partitions, pauses, resets
from runnel.world.simulation.harness import Simulation
from runnel.world.simulation.scenario import Checker, Fault, Scenario, scenario

TOPIC = "orders"
PARTITIONS = 5
OLD, NEW, MIXED = "old", "new", "mixed"
COUNT = 3
MEMBERS = (*member_names(COUNT, OLD), *member_names(COUNT, NEW))
COMMITS_MIN = 10


def groups(
    *faults: Fault,
    lake: dict[str, Any] | None = None,
    serving: Serve = serve_groups,
    classic: type[Classic] = Classic,
    **more: Any,
) -> Scenario:
    """Brokers, and a group of each protocol."""
    return on_a_lake(
        *faults,
        nodes=(
            *brokers(len(BROKERS), serving),
            *members(COUNT, classic, OLD, TOPIC, BROKERS),
            *members(COUNT, Modern, NEW, TOPIC, BROKERS),
        ),
        checkers=GROUP_CHECKERS,
        lake=lake,
        topics={TOPIC: PARTITIONS},
        **{"settle_ms": 10_000, **more},
    )


@scenario
def groups_in_peace() -> Scenario:
    """Nothing goes wrong but that members leave now and then."""
    return groups(lake=CALM_LAKE)


@scenario
def groups_under_churn() -> Scenario:
    """Members are killed, stop for longer than their sessions, and come back."""
    return groups(
        kills(*MEMBERS, every_ms=(200, 3000)),
        pauses(*MEMBERS, for_ms=(100, 8000)),
        resets(),
        lake=CALM_LAKE,
    )


@scenario
def groups_whose_coordinator_is_killed() -> Scenario:
    """Brokers die at any step and come back; others take their groups over, and members only join again."""
    return groups(kills(*BROKERS), dooms(*BROKERS), lake={"store": CALM, "ledger": CALM_LEDGER})


@scenario
def groups_whose_coordinator_is_paused() -> Scenario:
    """A coordinator stops for longer than its lease, and wakes believing that the groups are still its own."""
    return groups(
        pauses(*BROKERS, for_ms=(LEASE_MS // 2, 4 * LEASE_MS)),
        pauses(*MEMBERS, for_ms=(100, 4000)),
        lake=CALM_LAKE,
        duration_ms=30_000,
    )


@scenario
def groups_cut_off() -> Scenario:
    """Members, coordinators, store and ledger do not reach each other, or in one direction only."""
    return groups(partitions("objects", "ledger"), one_way_cuts("objects", "ledger"), lake=CALM_LAKE)


@scenario
def groups_under_everything() -> Scenario:
    """Kills, pauses, cuts, resets and outages of everyone and everything, all at once."""
    everyone = (*BROKERS, *MEMBERS)
    return groups(
        kills(*everyone),
        dooms(*BROKERS),
        pauses(*everyone),
        partitions("objects", "ledger"),
        one_way_cuts("objects", "ledger"),
        resets(),
        store_outages(),
        ledger_outages(),
        duration_ms=30_000,
    )


@scenario
def groups_of_both_protocols() -> Scenario:
    """Members of both protocols in one group, killed and leaving so that it changes its kind back and forth."""
    names = (*member_names(2, MIXED, "plain"), *member_names(1, MIXED, "modern"))
    return on_a_lake(
        kills(*names, every_ms=(300, 3000), down_ms=(100, 4000)),
        kills(*BROKERS, every_ms=(1000, 6000)),
        nodes=(
            *brokers(len(BROKERS), serve_groups),
            *members(2, Plain, MIXED, TOPIC, BROKERS, called="plain"),
            *members(1, Modern, MIXED, TOPIC, BROKERS, called="modern"),
        ),
        checkers=GROUP_CHECKERS,
        lake=CALM_LAKE,
        topics={TOPIC: PARTITIONS},
        duration_ms=20_000,
        settle_ms=12_000,
    )


# ---- what must hold ------------------------------------------------------------------------------------------------


def offsets_never_go_back(simulation: Simulation) -> None:
    """In the ledger itself, and generations neither."""
    lake: Lake = simulation.state
    seen: dict[tuple[str, Any], int] = lake.work.setdefault("seen", {})
    for state in lake.witness.states.values():
        for group in state.groups.values():
            now: dict[Any, int] = {"generation": group.generation}
            now |= {row: each.offset for rows in group.offsets.values() for row, each in rows.items()}
            for what, at in now.items():
                before = seen.get((group.name, what), 0)
                assert at >= before, f"group {group.name}: {what} went back from {before} to {at}"
                seen[group.name, what] = at


async def every_partition_is_read_once(simulation: Simulation) -> None:
    """When all has been calm for a while, the members share everything out."""
    lake: Lake = simulation.state
    for group, book in lake.work["groups"].items():
        covered = book.covered()
        assert covered == list(range(PARTITIONS)), f"the members of group {group} read partitions {covered}"


async def groups_worked(simulation: Simulation) -> None:
    """A run in which nobody was served proves nothing."""
    lake: Lake = simulation.state
    books: dict[str, GroupBook] = lake.work["groups"]
    for group, book in books.items():
        assert book.commits >= COMMITS_MIN, f"group {group} made only {book.commits} commits"
        assert book.generations > 0, f"group {group} never had a generation"


GROUP_CHECKERS = (
    Checker(name="offsets never go back", every=offsets_never_go_back, every_ms=50),
    Checker(name="every partition is read once", at_end=every_partition_is_read_once),
    Checker(name="groups worked", at_end=groups_worked),
)
