"""The embedded ledger: one SQLite file, used by all processes of one machine.

    event loop                 writer thread                        other processes
    append ─► Groups ─► one transaction for all that wait ─► fsync ─► Bell ─► their waiters look
    read, tail ─► reader thread

- A commit is durable when it returns: write-ahead journal, `synchronous=FULL`.
- An entry is one row. Shard and position share the row's integer key, so a commit adds to one B-tree and no index, and
  the tail of a shard is one descent. There is no counter to keep: the next position is the last one plus one, found
  inside a transaction that holds SQLite's only write lock.
- Commits run on a thread of their own because a disk may take its time to sync; see docs/design/0003-ledger.md for
  what the hop costs.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from runnel.errors import Corrupt, RunnelError
from runnel.metadata.ledger.bell import Bell
from runnel.metadata.ledger.checks import (
    check_dense,
    check_entries,
    check_not_trimmed,
    check_read,
    check_shard,
    up_to_read_bytes,
)
from runnel.metadata.ledger.groups import Groups
from runnel.metadata.ledger.sqlite_file import PLACE_BITS, check_sum, open_file, transaction, translated
from runnel.metadata.ledger.waiters import Waiters
from runnel.model import Position, ShardId
from runnel.world.chance import Chance
from runnel.world.tasks import Tasks

T = TypeVar("T")

POLL_S = 1.0
"""How often a waiting process looks for itself, in case a bell was lost."""

POLL_WITHOUT_BELL_S = 0.02
"""The same where there are no Unix sockets."""

TRIM_ROWS = 2000
"""Rows that one transaction of a trim deletes, so that appends get their turn in between."""


class SqliteLedger:
    """A ledger in one file. Make it with `open`."""

    atomic = True

    def __init__(self, path: Path, chance: Chance, tasks: Tasks) -> None:
        self.path = path
        self._tasks = tasks
        self._waiters = Waiters()
        self._bell = Bell(path.with_name(f"{path.name}-bells"), chance, self._rung)
        self._groups = Groups(self._commit_group, tasks, name="ledger-sqlite-commits")
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="ledger-writer")
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="ledger-reader")
        self._poll: asyncio.Task[None] | None = None
        self._version_seen = 0
        self._known: dict[ShardId, Position] = {}
        """Tails as this process last saw them, as long as no other one was heard of."""
        self._heard = 0
        """How often another process was heard of."""
        self._writer: sqlite3.Connection
        self._reader: sqlite3.Connection

    @classmethod
    async def open(cls, path: Path, *, chance: Chance, tasks: Tasks) -> "SqliteLedger":
        """Open or create the file. `Refused` when it cannot be opened or is of a newer version, `Corrupt` when damaged."""
        loop = asyncio.get_running_loop()
        # Created by the first of the two, so one after the other.
        writer = await loop.run_in_executor(None, open_file, path)
        try:
            reader = await loop.run_in_executor(None, open_file, path)
            ledger = cls(path, chance, tasks)
        except BaseException:
            writer.close()
            raise
        ledger._writer = writer
        ledger._reader = reader
        return ledger

    async def append(self, entries: Sequence[tuple[ShardId, bytes]]) -> list[Position]:
        self._waiters.check_open()
        check_entries(entries)
        return await self._groups.append(entries)

    async def _commit_group(self, entries: list[tuple[ShardId, bytes]]) -> list[Position]:
        loop, heard = asyncio.get_running_loop(), self._heard
        positions = await loop.run_in_executor(self._writing, self._commit, entries)
        for (shard, _), position in zip(entries, positions, strict=True):
            self._learn(shard, position, heard)
        # A turn later than the appenders: those who wait for what was appended here mostly have it from them by then.
        loop.call_soon(self._waiters.wake, dict.fromkeys(shard for shard, _ in entries))
        return positions

    def _learn(self, shard: ShardId, tail: Position, heard: int) -> None:
        """Remember a tail that was seen when `heard` was so much."""
        if heard == self._heard:
            self._known[shard] = max(tail, self._known.get(shard, tail))

    def _commit(self, entries: list[tuple[ShardId, bytes]]) -> list[Position]:
        """One transaction; on the writer thread."""
        tails: dict[ShardId, int] = {}
        positions: list[Position] = []
        rows: list[tuple[int, int, bytes]] = []
        with translated(self.path, "append to"), transaction(self._writer):
            for shard, entry in entries:
                position = (tails[shard] if shard in tails else _tail(self._writer, shard)) + 1
                tails[shard] = position
                positions.append(Position(position))
                rows.append((_key(shard, position), check_sum(shard, position, entry), entry))
            self._writer.executemany("INSERT INTO entries (key, sum, entry) VALUES (?, ?, ?)", rows)
        self._bell.ring(tails)
        return positions

    async def read(self, shard: ShardId, after: Position, limit: int = 1000) -> list[tuple[Position, bytes]]:
        check_read(shard, after, limit)
        return await self._on_reader(self._read, shard, after, limit)

    def _read(self, shard: ShardId, after: Position, limit: int) -> list[tuple[Position, bytes]]:
        # `trimmed` is looked at after the rows: a trim in between is then seen, whatever the rows showed.
        rows = self._reader.execute(
            "SELECT key, sum, entry FROM entries WHERE key > ? AND key < ? ORDER BY key LIMIT ?",
            (_key(shard, after), _key(ShardId(shard + 1), 0), limit),
        )
        try:
            answer = up_to_read_bytes(self._verified(shard, rows), limit)
        finally:
            rows.close()
        check_not_trimmed(shard, after, Position(_trimmed(self._reader, shard) + 1))
        check_dense(shard, after, answer, str(self.path))
        return answer

    def _verified(self, shard: ShardId, rows: Iterable[tuple[int, int, bytes]]) -> Iterator[tuple[Position, bytes]]:
        for key, total, entry in rows:
            position = Position(key & ((1 << PLACE_BITS) - 1))
            if check_sum(shard, position, entry) != total:
                raise Corrupt(
                    f"entry {position} of shard {shard} in {self.path} is not what was written: stop every process that "
                    f"uses the file, keep a copy, restore a backup"
                )
            yield position, entry

    async def wait(self, shard: ShardId, after: Position) -> None:
        with self._waiters.enrolled(shard) as woken:
            known = self._known.get(shard)
            if known is None:
                heard = self._heard
                known = await self.tail(shard)
                self._learn(shard, known, heard)
            if known > after or woken.done():
                return
            if self._poll is None or self._poll.done():
                self._poll = self._tasks.spawn(self._look_now_and_then(), name="ledger-sqlite-poll")
            await woken

    async def tail(self, shard: ShardId) -> Position:
        check_shard(shard)
        return Position(await self._on_reader(lambda: _tail(self._reader, shard)))

    async def first(self, shard: ShardId) -> Position:
        check_shard(shard)
        return Position(1 + await self._on_reader(lambda: _trimmed(self._reader, shard)))

    async def trim(self, shard: ShardId, upto: Position) -> None:
        self._waiters.check_open()
        check_shard(shard)
        while await asyncio.get_running_loop().run_in_executor(self._writing, self._trim, shard, upto):
            self._waiters.check_open()

    def _trim(self, shard: ShardId, upto: int) -> bool:
        """Delete some; True when there may be more. On the writer thread, between two groups of appends."""
        with translated(self.path, "trim"), transaction(self._writer):
            trimmed = _trimmed(self._writer, shard)
            end = min(upto, trimmed + TRIM_ROWS, _tail(self._writer, shard))
            if end <= trimmed:
                return False
            self._writer.execute(
                "INSERT INTO trims (shard, upto) VALUES (?, ?) ON CONFLICT (shard) DO UPDATE SET upto = excluded.upto",
                (shard, end),
            )
            self._writer.execute(
                "DELETE FROM entries WHERE key > ? AND key <= ?", (_key(shard, trimmed), _key(shard, end))
            )
            return end < upto

    async def close(self) -> None:
        if self._waiters.closed:
            return
        self._waiters.close()
        await self._groups.close()
        if self._poll is not None:
            self._poll.cancel()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._reading, self._reader.close)
        await loop.run_in_executor(self._writing, self._writer.close)
        self._bell.close()
        self._reading.shutdown()
        self._writing.shutdown()

    async def _on_reader(self, work: Callable[..., T], *args: object) -> T:
        self._waiters.check_open()

        def look() -> T:
            with translated(self.path, "read"):
                return work(*args)

        return await asyncio.get_running_loop().run_in_executor(self._reading, look)

    def _rung(self, grown: Iterable[ShardId] | None) -> None:
        self._heard += 1
        self._known.clear()
        if grown is None:
            self._waiters.wake_all()
        else:
            self._waiters.wake(grown)

    async def _look_now_and_then(self) -> None:
        """While anybody waits: has the file been changed by someone whose bell we did not hear?"""
        while self._waiters:
            try:
                version = await self._data_version()
            except RunnelError:
                self._waiters.wake_all()  # they look themselves, and hear what is wrong
            else:
                if version != self._version_seen:
                    self._version_seen = version
                    self._rung(None)
            await asyncio.sleep(POLL_S if self._bell.can_hear else POLL_WITHOUT_BELL_S)

    async def _data_version(self) -> int:
        return await self._on_reader(lambda: int(self._reader.execute("PRAGMA data_version").fetchone()[0]))


def _key(shard: ShardId, position: int) -> int:
    return shard << PLACE_BITS | position


def _tail(connection: sqlite3.Connection, shard: ShardId) -> int:
    row = connection.execute(
        "SELECT key FROM entries WHERE key > ? AND key < ? ORDER BY key DESC LIMIT 1",
        (_key(shard, 0), _key(ShardId(shard + 1), 0)),
    ).fetchone()
    return int(row[0]) & ((1 << PLACE_BITS) - 1) if row is not None else _trimmed(connection, shard)


def _trimmed(connection: sqlite3.Connection, shard: ShardId) -> int:
    row = connection.execute("SELECT upto FROM trims WHERE shard = ?", (shard,)).fetchone()
    return int(row[0]) if row is not None else 0
