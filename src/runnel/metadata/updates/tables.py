"""Tables in the root shard: who plans, what a commit has moved, what is in the way. See metadata/tables.py."""

from typing import TYPE_CHECKING

import msgspec

from runnel.errors import Fenced, NotThere, Refused
from runnel.metadata.tables import COMMITS_KEPT, Planner, Table, TableCommit

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class TakePlanning(msgspec.Struct, array_like=True, frozen=True, tag="take-planning"):
    """Become the one planner, in place of the one that was seen (`epoch`, `renewals`). Answers the new epoch.

    Who gives the lease up takes it for nobody: an empty holder.
    """

    holder: str
    epoch: int
    renewals: int
    lease_ms: int

    def check(self, state: "ShardState") -> None:
        known = state.planner
        if (known.epoch, known.renewals) != (self.epoch, self.renewals):
            raise Fenced(f"{known.holder or 'nobody'} plans tables in epoch {known.epoch}, not {self.epoch}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> int:
        state.planner = Planner(self.holder, self.epoch + 1, 0, self.lease_ms, at_ms)
        return self.epoch + 1


class RenewPlanning(msgspec.Struct, array_like=True, frozen=True, tag="renew-planning"):
    """The planner says that it is alive."""

    epoch: int

    def check(self, state: "ShardState") -> None:
        _check_epoch(state, self.epoch)

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        state.planner.renewals += 1
        state.planner.seen_ms = at_ms


class OpenTable(msgspec.Struct, array_like=True, frozen=True, tag="open-table"):
    """A topic gets a table that begins at these offsets. Opening it again changes nothing. Answers the table."""

    epoch: int
    id: bytes
    name: str
    folder: str
    starts: dict[int, int] = {}

    def check(self, state: "ShardState") -> None:
        _check_epoch(state, self.epoch)
        if self.id not in state.topic_names:
            raise NotThere(f"topic '{self.name}' does not exist")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> Table:
        table = state.tables.get(self.id)
        if table is None:
            table = state.tables[self.id] = Table(
                self.id, self.name, self.folder, dict(self.starts), starts=dict(self.starts), born_ms=at_ms
            )
        return table


class BeginCommit(msgspec.Struct, array_like=True, frozen=True, tag="begin-commit"):
    """Files exist and are to become part of a table: from here on the commit can only be finished.

    `firsts` says for each partition where the files begin. It may be behind what the table has, where records were
    deleted before they came into it.
    """

    epoch: int
    id: bytes
    commit: TableCommit
    firsts: dict[int, int]

    def check(self, state: "ShardState") -> None:
        _check_epoch(state, self.epoch)
        table = _the_table(state, self.id)
        if table.pending is not None:
            raise Fenced(f"table '{table.name}' is in the middle of commit {table.pending.number}")
        if self.commit.number != table.number + 1:
            raise Fenced(f"table '{table.name}' is at commit {table.number}, {self.commit.number} does not follow")
        if self.commit.stamp < state.horizon:
            raise Fenced(f"files of table '{table.name}' are older than a sweep allows; write them again")
        for partition, first in self.firsts.items():
            known = table.ends.get(partition, 0)
            if first < known:
                raise Fenced(f"table '{table.name}' has partition {partition} up to {known}, not {first}")
            if self.commit.ends.get(partition, -1) < first:
                raise Refused(f"a commit of table '{table.name}' ends before it begins in partition {partition}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        table = state.tables[self.id]
        commit = msgspec.structs.replace(self.commit, at_ms=at_ms)
        table.number = commit.number
        table.pending = commit
        table.ends = table.ends | commit.ends
        table.rows += commit.rows
        table.bytes += commit.bytes
        table.source_bytes += commit.source_bytes


class MarkCommit(msgspec.Struct, array_like=True, frozen=True, tag="mark-commit"):
    """A step of the pending commit is done; with `finished`, all of them are. Repeating it changes nothing."""

    epoch: int
    id: bytes
    number: int
    steps: int
    finished: bool = False

    def check(self, state: "ShardState") -> None:
        _check_epoch(state, self.epoch)
        table = _the_table(state, self.id)
        if self.number > table.number:
            raise Refused(f"table '{table.name}' has no commit {self.number} yet")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        table = state.tables[self.id]
        pending = table.pending
        if pending is None or pending.number != self.number:
            return
        pending = msgspec.structs.replace(pending, steps=pending.steps | self.steps)
        if self.finished:
            table.pending = None
            table.recent = [*table.recent, pending][-COMMITS_KEPT:]
            table.trouble = ""
        else:
            table.pending = pending


class NoteTable(msgspec.Struct, array_like=True, frozen=True, tag="note-table"):
    """What is to be known of a table beside its commits: trouble, facts of the formats, where its files begin."""

    epoch: int
    id: bytes
    trouble: str | None = None
    facts: dict[str, str] = {}
    starts: dict[int, int] = {}

    def check(self, state: "ShardState") -> None:
        _check_epoch(state, self.epoch)
        _the_table(state, self.id)

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        table = state.tables[self.id]
        if self.trouble is not None:
            table.trouble = self.trouble
        table.facts = table.facts | self.facts
        table.starts = table.starts | self.starts


class ForgetTable(msgspec.Struct, array_like=True, frozen=True, tag="forget-table"):
    """A table whose topic is gone has been taken back everywhere."""

    epoch: int
    id: bytes

    def check(self, state: "ShardState") -> None:
        _check_epoch(state, self.epoch)
        if self.id in state.topic_names:
            raise Refused(f"topic '{state.topic_names[self.id]}' still has this table")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        state.tables.pop(self.id, None)


def _check_epoch(state: "ShardState", epoch: int) -> None:
    if state.planner.epoch != epoch:
        raise Fenced(f"{state.planner.holder or 'nobody'} plans tables in epoch {state.planner.epoch}, not {epoch}")


def _the_table(state: "ShardState", table_id: bytes) -> Table:
    table = state.tables.get(table_id)
    if table is None:
        raise NotThere(f"there is no table {table_id.hex()}")
    return table
