"""The ledger in a PostgreSQL database that the user already runs.

    append ─► Groups ─► one statement: lock and raise the tails of all its shards, in order of shards; add the entries
                              │ committed
                              ▼
                        NOTIFY, on the listening connection ─► the waiters of every process look

- *Order.* Each shard has a row whose lock is held from taking a position to the end of the commit. So positions have
  no gaps, and an entry never becomes visible before the one in front of it.
- *One round trip.* An append is one statement, which is its own transaction. When the connection breaks after it was
  sent nobody can say whether it happened: `Uncertain`.
- *Waking.* A NOTIFY inside the transaction would make all commits of the database queue for one lock while they sync,
  so it follows the commit in a transaction of its own. If its sender dies in between, waiters find out by looking every
  `POLL_S`.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

from crc32c import crc32c

from runnel.errors import Corrupt, RunnelError
from runnel.metadata.ledger.checks import check_dense, check_entries, check_not_trimmed, check_read, check_shard
from runnel.metadata.ledger.groups import Groups
from runnel.metadata.ledger.postgres_line import (
    BACK_OFF_S,
    BACK_OFF_S_MAX,
    Address,
    Line,
    hang_up,
    translated,
)
from runnel.metadata.ledger.postgres_schema import migrate
from runnel.metadata.ledger.seam import READ_BYTES_MAX
from runnel.metadata.ledger.waiters import Waiters
from runnel.model import Position, ShardId
from runnel.world.chance import Chance
from runnel.world.clock import Clock
from runnel.world.tasks import Tasks

POLL_S = 2.0
"""How often a process with waiters looks for itself, in case a notification was lost with its sender."""

TRIM_ROWS = 1000
"""Rows that one statement of a trim deletes; appends to the shard wait no longer than that."""

SHARDS_NAMED_MAX = 500
"""A notification holds 8,000 bytes; one for more shards than this names none and means all."""

_APPEND = """
WITH grown AS (
    INSERT INTO {shards} AS s (shard, tail, first)
    SELECT shard, count, 1 FROM unnest($1::integer[], $2::bigint[]) AS w (shard, count) ORDER BY shard
    ON CONFLICT (shard) DO UPDATE SET tail = s.tail + excluded.tail
    RETURNING s.shard, s.tail
), added AS (
    INSERT INTO {entries} (shard, position, sum, entry)
    SELECT e.shard, grown.tail - e.behind, e.sum, e.entry
    FROM unnest($3::integer[], $4::bigint[], $5::bigint[], $6::bytea[]) AS e (shard, behind, sum, entry)
    JOIN grown USING (shard)
)
SELECT shard, tail FROM grown
"""

# One statement sees one moment: `first` and the entries belong together. Sizes are summed without reading the entries.
_READ = """
SELECT s.first, e.position, e.sum, e.entry
FROM {shards} s LEFT JOIN LATERAL (
    SELECT position, sum, entry, sum(octet_length(entry)) OVER (ORDER BY position) AS bytes
    FROM (SELECT * FROM {entries} WHERE shard = s.shard AND position > $2 ORDER BY position LIMIT $3) AS following
) e ON e.bytes <= $4 OR e.position = $2 + 1
WHERE s.shard = $1 ORDER BY e.position
"""

_TRIM = """
WITH moved AS (
    UPDATE {shards} SET first = least($2, tail, first + $3 - 1) + 1
    WHERE shard = $1 AND first <= least($2, tail) RETURNING first, tail
), gone AS (
    DELETE FROM {entries} e USING moved WHERE e.shard = $1 AND e.position < moved.first
)
SELECT first <= least($2, tail) FROM moved
"""


class PostgresLedger:
    """A ledger in a database. Make it with `open`."""

    atomic = True

    def __init__(self, address: Address, clock: Clock, chance: Chance, tasks: Tasks) -> None:
        self._address = address
        self._chance = chance
        self._waiters = Waiters()
        self._groups = Groups(self._commit, tasks, name="ledger-postgres-commits")
        self._writer = Line(address, clock, chance)
        self._reader = Line(address, clock, chance)
        self._sql_append, self._sql_read, self._sql_trim = map(address.names.fill, (_APPEND, _READ, _TRIM))
        self._grown: dict[ShardId, None] = {}
        self._news = asyncio.Event()
        self._tails_seen: dict[int, int] = {}
        self._listener = tasks.spawn(self._listen(), name="ledger-postgres-listener")

    @classmethod
    async def open(cls, url: str, *, clock: Clock, chance: Chance, tasks: Tasks) -> "PostgresLedger":
        """Connect and bring the tables up to date. `Refused` or `Unavailable` say in one line what is wrong."""
        address = Address.parse(url)
        connection = await address.connect()
        try:
            async with translated(address, connection, "open the ledger", may_have_happened=False):
                await migrate(connection, address.names, address.where)
        finally:
            await hang_up(connection)
        return cls(address, clock, chance, tasks)

    async def append(self, entries: Sequence[tuple[ShardId, bytes]]) -> list[Position]:
        self._waiters.check_open()
        check_entries(entries)
        return await self._groups.append(entries)

    async def _commit(self, entries: list[tuple[ShardId, bytes]]) -> list[Position]:
        counts = Counter(shard for shard, _ in entries)
        shards = sorted(counts)  # everybody locks in this order, so nobody waits in a circle
        left = Counter(counts)
        behind = []
        for shard, _ in entries:
            left[shard] -= 1
            behind.append(left[shard])
        async with (
            self._writer.held() as connection,
            translated(self._address, connection, "append", may_have_happened=True),
        ):
            rows = await connection.fetch(
                self._sql_append,
                shards,
                [counts[shard] for shard in shards],
                [shard for shard, _ in entries],
                behind,
                [_sum(shard, entry) for shard, entry in entries],
                [entry for _, entry in entries],
            )
        tails = {row["shard"]: row["tail"] for row in rows}
        assert len(tails) == len(shards), "every shard of an append got a new tail"
        self._waiters.wake(shards)
        self._grown |= dict.fromkeys(shards)
        self._news.set()
        return [Position(tails[shard] - place) for (shard, _), place in zip(entries, behind, strict=True)]

    async def read(self, shard: ShardId, after: Position, limit: int = 1000) -> list[tuple[Position, bytes]]:
        check_read(shard, after, limit)
        rows = await self._ask(self._sql_read, shard, after, limit, READ_BYTES_MAX)
        if rows:
            check_not_trimmed(shard, after, rows[0]["first"])
        answer = []
        for _, position, total, entry in rows:
            if position is None:
                break
            if _sum(shard, entry) != total:
                raise Corrupt(
                    f"entry {position} of shard {shard} in {self._address.where} is not what was written: stop every node, "
                    f"keep a copy, restore a backup"
                )
            answer.append((Position(position), entry))
        check_dense(shard, after, answer, self._address.where)
        return answer

    async def wait(self, shard: ShardId, after: Position) -> None:
        with self._waiters.enrolled(shard) as woken:
            self._news.set()  # the listener begins to look now and then
            if await self.tail(shard) > after:
                return
            await woken

    async def tail(self, shard: ShardId) -> Position:
        check_shard(shard)
        rows = await self._ask(self._address.names.fill("SELECT tail FROM {shards} WHERE shard = $1"), shard)
        return Position(rows[0]["tail"] if rows else 0)

    async def first(self, shard: ShardId) -> Position:
        check_shard(shard)
        rows = await self._ask(self._address.names.fill("SELECT first FROM {shards} WHERE shard = $1"), shard)
        return Position(rows[0]["first"] if rows else 1)

    async def trim(self, shard: ShardId, upto: Position) -> None:
        check_shard(shard)
        more = True
        while more:
            self._waiters.check_open()
            async with (
                self._writer.held() as connection,
                translated(self._address, connection, "trim", may_have_happened=False),
            ):
                more = await connection.fetchval(self._sql_trim, shard, upto, TRIM_ROWS)

    async def close(self) -> None:
        self._waiters.close()
        await self._groups.close()
        if not self._listener.done():
            self._listener.cancel()
            await asyncio.wait([self._listener])
        await self._writer.close()
        await self._reader.close()

    async def _ask(self, question: str, *args: object) -> list[Any]:
        self._waiters.check_open()
        async with (
            self._reader.held() as connection,
            translated(self._address, connection, "read", may_have_happened=False),
        ):
            rows: list[Any] = await connection.fetch(question, *args)
            return rows

    async def _listen(self) -> None:
        """Hear of others' appends, tell them of ours, and come back after every loss."""
        back_off_s = BACK_OFF_S
        while True:
            try:
                connection = await self._address.connect()
            except RunnelError:
                await asyncio.sleep(back_off_s * self._chance.uniform(0.5, 1.0))
                back_off_s = min(BACK_OFF_S_MAX, 2 * back_off_s)
                continue
            back_off_s = BACK_OFF_S
            try:
                async with translated(self._address, connection, "listen", may_have_happened=False):
                    await self._converse(connection)
            except RunnelError:
                await asyncio.sleep(back_off_s)
            finally:
                connection.terminate()

    async def _converse(self, connection: Any) -> None:
        connection.add_termination_listener(lambda _: self._news.set())
        await connection.add_listener(self._address.names.channel, self._hear)
        self._waiters.wake_all()  # for what was said while nobody listened
        while not connection.is_closed():
            if self._grown:
                grown, self._grown = self._grown, {}
                words = ",".join(map(str, grown)) if len(grown) <= SHARDS_NAMED_MAX else ""
                try:
                    await connection.execute("SELECT pg_notify($1, $2)", self._address.names.channel, words)
                except BaseException:
                    self._grown |= grown
                    raise
                continue
            self._news.clear()
            try:
                async with asyncio.timeout(POLL_S if self._waiters else None):
                    await self._news.wait()
            except TimeoutError:
                await self._look(connection)

    async def _look(self, connection: Any) -> None:
        rows = await connection.fetch(self._address.names.fill("SELECT shard, tail FROM {shards}"))
        tails = {row["shard"]: row["tail"] for row in rows}
        self._waiters.wake(ShardId(shard) for shard, tail in tails.items() if tail != self._tails_seen.get(shard))
        self._tails_seen = tails

    def _hear(self, connection: Any, sender: int, channel: str, words: str) -> None:
        del channel
        if sender == connection.get_server_pid():
            return  # our own waiters were woken when the commit returned
        if words:
            self._waiters.wake(ShardId(int(word)) for word in words.split(",") if word.isdigit())
        else:
            self._waiters.wake_all()


def _sum(shard: ShardId, entry: bytes) -> int:
    """Covers the shard too; the position is given by the database, where it is the key."""
    return crc32c(entry, crc32c(b"%d" % shard))
