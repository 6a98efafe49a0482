"""Schema registries under faults: brokers that register at once, die and stop, and clients that go from one to another.

What must hold, beside what holds for every lake: an id stands for one schema, whoever is asked; the versions of a subject
have no holes and each reads what the one before it wrote, however many brokers judged rivals at the same time; what
was told is found at every broker from then on. The door and its clients are in schemas_work.py.
"""

from itertools import pairwise
from typing import Any

from runnel.metadata.schemas import DEFAULT_CONTEXT
from runnel.model import ROOT
from runnel.schemas.kinds import complaints, read_schema
from runnel.simulated.engine import CALM_LAKE
from runnel.simulated.lake import (
    BROKERS,
    CALM_LEDGER,
    LEASE_MS,
    Lake,
    Serve,
    brokers,
    ledger_outages,
    on_a_lake,
)
from runnel.simulated.schemas_work import book_of, lookers, registrants, serve_schemas
from runnel.world.objects.faulty import CALM
from runnel.world.simulation.faults import dooms, kills, one_way_cuts, partitions, pauses, resets
from runnel.world.simulation.harness import Simulation
from runnel.world.simulation.scenario import Checker, Fault, Scenario, scenario

SUBJECTS = ("orders-value", "clicks-value", "users-value", "carts-value")
REGISTERED_MIN = 5


async def registries_keep_their_promises(simulation: Simulation) -> None:
    """Read without the engine, by the witness' state."""
    lake: Lake = simulation.state
    book = book_of(lake)
    registry = lake.witness.states[ROOT].registry
    context = registry.context(DEFAULT_CONTEXT)
    digests = [schema.digest for schema in context.schemas.values()]
    assert len(set(digests)) == len(digests), "one schema has two ids"
    for schema_id, text in book.texts.items():
        known = context.schemas.get(schema_id)
        assert known is not None, f"id {schema_id} was told and is not there"
        assert known.text == text, f"id {schema_id} stands for {known.text}, not for {text}"
    for (subject, number), schema_id in book.versions.items():
        found = registry.version(subject, number)
        assert found is not None, f"version {number} of {subject} was told and is not there"
        assert found[1].id == schema_id, f"version {number} of {subject} has id {found[1].id}, not {schema_id}"
    for subject, each in context.subjects.items():
        numbers = [version.number for version in each.versions]
        assert numbers == list(range(1, len(numbers) + 1)), f"{subject} has versions {numbers}"
        for before, after in pairwise(each.versions):
            old, new = (read_schema("AVRO", context.schemas[version.id].text) for version in (before, after))
            assert not complaints(new, old), f"version {after.number} of {subject} does not read the one before it"


async def work_was_done(simulation: Simulation) -> None:
    book = book_of(simulation.state)
    assert book.registered >= REGISTERED_MIN, f"only {book.registered} registrations were acknowledged"


def schemas(
    *faults: Fault, lake: dict[str, Any] | None = None, serving: Serve = serve_schemas, **more: Any
) -> Scenario:
    """Brokers, three registrants and two lookers."""
    return on_a_lake(
        *faults,
        nodes=(*brokers(len(BROKERS), serving), *registrants(3, SUBJECTS, BROKERS), *lookers(2, BROKERS)),
        checkers=(
            Checker(name="registries keep their promises", at_end=registries_keep_their_promises),
            Checker(name="work was done", at_end=work_was_done),
        ),
        lake=lake,
        topics={"orders": 1},
        **{"duration_ms": 10_000, **more},
    )


@scenario
def schemas_in_peace() -> Scenario:
    """Nothing goes wrong but that everyone registers at once."""
    return schemas(lake=CALM_LAKE)


@scenario
def schemas_under_kills() -> Scenario:
    """Brokers die at any step and come back; clients ask again, others."""
    return schemas(kills(*BROKERS), dooms(*BROKERS), resets(), lake={"store": CALM, "ledger": CALM_LEDGER})


@scenario
def schemas_under_everything() -> Scenario:
    """Kills, pauses, cuts, resets and outages, all at once."""
    return schemas(
        kills(*BROKERS),
        dooms(*BROKERS),
        pauses(*BROKERS, for_ms=(LEASE_MS // 2, 2 * LEASE_MS)),
        partitions("objects", "ledger"),
        one_way_cuts("objects", "ledger"),
        resets(),
        ledger_outages(),
        duration_ms=30_000,
    )
