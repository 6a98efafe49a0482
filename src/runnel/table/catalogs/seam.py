"""What a table format is to a commit."""

from dataclasses import dataclass, field
from typing import Protocol

from runnel.metadata.tables import Step
from runnel.table.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a commit goes to. `facts` are what was remembered of it in the ledger."""

    topic: str
    id: bytes
    folder: str
    facts: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a format says of a table when asked: `commit` is the last of ours that it has."""

    name: str
    commit: int = 0
    facts: dict[str, str] = field(default_factory=dict)


class Behind(Exception):
    """The table lacks commits before this one: `commit` is the last that it has."""

    def __init__(self, commit: int) -> None:
        super().__init__(f"the table is at commit {commit}")
        self.commit = commit


class TableFormat(Protocol):
    """A table format with its catalog, if it has one.

    - `commit` makes the files of a manifest part of the table, once: a manifest whose number the table has already is
      left alone, whoever put it there. It makes the table where there has never been one. What it gives back is to be
      remembered and handed in again.
    - Commits go in order: with one before it missing, `commit` raises `Behind` and changes nothing.
    - Files, offsets and the number become visible together or not at all.
    - `Unavailable` and `Uncertain`: come again. `Refused`: somebody has to do something first, and the message says what.
    - Calls wait. They are for threads, and one table is served by one thread at a time.
    """

    name: str
    step: Step

    def commit(self, target: Target, manifest: Manifest) -> dict[str, str]:
        """Commit once; the facts to remember."""

    def forget(self, target: Target) -> dict[str, str]:
        """What to remember so that the next commit makes the table anew, if it is not there."""

    def remove(self, target: Target, names: frozenset[str], now_ms: int) -> int:
        """Let go of these objects of the store, whose records are gone; how many of them the table had."""

    def drop(self, target: Target) -> None:
        """The topic is gone: let nobody find its table any more. Its objects are deleted by who asks for this."""

    def look(self, target: Target) -> Known | None:
        """What the table is now; None when there has never been one."""

    def tidy(self, target: Target, now_ms: int) -> None:
        """Upkeep that keeps the cost of commits flat: called now and then."""
