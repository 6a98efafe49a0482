"""Spark's data source: a topic as a DataFrame, of what there is or of what comes.

    spark.read.format("runnel").option("topic", "orders").load()
    spark.readStream.format("runnel").option("topic", "orders").option("maxOffsetsPerTrigger", 100_000).load()

Spark finds it by itself where this package is installed (module `pyspark_runnel`); else `spark.dataSource.register(
RunnelDataSource)`. The options are those of options.py.

The driver makes the cut and says where rows lie; tasks read objects by ranges and hand over Arrow batches. A stream's
offsets are {"0": 42, …}: the offset that comes next, by partition. Its columns are those that the topic has when it
starts.

**How a stream knows where it is.** Spark asks for the latest offset without saying how far it has come. When a query is
taken up again it first plans an empty range, which tells; when nothing was told, the query is new and is where it begins.
So what a trigger may take (`maxOffsetsPerTrigger`, `maxBytesPerTrigger`) holds from the first one on. Trigger.AvailableNow
asks for the latest offset once: it takes all there is in one trigger, or as much as one trigger may take.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from runnel.errors import Refused
from runnel.lake.options import Options, read_options
from runnel.lake.places import Bounds, Lake, look_again, open_lake, settings_of
from runnel.lake.rows import read_piece
from runnel.lake.scan import Piece, Scan
from runnel.lake.triggers import Progress


class RunnelDataSource(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return "runnel"

    def _read_options(self) -> Options:
        return read_options(dict(self.options))

    def schema(self) -> StructType:
        options = self._read_options()
        with open_lake(settings_of(options)) as lake:
            return from_arrow_schema(lake.scan(options).schema())

    def reader(self, schema: StructType) -> "RunnelReader":
        return RunnelReader(self._read_options(), schema)

    def streamReader(self, schema: StructType) -> "RunnelStreamReader":  # noqa: N802  Spark's name
        return RunnelStreamReader(self._read_options(), schema)


class Task(InputPartition):
    """What one task reads."""

    def __init__(self, options: Options, scan: Scan, piece: Piece) -> None:
        self.options = options
        self.scan = scan
        self.piece = piece


def _rows_of(task: Task) -> Iterator[pa.RecordBatch]:
    return read_piece(task.scan, task.piece, partial(look_again, task.options, task.scan))


def _scan(lake: Lake, options: Options, schema: StructType) -> Scan:
    """The topic with exactly the columns that the query was analyzed with."""
    scan = lake.scan(options)
    now = from_arrow_schema(scan.schema())
    if [(field.name, field.dataType) for field in now] != [(field.name, field.dataType) for field in schema]:
        wanted = {field.name.lower(): field.dataType for field in schema}
        if not wanted.keys() <= {field.name.lower() for field in now}:
            missing = sorted(wanted.keys() - {field.name.lower() for field in now})
            raise Refused(f"topic '{options.topic}' has no column {missing[0]!r}")
        scan = replace(scan, wanted=tuple(field.name for field in schema))
    return scan


class RunnelReader(DataSourceReader):
    """One read of what there is."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with open_lake(settings_of(options)) as lake:
            scan = _scan(lake, options, self._schema)
            return [
                Task(options, scan, piece)
                for piece in lake.pieces(scan, lake.range_of(options), options.partition_bytes)
            ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task), "tasks are what was planned"
        return _rows_of(partition)


class RunnelStreamReader(DataSourceStreamReader):
    """Reads of what comes, one after another. It lives as long as its query, in a process of its own."""

    def __init__(self, options: Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._progress = Progress(options.trigger_offsets_max, options.trigger_bytes_max)
        self._stack = ExitStack()
        self._lake: Lake | None = None
        self._scanned: Scan | None = None
        self._started: dict[int, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Executors get what `read` needs, which is nothing."""
        return {"_options": self._options, "_schema": self._schema}

    @property
    def lake(self) -> Lake:
        if self._lake is None:
            self._lake = self._stack.enter_context(open_lake(settings_of(self._options)))
        return self._lake

    def _begin(self) -> dict[int, int]:
        if self._started is None:
            self._started = self.lake.starts_of(self._options)
        return self._started

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        return told(self._begin())

    def latestOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        if not self._progress.is_known:
            self._progress.came_to(self._begin())
        bounds = self.lake.bounds(self._options.topic)
        return told(self._progress.goal(bounds, self._size))

    def _size(self, wanted: Bounds) -> int:
        return self.lake.size(self._options.topic, wanted)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        first, last = read(start), read(end)
        self._progress.came_to(first if start == end else last)
        if start == end:
            return []
        if self._scanned is None:
            self._scanned = _scan(self.lake, self._options, self._schema)
        bounds = self.lake.bounds(self._options.topic)
        wanted: Bounds = {}
        for partition, stop in last.items():
            begin = first.get(partition, bounds[partition][0] if partition in bounds else 0)
            there = bounds.get(partition, (0, 0))[0]
            if begin < there and self._options.fail_on_data_loss:
                raise Refused(
                    f"offsets {begin} to {there - 1} of partition {partition} of '{self._options.topic}' are gone before "
                    "they were read: set failOnDataLoss to false to go on without them"
                )
            wanted[partition] = (begin, stop)
        scan = self._scanned
        pieces = self.lake.pieces(scan, wanted, self._options.partition_bytes)
        return [Task(self._options, scan, piece) for piece in pieces]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task), "tasks are what was planned"
        return _rows_of(partition)

    def commit(self, end: dict[str, int]) -> None:
        self._progress.came_to(read(end))

    def stop(self) -> None:
        self._stack.close()
        self._lake = None


def told(offsets: dict[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def read(offsets: dict[str, int]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets.items()}
