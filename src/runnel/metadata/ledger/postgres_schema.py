"""The tables behind the PostgreSQL ledger, and how they came to be.

Each migration is a step that is never changed once it has been released; the table of migrations says which have been
taken. Processes that start at once take turns through an advisory lock. A schema with more steps than this program
knows is refused: the newer program may write what this one cannot read.
"""

import re
from dataclasses import dataclass
from typing import Any

from crc32c import crc32c

from runnel.errors import Refused

MIGRATIONS = (
    # A row per shard, updated by every append: its lock is what puts appends in order, so that positions have no gaps
    # and none becomes visible before an earlier one. Half-empty pages let updates stay on their page.
    # Entries are stored as they are: they are packed already, and trying to compress them costs time.
    """
    CREATE TABLE {shards} (shard integer PRIMARY KEY, tail bigint NOT NULL, first bigint NOT NULL) WITH (fillfactor = 50);
    CREATE TABLE {entries} (
        shard integer NOT NULL, position bigint NOT NULL, sum bigint NOT NULL, entry bytea NOT NULL,
        PRIMARY KEY (shard, position)
    );
    ALTER TABLE {entries} ALTER entry SET STORAGE EXTERNAL;
    """,
)

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,30}")


@dataclass(frozen=True, slots=True)
class Names:
    """Where the tables are. Lower-case names only, so that nothing ever needs escaping."""

    schema: str = "runnel"
    prefix: str = "ledger_"

    def __post_init__(self) -> None:
        for what, name in (("schema", self.schema), ("prefix", self.prefix)):
            if not _NAME.fullmatch(name):
                raise Refused(
                    f"{what} {name!r} of the ledger URL is not a name of a-z, 0-9 and _ of at most 31 letters"
                )

    def table(self, name: str) -> str:
        return f'"{self.schema}"."{self.prefix}{name}"'

    def fill(self, statement: str) -> str:
        return statement.format(
            shards=self.table("shards"), entries=self.table("entries"), migrations=self.table("migrations")
        )

    @property
    def channel(self) -> str:
        return f"{self.schema}_{self.prefix}grown"


async def migrate(connection: Any, names: Names, where: str) -> None:
    """Bring the tables to the newest version; does nothing when they are there already."""
    if await _taken(connection, names, where) == len(MIGRATIONS):
        return
    # Locked before the transaction begins: only at a beginning the server notices tables that others made meanwhile.
    await connection.execute("SELECT pg_advisory_lock($1)", crc32c(names.channel.encode()))
    async with connection.transaction():
        taken = await _taken(connection, names, where)
        if await connection.fetchval("SELECT to_regnamespace($1)", f'"{names.schema}"') is None:
            await connection.execute(f'CREATE SCHEMA "{names.schema}"')
        await connection.execute(
            names.fill(
                "CREATE TABLE IF NOT EXISTS {migrations} "
                "(step integer PRIMARY KEY, taken_at timestamptz NOT NULL DEFAULT now())"
            )
        )
        for step in range(taken + 1, len(MIGRATIONS) + 1):
            await connection.execute(names.fill(MIGRATIONS[step - 1]))
            await connection.execute(names.fill("INSERT INTO {migrations} (step) VALUES ($1)"), step)
    await connection.execute("SELECT pg_advisory_unlock_all()")


async def _taken(connection: Any, names: Names, where: str) -> int:
    if await connection.fetchval("SELECT to_regclass($1)", names.table("migrations")) is None:
        return 0
    step = int(await connection.fetchval(names.fill("SELECT coalesce(max(step), 0) FROM {migrations}")))
    if step > len(MIGRATIONS):
        raise Refused(
            f"ledger in {where} has taken migration {step}, this runnel knows up to {len(MIGRATIONS)}: upgrade runnel"
        )
    return step
