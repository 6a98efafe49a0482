"""Group commit: appends that arrive while one is under way travel together in the next.

    append ─┐
    append ─┼─► waiting ─► one commit at a time ─► each append gets its own positions
    append ─┘

A commit costs nearly the same for one entry as for twenty, so under load the rate grows with the number of appenders
while nobody who is alone waits for company. Appends keep their order. An append that is cancelled before its group
leaves is not sent; one that is cancelled later happens all the same.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from runnel.errors import Overloaded, RunnelError, Unavailable, Uncertain
from runnel.model import Position, ShardId
from runnel.world.tasks import Tasks

Entries = Sequence[tuple[ShardId, bytes]]
Commit = Callable[[list[tuple[ShardId, bytes]]], Awaitable[list[Position]]]

GROUP_BYTES_MAX = 16 * 1024 * 1024
"""A group stops growing here (one append alone may be larger)."""

GROUP_ENTRIES_MAX = 256
"""A group stops growing here as well."""

WAITING_BYTES_MAX = 128 * 1024 * 1024
"""Bytes that may wait for their group; beyond, appends are `Overloaded`."""


@dataclass(slots=True)
class _Append:
    entries: Entries
    size: int
    answer: "asyncio.Future[list[Position]]"


class Groups:
    """Appends on their way to one `commit`, which is never called twice at a time."""

    def __init__(
        self,
        commit: Commit,
        tasks: Tasks,
        *,
        name: str,
        entries_max: int = GROUP_ENTRIES_MAX,
        bytes_max: int = GROUP_BYTES_MAX,
    ) -> None:
        self._commit = commit
        self._tasks = tasks
        self._name = name
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._waiting: deque[_Append] = deque()
        self._waiting_bytes = 0
        self._pump: asyncio.Task[None] | None = None
        self._closed = False

    async def append(self, entries: Entries) -> list[Position]:
        if self._closed:
            raise Unavailable("ledger is closed")
        if not entries:
            return []
        size = sum(len(entry) for _, entry in entries)
        if self._waiting and self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise Overloaded(f"{self._waiting_bytes} bytes wait for the ledger already, of at most {WAITING_BYTES_MAX}")
        answer: asyncio.Future[list[Position]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Append(entries, size, answer))
        self._waiting_bytes += size
        if self._pump is None:
            self._pump = self._tasks.spawn(self._run(), name=self._name)
            self._pump.add_done_callback(self._ended)
        return await answer

    async def close(self) -> None:
        """Finish the commit under way; those still waiting were not appended."""
        self._closed = True
        self._turn_away()
        if self._pump is not None:
            await asyncio.wait([self._pump])

    async def _run(self) -> None:
        while self._waiting:
            group = self._take()
            if not group:
                break
            try:
                positions = await self._commit([entry for append in group for entry in append.entries])
            except RunnelError as error:
                for append in group:
                    _fail(append, type(error)(*error.args))
            except BaseException:
                for append in group:
                    _fail(append, Uncertain("append was interrupted, it may have happened"))
                raise
            else:
                start = 0
                for append in group:
                    end = start + len(append.entries)
                    if not append.answer.done():
                        append.answer.set_result(positions[start:end])
                    start = end
                assert start == len(positions), f"{len(positions)} positions for {start} entries"

    def _take(self) -> list[_Append]:
        group: list[_Append] = []
        count = size = 0
        while self._waiting:
            append = self._waiting[0]
            if append.answer.done():  # its caller went away before it left
                self._waiting.popleft()
                self._waiting_bytes -= append.size
                continue
            count += len(append.entries)
            size += append.size
            if group and (count > self._entries_max or size > self._bytes_max):
                break
            group.append(self._waiting.popleft())
            self._waiting_bytes -= append.size
        return group

    def _ended(self, pump: "asyncio.Task[None]") -> None:
        self._pump = None
        if pump.cancelled() or pump.exception() is not None:
            self._turn_away()
        elif self._waiting:
            self._pump = self._tasks.spawn(self._run(), name=self._name)
            self._pump.add_done_callback(self._ended)

    def _turn_away(self) -> None:
        while self._waiting:
            _fail(self._waiting.popleft(), Unavailable("ledger was closed before the append was sent"))
        self._waiting_bytes = 0


def _fail(append: _Append, error: RunnelError) -> None:
    if not append.answer.done():
        append.answer.set_exception(error)
