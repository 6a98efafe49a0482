"""The manifest of a commit: all that its steps need, in one object that is written before the ledger hears of it.

Whoever finds a pending commit in the ledger, after a crash or in another process, reads this and goes on. Each names
the one before it, so that all files of a table can be found from its last commit (and a table made again from them).

    FOLDER/_runnel/000000000012-9f86d081884c7d65.commit
"""

from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
import pyarrow as pa

from runnel.errors import Corrupt
from runnel.model import ObjectName
from runnel.table.files.columns import TableColumns
from runnel.table.files.facts import FileFacts, Written, pack_written, unpack_written
from runnel.table.files.partitions import PartitionField
from runnel.table.files.rules import RowRules, row_rules

FORMAT = 1


class _Kept(msgspec.Struct, array_like=True):
    """New fields go last."""

    format: int
    table: bytes
    topic: str
    number: int
    stamp: int
    ends: dict[int, int]
    columns: str
    settings: dict[str, str]
    formats: list[str]
    written: bytes
    previous: str


@dataclass(frozen=True)
class Manifest:
    """One commit of one table."""

    table: bytes
    topic: str
    number: int
    stamp: int
    ends: dict[int, int]
    """Per partition, the offset behind the last record that the table has with this commit."""
    columns: TableColumns
    settings: dict[str, str]
    """What the topic's settings said of its rows when the files were written."""
    formats: tuple[str, ...]
    written: Written
    previous: str = ""
    """The manifest of the commit before."""

    @property
    def files(self) -> tuple[FileFacts, ...]:
        return self.written.files

    def with_files(self, files: tuple[FileFacts, ...]) -> "Manifest":
        """The same commit with some of its files: others were taken out of the table since."""
        return self if files == self.files else replace(self, written=replace(self.written, files=files))

    @cached_property
    def rules(self) -> RowRules:
        return row_rules(self.settings)

    @cached_property
    def schema(self) -> pa.Schema:
        """Of the table with this commit, with field ids."""
        return self.columns.arrow_schema()

    @cached_property
    def fields(self) -> tuple[PartitionField, ...]:
        return self.columns.partition_fields(self.rules)

    @property
    def offsets_text(self) -> str:
        """`0:1200,1:1193`, as snapshots carry it."""
        return ",".join(f"{partition}:{end}" for partition, end in sorted(self.ends.items()))


def manifest_name(folder: str, number: int, unique: int) -> ObjectName:
    return ObjectName(f"{folder}/_runnel/{number:012}-{unique:016x}.commit")


def write_manifest(manifest: Manifest) -> bytes:
    kept = _Kept(
        FORMAT,
        manifest.table,
        manifest.topic,
        manifest.number,
        manifest.stamp,
        manifest.ends,
        manifest.columns.to_json(),
        manifest.settings,
        list(manifest.formats),
        pack_written(manifest.written),
        manifest.previous,
    )
    return msgspec.msgpack.encode(kept)


def read_manifest(name: str, body: bytes) -> Manifest:
    try:
        kept = msgspec.msgpack.decode(body, type=_Kept)
        written = unpack_written(kept.written)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{name} is not the manifest of a commit: {error}") from error
    if kept.format > FORMAT:
        raise Corrupt(f"{name} has format {kept.format}, this program knows {FORMAT}: upgrade runnel")
    return Manifest(
        kept.table,
        kept.topic,
        kept.number,
        kept.stamp,
        kept.ends,
        TableColumns.of_json(kept.columns),
        kept.settings,
        tuple(kept.formats),
        written,
        kept.previous,
    )
