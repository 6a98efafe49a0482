"""The engine as its users meet it: topics, appends, reads, waiting, coming back after an end."""

import asyncio

import pytest

from runnel import Engine, Record
from runnel.codec.records import build_batch, read_records
from runnel.engine import EngineLimits
from runnel.engine.upkeep import UpkeepLimits
from runnel.errors import AlreadyThere, NotThere, Refused
from runnel.ingest.gather import IngestLimits
from runnel.ingest.ticket import Ticket
from runnel.ingest.window import Producer, WindowBounds
from runnel.metadata.follower import FollowerLimits
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
from runnel.metadata.producers import Verdict
from runnel.read.reader import Ask, OffsetOutOfRange
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects


class Lake:
    """A store and a ledger that several engines share, as nodes of one cluster do."""

    def __init__(self):
        self.objects = MemoryObjects(SystemClock())
        self.shelf = MemoryShelf()

    def engine(self, **limits):
        return Engine(objects=self.objects, ledger=MemoryLedger(self.shelf), shards=4, limits=EngineLimits(**limits))


@pytest.fixture
def lake():
    return Lake()


def values(read):
    return [record.value for record in read_records(read.data)]


def test_what_is_appended_is_read_with_offsets(lake, run):
    async def story():
        async with lake.engine() as engine:
            topic = await engine.topics.create("orders", 2)
            stream = engine.stream_of("orders", 1)
            assert topic.streams[1] == stream
            assert (await engine.append_records(stream, [Record(b"k", b"one"), Record(None, b"two")])).first == 0
            assert (await engine.append_records(stream, [Record(b"k", b"three")])).first == 2
            read = await engine.read(stream, 0)
            assert values(read) == [b"one", b"two", b"three"]
            assert (read.next, read.start, read.end) == (3, 0, 3)
            assert [record.offset async for record in engine.records(stream, 1)] == [1, 2]
            assert await engine.bounds(stream) == (0, 3)

    run(story())


def test_a_lone_writer_is_not_taxed_by_the_window(lake, run):
    async def story():
        async with lake.engine(ingest=IngestLimits(window=WindowBounds(age_max=30.0))) as engine:
            topic = await engine.topics.create("orders")
            async with asyncio.timeout(10):
                for number in range(5):
                    assert (await engine.append_records(topic.streams[0], [Record(None, b"x")])).first == number

    run(story())


def test_another_engine_reads_what_was_just_acknowledged(lake, run):
    async def story():
        async with lake.engine() as one, lake.engine() as other:
            topic = await one.topics.create("orders")
            stream = topic.streams[0]
            for number in range(10):
                await one.append_records(stream, [Record(None, b"%d" % number)])
                assert values(await other.read(stream, number)) == [b"%d" % number]
            await other.append_records(stream, [Record(None, b"mine")])
            assert (await one.bounds(stream)) == (0, 11)

    run(story())


def test_a_new_engine_finds_everything_again(lake, run):
    async def story():
        limits = {"follower": FollowerLimits(checkpoint_entries=3)}
        async with lake.engine(**limits) as engine:
            topic = await engine.topics.create("orders", 4)
            for stream in topic.streams:
                for number in range(8):
                    await engine.append_records(stream, [Record(None, b"%d" % number)])
        assert [facts async for facts in lake.objects.list("checkpoints/")]
        async with lake.engine(**limits) as engine:
            for stream in topic.streams:
                assert values(await engine.read(stream, 0)) == [b"%d" % number for number in range(8)]
            assert engine.topics.get("orders").settings == {}
            with pytest.raises(AlreadyThere):
                await engine.topics.create("orders")

    run(story())


def test_a_reader_waits_for_what_comes(lake, run):
    async def story():
        async with lake.engine() as engine:
            stream = (await engine.topics.create("orders")).streams[0]
            waiting = asyncio.get_running_loop().create_task(engine.read(stream, 0, wait_s=30))
            await asyncio.sleep(0.01)
            assert not waiting.done()
            await engine.append_records(stream, [Record(None, b"at last")])
            assert values(await waiting) == [b"at last"]
            assert not await engine.wait(stream, 1, 0.01)

    run(story())


def test_retries_get_their_first_offsets_from_any_engine(lake, run):
    async def story():
        async with lake.engine() as one, lake.engine() as other:
            stream = (await one.topics.create("orders")).streams[0]
            producer = await one.draw_producer_id()
            assert producer != await other.draw_producer_id()
            batch = build_batch([Record(None, b"x", timestamp=1)] * 3, producer=producer, epoch=0, sequence=0)
            assert (await one.append(stream, batch)).first == 0
            await one.append_records(stream, [Record(None, b"y")])
            again = await other.append(stream, batch)
            assert (again.first, again.verdict) == (0, Verdict.DUPLICATE)
            gap = build_batch([Record(None, b"x", timestamp=1)], producer=producer, epoch=0, sequence=9)
            with pytest.raises(Refused, match="out of order"):
                await other.append(stream, gap)
            assert await one.bounds(stream) == (0, 4)

    run(story())


def test_many_streams_in_one_ticket_are_answered_in_order(lake, run):
    async def story():
        async with lake.engine() as engine:
            topic = await engine.topics.create("orders", 40)
            answered = asyncio.get_running_loop().create_future()
            ticket = Ticket(answered.set_result)
            for number, stream in enumerate(reversed(topic.streams)):
                body = build_batch([Record(None, b"%d" % number, timestamp=1)] * (number + 1))
                ticket.add(stream, memoryview(body), number + 1, 1)
            ticket.add(999_999, memoryview(body), 40, 1)
            engine.submit(ticket, Producer())
            answers = await answered
            assert [answer.first for answer in answers] == [0] * 40 + [-1]
            assert answers[-1].verdict is Verdict.STREAM_UNKNOWN
            reads = await engine.read_many([Ask(stream, 0, 1000) for stream in topic.streams])
            assert [len(values(read)) for read in reads] == list(range(40, 0, -1))
            listed = [facts.name async for facts in lake.objects.list("wal/")]
            assert len(listed) == 1

    run(story())


def test_truncated_offsets_are_out_of_range_and_say_where_the_stream_is(lake, run):
    async def story():
        async with lake.engine() as engine:
            stream = (await engine.topics.create("orders")).streams[0]
            for _ in range(4):
                await engine.append_records(stream, [Record(None, b"x")] * 5)
            assert await engine.truncate({stream: 12}) == {stream: 12}
            with pytest.raises(OffsetOutOfRange) as caught:
                await engine.read(stream, 3)
            assert (caught.value.start, caught.value.end) == (12, 20)
            with pytest.raises(OffsetOutOfRange):
                await engine.read(stream, 21)
            assert [record.offset async for record in engine.records(stream, 12)] == list(range(12, 20))

    run(story())


def test_offsets_are_found_by_time(lake, run):
    async def story():
        async with lake.engine() as engine:
            stream = (await engine.topics.create("orders")).streams[0]
            for base in (100, 300, 200):
                await engine.append_records(stream, [Record(None, b"x", timestamp=base + step) for step in range(5)])
            assert await engine.offset_at(stream, 0) == (0, 100)
            assert await engine.offset_at(stream, 103) == (3, 103)
            assert await engine.offset_at(stream, 150) == (5, 300)
            assert await engine.offset_at(stream, 304) == (9, 304)
            assert await engine.offset_at(stream, 305) is None
            assert await engine.reader.latest_stamp(stream) == (9, 304)

    run(story())


def test_a_deleted_topic_is_gone_and_its_name_free(lake, run):
    async def story():
        async with lake.engine() as engine:
            topic = await engine.topics.create("orders", 3)
            await engine.append_records(topic.streams[0], [Record(None, b"x")])
            await engine.topics.delete(topic)
            assert not engine.root.leaving
            with pytest.raises(NotThere):
                await engine.read(topic.streams[0], 0)
            again = await engine.topics.create("orders", 1)
            assert again.id != topic.id
            assert again.streams[0] not in topic.streams

    run(story())


def test_the_sweep_removes_orphans_after_two_looks_and_nothing_else(lake, run):
    async def story():
        limits = {"upkeep": UpkeepLimits(sweep_grace_ms=0)}
        async with lake.engine(**limits) as engine:
            topic = await engine.topics.create("orders", 2)
            await engine.append_records(topic.streams[0], [Record(None, b"kept")])
            await engine.append_records(topic.streams[1], [Record(None, b"gone")])
            await lake.objects.put_new("wal/000000000001-00000000000000aa", b"an orphan")
            await asyncio.sleep(0.005)
            assert await engine.sweep.run() == []
            assert await engine.sweep.run() == ["wal/000000000001-00000000000000aa"]
            await engine.truncate({topic.streams[1]: 1})
            await engine.sweep.run()
            assert len(await engine.sweep.run()) == 1
            assert values(await engine.read(topic.streams[0], 0)) == [b"kept"]

    run(story())


def test_a_ledger_of_another_cluster_is_refused(lake, run):
    async def story():
        async with lake.engine():
            pass
        with pytest.raises(Refused, match="belong together"):
            async with Engine(objects=MemoryObjects(SystemClock()), ledger=MemoryLedger(lake.shelf), shards=4):
                pass

    run(story())


def test_closing_answers_what_is_under_way(lake, run):
    async def story():
        engine = lake.engine(ingest=IngestLimits(window=WindowBounds(age_max=60.0, early_uploads_max=0)))
        await engine.open()
        stream = (await engine.topics.create("orders")).streams[0]
        appending = asyncio.get_running_loop().create_task(engine.append_records(stream, [Record(None, b"x")]))
        await asyncio.sleep(0.01)
        assert not appending.done()
        await engine.close()
        assert (await appending).first == 0

    run(story())


def test_an_engine_by_urls_needs_no_server(tmp_path, run):
    async def story():
        urls = {"objects": f"file://{tmp_path}/objects", "ledger": f"sqlite://{tmp_path}/ledger.db"}
        async with Engine(**urls) as engine:
            stream = (await engine.topics.create("orders")).streams[0]
            await engine.append_records(stream, [Record(b"k", b"v")])
        async with Engine(**urls) as engine:
            assert values(await engine.read(stream, 0)) == [b"v"]

    run(story())
