"""A planner that dies at any step of a commit: whoever comes next completes what it began, and repeats nothing.

Each run lets a planner die at one step (or at several, one planner after another) and compares, every time, what both
tables hold with the stream's prefix at the offsets that their newest snapshot or entry names.

    RUNNEL_TABLE_KILLS=200 python -m pytest tests/table/test_faults.py      (make table-faults)
"""

import json
import os
from collections import Counter

import pytest
from tests.table.lake import Lake

from runnel import Record
from runnel.errors import Unavailable
from runnel.table.files.facts import Sizes
from runnel.table.plan import Bounds
from runnel.world.chance import Chance

pytestmark = [
    pytest.mark.leaves("pyiceberg keeps the threads of its pool"),
    pytest.mark.timeout(1800 if "RUNNEL_TABLE_KILLS" in os.environ else 120),
]

KILLS = int(os.environ.get("RUNNEL_TABLE_KILLS", "10"))
KILLS_PER_LAKE = 10
PARTITIONS = 3


class Killed(BaseException):
    """The end of a process, as far as the process can tell."""


class Reaper:
    """Ends a planner at the nth step that it reaches; a dead one reaches no other."""

    def __init__(self, at):
        self.left = at
        self.last = ""

    def __call__(self, step):
        if self.left == 0:
            raise Killed
        self.left -= 1
        self.last = step
        if self.left == 0:
            raise Killed(step)


class Run:
    """One lake, what was produced into it, and how to see whether its tables tell the truth."""

    def __init__(self, folder, seed):
        self.chance = Chance(seed)
        self.lake = Lake(
            folder, bounds=Bounds(task_bytes=2000), sizes=Sizes(chunk_bytes=1000, portion_bytes=1500), lease_ms=1
        )
        self.values = [[] for _ in range(PARTITIONS)]
        self.planners = 0
        self.reached = Counter()

    async def produce(self, engine):
        for _ in range(self.chance.randint(1, 5)):
            partition = self.chance.randint(0, PARTITIONS - 1)
            records = []
            for _ in range(self.chance.randint(1, 12)):
                broken = self.chance.random() < 0.15
                number = len(self.values[partition])
                value = b"{broken" if broken else json.dumps({"n": number, "p": partition}).encode()
                self.values[partition].append(value)
                records.append(Record(None, value, (), 1_700_000_000_000 + number))
            await engine.append_records(engine.stream_of("t", partition), records)

    async def live(self, engine, dies_at):
        """A planner's whole life."""
        self.planners += 1
        reaper = Reaper(dies_at)
        try:
            async with self.lake.service(engine, reached=reaper, holder=f"planner {self.planners}") as service:
                synced = await service.sync()
                assert synced.round.trouble == {}, synced.round.trouble
        except Killed:
            self.reached[reaper.last] += 1
            return False
        return True

    def expected(self, offsets):
        return sorted(
            (partition, offset)
            for partition, end in offsets.items()
            for offset in range(end)
            if self.values[partition][offset] != b"{broken"
        )

    def check(self, engine):
        """Both tables against the prefix that they say they hold."""
        try:
            iceberg = self.lake.iceberg_table("t")
        except Exception:  # noqa: BLE001  not made yet
            iceberg = None
        if iceberg is not None and iceberg.current_snapshot() is not None:
            rows = iceberg.scan().to_arrow()
            offsets = read_offsets(iceberg.current_snapshot().summary["runnel.offsets"])
            self.same(rows, offsets)
        table = next(iter(engine.root.tables.values()), None)
        if table is not None and "delta.id" in table.facts:
            delta = self.lake.delta_table(table)
            said = next((each for each in delta.history() if "runnel.offsets" in each), None)
            if said is not None:
                self.same(delta.to_pyarrow_table(), read_offsets(said["runnel.offsets"]))

    def same(self, rows, offsets):
        found = sorted(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
        assert found == self.expected(offsets)
        for partition, offset, number in zip(
            rows["partition"].to_pylist(), rows["offset"].to_pylist(), rows["n"].to_pylist(), strict=True
        ):
            assert (number, partition) == (offset, partition)

    async def check_letters(self, engine):
        """Every broken record is in the dead-letter topic, once."""
        broken = sorted(
            (partition, offset)
            for partition, values in enumerate(self.values)
            for offset, value in enumerate(values)
            if value == b"{broken"
        )
        found = []
        if engine.topics.get("t-dead-letters") is not None:
            async for record in engine.records(engine.stream_of("t-dead-letters", 0)):
                said = dict(record.headers)
                found.append((int(said["runnel.partition"]), int(said["runnel.offset"])))
        assert sorted(found) == broken


def read_offsets(text):
    return {int(part.partition(":")[0]): int(part.partition(":")[2]) for part in text.split(",")}


async def lifetimes(folder, seed, kills, reached):
    run = Run(folder, seed)
    try:
        async with run.lake.engine() as engine:
            await engine.topics.create("t", PARTITIONS, {"table.values": "json"})
            for _ in range(kills):
                await run.produce(engine)
                await run.live(engine, run.chance.randint(1, 20))
                run.check(engine)
            await run.produce(engine)
            assert await run.live(engine, -1)
            run.check(engine)
            table = next(iter(engine.root.tables.values()))
            ends = {partition: len(values) for partition, values in enumerate(run.values) if values}
            assert table.ends | ends == table.ends
            assert lake_numbers(run.lake, table) == (table.number, table.number)
            await run.check_letters(engine)
    finally:
        reached.update(run.reached)
        await run.lake.close()


def lake_numbers(lake, table):
    """The last commit of each format."""
    iceberg = int(lake.iceberg_table("t").properties["runnel.commit"])
    return iceberg, lake.delta_table(table).transaction_version(table.id.hex())


def test_a_planner_may_die_at_any_step(tmp_path, run):
    reached = Counter()
    for number in range(0, KILLS, KILLS_PER_LAKE):
        run(lifetimes(tmp_path / str(number), number, min(KILLS_PER_LAKE, KILLS - number), reached))
    if KILLS >= 200:
        wanted = {"files", "manifest", "begin", "swapped", "published iceberg", "iceberg", "published delta", "delta"}
        assert wanted | {"some letters", "letters", "finished"} <= set(reached), reached


def test_a_format_that_fails_is_caught_up_with_and_the_other_goes_on(tmp_path, run):
    class Away:
        name = "iceberg"

        def __init__(self, lake):
            self.inner = lake.iceberg()
            self.step = self.inner.step
            self.away = True

        def commit(self, target, manifest):
            if self.away:
                raise Unavailable("the catalog is away: start it")
            return self.inner.commit(target, manifest)

    async def scenario():
        one = Run(tmp_path, 5)
        async with one.lake.engine() as engine:
            await engine.topics.create("t", PARTITIONS, {"table.values": "json"})
            await one.produce(engine)
            away = Away(one.lake)
            async with one.lake.service(engine, formats=lambda truth: [away, one.lake.delta(truth)]) as service:
                synced = await service.sync()
                assert "start it" in synced.round.trouble["t"]
                table = next(iter(engine.root.tables.values()))
                assert "start it" in table.trouble
                assert one.lake.delta_table(table).transaction_version(table.id.hex()) == 1
                await one.produce(engine)
                away.away = False
                synced = await service.sync()
                assert synced.round.trouble == {}
            one.check(engine)
            assert lake_numbers(one.lake, table) == (2, 2)
            assert table.trouble == ""
        await one.lake.close()

    run(scenario())
