"""What the root shard keeps of tables: how far each has come, the commit it is in the middle of, and who may go on.

A table belongs to one topic and lasts as long as that topic's identity, a little longer even: until what was published
of it has been taken back. Progress is an offset per partition. A *commit* moves it forward over a run of files. It is
entered here before anything else learns of the files (`pending`), with the name of an object that holds their facts, so
that whoever comes next can finish what somebody else began. Its steps are marked as they are done.

All tables have one *planner* at a time. It holds a lease which others may take when they have seen it stand still for
as long as it lasts; each taking begins a new epoch, and an entry of an older epoch is refused.
"""

from enum import IntFlag

import msgspec

COMMITS_KEPT = 20
"""Finished commits that a table remembers."""


class Step(IntFlag):
    """What has been done of a commit."""

    SWAPPED = 1
    ICEBERG = 2
    DELTA = 4
    LETTERS = 8
    """Records that cannot be rows are in the dead-letter topic."""


class TableCommit(msgspec.Struct, array_like=True, frozen=True):
    """One commit. New fields go last."""

    number: int
    """1, 2, 3 and so on for each table; the table formats carry it, too."""
    manifest: str
    """The object with the facts of its files."""
    ends: dict[int, int]
    """Per partition, the offset behind the last record that the table has with this commit."""
    stamp: int
    """When its files were named, milliseconds."""
    files: int = 0
    rows: int = 0
    bytes: int = 0
    """Of the files."""
    source_bytes: int = 0
    """Of the batches that the files were made from."""
    steps: int = 0
    at_ms: int = 0


class Table(msgspec.Struct, array_like=True):
    """One topic's table. New fields go last."""

    id: bytes
    """The topic's."""
    name: str
    folder: str
    """Where its objects lie in the store."""
    ends: dict[int, int]
    number: int = 0
    pending: TableCommit | None = None
    recent: list[TableCommit] = []
    starts: dict[int, int] = {}
    """Per partition, the offset before which files were taken out of the table."""
    rows: int = 0
    bytes: int = 0
    source_bytes: int = 0
    trouble: str = ""
    """Why the table does not go on, for people; empty when it does."""
    facts: dict[str, str] = {}
    """What the formats want remembered, such as the identity of the table in a catalog."""
    born_ms: int = 0


class Planner(msgspec.Struct, array_like=True):
    """Who moves tables forward."""

    holder: str = ""
    epoch: int = 0
    renewals: int = 0
    lease_ms: int = 0
    seen_ms: int = 0
    """When the lease was last renewed, by the holder's own clock."""
