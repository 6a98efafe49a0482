"""Objects as files below a directory, each with its fsync: the store of a laptop, and of a node with a good disk.

An object's name is its path, so whatever reads files can read them too. Several processes may share a directory.

The event loop never waits for the disk. A put goes to a thread once, with all its buffers, and comes back durable;
what runs in the thread is in `file_writing`. A read goes to a thread as well, unless it is small and of an object that
was used a moment ago: then the operating system has it in memory, and a copy costs less than the hop to a thread.
"""

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from runnel.errors import Refused
from runnel.model import ObjectName
from runnel.world.chance import Chance
from runnel.world.objects.bodies import buffers_of
from runnel.world.objects.file_reading import file_facts, read_cached, read_file, read_file_ranges, walk
from runnel.world.objects.file_writing import FileWriter, Job
from runnel.world.objects.names import check_beginning, check_name
from runnel.world.objects.ranges import Range, check_range
from runnel.world.objects.seam import Body, Buffer, ObjectFacts

T = TypeVar("T")

WRITES_AT_ONCE = 8
READS_AT_ONCE = 8
DIRECT_BYTES_MAX = 256 * 1024  # 20 µs of copying in the event loop; a thread takes 60 µs, most of it the hop
RECENT_NAMES_MAX = 4096
_NAMES_A_TURN = 500


class FileObjects:
    """An ObjectStore in a directory; opening it makes the directory and removes what dead processes left behind."""

    def __init__(self, root: Path, chance: Chance) -> None:
        self.root = root.absolute()
        try:
            _make_durable(self.root)
            self._writer = FileWriter(self.root, chance)
        except OSError as error:
            raise Refused(
                f"cannot keep objects in '{self.root}' ({error.strerror}); "
                "give this user the right to write there or name another directory"
            ) from error
        self._writers = ThreadPoolExecutor(WRITES_AT_ONCE, thread_name_prefix="runnel-objects-write")
        # Reads have threads of their own, so that none waits behind an fsync.
        self._readers = ThreadPoolExecutor(READS_AT_ONCE, thread_name_prefix="runnel-objects-read")
        self._recent: OrderedDict[ObjectName, None] = OrderedDict()
        self._closed = False

    async def put_new(self, name: ObjectName, body: Body) -> None:
        check_name(name)
        job = Job()
        await self._write(partial(self._writer.put_new, name, buffers_of(body), job), job)
        self._used(name)

    async def read(self, name: ObjectName, start: int = 0, length: int | None = None) -> Buffer:
        check_name(name)
        check_range(name, start, length)
        if length is not None and (found := self._read_directly(name, [(start, length)])) is not None:
            return found[0]
        read = await self._in_thread(partial(read_file, self.root, name, start, length))
        self._used(name)
        return read

    async def read_ranges(self, name: ObjectName, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        check_name(name)
        for start, length in ranges:
            check_range(name, start, length)
        if not ranges:
            return []
        if (found := self._read_directly(name, ranges)) is not None:
            return found
        read = await self._in_thread(partial(read_file_ranges, self.root, name, ranges))
        self._used(name)
        return read

    def _read_directly(self, name: ObjectName, ranges: Sequence[Range]) -> list[Buffer] | None:
        if name not in self._recent or sum(length for _, length in ranges) > DIRECT_BYTES_MAX:
            return None
        return read_cached(self.root, name, ranges)

    async def facts(self, name: ObjectName) -> ObjectFacts:
        check_name(name)
        return await self._in_thread(partial(file_facts, self.root, name))

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectFacts]:
        check_beginning(prefix)
        names = walk(self.root, prefix, after)
        while some := await self._in_thread(lambda: list(islice(names, _NAMES_A_TURN))):
            for facts in some:
                yield facts

    async def delete(self, names: Iterable[ObjectName]) -> None:
        wanted = list(names)
        for name in wanted:
            check_name(name)
        for name in wanted:
            self._recent.pop(name, None)
        if wanted:
            await self._write(partial(self._writer.delete, wanted), Job())

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._shut_down)

    def _shut_down(self) -> None:
        self._writers.shutdown()
        self._readers.shutdown()
        self._writer.close()

    def _used(self, name: ObjectName) -> None:
        self._recent[name] = None
        self._recent.move_to_end(name)
        if len(self._recent) > RECENT_NAMES_MAX:
            self._recent.popitem(last=False)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _write(self, work: Callable[[], None], job: Job) -> None:
        """Run a write in a thread, to its end: its buffers are in use until then, also when the caller gave up."""
        writing = asyncio.get_running_loop().run_in_executor(self._writers, work)
        try:
            await asyncio.shield(writing)
        except asyncio.CancelledError:
            job.abandoned = True
            while not writing.done():
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({writing})
            raise


def _make_durable(root: Path) -> None:
    """Make a directory and those above it, each one's name written to disk."""
    if root.is_dir():
        return
    _make_durable(root.parent)
    with suppress(FileExistsError):
        root.mkdir()
    handle = os.open(root.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
