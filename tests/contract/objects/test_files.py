"""What the store of files promises beyond the common suite: it survives crashes, full disks and other processes."""

import asyncio
import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from runnel.errors import AlreadyThere, NotThere, Overloaded, Refused, Unavailable, Uncertain
from runnel.world.blocks import BlockPool
from runnel.world.chance import Chance
from runnel.world.objects import file_reading, file_writing
from runnel.world.objects.file_writing import INCOMING, PAST_CACHE_FROM, Folder, lies_at_a_page, write_all
from runnel.world.objects.files import FileObjects

WRITER = """
import asyncio, sys
from pathlib import Path
from runnel.errors import Uncertain
from runnel.world.chance import Chance
from runnel.world.objects.files import FileObjects

async def write(store, who):
    for at in range(100_000):
        name = f"log/{who}/{at:06}"
        body = [b"%d.%d," % (who, at)] * (1000 + 7000 * (at % 5))
        await store.put_new(name, body)
        print(name, sum(map(len, body)), flush=True)

async def main():
    store = FileObjects(Path(sys.argv[1]), Chance())
    await asyncio.gather(*(write(store, who) for who in range(4)))

asyncio.run(main())
"""


@pytest.fixture
def open_files(tmp_path):
    opened = []

    def open_(root=tmp_path / "objects"):
        store = FileObjects(root, Chance())
        opened.append(store)
        return store

    yield open_
    for store in opened:
        asyncio.run(store.close())


async def listed(store, prefix=""):
    return {facts.name: facts.size async for facts in store.list(prefix)}


@pytest.mark.parametrize("acknowledged_before_the_kill", [1, 5, 40])
def test_a_killed_writer_leaves_every_acknowledged_object_whole_and_no_part_of_another(
    tmp_path, open_files, acknowledged_before_the_kill
):
    root = tmp_path / "objects"
    with subprocess.Popen([sys.executable, "-c", WRITER, root], stdout=subprocess.PIPE, text=True) as writer:
        lines = [writer.stdout.readline() for _ in range(acknowledged_before_the_kill)]
        os.kill(writer.pid, signal.SIGKILL)
        lines += writer.stdout.readlines()
    # A line may itself be cut off by the kill.
    acknowledged = {name: int(size) for name, size in (line.split() for line in lines if line.endswith("\n"))}
    assert len(acknowledged) >= acknowledged_before_the_kill
    assert list((root / INCOMING).iterdir()), "the dead writer's incoming folder should still be there"

    async def story():
        store = open_files()
        assert len(list((root / INCOMING).iterdir())) == 1, "only this process' own incoming folder is left"
        found = await listed(store)
        assert acknowledged.items() <= found.items()
        for name in found:
            _, who, at = name.split("/")
            assert bytes(await store.read(name)) == b"%d.%d," % (int(who), int(at)) * (1000 + 7000 * (int(at) % 5))

    asyncio.run(story())


def test_the_incoming_files_of_a_living_process_are_left_alone(tmp_path, open_files):
    first = open_files()
    (first._writer._incoming / "7").write_bytes(b"half an obj")
    abandoned = tmp_path / "objects" / INCOMING / "abandoned"
    abandoned.mkdir()
    (abandoned / "1").write_bytes(b"half an obj")
    second = open_files()
    assert (first._writer._incoming / "7").exists()
    assert not abandoned.exists()
    assert asyncio.run(listed(second)) == {}
    (first._writer._incoming / "7").unlink()


def test_two_processes_that_draw_the_same_luck_do_not_share_an_incoming_folder(tmp_path):
    stores = [FileObjects(tmp_path, Chance(1)) for _ in range(3)]
    assert len({store._writer._incoming for store in stores}) == 3
    for store in stores:
        asyncio.run(store.close())
    assert list((tmp_path / INCOMING).iterdir()) == []


@pytest.fixture
def calls(monkeypatch):
    """What is asked of the operating system, in order."""
    made = []
    for name in ("writev", "fdatasync", "link", "fsync"):
        real = getattr(os, name)

        def spy(*given, _name=name, _real=real, **more):
            made.append((_name, given[0]))
            return _real(*given, **more)

        monkeypatch.setattr(os, name, spy)
    return made


def test_a_put_syncs_the_file_before_its_name_appears_and_the_folder_after(open_files, calls):
    async def story():
        store = open_files()
        await store.put_new("a/b/first", b"x")
        calls.clear()
        await store.put_new("a/b/second", [b"x"] * 10)
        folder = store._writer.folders.hold("a/b").handle
        assert [name for name, _ in calls] == ["writev", "fdatasync", "link", "fsync"]
        assert calls[-1] == ("fsync", folder)

    asyncio.run(story())


def test_a_new_folder_is_synced_in_the_one_above_it(tmp_path, open_files, calls):
    asyncio.run(open_files(tmp_path / "new" / "objects").put_new("a/b/first", b"x"))
    # new and objects when opening; a in the root, b in a, the object in b.
    assert [name for name, _ in calls].count("fsync") == 5


def test_a_lost_race_is_told_only_once_the_winner_is_durable(open_files, calls):
    async def story():
        store = open_files()
        await store.put_new("name", b"x")
        calls.clear()
        with pytest.raises(AlreadyThere):
            await store.put_new("name", b"y")
        assert [name for name, _ in calls][-2:] == ["link", "fsync"]

    asyncio.run(story())


def test_concurrent_syncs_of_a_folder_share_calls_that_began_after_them(tmp_path, monkeypatch):
    gate, entered, count = threading.Event(), threading.Event(), []

    def slow(_handle):
        count.append(1)
        entered.set()
        assert gate.wait(20)

    monkeypatch.setattr(os, "fsync", slow)
    folder = Folder(os.open(tmp_path, os.O_RDONLY))
    first = threading.Thread(target=folder.sync)
    first.start()
    assert entered.wait(20)
    others = [threading.Thread(target=folder.sync) for _ in range(10)]
    for other in others:
        other.start()
    while folder._asked < 11:
        time.sleep(0.001)
    gate.set()
    for thread in (first, *others):
        thread.join()
    # The ten came while the first call was under way: it may have missed their names, so one more serves them all.
    assert len(count) == 2


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        (errno.ENOSPC, Unavailable, "no space left"),
        (errno.EDQUOT, Unavailable, "no space left"),
        (errno.EIO, Unavailable, "could not write 'name'"),
        (errno.EMFILE, Overloaded, "ulimit -n"),
        (errno.EROFS, Refused, "right to write"),
    ],
)
@pytest.mark.parametrize("call", ["writev", "fdatasync", "open"])
def test_a_write_that_fails_leaves_nothing_and_says_what_to_do(
    open_files, tmp_path, monkeypatch, code, kind, words, call
):
    store = open_files()
    real = getattr(os, call)

    def failing(path, *given, **more):
        if call == "open" and INCOMING not in str(path):
            return real(path, *given, **more)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(kind, match=words):
        asyncio.run(store.put_new("name", b"x"))
    monkeypatch.undo()
    assert asyncio.run(listed(store)) == {}
    assert list(store._writer._incoming.iterdir()) == []
    asyncio.run(store.put_new("name", b"x"))


def test_a_really_full_disk_is_unavailable(open_files, monkeypatch):
    store = open_files()
    real = os.open
    # /dev/full takes every open and gives ENOSPC for every byte.
    monkeypatch.setattr(
        os,
        "open",
        lambda path, *more, **named: (
            real("/dev/full", os.O_WRONLY) if INCOMING in str(path) else real(path, *more, **named)
        ),
    )
    with pytest.raises(Unavailable, match="no space left"):
        asyncio.run(store.put_new("name", b"x" * 100_000))


def test_after_a_failed_sync_of_a_folder_the_store_takes_no_more_writes(open_files, monkeypatch):
    store = open_files()

    def failing(_handle):
        raise OSError(errno.EIO, "Input/output error")

    asyncio.run(store.put_new("f/before", b"x"))
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(Uncertain, match="f/name"):
        asyncio.run(store.put_new("f/name", b"x"))
    monkeypatch.undo()
    with pytest.raises(Unavailable, match="check it, then restart"):
        asyncio.run(store.put_new("f/other", b"x"))
    assert bytes(asyncio.run(store.read("f/before"))) == b"x"


def test_a_cancelled_put_is_over_before_its_buffers_are_given_back(open_files, monkeypatch):
    store = open_files()
    entered, gate = threading.Event(), threading.Event()
    real = os.writev

    def slow(handle, buffers):
        entered.set()
        assert gate.wait(20)
        return real(handle, buffers)

    monkeypatch.setattr(os, "writev", slow)

    async def story():
        arena = bytearray(b"a" * 1000)
        put = asyncio.get_running_loop().create_task(store.put_new("name", memoryview(arena)))
        await asyncio.to_thread(entered.wait, 20)
        put.cancel()
        done, _ = await asyncio.wait({put}, timeout=0.05)
        assert not done, "the thread still reads from the arena"
        put.cancel()
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await put
        arena[:] = b"b" * 1000
        with pytest.raises(NotThere):
            await store.read("name")

    asyncio.run(story())


def test_a_name_and_a_folder_of_the_same_name_are_refused(open_files):
    async def story():
        store = open_files()
        await store.put_new("a/b", b"x")
        with pytest.raises(Refused, match="there are objects in a folder of this name"):
            await store.put_new("a", b"x")
        with pytest.raises(Refused, match="a part of its path is an object"):
            await store.put_new("a/b/c", b"x")
        with pytest.raises(NotThere):
            await store.read("a")
        with pytest.raises(NotThere):
            await store.facts("a")
        await store.delete(["a", "a/b/c"])
        assert await listed(store) == {"a/b": 1}

    asyncio.run(story())


def test_files_that_are_no_objects_are_not_seen(tmp_path, open_files):
    store = open_files()
    asyncio.run(store.put_new("a/b", b"x"))
    (tmp_path / "objects" / "lost+found").mkdir()
    (tmp_path / "objects" / "a" / "b~").write_bytes(b"a backup")
    assert asyncio.run(listed(store)) == {"a/b": 1}


def test_empty_folders_go_with_their_last_object_and_come_back_with_the_next(tmp_path, open_files):
    async def story():
        ours, theirs = open_files(), open_files()
        for turn in range(3):
            await ours.put_new(f"a/b/{turn}", b"x")
            await theirs.delete([f"a/b/{turn}"])
            assert not (tmp_path / "objects" / "a").exists()
        assert (tmp_path / "objects").exists()

    asyncio.run(story())


def test_a_directory_that_cannot_be_written_is_refused_with_the_next_step(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(Refused, match=r"file.*name another directory"):
        FileObjects(tmp_path / "file", Chance())
    with pytest.raises(Refused, match="name another directory"):
        FileObjects(Path("/proc/runnel"), Chance())


def test_a_directory_without_the_right_to_write_is_refused(tmp_path, monkeypatch):
    # Whoever runs the tests may be root, whom no mode bits stop; so the refusal comes from the call itself.
    def forbidden(*_given, **_more):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(file_writing, "_own_incoming", forbidden)
    with pytest.raises(Refused, match=r"Permission denied.*right to write"):
        FileObjects(tmp_path, Chance())


@pytest.mark.parametrize("most", [1, 3, 4096, 1 << 20])
def test_a_write_that_the_system_cuts_short_goes_on_where_it_stopped(tmp_path, monkeypatch, most):
    real = os.writev

    def short(handle, buffers):
        left, some = most, []
        for buffer in buffers:
            some.append(buffer[:left])
            left -= len(some[-1])
        return real(handle, some)

    monkeypatch.setattr(os, "writev", short)
    buffers = [b"", b"a", b"bc" * 700, memoryview(b"def" * 100)[5:], bytearray(b"g"), b""]
    handle = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    write_all(handle, buffers)
    os.close(handle)
    assert (tmp_path / "file").read_bytes() == b"".join(buffers)


def test_a_small_read_of_a_recent_object_needs_no_thread(open_files, monkeypatch):
    async def story():
        store = open_files()
        await store.put_new("recent", b"0123456789" * 100)
        monkeypatch.setattr(store, "_in_thread", None)
        assert bytes(await store.read("recent", 10, 10)) == b"0123456789"
        assert [bytes(part) for part in await store.read_ranges("recent", [(0, 3), (7, 2)])] == [b"012", b"78"]

    if file_reading._NOWAIT is None:
        pytest.skip("this system cannot read without waiting")
    asyncio.run(story())


def test_a_read_that_would_wait_for_the_disk_goes_to_a_thread(open_files, monkeypatch):
    def would_wait(*_given):
        raise BlockingIOError

    async def story():
        store = open_files()
        await store.put_new("recent", b"0123456789")
        monkeypatch.setattr(os, "preadv", would_wait)
        assert bytes(await store.read("recent", 2, 3)) == b"234"

    asyncio.run(story())


def test_an_object_that_another_process_deleted_is_not_there(open_files):
    async def story():
        ours, theirs = open_files(), open_files()
        await ours.put_new("a", b"0123456789")
        await theirs.delete(["a"])
        with pytest.raises(NotThere):
            await ours.read("a", 0, 4)

    asyncio.run(story())


def test_the_lock_of_an_incoming_folder_is_held_while_the_store_is_open(open_files):
    store = open_files()
    handle = os.open(store._writer._incoming, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)


@pytest.mark.parametrize("size", [PAST_CACHE_FROM - 1, PAST_CACHE_FROM, PAST_CACHE_FROM + 1, (1 << 20) + 4095, 3 << 20])
@pytest.mark.parametrize("aside", [0, 1, 4096])
def test_what_lies_at_a_page_goes_past_the_page_cache_and_is_the_same_on_the_disk(open_files, size, aside):
    block = BlockPool(0).take(size + aside)
    body = memoryview(block)[aside : aside + size]
    body[:] = Chance(size).randbytes(size)
    assert lies_at_a_page([body]) == (size >= PAST_CACHE_FROM and aside != 1)
    store = open_files()
    asyncio.run(store.put_new("a", body))
    assert (store.root / "a").read_bytes() == bytes(body)
    assert asyncio.run(store.read("a", 4000, 5000)) == body[4000:9000]


def test_memory_that_cannot_be_written_and_pieces_are_no_pages():
    assert not lies_at_a_page([bytes(1 << 20)])
    assert not lies_at_a_page([memoryview(BlockPool(0).take(1 << 20))] * 2)


@pytest.mark.parametrize("refused", ["open", "write"])
def test_a_file_system_that_cannot_write_past_its_cache_is_written_the_usual_way(open_files, monkeypatch, refused):
    store = open_files()
    real = {"open": os.open, "write": os.write}
    tried = []

    def open_refused(path, flags, *more, **options):
        if flags & os.O_DIRECT:
            tried.append("open")
            raise OSError(errno.EINVAL, "not here")
        return real["open"](path, flags, *more, **options)

    def write_refused(handle, data):
        tried.append("write")
        raise OSError(errno.EINVAL, "not here")

    monkeypatch.setattr(file_writing.os, refused, {"open": open_refused, "write": write_refused}[refused])
    body = memoryview(BlockPool(0).take(1 << 20))
    body[:] = Chance(1).randbytes(len(body))
    for name in ("a", "b"):
        asyncio.run(store.put_new(name, body))
        assert (store.root / name).read_bytes() == bytes(body)
    assert tried == [refused]
