"""Iceberg: snapshots through any catalog that pyiceberg speaks.

A commit is one transaction: columns that are new, the files, and the number of the commit, both in the snapshot and as
a property of the table, so that it is known even after somebody has expired the snapshot. Before each try the property
is looked at, and the transaction holds only if the branch is still where it was then: so a commit that seemed to fail,
or another planner's, is never repeated. pyiceberg's own way of trying again is off, because it would not look.

Field ids are ours. pyiceberg and catalogs number the columns of a new table anew, so a table begins without columns
and gets them, with the ids that the files have, together with its first files.

Metadata lies in `_iceberg`, which neither Delta's VACUUM nor Iceberg's removal of orphans looks into.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchTableError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    UnauthorizedError,
    ValidationException,
)
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, Transaction
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    TableUpdate,
)
from pyiceberg.transforms import parse_transform
from pyiceberg.typedef import Record
from pyiceberg.types import NestedField

from runnel.errors import Refused, RunnelError, Unavailable, Uncertain
from runnel.metadata.tables import Step
from runnel.table.catalogs.places import Place
from runnel.table.catalogs.seam import Behind, Known, Target
from runnel.table.files.facts import FileFacts
from runnel.table.files.partitions import PartitionField as Partition
from runnel.table.manifest import Manifest

COMMIT, OWNER, OFFSETS = "runnel.commit", "runnel.topic-id", "runnel.offsets"
TRIES_MAX = 20
KEPT_SNAPSHOTS_DAYS = 5
PROPERTIES = {
    # The files are the stream's as well: nobody but us may delete them, whatever they compact or expire.
    "gc.enabled": "false",
    "format-version": "2",
    "write.parquet.compression-codec": "zstd",
    "commit.retry.num-retries": "0",
    "commit.manifest-merge.enabled": "true",
    "commit.manifest.min-count-to-merge": "20",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}

logging.getLogger("pyiceberg").setLevel(logging.ERROR)


class Iceberg:
    """Tables in one namespace of one catalog. `properties` are pyiceberg's."""

    name = "iceberg"
    step = Step.ICEBERG

    def __init__(
        self,
        properties: dict[str, str],
        place: Place,
        *,
        namespace: str = "runnel",
        catalog: str = "runnel",
        now_ms: Callable[[], int],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._properties = place.iceberg() | properties
        self._place = place
        self._namespace = tuple(namespace.split("."))
        self._catalog_name = catalog
        self._now_ms = now_ms
        self._pause = pause
        self._opened: Catalog | None = None

    # --- committing

    def commit(self, target: Target, manifest: Manifest) -> dict[str, str]:
        with self._translated(target):
            for attempt in range(TRIES_MAX):
                table = self._ours(target)
                facts = {"iceberg.uuid": str(table.metadata.table_uuid), "iceberg.name": self._called(target)}
                has = committed(table)
                if has >= manifest.number:
                    return facts
                if has < manifest.number - 1:
                    raise Behind(has)
                try:
                    self._append(table, target, manifest)
                except (CommitFailedException, ValidationException):
                    # Somebody else's commit came in between: look again.
                    self._pause(min(1.0, 0.02 * 2**attempt))
                else:
                    return facts
        raise Unavailable(f"Iceberg table {self._called(target)}: other writers were faster {TRIES_MAX} times")

    def _append(self, table: Table, target: Target, manifest: Manifest) -> None:
        table.metadata.properties["commit.retry.num-retries"] = "0"  # whatever somebody has set
        with table.transaction() as all_at_once:
            if (wider := widened(table.schema(), manifest, target)) is not None:
                number = max(each.schema_id for each in table.schemas().values()) + 1
                columns = Schema(*wider, schema_id=number)
                _apply(
                    all_at_once,
                    AddSchemaUpdate(schema=columns),
                    SetCurrentSchemaUpdate.model_validate({"schema-id": number}),
                )
            spec = self._partitioned(all_at_once, manifest.fields)
            said = {COMMIT: str(manifest.number), OFFSETS: manifest.offsets_text}
            all_at_once.set_properties(said)
            with all_at_once.update_snapshot(snapshot_properties=said).merge_append() as append:
                for each in manifest.files:
                    append.append_data_file(self._data_file(each, spec))

    def _partitioned(self, all_at_once: Transaction, fields: Sequence[Partition]) -> int:
        """Let the table be partitioned as these files are; the number of that way."""
        metadata = all_at_once.table_metadata
        wanted = [PartitionField(each.source, each.id, parse_transform(each.transform), each.name) for each in fields]
        for spec in metadata.partition_specs:
            same = [(each.source_id, each.transform, each.name) for each in spec.fields]
            if same == [(each.source_id, each.transform, each.name) for each in wanted]:
                if spec.spec_id != metadata.default_spec_id:
                    _apply(all_at_once, SetDefaultSpecUpdate.model_validate({"spec-id": spec.spec_id}))
                return spec.spec_id
        number = max(each.spec_id for each in metadata.partition_specs) + 1
        # A field that is new gets a number that no earlier one had.
        last = max(metadata.last_partition_id or 0, 999)
        known = {(each.source_id, each.transform): each for spec in metadata.partition_specs for each in spec.fields}
        numbered = []
        for each in wanted:
            before = known.get((each.source_id, each.transform))
            last += before is None
            field_id = last if before is None else before.field_id
            numbered.append(PartitionField(each.source_id, field_id, each.transform, each.name))
        spec = PartitionSpec(*numbered, spec_id=number)
        _apply(all_at_once, AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate.model_validate({"spec-id": number}))
        return number

    def _data_file(self, facts: FileFacts, spec: int) -> DataFile:
        columns = facts.columns
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=self._place.url(facts.name),
            file_format=FileFormat.PARQUET,
            partition=Record(*facts.partition),
            record_count=facts.records,
            file_size_in_bytes=facts.size,
            column_sizes={each.id: each.size for each in columns},
            value_counts={each.id: each.values for each in columns},
            null_value_counts={each.id: each.nulls for each in columns},
            nan_value_counts={},
            lower_bounds={each.id: each.lower for each in columns if each.lower is not None},
            upper_bounds={each.id: each.upper for each in columns if each.upper is not None},
            key_metadata=None,
            split_offsets=list(facts.row_groups) or None,
            equality_ids=None,
            sort_order_id=None,
            spec_id=spec,
        )

    # --- finding the table

    def _ours(self, target: Target) -> Table:
        """The table of this topic, made where there has never been one."""
        name = (*self._namespace, target.topic)
        known = target.facts.get("iceberg.uuid") or None
        try:
            table = self._catalog().load_table(name)
        except NoSuchTableError:
            if known is not None:
                raise Refused(
                    f"Iceberg table {self._called(target)} is gone from its catalog: 'runnel table rebuild {target.topic}' "
                    f"makes it again from its files; or take iceberg out of the topic's setting runnel.table"
                ) from None
            table = self._make(name, target)
        if table.properties.get(OWNER) != target.id.hex():
            raise Refused(
                f"Iceberg table {self._called(target)} belongs to something else: rename or drop it, "
                "or choose another namespace with the setting table_namespace"
            )
        if known is not None and str(table.metadata.table_uuid) != known:
            raise Refused(
                f"Iceberg table {self._called(target)} was dropped and made again by somebody: drop it, then "
                f"'runnel table rebuild {target.topic}' makes it from its files"
            )
        return table

    def _make(self, name: tuple[str, ...], target: Target) -> Table:
        catalog = self._catalog()
        catalog.create_namespace_if_not_exists(self._namespace)
        location = self._place.url(target.folder)
        properties = PROPERTIES | {
            OWNER: target.id.hex(),
            "write.metadata.path": f"{location}/_iceberg",
            "write.data.path": f"{location}/data",
        }
        try:
            return catalog.create_table(name, Schema(), location=location, properties=properties)
        except TableAlreadyExistsError:
            return catalog.load_table(name)

    def _catalog(self) -> Catalog:
        if self._opened is None:
            self._opened = load_catalog(self._catalog_name, **self._properties)
        return self._opened

    def _called(self, target: Target) -> str:
        return ".".join((*self._namespace, target.topic))

    def forget(self, target: Target) -> dict[str, str]:  # noqa: ARG002  as others
        return {"iceberg.uuid": ""}

    # --- letting go

    def remove(self, target: Target, names: frozenset[str], now_ms: int) -> int:  # noqa: ARG002  as others
        if not target.facts.get("iceberg.uuid"):
            return 0
        places = {self._place.url(name) for name in names}
        with self._translated(target):
            for attempt in range(TRIES_MAX):
                table = self._ours(target)
                found = data_files(table, places)
                if not found:
                    return 0
                said = {name: table.properties[name] for name in (COMMIT, OFFSETS) if name in table.properties}
                table.metadata.properties["commit.retry.num-retries"] = "0"
                try:
                    with (
                        table.transaction() as all_at_once,
                        all_at_once.update_snapshot(snapshot_properties=said).overwrite() as overwrite,
                    ):
                        for each in found:
                            overwrite.delete_data_file(each)
                except (CommitFailedException, ValidationException):
                    self._pause(min(1.0, 0.02 * 2**attempt))
                else:
                    return len(found)
        raise Unavailable(f"Iceberg table {self._called(target)}: other writers were faster {TRIES_MAX} times")

    def drop(self, target: Target) -> None:
        if not target.facts.get("iceberg.uuid"):
            return
        with self._translated(target):
            name = (*self._namespace, target.topic)
            try:
                table = self._catalog().load_table(name)
                if table.properties.get(OWNER) == target.id.hex():  # another topic may have the name by now
                    self._catalog().drop_table(name)
            except NoSuchTableError:
                return

    # --- looking and tidying

    def look(self, target: Target) -> Known | None:
        with self._translated(target):
            try:
                table = self._catalog().load_table((*self._namespace, target.topic))
            except NoSuchTableError:
                if target.facts.get("iceberg.uuid"):
                    self._ours(target)  # it says what happened
                return None
            snapshot = table.current_snapshot()
            return Known(
                name=self._called(target),
                commit=committed(table),
                facts={
                    "uuid": str(table.metadata.table_uuid),
                    "location": table.location(),
                    "metadata": table.metadata_location,
                    "snapshot": str(snapshot.snapshot_id) if snapshot else "",
                    "rows": str(snapshot.summary["total-records"]) if snapshot and snapshot.summary else "0",
                    "files": str(snapshot.summary["total-data-files"]) if snapshot and snapshot.summary else "0",
                },
            )

    def tidy(self, target: Target, now_ms: int) -> None:
        """Snapshots older than some days go, with the lists and manifests that only they had."""
        with self._translated(target):
            table = self._ours(target)
            until = datetime.fromtimestamp(now_ms / 1000, UTC) - timedelta(days=KEPT_SNAPSHOTS_DAYS)
            old = [each for each in table.snapshots() if each.timestamp_ms < until.timestamp() * 1000]
            current = table.metadata.current_snapshot_id
            if not any(each.snapshot_id != current for each in old):
                return
            before = metadata_files(table)
            table.maintenance.expire_snapshots().older_than(until.replace(tzinfo=None)).commit()
            table = self._catalog().load_table((*self._namespace, target.topic))
            for name in before - metadata_files(table):
                table.io.delete(name)

    # --- errors

    @contextmanager
    def _translated(self, target: Target) -> Iterator[None]:
        called = self._called(target)
        try:
            yield
        except (RunnelError, Behind):
            raise
        except CommitStateUnknownException as error:
            raise Uncertain(
                f"Iceberg table {called}: the catalog does not say what became of a commit: {error}"
            ) from error
        except (UnauthorizedError, ForbiddenError, AuthorizationExpiredError) as error:
            self._opened = None
            raise Refused(f"Iceberg catalog refuses us ({_line(error)}): see to its credentials") from error
        except (ServerError, ServiceUnavailableError) as error:
            raise Unavailable(
                f"Iceberg catalog does not answer for {called} ({_line(error)}): see that it runs"
            ) from error
        except RESTError as error:
            raise Refused(f"Iceberg catalog refuses table {called}: {_line(error)}") from error
        except Exception as error:
            # Drivers of catalogs and file systems raise what they like; none of it is our mistake, all of it may pass.
            self._opened = None
            raise Unavailable(
                f"Iceberg table {called} cannot be reached ({_line(error)}): see to the catalog"
            ) from error


def _apply(all_at_once: Transaction, *updates: TableUpdate) -> None:
    """Updates as they are: pyiceberg's builders would number columns and partition fields by their own mind."""
    all_at_once._apply(updates, ())  # noqa: SLF001


def committed(table: Table) -> int:
    """The last of our commits that a table has."""
    return int(table.properties.get(COMMIT, "0"))


def widened(now: Schema, manifest: Manifest, target: Target) -> list[NestedField] | None:
    """The columns that the table needs for these files, where it does not have them all; others' columns stay."""
    wanted = pyarrow_to_schema(manifest.schema).fields
    have = {field.field_id: field for field in now.fields}
    former = {column.id: column.named for column in manifest.columns.all}
    for field in wanted:
        known = have.get(field.field_id)
        if known is not None and known.name not in (field.name, *former[field.field_id]):
            raise Refused(
                f"column '{known.name}' of the Iceberg table of topic '{target.topic}' was added or renamed by somebody, "
                f"and its number {field.field_id} is that of '{field.name}' in new files: drop the column or rename it back"
            )
    ids = {field.field_id for field in wanted}
    others = [field for field in now.fields if field.field_id not in ids]
    merged = [*wanted, *others]
    return None if Schema(*merged).as_struct() == now.as_struct() else merged


def data_files(table: Table, places: set[str]) -> list[DataFile]:
    """The data files of a table that lie in these places."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return []
    return [
        entry.data_file
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        if entry.data_file.file_path in places
    ]


def metadata_files(table: Table) -> set[str]:
    """The lists and manifests that a table's snapshots need."""
    found: set[str] = set()
    for snapshot in table.snapshots():
        found.add(snapshot.manifest_list)
        found.update(each.manifest_path for each in snapshot.manifests(table.io))
    return found


def _line(error: BaseException) -> str:
    text: Any = str(error).strip() or type(error).__name__
    return str(text).splitlines()[0][:300]
