"""Appends to several streams that happen together or not at all."""

import asyncio

from tests.engine.test_engine import Lake

from runnel import Record
from runnel.codec.records import build_batch, read_records
from runnel.ingest.ticket import Ticket
from runnel.metadata.producers import Verdict
from runnel.metadata.stream import Traits
from runnel.metadata.updates.commit import Guard

SEALED = build_batch([Record(None, b"x", timestamp=1)])


async def commit(engine, *appends):
    answers = asyncio.get_running_loop().create_future()
    ticket = Ticket(answers.set_result)
    for stream, guard in appends:
        ticket.add_guarded(stream, SEALED, 1, 1, guard=guard)
    engine.submit_together(ticket)
    return await asyncio.wait_for(answers, 30)


async def pair(engine):
    return await engine.open_stream(Traits("demo/key/a")), await engine.open_stream(Traits("demo/key/b"))


def test_all_or_none(run):
    async def story():
        async with Lake().engine() as engine:
            one, two = await pair(engine)
            answers = await commit(engine, (one, None), (two, Guard(next_offset=0)))
            assert [(answer.first, answer.verdict) for answer in answers] == [(0, Verdict.ACCEPTED)] * 2
            answers = await commit(engine, (one, None), (two, Guard(next_offset=0)))
            assert [answer.first for answer in answers] == [-1, -1]
            assert [answer.verdict for answer in answers] == [Verdict.OTHERS_REFUSED, Verdict.OFFSET_UNEXPECTED]
            answers = await commit(engine, (one, None), (one, None), (two, Guard(next_offset=0)))
            assert [answer.first for answer in answers] == [-1, -1, -1]
            assert await engine.bounds(one) == await engine.bounds(two) == (0, 1)
            read = await engine.read(one, 0)
            assert [record.value for record in read_records(read.data)] == [b"x"]

    run(story())


def test_many_at_once_keep_every_pair_of_streams_alike(run):
    async def story():
        lake = Lake()
        async with lake.engine() as here, lake.engine() as there:
            one, two = await pair(here)
            await there.catch_up(here.shard_of_stream_name("demo/key/a"))
            done = await asyncio.gather(
                *(commit(engine, (one, None), (two, None)) for engine in [here, there] * 20),
                *(here.append_records(one, [Record(None, b"alone")]) for _ in range(5)),
            )
            assert len(done) == 45
            assert await there.bounds(one) == (0, 45)
            assert await there.bounds(two) == (0, 40)

    run(story())


def test_closing_waits_for_them(run):
    async def story():
        lake = Lake()
        engine = lake.engine()
        await engine.open()
        one, two = await pair(engine)
        answers, _ = await asyncio.gather(commit(engine, (one, None), (two, None)), engine.close())
        assert [answer.first for answer in answers] == [0, 0]
        assert engine.ingest.inflight_bytes == 0

    run(story())
