"""What every ObjectStore promises; one suite for all of them."""

import asyncio

import pytest

from runnel.errors import AlreadyThere, NotThere, Refused

BIG = bytes(range(256)) * 4096 * 20  # 20 MiB


async def names_of(store, prefix, after=""):
    return [facts.name async for facts in store.list(prefix, after)]


def test_what_was_put_is_read_back_whole(store):
    async def story():
        await store.put_new("a/b/c.log", b"some bytes")
        assert bytes(await store.read("a/b/c.log")) == b"some bytes"

    asyncio.run(story())


def test_a_body_of_many_buffers_is_their_bytes_in_order(store):
    async def story():
        arena = bytearray(b"0123456789" * 1000)
        body = [memoryview(arena)[at : at + 7] for at in range(0, 9000, 7)]  # more than one system call can take
        expected = b"".join(body)
        await store.put_new("many", [b"head", *body, b"", bytearray(b"foot")])
        arena[:] = b"x" * len(arena)  # after put_new the buffers are the caller's again
        assert bytes(await store.read("many")) == b"head" + expected + b"foot"
        assert (await store.facts("many")).size == 8 + len(expected)

    asyncio.run(story())


@pytest.mark.parametrize("body", [b"", [], [b"", b""]], ids=["bytes", "no-buffers", "empty-buffers"])
def test_an_empty_object_is_an_object(store, body):
    async def story():
        await store.put_new("empty", body)
        assert bytes(await store.read("empty")) == b""
        assert bytes(await store.read("empty", 0, 0)) == b""
        assert (await store.facts("empty")).size == 0
        assert await names_of(store, "") == ["empty"]
        with pytest.raises(Refused):
            await store.read("empty", 0, 1)

    asyncio.run(story())


def test_a_big_object_is_whole(store):
    async def story():
        await store.put_new("big", BIG)
        assert bytes(await store.read("big")) == BIG
        assert bytes(await store.read("big", 10 * 1024 * 1024 + 3, 1000)) == BIG[10 * 1024 * 1024 + 3 :][:1000]

    asyncio.run(story())


def test_a_name_is_written_once(store):
    async def story():
        await store.put_new("once", b"first")
        with pytest.raises(AlreadyThere, match="once"):
            await store.put_new("once", b"second")
        assert bytes(await store.read("once")) == b"first"

    asyncio.run(story())


def test_eight_writers_race_for_one_name_and_exactly_one_wins_each_time(store):
    async def attempt(name, who):
        try:
            await store.put_new(name, b"writer %d " % who * 100)
        except AlreadyThere:
            return None
        return who

    async def race(round_):
        name = f"race/{round_:03}"
        answers = await asyncio.gather(*(attempt(name, who) for who in range(8)))
        winners = [who for who in answers if who is not None]
        assert len(winners) == 1, f"round {round_}: {winners}"
        assert bytes(await store.read(name)) == b"writer %d " % winners[0] * 100

    async def story():
        # Some races at once, because there are servers that let the losers of one wait for seconds.
        for first in range(0, 100, 25):
            await asyncio.gather(*(race(first + more) for more in range(25)))

    asyncio.run(story())


def test_a_range_is_exactly_what_was_asked_for(store):
    async def story():
        await store.put_new("digits", b"0123456789")
        assert bytes(await store.read("digits", 3)) == b"3456789"
        assert bytes(await store.read("digits", 3, 4)) == b"3456"
        assert bytes(await store.read("digits", 0, 10)) == b"0123456789"
        assert bytes(await store.read("digits", 9, 1)) == b"9"
        assert bytes(await store.read("digits", 4, 0)) == b""
        assert bytes(await store.read("digits", 10)) == b""
        assert bytes(await store.read("digits", 10, 0)) == b""

    asyncio.run(story())


@pytest.mark.parametrize(
    ("start", "length"), [(0, 11), (5, 6), (10, 1), (11, None), (11, 0), (99, 1), (-1, 2), (0, -1)]
)
def test_a_range_over_the_end_is_refused(store, start, length):
    async def story():
        await store.put_new("digits", b"0123456789")
        with pytest.raises(Refused, match="digits"):
            await store.read("digits", start, length)
        if length is not None:
            with pytest.raises(Refused, match="digits"):
                await store.read_ranges("digits", [(0, 2), (start, length)])

    asyncio.run(story())


def test_many_ranges_come_in_the_order_asked_for(store):
    async def story():
        await store.put_new("big", BIG)
        ranges = [(19_000_000, 10), (5, 5), (0, 12), (5, 5), (300, 0), (1000, 70_000), (9_000_000, 1_000_000)]
        found = await store.read_ranges("big", ranges)
        assert [bytes(part) for part in found] == [BIG[start : start + length] for start, length in ranges]
        assert await store.read_ranges("big", []) == []

    asyncio.run(story())


def test_what_is_not_there_says_so(store):
    async def story():
        for question in (
            store.read("missing"),
            store.read("missing", 0, 0),
            store.read("missing", 3, 4),
            store.read_ranges("missing", [(0, 4)]),
            store.facts("missing"),
            store.facts("missing/more"),
        ):
            with pytest.raises(NotThere, match="missing"):
                await question
        assert await names_of(store, "missing") == []

    asyncio.run(story())


def test_facts_tell_size_and_age(store):
    async def story():
        before = store_clock_ms()
        await store.put_new("aged", b"12345")
        facts = await store.facts("aged")
        assert (facts.name, facts.size) == ("aged", 5)
        # Stores count in whole seconds at worst, by a clock of their own.
        assert before - 2_000 <= facts.modified_ms <= store_clock_ms() + 2_000
        assert [one.size async for one in store.list("aged")] == [5]
        assert [abs(one.modified_ms - facts.modified_ms) < 1_000 async for one in store.list("aged")] == [True]

    asyncio.run(story())


def store_clock_ms():
    from runnel.world.clock import SystemClock

    return SystemClock().now_ms()


# In order of names as UTF-8 bytes: '-' and '.' come before '/', which comes before digits and letters.
NAMES = ["a-b", "a.txt", "a/b", "a/b-c/d", "a/b.c", "a/c", "a/c0", "a0", "aa/0", "aa/1", "b/-", "b/A=1/x", "b/_", "b/a"]


def test_a_list_is_in_order_of_names(store):
    async def story():
        for name in reversed(NAMES):
            await store.put_new(name, b"x")
        assert await names_of(store, "") == NAMES

    asyncio.run(story())


@pytest.mark.parametrize(
    "prefix",
    ["", "a", "a/", "a/b", "a/b-", "a/b-c/", "a/c", "a0", "aa", "aa/", "b/-", "b/A=", "b/_", "c", "a/b/", "b/."],
)
def test_a_list_keeps_to_its_prefix_and_begins_after(store, prefix):
    async def story():
        for name in NAMES:
            await store.put_new(name, b"x")
        matching = [name for name in NAMES if name.startswith(prefix)]
        assert await names_of(store, prefix) == matching
        for after in ["a", "a-b", "a/", "a/b", "a/b-c/d", "a/bb", "aa/0", "b", "b/_", "zzz"]:
            assert await names_of(store, prefix, after) == [name for name in matching if name > after], after

    asyncio.run(story())


def test_a_long_list_is_complete_and_can_be_resumed(store):
    async def story():
        names = [f"long/{at:05}" for at in range(1100)]
        for at in range(0, len(names), 50):
            await asyncio.gather(*(store.put_new(name, b"x") for name in names[at : at + 50]))
        assert await names_of(store, "long/") == names
        assert await names_of(store, "long/", names[499]) == names[500:]
        seen = []
        async for facts in store.list("long/"):
            seen.append(facts.name)
            if len(seen) == 3:
                break
        assert seen == names[:3]

    asyncio.run(story())


def test_objects_may_go_while_they_are_listed(store):
    async def story():
        names = [f"going/{at}" for at in range(10)]
        for name in names:
            await store.put_new(name, b"x")
        seen = []
        async for facts in store.list("going/"):
            await store.delete([facts.name])
            seen.append(facts.name)
        assert seen == names
        assert await names_of(store, "") == []

    asyncio.run(story())


def test_a_delete_forgives_what_is_not_there(store):
    async def story():
        await store.put_new("d/1", b"x")
        await store.put_new("d/2", b"x")
        await store.put_new("d/3", b"x")
        await store.delete(["d/1", "d/missing", "elsewhere/missing", "d/3", "d/3"])
        assert await names_of(store, "") == ["d/2"]
        await store.delete([])
        await store.delete(name for name in ["d/2", "d/2/none"])
        with pytest.raises(NotThere):
            await store.read("d/2")
        assert await names_of(store, "") == []

    asyncio.run(story())


def test_many_objects_are_deleted_at_once(store):
    async def story():
        names = [f"bulk/{at:04}" for at in range(120)]
        await asyncio.gather(*(store.put_new(name, b"x") for name in names))
        await store.delete(names[:-1])
        assert await names_of(store, "bulk/") == names[-1:]

    asyncio.run(story())


WRONG_NAMES = [
    "", "/", "/a", "a/", "a//b", ".", "..", "a/.", "a/../b", "../a", "a b", "a\\b", "é", "a\n", "a%2fb", "a:b", "a+b", "~a",
    "a\0", "\u0661", "x" * 513, "x" * 256, "a/" * 256 + "a",
]  # fmt: skip


@pytest.mark.parametrize("name", WRONG_NAMES, ids=range(len(WRONG_NAMES)))
def test_a_wrong_name_is_refused_before_anything_happens(store, name):
    async def story():
        for request in (
            store.put_new(name, b"x"),
            store.read(name),
            store.read_ranges(name, [(0, 1)]),
            store.facts(name),
            store.delete(["kept", name]),
        ):
            with pytest.raises(Refused) as caught:
                await request
            assert not isinstance(caught.value, NotThere)
        assert await names_of(store, "") == ["kept"]

    asyncio.run(store.put_new("kept", b"x"))
    asyncio.run(story())


@pytest.mark.parametrize(
    "name", ["x" * 255, "/".join(["y" * 127] * 4), "a", "...", "-", "a=b/_.-", "0/1/2/3/4/5/6/7/8/9"]
)
def test_an_unusual_name_within_the_rules_works(store, name):
    async def story():
        await store.put_new(name, b"x")
        assert bytes(await store.read(name)) == b"x"
        assert await names_of(store, "") == [name]
        assert await names_of(store, name[:-1]) == [name]
        await store.delete([name])
        assert await names_of(store, "") == []

    asyncio.run(story())


@pytest.mark.parametrize("prefix", ["/", "/a", "a//", "../", "a/../", "a b", "é", "x" * 513])
def test_a_wrong_prefix_is_refused(store, prefix):
    with pytest.raises(Refused):
        asyncio.run(names_of(store, prefix))


def test_requests_of_many_tasks_do_not_disturb_each_other(store):
    async def one(who):
        body = b"%d," % who * 3000
        await store.put_new(f"many/{who}", body)
        assert bytes(await store.read(f"many/{who}")) == body
        first, second = await store.read_ranges(f"many/{who}", [(0, 10), (len(body) - 10, 10)])
        assert (bytes(first), bytes(second)) == (body[:10], body[-10:])

    async def story():
        await asyncio.gather(*(one(who) for who in range(40)))
        assert len(await names_of(store, "many/")) == 40

    asyncio.run(story())
