"""Room for bytes: never more than the bound, in order, and nothing is lost when somebody goes away."""

import asyncio

import pytest

from runnel.world.room import Room


def test_no_more_is_taken_than_the_bound_and_turns_are_in_order(run):
    async def story():
        room, order, peak = Room(10), [], []

        async def stay(name, size):
            async with room.share(size):
                order.append(name)
                peak.append(room.taken)
                await asyncio.sleep(0)

        await asyncio.gather(*(stay(number, size) for number, size in enumerate((6, 6, 3, 1, 25, 2))))
        assert order == [0, 1, 2, 3, 4, 5]
        assert [taken for taken in peak if taken > 10] == [25]
        assert room.taken == 0

    run(story())


@pytest.mark.parametrize("when", ["waiting", "served"])
def test_who_goes_away_keeps_no_room(run, when):
    async def story():
        room = Room(10)
        stays = asyncio.Event()

        async def stay(size):
            async with room.share(size):
                await stays.wait()

        spawn = asyncio.get_running_loop().create_task
        first, leaver, last = spawn(stay(8)), spawn(stay(5)), spawn(stay(4))
        await asyncio.sleep(0)
        assert room.taken == 8
        if when == "served":
            first.cancel()
            await asyncio.wait([first])  # it is the leaver's turn now
        leaver.cancel()
        await asyncio.wait([leaver])
        stays.set()
        await asyncio.wait_for(last, 5)
        await asyncio.wait([first])
        assert room.taken == 0

    run(story())


def test_reads_wait_for_room(run):
    from runnel import Engine, EngineLimits, Record

    async def story():
        limits = EngineLimits(cache_bytes_max=0, loading_bytes_max=5000, ahead_bytes_max=0)
        async with Engine(shards=2, limits=limits) as engine:
            stream = (await engine.topics.create("orders")).streams[0]
            for _ in range(20):
                await engine.append_records(stream, [Record(None, bytes(1000))])
            peak = []
            inner = engine.objects.read_ranges

            async def read_ranges(name, ranges):
                peak.append(engine.reader.fetcher.loading.taken)
                await asyncio.sleep(0)
                return await inner(name, ranges)

            engine.objects.read_ranges = read_ranges
            reads = await asyncio.gather(*(engine.read(stream, number, bytes_max=2000) for number in range(20)))
            assert all(read.next > read.offset for read in reads)
            assert 2000 < max(peak) <= 5000

    run(story())
