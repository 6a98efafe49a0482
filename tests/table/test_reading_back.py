"""Consumers of ranges that have become a table get what they got before, in the middle of whatever they do."""

import pytest

from runnel import Engine, Record
from runnel.codec.records import read_records
from runnel.engine import EngineLimits
from runnel.engine.upkeep import UpkeepLimits
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
from runnel.metadata.objects import FileKind
from runnel.metadata.updates import ReplaceExtents, TruncateStreams
from runnel.metadata.updates.extents import Replacement
from runnel.model import StreamId, shard_of
from runnel.read.reader import Ask, OffsetOutOfRange
from runnel.table.files.columns import TableColumns
from runnel.table.files.facts import Range, Sizes, Slice, Work
from runnel.table.files.rules import row_rules
from runnel.table.files.write import write_files
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects


class Lake:
    def __init__(self):
        self.objects = MemoryObjects(SystemClock())
        self.shelf = MemoryShelf()

    def engine(self, **limits):
        return Engine(objects=self.objects, ledger=MemoryLedger(self.shelf), shards=2, limits=EngineLimits(**limits))


@pytest.fixture
def lake():
    return Lake()


def state_of(engine, stream):
    return engine.shards.of_stream(StreamId(stream)).state


async def swap(engine, stream, *, chunk_bytes=2000, count=None):
    """What the table service does for one partition: write, then enter."""
    state = state_of(engine, stream)
    slices = []
    for extent in state.streams[stream].extents:
        if state.objects.kinds[extent.slot] == FileKind.WAL and len(slices) != count:
            name = state.objects.names[extent.slot]
            slices.append(Slice(name, extent.place, extent.length, extent.first, extent.end, extent.stamp))
    columns = TableColumns()
    while True:
        work = Work(
            topic="t",
            folder="tables/t",
            ranges=(Range(stream=stream, partition=0, slices=tuple(slices), start=state.streams[stream].start),),
            rules=row_rules({"table.values": "json"}),
            columns=columns,
            stamp=1,
            sizes=Sizes(chunk_bytes=chunk_bytes, group_bytes_max=20_000),
        )
        written = await write_files(work, engine.objects, None, chance=Chance())
        if written.wants is None:
            break
        columns = columns.with_wants(written.wants)
    answers = await engine.propose(shard_of(StreamId(stream), 2), ReplaceExtents(*written.replacement()))
    assert set(answers) == {Replacement.REPLACED}
    return written


def record(n):
    return Record(b"key-%d" % n, b'{"n":%d,"text":"%s"}' % (n, b"x" * (n % 50)), timestamp=1_700_000_000_000 + n * 1000)


async def fill(engine, stream, count=300, first=0):
    for n in range(first, first + count, 10):
        await engine.append_records(stream, [record(each) for each in range(n, n + 10)])


def seen(read):
    return [(each.offset, each.key, each.value, each.timestamp) for each in read_records(read.data)]


async def walk(engine, stream, at=0, bytes_max=700):
    """A consumer that asks for little at a time, with whatever happens between its asks."""
    found = []
    while True:
        (read,) = await engine.reader.read([Ask(stream, at, bytes_max)])
        assert read.error is None, read.error
        if not read.data:
            return found
        found += [each for each in seen(read) if each[0] >= at]
        assert read.next > at
        at = read.next


def wanted(first, end):
    return [(n, record(n).key, record(n).value, record(n).timestamp) for n in range(first, end)]


@pytest.mark.parametrize("chunk_bytes", [1, 2000, 1 << 20])
def test_a_swapped_range_reads_as_before_from_every_offset(lake, run, chunk_bytes):
    async def story():
        async with lake.engine() as engine:
            stream = (await engine.topics.create("t")).streams[0]
            await fill(engine, stream)
            written = await swap(engine, stream, chunk_bytes=chunk_bytes)
            assert written.records == 300
            await fill(engine, stream, 50, 300)
            for at in range(0, 350, 7):
                assert await walk(engine, stream, at) == wanted(at, 350)
            (read,) = await engine.reader.read([Ask(stream, 0, 1 << 20)])
            assert seen(read)[: read.next] == wanted(0, read.next)
        async with lake.engine() as other:  # one that comes later and has never seen the write-ahead objects
            assert await walk(other, stream) == wanted(0, 350)

    run(story())


def test_a_consumer_in_the_middle_does_not_notice_the_swap_nor_the_sweep(lake, run):
    async def story():
        async with lake.engine(upkeep=UpkeepLimits(sweep_grace_ms=0)) as engine:
            stream = (await engine.topics.create("t")).streams[0]
            await fill(engine, stream)
            (read,) = await engine.reader.read([Ask(stream, 0, 700)])
            found, at = seen(read), read.next
            await swap(engine, stream, count=20)
            (read,) = await engine.reader.read([Ask(stream, at, 700)])
            found += [each for each in seen(read) if each[0] >= at]
            at = read.next
            await swap(engine, stream)
            engine.cache.clear()
            await lake.objects.delete([facts.name async for facts in lake.objects.list("wal/")])
            assert found + await walk(engine, stream, at) == wanted(0, 300)

    run(story())


def test_what_is_at_hand_is_read_without_waiting(lake, run):
    async def story():
        async with lake.engine() as engine:
            stream = (await engine.topics.create("t")).streams[0]
            await fill(engine, stream)
            await swap(engine, stream)
            ask = Ask(stream, 150, 500)
            assert engine.reader.at_hand([ask]) is None
            (read,) = await engine.reader.read([ask])
            (again,) = engine.reader.at_hand([ask])
            assert (again.data, again.next) == (read.data, read.next)

    run(story())


def test_times_are_found_in_swapped_ranges_to_the_record(lake, run):
    async def story():
        async with lake.engine() as engine:
            stream = (await engine.topics.create("t")).streams[0]
            await fill(engine, stream)
            before = [await engine.reader.first_at(stream, 1_700_000_000_000 + n * 500) for n in range(0, 610, 13)]
            await swap(engine, stream)
            after = [await engine.reader.first_at(stream, 1_700_000_000_000 + n * 500) for n in range(0, 610, 13)]
            assert after == before
            assert await engine.reader.latest_stamp(stream) == (299, 1_700_000_299_000)

    run(story())


def test_deleted_records_stay_deleted_before_and_after_the_swap(lake, run):
    async def story():
        async with lake.engine() as engine:
            stream = (await engine.topics.create("t")).streams[0]
            await fill(engine, stream)
            await engine.propose(shard_of(StreamId(stream), 2), TruncateStreams({stream: 25}))
            written = await swap(engine, stream)
            assert written.records == 275
            assert await walk(engine, stream, 25) == wanted(25, 300)
            await engine.propose(shard_of(StreamId(stream), 2), TruncateStreams({stream: 123}))
            (read,) = await engine.reader.read([Ask(stream, 122, 700)])
            assert isinstance(read.error, OffsetOutOfRange)
            assert await walk(engine, stream, 123) == wanted(123, 300)
            await engine.propose(shard_of(StreamId(stream), 2), TruncateStreams({stream: 300}))
            assert not any(group.trail in state_of(engine, stream).objects for group in written.groups)

    run(story())
