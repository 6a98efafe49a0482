"""Ledgers: a total order of small entries per shard.

seam      what callers may rely on
open      from a URL to a ledger
memory    a list, for tests and simulation
faulty    slow, failing, forgetful or away, from a seed
sqlite    the embedded default (sqlite_file: its schema and errors; bell: how its processes wake each other)
postgres  a database that the user already runs (postgres_line: its connections; postgres_schema: its tables)
objects   the bucket itself (packs: its objects)
groups    appends that arrive together travel together
waiters   who waits for which shard, within a process
checks    what every ledger asks of its callers
"""

from runnel.metadata.ledger.seam import (
    APPEND_BYTES_MAX,
    APPEND_ENTRIES_MAX,
    ENTRY_BYTES_MAX,
    READ_BYTES_MAX,
    Ledger,
    Trimmed,
)

__all__ = ["APPEND_BYTES_MAX", "APPEND_ENTRIES_MAX", "ENTRY_BYTES_MAX", "READ_BYTES_MAX", "Ledger", "Trimmed"]
