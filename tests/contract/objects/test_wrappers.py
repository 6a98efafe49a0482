"""Stores around stores: faults from a seed, latency from a profile, counts; and the addresses that open them."""

import asyncio
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import AlreadyThere, Overloaded, Refused, RunnelError, Unavailable, Uncertain
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.address import parse_address
from runnel.world.objects.counting import CountingObjects
from runnel.world.objects.faulty import CALM, STORMY, FaultPlan, FaultyObjects
from runnel.world.objects.files import FileObjects
from runnel.world.objects.latency import PROFILES, Curve, SlowedObjects
from runnel.world.objects.memory import MemoryObjects
from runnel.world.objects.names import check_beginning, check_name
from runnel.world.objects.open import check_store, open_store
from runnel.world.objects.ranges import TOGETHER_BYTES_MAX, join_near
from runnel.world.simulation.loop import SimulatedLoop


def memory():
    return MemoryObjects(SystemClock())


def simulated(story):
    """Run on virtual time; a thread or a real wait would not get through."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(story)


async def trace_of(store):
    """What becomes of two hundred requests."""
    trace = []
    loop = asyncio.get_running_loop()

    async def noted(what, request):
        try:
            answer = await request
            trace.append((what, "ok", bytes(answer) if answer is not None else None, round(loop.time(), 6)))
        except RunnelError as error:
            trace.append((what, type(error).__name__, str(error), round(loop.time(), 6)))

    async def client(who):
        for at in range(10):
            name = f"{who}/{at}"
            await noted(f"put {name}", store.put_new(name, b"x" * 100))
            await noted(f"read {name}", store.read(name, 0, 50))
            await noted(f"delete {name}", store.delete([name]))

    await asyncio.gather(*(client(who) for who in range(8)))
    return trace


def test_the_same_seed_gives_the_same_faults_and_another_seed_gives_others():
    first, again, other = (
        simulated(trace_of(FaultyObjects(memory(), STORMY, Chance(seed)))) for seed in ("a", "a", "b")
    )
    assert first == again
    assert first != other
    assert {kind for _, kind, *_ in first} >= {"ok", "Unavailable", "Uncertain"}


@pytest.mark.parametrize(
    ("plan", "put", "is_there", "read"),
    [
        (CALM, None, True, None),
        (FaultPlan(fail_before=1), Unavailable, False, Unavailable),
        (FaultPlan(fail_after=1), Uncertain, True, Unavailable),
        (FaultPlan(truncate=1), None, True, Unavailable),
        (FaultPlan(slow_down=1), Overloaded, False, Overloaded),
        (FaultPlan(delay=1, delay_s=60), None, True, None),
    ],
)
def test_each_fault_does_what_it_says(plan, put, is_there, read):
    async def story():
        store = FaultyObjects(memory(), plan, Chance(1))
        await store.inner.put_new("other", b"0123456789")
        for request, kind in ((store.put_new("name", b"0123456789"), put), (store.read("other"), read)):
            if kind is None:
                await request
            else:
                with pytest.raises(kind) as caught:
                    await request
                assert type(caught.value) is kind
        assert [facts.name async for facts in store.inner.list("name")] == ["name"] * is_there
        store.on = False
        assert bytes(await store.read("other")) == b"0123456789"

    simulated(story())


def test_a_lost_answer_is_uncertain_and_sometimes_done():
    async def story():
        store = FaultyObjects(memory(), FaultPlan(lose_answer=1), Chance(1))
        for at in range(40):
            with pytest.raises(Uncertain):
                await store.put_new(f"{at}", b"x")
        assert asyncio.get_running_loop().time() >= 40 * 5.0
        assert 8 < len([facts async for facts in store.inner.list("")]) < 32

    simulated(story())


def test_a_list_that_breaks_off_says_so():
    async def story():
        store = FaultyObjects(memory(), FaultPlan(truncate=1), Chance(1))
        for at in range(200):
            await store.inner.put_new(f"{at:03}", b"x")
        seen = []

        async def read_all():
            async for facts in store.list(""):
                seen.append(facts.name)  # noqa: PERF401  # what was seen before the error counts

        with pytest.raises(Unavailable, match="broke off"):
            await read_all()
        assert len(seen) < 100

    simulated(story())


def test_a_cut_store_is_away_and_what_was_on_its_way_is_uncertain():
    async def story():
        store = FaultyObjects(memory(), FaultPlan(delay=1, delay_s=10), Chance(1))
        put = asyncio.gather(*(store.put_new(f"{at}", b"x") for at in range(30)), return_exceptions=True)
        await asyncio.sleep(6)
        store.cut()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await store.read("0")
        kinds = {type(answer) for answer in await put}
        assert kinds >= {Unavailable, Uncertain}, "some had not arrived, some were done and lost their answer"
        store.heal()
        await store.put_new("after", b"x")

    simulated(story())


def test_latency_follows_its_profile_and_its_seed():
    async def story(seed, profile):
        store = SlowedObjects(memory(), PROFILES[profile], Chance(seed))
        loop = asyncio.get_running_loop()
        took = []
        for at in range(400):
            began = loop.time()
            await store.put_new(f"{at}", b"x" * 900_000)
            took.append(loop.time() - began)
        return sorted(took)

    for profile in ("s3-standard", "s3-express"):
        curve, took = PROFILES[profile].put, simulated(story(1, profile))
        transfer = 900_000 / PROFILES[profile].put_bytes_per_s
        assert took == simulated(story(1, profile))
        assert took != simulated(story(2, profile))
        assert curve.middle_s * 0.8 < took[200] - transfer < curve.middle_s * 1.25
        assert curve.late_s * 0.5 < took[396] - transfer < curve.late_s * 2


def test_a_curve_has_its_middle_and_its_late_part():
    chance, curve = Chance(3), Curve(middle_s=0.1, late_s=0.5)
    drawn = sorted(curve.draw(chance) for _ in range(5000))
    assert 0.095 < drawn[2500] < 0.105
    assert 0.4 < drawn[4950] < 0.6


def test_requests_and_bytes_are_counted_by_kind():
    async def story():
        store = CountingObjects(memory())
        await store.put_new("a", [b"12", b"345"])
        with pytest.raises(AlreadyThere):
            await store.put_new("a", b"xyz")
        await store.read("a", 1, 3)
        await store.read_ranges("a", [(0, 1), (3, 2)])
        await store.facts("a")
        assert len([facts async for facts in store.list("")]) == 1
        await store.delete(["a", "b"])
        return store.counts.as_json()

    assert asyncio.run(story()) == {
        "put": {"requests": 2, "bytes": 5, "errors": 1},
        "get": {"requests": 2, "bytes": 8, "errors": 0},
        "head": {"requests": 1, "bytes": 0, "errors": 0},
        "list": {"requests": 1, "bytes": 0, "errors": 0},
        "delete": {"requests": 1, "bytes": 0, "errors": 0},
    }


def test_a_full_memory_store_is_overloaded_until_something_is_deleted():
    async def story():
        store = open_store("memory://?bytes_max=10", clock=SystemClock(), chance=Chance())
        await store.put_new("a", b"1234567")
        with pytest.raises(Overloaded, match="full"):
            await store.put_new("b", b"1234")
        await store.delete(["a"])
        await store.put_new("b", b"1234")

    asyncio.run(story())


@given(st.lists(st.tuples(st.integers(0, 1 << 25), st.integers(0, 1 << 20)), max_size=20))
def test_joined_ranges_cover_every_range_once(ranges):
    fetches = join_near(ranges)
    assert sorted(place for fetch in fetches for place in fetch.places) == list(range(len(ranges)))
    for fetch in fetches:
        assert fetch.length <= TOGETHER_BYTES_MAX
        for place in fetch.places:
            start, length = ranges[place]
            assert fetch.start <= start
            assert start + length <= fetch.start + fetch.length


@given(st.text(alphabet="ab./-=_A0", max_size=12), st.integers(0, 12))
def test_every_beginning_of_a_good_name_is_a_good_beginning(name, cut):
    try:
        check_name(name)
    except Refused:
        return
    check_beginning(name[:cut])


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "begins with none of"),
        ("ftp://host/x", "begins with none of memory://, file://, s3://"),
        ("/var/lib/runnel", "begins with none of"),
        ("s3://", "has no bucket"),
        ("s3:///x", "has no bucket"),
        ("s3://bucket?endpoin=http://x", "did you mean 'endpoint'"),
        ("s3://bucket?secret_access_key=hush", "environment"),
        ("s3://who:hush@bucket/x", "environment"),
        ("s3://bucket?endpoint=http://who:hush@host", "without a login"),
        ("s3://bucket?endpoint=localhost:9000", "http://host:port"),
        ("s3://bucket/a//b", "wrong at ''"),
        ("s3://bucket/../b", "wrong at '..'"),
        ("s3://bucket?anonymous=maybe", "neither true nor false"),
        ("s3://bucket?region=a&region=b", "given twice"),
        ("s3://bucket#x", "'#'"),
        ("file://", "needs a directory"),
        ("file://host/x", "names a host"),
        ("file:///tmp/x?region=a", "unknown option 'region'"),
        ("memory://x", "takes no path"),
        ("memory://?bytes_max=many", "not a number"),
        ("memory://?latency=s3", "there are none, s3-standard, s3-express"),
        ("az://container/x", "AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_a_wrong_address_is_refused_in_one_line_that_helps(url, words):
    with pytest.raises(Refused) as caught:
        open_store(url, clock=SystemClock(), chance=Chance(), environ={})
    line = str(caught.value)
    assert words in line
    assert "hush" not in line
    assert "\n" not in line


def test_an_address_opens_the_store_it_names(tmp_path):
    opened = SimpleNamespace(clock=SystemClock(), chance=Chance(1), environ={})
    store = open_store(f"file://{tmp_path}/my%20objects?latency=s3-express", **vars(opened))
    assert isinstance(store, SlowedObjects)
    assert isinstance(store.inner, FileObjects)
    assert (tmp_path / "my objects").is_dir()
    asyncio.run(check_store(store))
    asyncio.run(store.close())
    assert isinstance(open_store("memory://", **vars(opened)), MemoryObjects)
    assert parse_address("file:some/where").path == "some/where"


@pytest.mark.leaves("obstore keeps its runtime")
def test_clouds_open_without_being_asked_anything():
    given = {"AZURE_STORAGE_ACCOUNT_NAME": "us", "AZURE_STORAGE_ACCOUNT_KEY": "aHVzaA=="}
    for url, where in (
        ("az://container/x", "az://container/x at account us"),
        ("gs://bucket/x?anonymous=true", "gs://bucket/x"),
        ("s3://bucket/x?region=eu-west-1", "s3://bucket/x at S3 in eu-west-1"),
        ("s3://bucket--use1-az4--x-s3", "s3://bucket--use1-az4--x-s3 at S3 in us-east-1"),
    ):
        assert open_store(url, clock=SystemClock(), chance=Chance(), environ=given).where == where
