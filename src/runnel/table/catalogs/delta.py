"""Delta: entries of a log beside the same files.

A commit is one log entry: the files, the offsets, and an application transaction with the number of the commit. Delta
refuses two entries at once with one application's transaction, and one that came before is seen by looking first: so
a commit is never repeated.

Columns that are new, and types that grew, get an entry of their own before it, which changes no row. Deltalake has no
way to let a type grow, so that entry is written as the format says: a new file in the log, which only one can put there.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from runnel.errors import AlreadyThere, Refused, RunnelError, Unavailable
from runnel.metadata.tables import Step
from runnel.table.catalogs.places import Place
from runnel.table.catalogs.seam import Behind, Known, Target
from runnel.table.files.facts import FileFacts
from runnel.table.files.partitions import PartitionField
from runnel.table.files.statistics import delta_stats
from runnel.table.manifest import Manifest

TRIES_MAX = 20
OWNER = "runnel.topic-id"
CONFIGURATION = {
    # The files are the stream's as well: VACUUM is to leave them, whatever others compact.
    "delta.deletedFileRetentionDuration": "interval 36500 days",
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.enableExpiredLogCleanup": "true",
}


class Delta:
    """Tables by their folders. A table that was read stays open, so that the next commit reads only what is new."""

    name = "delta"
    step = Step.DELTA

    def __init__(
        self, place: Place, put_new: Callable[[str, bytes], None], *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        """`put_new` puts an object into the store and waits for it; `AlreadyThere` if there is one of this name."""
        self._place = place
        self._put_new = put_new
        self._pause = pause
        self._open: dict[bytes, DeltaTable] = {}

    def commit(self, target: Target, manifest: Manifest) -> dict[str, str]:
        with self._translated(target):
            for attempt in range(TRIES_MAX):
                table = self._ours(target, manifest)
                facts = {"delta.id": str(table.metadata().id)}
                has = committed(table, target)
                if has >= manifest.number:
                    return facts
                if has < manifest.number - 1:
                    raise Behind(has)
                try:
                    self._widen(table, target, manifest)
                    self._append(table, target, manifest)
                except (CommitFailedError, AlreadyThere):
                    self._open.pop(target.id, None)
                    self._pause(min(1.0, 0.02 * 2**attempt))
                else:
                    return facts
        raise Unavailable(f"Delta table of topic '{target.topic}': other writers were faster {TRIES_MAX} times")

    def _append(self, table: DeltaTable, target: Target, manifest: Manifest) -> None:
        folder = f"{target.folder}/"
        names = table.metadata().partition_columns
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                path=each.name.removeprefix(folder),
                size=each.size,
                partition_values=partition_values(each, manifest.fields, names, target),
                modification_time=manifest.stamp,
                data_change=True,
                stats=delta_stats(each, manifest.columns),
            )
            for each in manifest.files
        ]
        properties = CommitProperties(
            custom_metadata={"runnel.commit": str(manifest.number), "runnel.offsets": manifest.offsets_text},
            max_commit_retries=10,
            app_transactions=[Transaction(target.id.hex(), manifest.number, manifest.stamp)],
        )
        table.create_write_transaction(actions, "append", table.schema(), names, commit_properties=properties)

    def _widen(self, table: DeltaTable, target: Target, manifest: Manifest) -> None:
        have = json.loads(table.schema().to_json())
        wanted = widened(have, json.loads(delta_schema(manifest).to_json()))
        if wanted == have:
            return
        known = table.metadata()
        metadata = {
            "id": str(known.id),
            "name": known.name,
            "description": known.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(wanted),
            "partitionColumns": known.partition_columns,
            "createdTime": known.created_time,
            "configuration": known.configuration,
        }
        said = {"commitInfo": {"timestamp": manifest.stamp, "operation": "CHANGE COLUMNS", "operationParameters": {}}}
        entry = f"{json.dumps(said)}\n{json.dumps({'metaData': metadata})}\n"
        self._put_new(f"{target.folder}/_delta_log/{table.version() + 1:020}.json", entry.encode())
        table.update_incremental()

    def _ours(self, target: Target, manifest: Manifest | None) -> DeltaTable:
        known = target.facts.get("delta.id") or None
        table = self._open.get(target.id)
        options = self._place.delta()
        url = self._place.url(target.folder)
        try:
            if table is None:
                table = DeltaTable(url, storage_options=options)
            else:
                table.update_incremental()
        except TableNotFoundError:
            self._open.pop(target.id, None)
            if known is not None or manifest is None:
                raise Refused(
                    f"the log of the Delta table of topic '{target.topic}' is gone: 'runnel table rebuild {target.topic}' "
                    f"makes it again from its files; or take delta out of the topic's setting runnel.table"
                ) from None
            table = DeltaTable.create(
                url,
                delta_schema(manifest),
                mode="error",
                partition_by=[field.delta_column for field in manifest.fields],
                name=target.topic,
                description=f"topic {target.topic}",
                configuration=CONFIGURATION | {OWNER: target.id.hex()},
                storage_options=options,
                raise_if_key_not_exists=False,
            )
        metadata = table.metadata()
        if (known is not None and str(metadata.id) != known) or metadata.configuration.get(OWNER) != target.id.hex():
            raise Refused(
                f"the Delta table of topic '{target.topic}' was made again by somebody: remove its _delta_log, then "
                f"'runnel table rebuild {target.topic}' makes it from its files"
            )
        self._open[target.id] = table
        return table

    def forget(self, target: Target) -> dict[str, str]:
        self._open.pop(target.id, None)
        return {"delta.id": ""}

    def remove(self, target: Target, names: frozenset[str], now_ms: int) -> int:
        if not target.facts.get("delta.id"):
            return 0
        paths = {name.removeprefix(f"{target.folder}/") for name in names}
        with self._translated(target):
            for attempt in range(TRIES_MAX):
                table = self._ours(target, None)
                known = pa.table(table.get_add_actions())
                actions: list[AddAction | RemoveAction] = [
                    RemoveAction(
                        path=each["path"],
                        data_change=True,
                        deletion_timestamp=now_ms,
                        size=each["size_bytes"],
                    )
                    for each in known.select(["path", "size_bytes"]).to_pylist()
                    if each["path"] in paths
                ]
                if not actions:
                    return 0
                try:
                    names_of = table.metadata().partition_columns
                    table.create_write_transaction(actions, "append", table.schema(), names_of)
                except CommitFailedError:
                    self._open.pop(target.id, None)
                    self._pause(min(1.0, 0.02 * 2**attempt))
                else:
                    return len(actions)
        raise Unavailable(f"Delta table of topic '{target.topic}': other writers were faster {TRIES_MAX} times")

    def drop(self, target: Target) -> None:
        self._open.pop(target.id, None)  # the table is its folder

    def look(self, target: Target) -> Known | None:
        with self._translated(target):
            if not target.facts.get("delta.id") and not DeltaTable.is_deltatable(
                self._place.url(target.folder), self._place.delta()
            ):
                return None
            table = self._ours(target, None)
            return Known(
                name=self._place.url(target.folder),
                commit=committed(table, target),
                facts={
                    "id": str(table.metadata().id),
                    "location": self._place.url(target.folder),
                    "version": str(table.version()),
                    "files": str(len(table.file_uris())),
                },
            )

    def tidy(self, target: Target, now_ms: int) -> None:  # noqa: ARG002  Delta goes by its own clock
        """Checkpoints come by themselves every so many commits; here old log files go."""
        with self._translated(target):
            self._ours(target, None).cleanup_metadata()

    @contextmanager
    def _translated(self, target: Target) -> Iterator[None]:
        try:
            yield
        except (RunnelError, Behind):
            raise
        except (DeltaError, OSError) as error:
            self._open.pop(target.id, None)
            text = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
            raise Unavailable(
                f"the Delta table of topic '{target.topic}' cannot be reached ({text}): see to the object store"
            ) from error


def committed(table: DeltaTable, target: Target) -> int:
    """The last of our commits that a table has."""
    return table.transaction_version(target.id.hex()) or 0


GROWTH = {("integer", "long"), ("float", "double")}


def widened(have: Any, want: Any) -> Any:
    """A type of the table, as Delta's JSON has it, wide enough for files of another: fields come, types grow."""
    if isinstance(have, str) or isinstance(want, str):
        grows = (have, want) in GROWTH or _digits(have) < _digits(want)
        return want if grows else have
    if have["type"] == "struct":
        fresh = {field["name"].lower(): field for field in want["fields"]}
        fields = []
        for field in have["fields"]:
            other = fresh.pop(field["name"].lower(), None)
            fields.append(field if other is None else field | {"type": widened(field["type"], other["type"])})
        return have | {"fields": [*fields, *fresh.values()]}
    kids = [name for name in ("elementType", "keyType", "valueType") if name in have]
    return have | {name: widened(have[name], want[name]) for name in kids}


def _digits(kind: Any) -> int:
    """How many digits a decimal has; 0 for other types."""
    found = re.fullmatch(r"decimal\((\d+),\s*\d+\)", kind) if isinstance(kind, str) else None
    return int(found[1]) if found else 0


def delta_schema(manifest: Manifest) -> Schema:
    """The columns as Delta has them, those that it is partitioned by among them, all nullable."""
    fields = [pa.field(field.name, bare(field.type)) for field in manifest.columns.arrow_schema(in_files=True)]
    have = {field.name for field in fields}
    fields += [
        pa.field(each.delta_column, pa.date32() if each.delta_type == "date" else pa.int32())
        for each in manifest.fields
        if each.delta_column not in have
    ]
    return Schema.from_arrow(pa.schema(fields))


def bare(kind: pa.DataType) -> pa.DataType:
    """A type without field ids, which mean something else to Delta."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, bare(each.type)) for each in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", bare(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(bare(kind.key_type), bare(kind.item_type))
    return kind


def partition_values(
    facts: FileFacts, fields: Sequence[PartitionField], names: Sequence[str], target: Target
) -> dict[str, str | None]:
    """A file's value of each column that the table is partitioned by."""
    values = {
        field.delta_column: field.delta_value(value) for field, value in zip(fields, facts.partition, strict=True)
    }
    missing = [name for name in names if name not in values]
    if missing:
        raise Refused(
            f"the Delta table of topic '{target.topic}' is partitioned by {', '.join(missing)} and new files are not: "
            "set the topic's table.partition back; Delta cannot change it later"
        )
    return {name: values[name] for name in names}
