"""What travels to whoever reads: which rows of a topic, where they lie, and what their columns are.

All of it can be pickled. A `Piece` is what one task reads: a run of offsets of one partition, cut at borders of
objects, or in the middle of one where the cut is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from runnel.read.plan import Part
from runnel.table.files.columns import Column, TableColumns
from runnel.table.files.facts import Aborted
from runnel.table.files.rules import RowRules
from runnel.table.schemas import Schemas


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets from `first` up to `end` of a partition, and the parts of objects that hold them."""

    partition: int
    stream: int
    first: int
    end: int
    parts: tuple[Part, ...]
    aborted: tuple[Aborted, ...] = ()

    @property
    def length(self) -> int:
        return sum(part.length for part in self.parts)


@dataclass(frozen=True, slots=True)
class Scan:
    """How a topic is read: its rows' columns, and where objects and schemas are had."""

    topic: str
    store: str
    schemas: Schemas
    rules: RowRules
    columns: TableColumns
    wanted: tuple[str, ...] = ()
    table_ids: int = 0
    """Columns up to this id are the table's own, so its files can be read as they are; 0 where they cannot."""

    @property
    def handed_over(self) -> tuple[Column, ...]:
        """The columns that a reader gets, in their order."""
        every = {column.name.lower(): column for column in self.columns.all}
        return tuple(every[name.lower()] for name in self.wanted) if self.wanted else self.columns.all

    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(column.name, column.arrow_type()) for column in self.handed_over])


def cut(parts: Sequence[Part], first: int, end: int, piece_bytes: int) -> list[tuple[int, int, tuple[Part, ...]]]:
    """Runs of parts worth about `piece_bytes`, each with the offsets that are wanted of it."""
    runs: list[tuple[int, int, tuple[Part, ...]]] = []
    mine: list[Part] = []
    size = 0
    for part in parts:
        if part.end <= first or part.first >= end:
            continue
        if mine and size + part.length > piece_bytes:
            runs.append((max(first, mine[0].first), min(end, mine[-1].end), tuple(mine)))
            mine, size = [], 0
        mine.append(part)
        size += part.length
    if mine:
        runs.append((max(first, mine[0].first), min(end, mine[-1].end), tuple(mine)))
    return runs
