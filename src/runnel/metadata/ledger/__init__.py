"""Ledgers: a total order of small entries per shard.

seam      what callers may rely on
memory    a list, for tests and simulation
sqlite    the embedded default
postgres  a database that the user already runs
objects   the bucket itself
"""

from runnel.metadata.ledger.seam import ENTRY_BYTES_MAX, READ_BYTES_MAX, Ledger, Trimmed

__all__ = ["ENTRY_BYTES_MAX", "READ_BYTES_MAX", "Ledger", "Trimmed"]
