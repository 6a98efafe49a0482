"""HTTP under faults: brokers with the Durable Streams door on one lake, producers that retry, forks, readers.

What must hold: each append is there exactly once and in its producer's order, closed means closed, a fork has what its
source had at that place and nothing of what came after. The door and its clients are in http_work.py.
"""

from typing import Any

from runnel.codec.records import read_records
from runnel.model import ObjectName, shard_of_name
from runnel.simulated.engine import CALM_LAKE
from runnel.simulated.http_work import HttpBook, book_of, forkers, readers, serve_http, writers
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

PATHS = ("one", "two", "three")
ACKNOWLEDGED_MIN = 10


async def http_streams_keep_their_promises(simulation: Simulation) -> None:
    """Read without the engine: by the witness' index, from the bucket itself."""
    lake: Lake = simulation.state
    book = book_of(lake)
    written: dict[str, list[tuple[int, bytes]]] = {}
    for path in (*PATHS, *book.forks):
        name = f"v1-stream/{path}"
        shards = len(lake.witness.states) - 1
        state = lake.witness.states[shard_of_name(name, shards)]
        number = state.names.get(name)
        if number is None:
            assert not book.ends.get(path), f"{path} was written and is not there"
            continue
        stream = state.streams[number]
        contents = []
        for extent in stream.extents or ():
            run = await lake.durable.read(ObjectName(state.objects.names[extent.slot]), extent.place, extent.length)
            contents += [(each.offset, bytes(each.value or b"")) for each in read_records(run, first=extent.first)]
        written[path] = contents
        if path in book.closed:
            assert stream.closed, f"{path} was closed and is open"
            assert stream.end == book.closed[path], f"{path} closed at {book.closed[path]} and ends at {stream.end}"
    for path in written:
        _hold_against(book, path, written)


def _hold_against(book: HttpBook, path: str, written: dict[str, list[tuple[int, bytes]]]) -> None:
    own = written[path]
    first = book.forks[path][1] if path in book.forks else 0
    assert [offset for offset, _ in own] == list(range(first, first + len(own))), f"{path} has holes or doubles"
    whole = dict(own)
    for offset, value in book.held.get(path, {}).items():
        if offset >= first:
            assert whole.get(offset) == value, f"offset {offset} of {path} was {value!r} and is {whole.get(offset)!r}"
        else:
            owner = dict(written[book.owner(path, offset)])
            assert owner.get(offset) == value, f"the fork {path} has {value!r} at {offset}, its source has not"
    last: dict[str, int] = {}
    for offset, value in own:
        sent = book.sent.get(value)
        assert sent is not None, f"nobody sent what is at {offset} of {path}: {value!r}"
        owner_path, producer, seq = sent
        assert owner_path == path, f"{value!r} was sent to {owner_path} and is in {path}"
        assert seq == last.get(producer, -1) + 1, f"{path}: {value!r} comes after number {last.get(producer, -1)}"
        last[producer] = seq


async def work_was_done(simulation: Simulation) -> None:
    book = book_of(simulation.state)
    assert book.acknowledged >= ACKNOWLEDGED_MIN, f"only {book.acknowledged} appends were acknowledged"


def http(*faults: Fault, lake: dict[str, Any] | None = None, serving: Serve = serve_http, **more: Any) -> Scenario:
    """Brokers, two writers, a forker and two readers; `lake` are the words of `lake_with`."""
    return on_a_lake(
        *faults,
        nodes=(
            *brokers(len(BROKERS), serving),
            *writers(2, PATHS, BROKERS),
            *forkers(1, PATHS, BROKERS),
            *readers(2, PATHS, BROKERS),
        ),
        checkers=(
            Checker(name="http streams keep their promises", at_end=http_streams_keep_their_promises),
            Checker(name="work was done", at_end=work_was_done),
        ),
        lake=lake,
        topics={"orders": 1},
        **more,
    )


@scenario
def http_in_peace() -> Scenario:
    """Nothing goes wrong, but clients go from broker to broker."""
    return http(lake=CALM_LAKE)


@scenario
def http_under_kills() -> Scenario:
    """Brokers die at any step and come back; producers send again what has no answer, to others."""
    return http(kills(*BROKERS), dooms(*BROKERS), resets(), lake={"store": CALM, "ledger": CALM_LEDGER})


@scenario
def http_paused_beyond_the_lease() -> Scenario:
    """Brokers stop for longer than their lease and wake with requests half done."""
    return http(pauses(*BROKERS, for_ms=(LEASE_MS // 2, 4 * LEASE_MS)), lake=CALM_LAKE, duration_ms=30_000)


@scenario
def http_under_everything() -> Scenario:
    """Kills, pauses, cuts, resets and outages, all at once."""
    return http(
        kills(*BROKERS),
        dooms(*BROKERS),
        pauses(*BROKERS),
        partitions("objects", "ledger"),
        one_way_cuts("objects", "ledger"),
        resets(),
        store_outages(),
        ledger_outages(),
        duration_ms=30_000,
    )
