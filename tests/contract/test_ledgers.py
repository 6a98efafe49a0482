"""What every ledger promises, played against each of them. The promises stand in metadata/ledger/seam.py."""

import asyncio
import importlib.util
import itertools
import sys
from pathlib import Path

import pytest

from runnel.errors import Refused, Unavailable
from runnel.metadata.ledger import APPEND_ENTRIES_MAX, ENTRY_BYTES_MAX, READ_BYTES_MAX, Trimmed


def _beside(name: str):
    """A helper module that lies beside this file (importlib mode puts no test folder on the path)."""
    path = Path(__file__).with_name(f"{name}.py")
    if (known := sys.modules.get(f"ledger_contract_{name}")) is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"ledger_contract_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


places = _beside("ledger_places")
begin, cancelled = places.begin, places.cancelled

SHARD = 3
counter = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def postgres_server(request):
    """Started before the first test when any test of this module will want it, or None where it is not installed."""
    server_module = _beside("postgres_server")
    wanted = any("postgres" in item.name for item in request.session.items if item.path == Path(__file__))
    binaries = server_module.binaries()
    if not wanted or binaries is None:
        yield None
        return
    server = server_module.PostgresServer(binaries)
    yield server
    server.remove()


@pytest.fixture
def postgres(postgres_server):
    if postgres_server is None:
        pytest.skip("PostgreSQL is not installed (looked in /usr/lib/postgresql/*/bin and on the path)")
    return postgres_server


@pytest.fixture(params=["memory", "faulty", "sqlite", "postgres", "objects"])
def place(request, tmp_path):
    match request.param:
        case "memory":
            return places.MemoryPlace()
        case "faulty":
            return places.FaultyPlace()
        case "sqlite":
            return places.SqlitePlace(tmp_path)
        case "objects":
            return places.ObjectsPlace()
        case "postgres":
            return places.PostgresPlace(request.getfixturevalue("postgres"), f"s{next(counter)}")


def entry(*words) -> bytes:
    return " ".join(map(str, words)).encode()


async def follow(ledger, shard, count, after=0):
    """Everything up to `count` entries, as a follower reads: wait, read, go on; positions must be dense throughout."""
    seen = []
    while len(seen) < count:
        await ledger.wait(shard, after)
        for position, body in await ledger.read(shard, after):
            assert position == after + 1, f"position {position} came after {after}"
            after = position
            seen.append(body)
    return seen


def test_an_empty_ledger_has_tail_0_and_begins_at_1(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        assert await ledger.tail(SHARD) == 0
        assert await ledger.first(SHARD) == 1
        assert await ledger.read(SHARD, 0) == []
        assert await ledger.append([]) == []
        await ledger.trim(SHARD, 10)
        assert await ledger.tail(SHARD) == 0
        assert await ledger.append([(SHARD, b"one")]) == [1]

    place.run(story)


def test_positions_are_dense_from_1_and_entries_come_back_in_order(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        positions = [(await ledger.append([(SHARD, entry(n))]))[0] for n in range(1, 21)]
        assert positions == list(range(1, 21))
        assert await ledger.tail(SHARD) == 20
        assert await ledger.read(SHARD, 0) == [(n, entry(n)) for n in range(1, 21)]
        assert await ledger.read(SHARD, 15) == [(n, entry(n)) for n in range(16, 21)]
        assert await ledger.read(SHARD, 4, 3) == [(n, entry(n)) for n in (5, 6, 7)]
        assert await ledger.read(SHARD, 20) == []

    place.run(story)


def test_entries_of_one_call_are_adjacent_and_in_order_in_each_shard(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        await ledger.append([(2, b"before")])
        assert await ledger.append([(1, b"a"), (2, b"b"), (1, b"c"), (0, b""), (2, b"d")]) == [1, 2, 2, 1, 3]
        assert await ledger.read(1, 0) == [(1, b"a"), (2, b"c")]
        assert await ledger.read(2, 0) == [(1, b"before"), (2, b"b"), (3, b"d")]
        assert await ledger.read(0, 0) == [(1, b"")]

    place.run(story)


def test_what_one_client_appended_every_other_sees_at_once_and_after_reopening(place):
    async def story(open_ledger):
        one, other = await open_ledger(), await open_ledger()
        for n in range(1, 6):
            writer, reader = (one, other) if n % 2 else (other, one)
            assert await writer.append([(SHARD, entry(n))]) == [n]
            assert await reader.tail(SHARD) == n
            assert await reader.read(SHARD, n - 1) == [(n, entry(n))]
        await one.close()
        third = await open_ledger()
        assert [body for _, body in await third.read(SHARD, 0)] == [entry(n) for n in range(1, 6)]

    place.run(story)

    async def reopened(open_ledger):
        ledger = await open_ledger()
        assert await ledger.tail(SHARD) == 5
        assert await ledger.append([(SHARD, b"six")]) == [6]

    place.run(reopened)


def test_concurrent_appenders_leave_no_gap_and_nothing_arrives_late(place):
    """Three clients with four appenders each on two shards; a follower on another client sees each entry once, in order."""
    appenders, rounds = 12, 12

    async def story(open_ledger):
        clients = [await open_ledger() for _ in range(3)]
        watcher = await open_ledger()
        acknowledged = {1: {}, 2: {}}

        async def appender(name):
            ledger = clients[name % 3]
            for n in range(rounds):
                shards = (1, 2) if n % 3 == 0 else (1 + (name + n) % 2,)
                positions = await ledger.append([(shard, entry(name, n)) for shard in shards])
                for shard, position in zip(shards, positions, strict=True):
                    assert position not in acknowledged[shard], "one position given twice"
                    acknowledged[shard][position] = entry(name, n)

        total = {
            shard: sum(n % 3 == 0 or 1 + (name + n) % 2 == shard for name in range(appenders) for n in range(rounds))
            for shard in (1, 2)
        }
        async with asyncio.TaskGroup() as group:
            following = {shard: group.create_task(follow(watcher, shard, total[shard])) for shard in (1, 2)}
            for name in range(appenders):
                group.create_task(appender(name))
        for shard in (1, 2):
            seen = following[shard].result()
            assert dict(enumerate(seen, 1)) == acknowledged[shard]
            for name in range(appenders):
                mine = [int(body.split()[1]) for body in seen if body.split()[0] == b"%d" % name]
                assert mine == sorted(mine), f"appender {name}'s entries changed places"

    place.run(story)


def test_a_wait_ends_soon_after_another_client_appends(place):
    async def story(open_ledger):
        one, other = await open_ledger(), await open_ledger()
        for n in range(1, 4):
            waiting = begin(self_wait(other, SHARD, n - 1))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await one.append([(SHARD, entry(n))])
            async with asyncio.timeout(20):
                await waiting

    async def self_wait(ledger, shard, after):
        """`wait` may return early; this does not."""
        while await ledger.tail(shard) <= after:
            await ledger.wait(shard, after)

    place.run(story)


def test_a_wait_for_what_is_there_already_returns_at_once(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        await ledger.append([(SHARD, b"one"), (SHARD, b"two")])
        async with asyncio.timeout(10):
            await ledger.wait(SHARD, 0)
            await ledger.wait(SHARD, 1)

    place.run(story)


def test_a_wait_is_not_ended_by_other_shards_alone_for_ever(place):
    """Early returns are allowed; what counts is that waiting on a silent shard does not spin."""

    async def story(open_ledger):
        ledger = await open_ledger()
        returns = 0

        async def waiter():
            nonlocal returns
            while True:
                await ledger.wait(7, 0)
                returns += 1
                await asyncio.sleep(0)

        task = begin(waiter())
        for _ in range(20):
            await ledger.append([(8, b"noise")])
        await cancelled(task)
        assert returns <= 40

    place.run(story)


def test_cancelled_waits_leave_nothing_behind(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        inner = getattr(ledger, "inner", ledger)
        waits = [begin(ledger.wait(shard, 0)) for shard in range(5) for _ in range(4)]
        await asyncio.sleep(0.05)
        for task in waits:
            await cancelled(task)
        assert len(inner._waiters) == 0
        assert await ledger.append([(1, b"still works")]) == [1]

    place.run(story)


def test_a_cancelled_append_happened_once_or_not_at_all_and_harms_nobody(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        tasks = [begin(ledger.append([(SHARD, entry(n))])) for n in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        await ledger.append([(SHARD, b"last")])
        bodies = [body for _, body in await ledger.read(SHARD, 0)]
        assert len(bodies) == len(set(bodies))
        for n, outcome in enumerate(done):
            if not isinstance(outcome, BaseException):
                assert bodies[outcome[0] - 1] == entry(n)
        assert bodies[-1] == b"last"

    place.run(story)


def test_trimmed_entries_are_gone_for_everyone_and_the_tail_stays(place):
    async def story(open_ledger):
        ledger, other = await open_ledger(), await open_ledger()
        for n in range(1, 11):
            await ledger.append([(SHARD, entry(n))])
        await ledger.trim(SHARD, 4)
        for reader in (ledger, other):
            assert await reader.first(SHARD) == 5
            assert await reader.tail(SHARD) == 10
            with pytest.raises(Trimmed) as caught:
                await reader.read(SHARD, 3)
            assert (caught.value.shard, caught.value.first) == (SHARD, 5)
            assert [position for position, _ in await reader.read(SHARD, 4)] == [5, 6, 7, 8, 9, 10]
        await ledger.trim(SHARD, 4)
        await other.trim(SHARD, 2)
        assert await ledger.first(SHARD) == 5

    place.run(story)


def test_the_tail_stays_when_everything_is_trimmed_and_counting_goes_on(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        await ledger.append([(SHARD, entry(n)) for n in range(1, 8)])
        await ledger.trim(SHARD, 1000)
        assert await ledger.tail(SHARD) == 7
        assert await ledger.first(SHARD) == 8
        assert await ledger.read(SHARD, 7) == []
        with pytest.raises(Trimmed):
            await ledger.read(SHARD, 0)

    place.run(story)

    async def reopened(open_ledger):
        ledger = await open_ledger()
        assert await ledger.tail(SHARD) == 7
        assert await ledger.first(SHARD) == 8
        assert await ledger.append([(SHARD, b"eight")]) == [8]
        assert await ledger.read(SHARD, 7) == [(8, b"eight")]
        assert await ledger.first(SHARD) == 8
        await ledger.trim(SHARD, 8)
        assert (await ledger.tail(SHARD), await ledger.first(SHARD)) == (8, 9)

    place.run(reopened)


def test_trimming_while_others_append_and_read_harms_neither(place):
    async def story(open_ledger):
        writer, trimmer, reader = await open_ledger(), await open_ledger(), await open_ledger()
        written = 0

        async def write():
            nonlocal written
            for n in range(1, 41):
                assert await writer.append([(SHARD, entry(n))]) == [n]
                written = n
                await asyncio.sleep(0.001)

        async def trim():
            while written < 40:
                await trimmer.trim(SHARD, max(0, written - 3))
                await asyncio.sleep(0.002)

        async def read():
            after = 0
            while after < 40:
                try:
                    for position, body in await reader.read(SHARD, after):
                        assert (position, body) == (after + 1, entry(position))
                        after = position
                except Trimmed as error:
                    after = max(after + 1, error.first - 1)
                await asyncio.sleep(0.001)

        await asyncio.gather(write(), trim(), read())

    place.run(story)


def test_the_largest_entry_is_taken_and_a_larger_one_refused_whole(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        largest = b"\x5a" * ENTRY_BYTES_MAX
        with pytest.raises(Refused, match="over the largest size"):
            await ledger.append([(SHARD, b"fine"), (SHARD, largest + b"!")])
        assert await ledger.tail(SHARD) == 0
        assert await ledger.append([(SHARD, largest)]) == [1]
        ((position, body),) = await ledger.read(SHARD, 0)
        assert position == 1
        assert body == largest

    place.run(story)


def test_too_many_entries_in_one_call_are_refused(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        with pytest.raises(Refused, match="over the largest number"):
            await ledger.append([(SHARD, b"")] * (APPEND_ENTRIES_MAX + 1))
        most = await ledger.append([(SHARD, entry(n)) for n in range(APPEND_ENTRIES_MAX)])
        assert most == list(range(1, APPEND_ENTRIES_MAX + 1))
        assert await ledger.read(SHARD, 500, 3) == [(n, entry(n - 1)) for n in (501, 502, 503)]

    place.run(story)


def test_an_answer_stops_growing_at_its_largest_size(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        part = READ_BYTES_MAX // 5
        for n in range(7):
            await ledger.append([(SHARD, bytes([n]) * part)])
        answer = await ledger.read(SHARD, 0)
        assert [position for position, _ in answer] == [1, 2, 3, 4, 5]
        assert [position for position, _ in await ledger.read(SHARD, 5)] == [6, 7]

    place.run(story)


def test_a_shard_that_cannot_be_is_refused(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        for shard in (-1, 100_000):
            with pytest.raises(Refused, match=f"shard {shard}"):
                await ledger.append([(shard, b"x")])
            with pytest.raises(Refused):
                await ledger.tail(shard)

    place.run(story)


def test_shards_at_both_ends_do_not_meet(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        await ledger.append([(0, b"root"), (99_999, b"last"), (99_998, b"neighbour")])
        for shard, body in ((0, b"root"), (99_999, b"last"), (99_998, b"neighbour")):
            assert await ledger.read(shard, 0) == [(1, body)]

    place.run(story)


def test_closing_ends_pending_waits_and_refuses_everything_after(place):
    async def story(open_ledger):
        ledger = await open_ledger()
        waits = [begin(ledger.wait(shard, 0)) for shard in (1, 2)]
        await asyncio.sleep(0.05)
        await ledger.close()
        for outcome in await asyncio.gather(*waits, return_exceptions=True):
            assert outcome is None or isinstance(outcome, Unavailable)
        for call in (
            ledger.append([(1, b"x")]),
            ledger.read(1, 0),
            ledger.wait(1, 0),
            ledger.tail(1),
            ledger.first(1),
            ledger.trim(1, 1),
        ):
            with pytest.raises(Unavailable):
                await call
        await ledger.close()

    place.run(story)


def test_several_shards_in_one_call_appear_together_where_the_ledger_says_so(place):
    """A watcher that reads the shards in the reverse order of their positions never sees the first without the others."""

    async def story(open_ledger):
        ledger, watcher = await open_ledger(), await open_ledger()
        if not ledger.atomic:
            pytest.skip("this ledger does not promise it")
        done = False

        async def watch():
            while not done:
                first = await watcher.tail(1)
                assert await watcher.tail(2) >= first
                assert await watcher.tail(3) >= first
                await asyncio.sleep(0)

        async def write():
            nonlocal done
            for n in range(30):
                await ledger.append([(1, entry(n)), (2, entry(n)), (3, entry(n))])
            done = True

        await asyncio.gather(watch(), write())

    place.run(story)


# What is special to the SQLite file


def _sqlite(path, tasks, name="one"):
    from runnel.metadata.ledger.sqlite import SqliteLedger
    from runnel.world.chance import Chance

    return SqliteLedger.open(path, chance=Chance(name), tasks=tasks)


def _quiet_tasks():
    from runnel.world.tasks import Tasks

    return Tasks(lambda name, error: pytest.fail(f"{name} died: {error}"))


APPENDER = """
import asyncio, sys
from pathlib import Path
from runnel.metadata.ledger.sqlite import SqliteLedger
from runnel.world.chance import Chance
from runnel.world.tasks import Tasks

async def main(path, name, count):
    tasks = Tasks(lambda *death: print("died", death, flush=True))
    ledger = await SqliteLedger.open(Path(path), chance=Chance(), tasks=tasks)
    for n in range(count):
        first, second = await ledger.append([(1, b"%d %d" % (name, n)), (1, b"%d %d+" % (name, n))])
        assert second == first + 1
        print(first, name, n, flush=True)
    await ledger.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


async def _spawn_appender(path, name, count):
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", APPENDER, str(path), str(name), str(count), stdout=asyncio.subprocess.PIPE
    )


def test_sqlite_processes_append_side_by_side_and_wake_a_follower_without_polling(tmp_path, monkeypatch):
    from runnel.metadata.ledger import sqlite

    monkeypatch.setattr(sqlite, "POLL_S", 3600.0)
    path = tmp_path / "ledger.sqlite"

    async def story():
        tasks = _quiet_tasks()
        ledger = await _sqlite(path, tasks)
        writers = [await _spawn_appender(path, name, 30) for name in range(3)]
        seen = await follow(ledger, 1, 180)
        for writer in writers:
            await writer.communicate()
            assert writer.returncode == 0
        for name in range(3):
            mine = [body.decode() for body in seen if body.startswith(b"%d " % name)]
            assert mine == [f"{name} {n}{plus}" for n in range(30) for plus in ("", "+")]
        await ledger.close()
        await tasks.close()

    asyncio.run(story())
    assert list((tmp_path / "ledger.sqlite-bells").iterdir()) == []


def test_sqlite_keeps_every_acknowledged_entry_through_kill_9(tmp_path):
    path = tmp_path / "ledger.sqlite"

    async def story():
        tasks = _quiet_tasks()
        acknowledged = {}
        for round_number in range(4):
            writers = [await _spawn_appender(path, 10 * round_number + name, 100_000) for name in range(2)]
            for writer in writers:
                for _ in range(15 + 7 * round_number):
                    position, name, n = map(int, (await writer.stdout.readline()).split())
                    acknowledged[position] = b"%d %d" % (name, n)
            for writer in writers:
                writer.kill()
            for writer in writers:
                rest, _ = await writer.communicate()
                for line in rest.splitlines(keepends=True):
                    if line.endswith(b"\n"):
                        position, name, n = map(int, line.split())
                        acknowledged[position] = b"%d %d" % (name, n)
            ledger = await _sqlite(path, tasks, str(round_number))
            after, found = 0, {}
            while batch := await ledger.read(1, after):
                assert [position for position, _ in batch] == list(range(after + 1, after + 1 + len(batch)))
                found.update(batch)
                after = batch[-1][0]
            assert await ledger.tail(1) == after
            for position, body in acknowledged.items():
                assert found[position] == body
                assert found[position + 1] == body + b"+", "half of a call was kept"
            await ledger.append([(2, b"rings the bells of the dead")])
            await ledger.append([(2, b"twice")])
            await ledger.close()
        await tasks.close()
        assert list((tmp_path / "ledger.sqlite-bells").iterdir()) == [], "dead processes' bells are swept away"

    asyncio.run(story())


def test_sqlite_many_processes_may_create_the_file_at_once(tmp_path):
    path = tmp_path / "new" / "deep" / "ledger.sqlite"

    async def story():
        writers = [await _spawn_appender(path, name, 2) for name in range(6)]
        for writer in writers:
            await writer.communicate()
            assert writer.returncode == 0

    asyncio.run(story())


def _open_fails(path, error, match):
    async def story():
        tasks = _quiet_tasks()
        with pytest.raises(error, match=match):
            await (await _sqlite(path, tasks)).close()
        await tasks.close()

    asyncio.run(story())


def test_sqlite_refuses_a_file_that_is_no_database(tmp_path):
    from runnel.errors import Corrupt

    path = tmp_path / "ledger.sqlite"
    path.write_bytes(b"this was never a database" * 400)
    _open_fails(path, Corrupt, f"{path} is damaged .*keep a copy")


def test_sqlite_refuses_somebody_elses_database_and_leaves_it_alone(tmp_path):
    import sqlite3
    from contextlib import closing

    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE recipes (soup TEXT)")
    _open_fails(path, Refused, "database of something else")
    with closing(sqlite3.connect(path)) as other:
        assert [row[0] for row in other.execute("SELECT name FROM sqlite_schema")] == ["recipes"]


def test_sqlite_refuses_a_file_of_a_newer_version(tmp_path):
    import sqlite3
    from contextlib import closing

    path = tmp_path / "ledger.sqlite"

    async def create():
        tasks = _quiet_tasks()
        await (await _sqlite(path, tasks)).close()
        await tasks.close()

    asyncio.run(create())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE version SET version = 9")
    _open_fails(path, Refused, "version 9, .*upgrade runnel")


def test_sqlite_refuses_a_place_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    _open_fails(tmp_path / "file" / "ledger.sqlite", Refused, "cannot be opened")
    (tmp_path / "directory").mkdir()
    _open_fails(tmp_path / "directory", Refused, "cannot be opened")


def test_sqlite_names_the_entry_whose_bytes_have_changed(tmp_path):
    import sqlite3
    from contextlib import closing

    from runnel.errors import Corrupt

    path = tmp_path / "ledger.sqlite"

    async def story(open_ledger):
        ledger = await open_ledger()
        await ledger.append([(SHARD, b"one"), (SHARD, b"two"), (SHARD, b"three")])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE entries SET entry = ? WHERE entry = ?", (b"twp", b"two"))
        with pytest.raises(Corrupt, match=f"entry 2 of shard {SHARD} in {path}"):
            await ledger.read(SHARD, 0)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM entries WHERE entry = ?", (b"twp",))
        with pytest.raises(Corrupt, match="position 3 where 2 belongs"):
            await ledger.read(SHARD, 0)

    places.SqlitePlace(tmp_path).run(story)


def test_sqlite_says_unavailable_when_the_disk_is_full_and_goes_on_when_it_is_not(tmp_path):
    async def story(open_ledger):
        ledger = await open_ledger()
        await ledger.append([(SHARD, b"x" * 1000)])
        pages = ledger._writer.execute("PRAGMA page_count").fetchone()[0]
        ledger._writer.execute(f"PRAGMA max_page_count={pages}")  # SQLite answers as it does when a write finds no room
        with pytest.raises(Unavailable, match="disk is full"):
            await ledger.append([(SHARD, b"y" * 100_000)])
        assert await ledger.tail(SHARD) == 1
        ledger._writer.execute("PRAGMA max_page_count=1000000")
        assert await ledger.append([(SHARD, b"y" * 100_000)]) == [2]

    places.SqlitePlace(tmp_path).run(story)


def test_sqlite_says_unavailable_when_another_process_keeps_the_lock(tmp_path):
    import sqlite3
    from contextlib import closing

    path = tmp_path / "ledger.sqlite"

    async def story(open_ledger):
        ledger = await open_ledger()
        ledger._writer.execute("PRAGMA busy_timeout=50")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unavailable, match="locked by another process"):
                await ledger.append([(SHARD, b"x")])
            assert await ledger.tail(SHARD) == 0, "reading goes on meanwhile"
            other.execute("ROLLBACK")
        assert await ledger.append([(SHARD, b"x")]) == [1]

    places.SqlitePlace(tmp_path).run(story)


def test_sqlite_without_bells_still_wakes_by_looking(tmp_path, monkeypatch):
    from runnel.metadata.ledger import bell

    def no_sockets():
        raise OSError("no such thing here")

    monkeypatch.setattr(bell.Bell, "_socket", staticmethod(no_sockets))

    async def story(open_ledger):
        one, other = await open_ledger(), await open_ledger()
        assert not other._bell.can_hear
        following = begin(follow(other, SHARD, 3))
        for n in range(3):
            await asyncio.sleep(0.03)
            await one.append([(SHARD, entry(n))])
        assert await following == [entry(n) for n in range(3)]

    places.SqlitePlace(tmp_path).run(story)


def test_a_bell_works_in_a_directory_whose_path_is_too_long_for_a_socket(tmp_path, monkeypatch):
    from runnel.metadata.ledger import sqlite

    monkeypatch.setattr(sqlite, "POLL_S", 3600.0)
    deep = tmp_path.joinpath(*["a-directory-with-a-long-name"] * 5)
    deep.mkdir(parents=True)

    async def story(open_ledger):
        one, other = await open_ledger(), await open_ledger()
        assert one._bell.can_hear
        following = begin(follow(other, SHARD, 3))
        for n in range(3):
            await asyncio.sleep(0.02)
            await one.append([(SHARD, entry(n))])
        assert await following == [entry(n) for n in range(3)]

    places.SqlitePlace(deep).run(story)


# What is special to the faulty twin


def test_the_faulty_ledger_inflicts_what_it_says_and_the_truth_stays_dense():
    from runnel.errors import Uncertain
    from runnel.metadata.ledger.faulty import FaultyLedger, LedgerFaults
    from runnel.metadata.ledger.memory import MemoryLedger
    from runnel.world.chance import Chance

    async def story():
        inner = MemoryLedger()
        faults = LedgerFaults(fail_share=0.2, lost_answer_share=0.2, lost_request_share=0.2)
        ledger = FaultyLedger(inner, Chance("faults"), faults)
        surely, perhaps, never = [], [], []
        for n in range(200):
            try:
                await ledger.append([(SHARD, entry(n))])
                surely.append(entry(n))
            except Unavailable:
                never.append(entry(n))
            except Uncertain:
                perhaps.append(entry(n))
        there = [body for _, body in await inner.read(SHARD, 0)]
        assert set(surely) <= set(there)
        assert not set(never) & set(there)
        assert 0 < len(set(perhaps) & set(there)) < len(perhaps), "a lost answer and a lost request look alike"
        assert ledger.met["lost_answer"] == len(set(perhaps) & set(there))
        assert len(never) == ledger.met["fail"] > 0

    asyncio.run(story())


def test_the_faulty_ledger_does_the_same_again_from_the_same_seed():
    from runnel.errors import RunnelError
    from runnel.metadata.ledger.faulty import FaultyLedger, LedgerFaults
    from runnel.metadata.ledger.memory import MemoryLedger
    from runnel.world.chance import Chance

    async def outcomes(seed):
        faults = LedgerFaults(fail_share=0.3, lost_answer_share=0.3, lost_request_share=0.1)
        ledger = FaultyLedger(MemoryLedger(), Chance(seed), faults)
        told = []
        for n in range(50):
            try:
                told.append(await ledger.append([(SHARD, entry(n))]))
            except RunnelError as error:
                told.append(type(error).__name__)
        return told

    assert asyncio.run(outcomes("a")) == asyncio.run(outcomes("a")) != asyncio.run(outcomes("b"))


def test_a_ledger_that_is_away_does_nothing_until_it_is_back():
    from runnel.errors import Uncertain
    from runnel.metadata.ledger.faulty import FaultyLedger, LedgerFaults
    from runnel.metadata.ledger.memory import MemoryLedger
    from runnel.world.chance import Chance

    async def story():
        ledger = FaultyLedger(MemoryLedger(), Chance("away"), LedgerFaults(delay_ms_max=5))
        under_way = begin(ledger.append([(SHARD, b"one")]))
        await ledger.inner.wait(SHARD, 0)
        ledger.away = True
        with pytest.raises(Uncertain):
            await under_way
        for call in (
            ledger.append([(SHARD, b"two")]),
            ledger.read(SHARD, 0),
            ledger.tail(SHARD),
            ledger.wait(SHARD, 0),
        ):
            with pytest.raises(Unavailable, match="away"):
                await call
        ledger.away = False
        assert await ledger.read(SHARD, 0) == [(1, b"one")]

    asyncio.run(story())


# What is special to PostgreSQL


def _postgres(url, tasks, name="one"):
    from runnel.metadata.ledger.postgres import PostgresLedger
    from runnel.world.chance import Chance
    from runnel.world.clock import SystemClock

    return PostgresLedger.open(url, clock=SystemClock(), chance=Chance(name), tasks=tasks)


def test_postgres_notifications_alone_wake_a_follower(postgres, monkeypatch):
    from runnel.metadata.ledger import postgres as module

    monkeypatch.setattr(module, "POLL_S", 3600.0)
    test_a_wait_ends_soon_after_another_client_appends(places.PostgresPlace(postgres, "notified"))


def test_postgres_looking_alone_wakes_a_follower_whose_notifications_are_lost(postgres, monkeypatch):
    from runnel.metadata.ledger import postgres as module

    monkeypatch.setattr(module, "POLL_S", 0.05)
    monkeypatch.setattr(module.PostgresLedger, "_hear", lambda *_: None)
    test_a_wait_ends_soon_after_another_client_appends(places.PostgresPlace(postgres, "looking"))


def test_postgres_a_connection_lost_during_an_append_is_uncertain_and_the_next_append_works(postgres):
    import asyncpg

    from runnel.errors import Uncertain

    async def story(open_ledger):
        ledger = await open_ledger()
        await ledger.append([(SHARD, b"one")])
        other = await asyncpg.connect(postgres.url())
        locking = other.transaction()
        await locking.start()
        await other.execute("SELECT * FROM lost.t_shards FOR UPDATE")
        under_way = begin(ledger.append([(SHARD, b"two")]))
        seeker = await asyncpg.connect(postgres.url())
        try:
            while not (  # noqa: ASYNC110 -- another process is watched
                victims := await seeker.fetch(
                    "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO%lost%'"
                )
            ):
                await asyncio.sleep(0.02)
            await seeker.execute("SELECT pg_terminate_backend($1)", victims[0]["pid"])
            with pytest.raises(Uncertain):
                await under_way
            await locking.rollback()
            assert await ledger.append([(SHARD, b"three")]) == [2]
            assert [body for _, body in await ledger.read(SHARD, 0)] == [b"one", b"three"]
        finally:
            await seeker.close()
            await other.close()

    places.PostgresPlace(postgres, "lost").run(story)


@pytest.mark.leaves("the server of this module is started anew")
def test_postgres_comes_back_after_the_server_was_away(postgres):
    from runnel.errors import Uncertain

    async def story(open_ledger):
        ledger, watcher = await open_ledger(), await open_ledger()
        await ledger.append([(SHARD, b"one")])
        following = begin(patient_follow(watcher))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(postgres.stop)
        for call in (ledger.append([(SHARD, b"lost")]), ledger.tail(SHARD), ledger.read(SHARD, 0)):
            with pytest.raises((Unavailable, Uncertain)):
                await call
        with pytest.raises(Unavailable) as caught:
            await ledger.append([(SHARD, b"lost")])
        assert "open-sesame" not in str(caught.value)
        assert "\n" not in str(caught.value)
        await asyncio.to_thread(postgres.start)
        while True:
            try:
                await ledger.append([(SHARD, b"two")])
                break
            except Unavailable:
                await asyncio.sleep(0.05)
        assert await following == [b"one", b"two"]

    async def patient_follow(watcher):
        seen = []
        while len(seen) < 2:
            try:
                await watcher.wait(SHARD, len(seen))
                seen += [body for _, body in await watcher.read(SHARD, len(seen))]
            except Unavailable:
                await asyncio.sleep(0.05)
        return seen

    places.PostgresPlace(postgres, "away").run(story)


@pytest.mark.leaves("the server of this module is started anew")
def test_postgres_keeps_what_was_acknowledged_when_the_server_crashes(postgres):
    """The tests' server does not sync, but its processes alone die here: what it wrote is with the kernel."""
    import signal

    from runnel.errors import Uncertain

    async def story(open_ledger):
        ledger = await open_ledger()
        acknowledged = {}

        async def appender(name):
            for n in range(10_000):
                try:
                    (position,) = await ledger.append([(SHARD, entry(name, n))])
                except (Unavailable, Uncertain):
                    return
                acknowledged[position] = entry(name, n)

        appenders = [begin(appender(name)) for name in range(4)]
        while len(acknowledged) < 50:  # noqa: ASYNC110 -- any moment in between will do
            await asyncio.sleep(0.01)
        await asyncio.to_thread(postgres.stop, signal.SIGQUIT)
        await asyncio.gather(*appenders)
        await asyncio.to_thread(postgres.start)
        after, found = 0, {}
        while True:
            try:
                if not (batch := await ledger.read(SHARD, after)):
                    break
            except Unavailable:
                await asyncio.sleep(0.05)
                continue
            found.update(batch)
            after = batch[-1][0]
        assert list(found) == list(range(1, len(found) + 1))
        assert acknowledged.items() <= found.items()

    places.PostgresPlace(postgres, "crash").run(story)


def _postgres_refuses(url, error, match):
    async def story():
        tasks = _quiet_tasks()
        with pytest.raises(error, match=match) as caught:
            await _postgres(url, tasks)
        await tasks.close()
        return str(caught.value)

    message = asyncio.run(story())
    assert "sesame" not in message
    assert "\n" not in message


def test_postgres_refuses_a_wrong_password_without_saying_it(postgres):
    _postgres_refuses(postgres.url(password="wrong-sesame"), Refused, r"at 127.0.0.1:\d+/postgres refuses this user")


def test_postgres_refuses_a_database_that_is_not_there(postgres):
    _postgres_refuses(postgres.url(database="nowhere"), Refused, "no such database: create it")


def test_postgres_names_the_address_that_cannot_be_reached(free_port):
    url = f"postgresql://runnel:sesame@127.0.0.1:{free_port}/db"
    _postgres_refuses(url, Unavailable, f"127.0.0.1:{free_port}/db cannot be reached")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:sesame@host:port/db",
        "postgresql://u:sesame@h/db?schema=Robert'); DROP",
        "postgresql://u:sesame@h/db?nonsense",
        "postgresql://u:sesame@127.0.0.1:1/db?sslmode=sesame",
    ],
)
def test_postgres_refuses_a_url_that_it_cannot_understand(url):
    _postgres_refuses(url, Refused, "ledger URL")


def test_postgres_refuses_tables_of_a_newer_program(postgres):
    import asyncpg

    async def story(open_ledger):
        await open_ledger()
        connection = await asyncpg.connect(postgres.url())
        await connection.execute("INSERT INTO newer.t_migrations (step) VALUES (9)")
        await connection.close()
        with pytest.raises(Refused, match=r"taken migration 9, .*upgrade runnel"):
            await open_ledger()

    places.PostgresPlace(postgres, "newer").run(story)


def test_postgres_clients_that_start_at_once_take_turns_at_creating_the_tables(postgres):
    async def story(open_ledger):
        clients = await asyncio.gather(*(open_ledger() for _ in range(8)))
        for n, client in enumerate(clients, 1):
            assert await client.append([(SHARD, b"x")]) == [n]

    places.PostgresPlace(postgres, "turns").run(story)


def test_postgres_names_the_entry_whose_bytes_have_changed(postgres):
    import asyncpg

    from runnel.errors import Corrupt

    async def story(open_ledger):
        ledger = await open_ledger()
        await ledger.append([(SHARD, b"one"), (SHARD, b"two")])
        connection = await asyncpg.connect(postgres.url())
        await connection.execute("UPDATE flipped.t_entries SET entry = 'twp' WHERE position = 2")
        await connection.close()
        with pytest.raises(Corrupt, match=f"entry 2 of shard {SHARD}"):
            await ledger.read(SHARD, 0)

    places.PostgresPlace(postgres, "flipped").run(story)


# What is special to the bucket


def test_objects_a_lost_answer_is_resolved_and_each_entry_is_there_once():
    from runnel.world.objects.faulty import FaultPlan

    plan = FaultPlan(fail_after=0.2, lose_answer=0.2, patience_s=0.001, delay=0.3, delay_s=0.003)
    place = places.ObjectsPlace(plan)

    async def story(open_ledger):
        from runnel.errors import Uncertain

        clients = [await open_ledger() for _ in range(3)]
        surely, perhaps = {}, set()

        async def appender(name):
            for n in range(25):
                try:
                    (position,) = await clients[name % 3].append([(SHARD, entry(name, n))])
                except Unavailable:
                    continue
                except Uncertain:
                    perhaps.add(entry(name, n))
                    continue
                assert position not in surely
                surely[position] = entry(name, n)

        await asyncio.gather(*(appender(name) for name in range(6)))
        return surely, perhaps

    surely, perhaps = place.run(story)
    assert len(surely) > 50
    place.plan = None

    async def check(open_ledger):
        ledger = await open_ledger()
        bodies = [body for _, body in await ledger.read(SHARD, 0)]
        assert len(bodies) == len(set(bodies)), "an entry went in twice"
        assert {position: bodies[position - 1] for position in surely} == surely
        assert set(bodies) - set(surely.values()) <= perhaps

    place.run(check)


def test_objects_a_writer_that_slept_through_a_trim_gets_no_false_answer_and_readers_see_nothing_of_it(monkeypatch):
    from runnel.errors import Uncertain
    from runnel.metadata.ledger import objects as module

    monkeypatch.setattr(module, "TAIL_TRUSTED_S", 3600.0)

    async def story(open_ledger):
        sleeper, other = await open_ledger(), await open_ledger()
        await sleeper.append([(SHARD, b"one")])
        for n in range(2, 11):
            await other.append([(SHARD, entry(n))])
        await other.trim(SHARD, 8)
        with pytest.raises(Uncertain, match="came late"):
            await sleeper.append([(SHARD, b"late")])
        with pytest.raises(Trimmed):
            await other.read(SHARD, 1)
        assert await other.read(SHARD, 8) == [(9, entry(9)), (10, entry(10))]
        assert await other.tail(SHARD) == 10
        assert await sleeper.append([(SHARD, b"awake")]) == [11]
        await other.trim(SHARD, 10)
        fresh = await open_ledger()
        assert (await fresh.first(SHARD), await fresh.tail(SHARD)) == (11, 11)
        assert await fresh.read(SHARD, 10) == [(11, b"awake")]

    place = places.ObjectsPlace()
    place.run(story)
    assert [name for name in place.store._names if "trimmed" not in name] == ["ledger/00003/00000000000000000011"]
    assert len(place.store._names) == 2


def test_objects_the_tail_is_found_from_cold_with_few_requests(monkeypatch):
    from runnel.metadata.ledger import objects as module

    monkeypatch.setattr(module, "PAGE", 4)
    place = places.ObjectsPlace()

    async def fill(open_ledger):
        ledger = await open_ledger()
        for n in range(300):
            await ledger.append([(SHARD, entry(n))] * (1 + n % 5))

    async def look(open_ledger):
        ledger = await open_ledger()
        listings = 0
        page = ledger._page

        async def counted(*args):
            nonlocal listings
            listings += 1
            return await page(*args)

        ledger._page = counted
        assert await ledger.tail(SHARD) == 900
        assert listings < 40, "far fewer than the 75 pages there are"
        listings = 0
        assert await ledger.tail(SHARD) == 900
        assert listings == 1

    place.run(fill)
    place.run(look)


def test_objects_names_the_pack_whose_bytes_have_changed_or_that_is_gone():
    from runnel.errors import Corrupt
    from runnel.metadata.ledger.packs import pack_name

    place = places.ObjectsPlace()

    async def story(open_ledger):
        ledger = await open_ledger()
        for n in range(3):
            await ledger.append([(SHARD, entry(n))])
        name = pack_name(SHARD, 2)
        whole = bytes(await place.store.read(name))
        for flipped in range(len(whole)):
            await place.store.delete([name])
            await place.store.put_new(name, whole[:flipped] + bytes([whole[flipped] ^ 1]) + whole[flipped + 1 :])
            with pytest.raises(Corrupt, match=name):
                await ledger.read(SHARD, 1)
        for length in range(len(whole)):
            await place.store.delete([name])
            await place.store.put_new(name, whole[:length])
            with pytest.raises(Corrupt, match=name):
                await ledger.read(SHARD, 1)
        await place.store.delete([name])
        with pytest.raises(Corrupt, match=f"misses object '{name}'"):
            await ledger.read(SHARD, 1)

    place.run(story)


def test_objects_a_pack_of_a_newer_version_asks_for_an_upgrade_and_todays_bytes_stay_readable():
    from runnel.errors import Corrupt
    from runnel.metadata.ledger.packs import Pack, decode, encode, pack_name

    golden = Path(__file__).parents[1] / "golden" / "ledger" / "pack-1.bin"
    pack = Pack(SHARD, 41, bytes(range(16)), (b"one", b"", b"three"))
    assert b"".join(encode(pack)) == golden.read_bytes()
    assert decode(golden.read_bytes(), pack_name(SHARD, 41), SHARD, 41) == pack
    newer = bytearray(golden.read_bytes())
    newer[5] = 2
    with pytest.raises(Corrupt, match=r"version 2, .*upgrade runnel"):
        decode(bytes(newer), pack_name(SHARD, 41), SHARD, 41)


# From a URL to a ledger


def _open_by(url, story=None, objects=None):
    from runnel.metadata.ledger.open import open_ledger
    from runnel.world.chance import Chance
    from runnel.world.clock import SystemClock

    async def play():
        tasks = _quiet_tasks()
        try:
            ledger = await open_ledger(url, objects=objects, clock=SystemClock(), chance=Chance("url"), tasks=tasks)
            try:
                assert await ledger.append([(SHARD, b"one")]) == [1]
                return type(ledger).__name__
            finally:
                await ledger.close()
        finally:
            await tasks.close()

    return asyncio.run(play())


def test_a_url_chooses_postgres_and_the_bucket(postgres):
    assert _open_by(postgres.url(more="?schema=by_url")) == "PostgresLedger"
    assert _open_by("objects:", objects=places.ObjectsPlace().store) == "ObjectsLedger"


def test_a_url_chooses_the_ledger(tmp_path):
    assert _open_by("memory:") == "MemoryLedger"
    assert _open_by(f"sqlite://{tmp_path}/with%20space/ledger.db") == "SqliteLedger"
    assert (tmp_path / "with space" / "ledger.db").exists()


@pytest.mark.parametrize("url", ["", "mysql://root:hunter2@host/db", "ledger.db", "hunter2"])
def test_a_url_of_an_unknown_kind_is_refused_with_the_list_and_without_its_password(url):
    with pytest.raises(Refused, match="none of memory:, sqlite:///PATH, postgresql://") as caught:
        _open_by(url)
    assert "mysql://" not in str(caught.value)
    assert "@" not in str(caught.value).split("none of")[0]


@pytest.mark.parametrize("url", ["sqlite:", "sqlite://", "sqlite:///", "sqlite://host/path", "sqlite:///x?mode=ro"])
def test_a_sqlite_url_that_names_no_file_is_refused(url):
    with pytest.raises(Refused, match="names no file"):
        _open_by(url)
