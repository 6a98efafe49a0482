"""A cluster seen from outside: its topics, their columns, and an exact cut through their partitions.

    with open_lake(settings_of(options)) as lake:
        scan = lake.scan(options)
        bounds = lake.bounds(options.topic)              {0: (start, end), …} as of now
        pieces = lake.pieces(scan, {0: (17, 4242)}, options.partition_bytes)

It follows the ledger as a node does, without being one: it has no lease, serves nobody and writes nothing. Each question
catches up with the ledger first, so whatever was acknowledged before is in the answer.
"""

import asyncio
import os
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from runnel.engine import Engine
from runnel.engine.cluster import NAME as CLUSTER
from runnel.errors import NotThere, Refused, Unavailable
from runnel.lake.options import EARLIEST, LATEST, Ends, Options
from runnel.lake.rows import learned
from runnel.lake.scan import Piece, Scan, cut
from runnel.metadata.schemas import Registry
from runnel.metadata.state import ShardState
from runnel.metadata.topics import Topic
from runnel.model import ROOT, ObjectName, StreamId, shard_of
from runnel.read.plan import Part, plan_read
from runnel.settings import Settings, load
from runnel.settings.places import ledger_url, objects_url
from runnel.table.files.columns import TableColumns, Wants
from runnel.table.files.rules import RowRules, Values, read_values_rule, row_rules
from runnel.table.manifest import read_manifest
from runnel.table.schemas import Schemas, addresses_of, at_hand_in
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.open import open_store
from runnel.world.objects.seam import ObjectStore
from runnel.world.telemetry import configure

T = TypeVar("T")
Bounds = dict[int, tuple[int, int]]
"""By partition: the first offset and the one behind the last."""

EVERYTHING = 1 << 62
SCHEMA_BYTES_MAX = 256 << 10
"""Of schemas that every task takes along; it asks a node for others."""
SAMPLES_MAX = 32
"""Pieces that are looked at to learn how a topic's values are written, when nothing else tells."""


class Lake:
    """See the module; made by `open_lake`."""

    def __init__(self, engine: Engine, settings: Settings, runner: asyncio.Runner) -> None:
        self._engine = engine
        self._settings = settings
        self._runner = runner

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def topics(self) -> list[str]:
        """Names of all topics, as of the last question."""
        return sorted(topic.name for topic in self._engine.topics.all())

    def has(self, name: str) -> bool:
        """Whether there is a topic of this name, as of the last question."""
        return self._engine.topics.get(name) is not None

    # --- offsets

    def bounds(self, topic: str) -> Bounds:
        """The offsets that each partition has now."""
        return self._wait(self._bounds(topic))

    async def _bounds(self, name: str) -> Bounds:
        topic = await self._topic(name)
        shards = {shard_of(StreamId(stream), self._engine.cluster.shards) for stream in topic.streams}
        await asyncio.gather(*(self._engine.catch_up(shard) for shard in shards))
        found: Bounds = {}
        for partition, stream in enumerate(topic.streams):
            known = self._state_of(stream).streams.get(stream)
            if known is not None:
                found[partition] = (known.start, known.end)
        return found

    def range_of(self, options: Options) -> Bounds:
        """The offsets that a batch read asks for."""
        return self._wait(self._range_of(options))

    async def _range_of(self, options: Options) -> Bounds:
        bounds = await self._bounds(options.topic)
        starts = await self._ends(options, bounds, options.start, options.start_ms, EARLIEST)
        ends = await self._ends(options, bounds, options.end, options.end_ms, LATEST)
        return {partition: (starts[partition], max(starts[partition], ends[partition])) for partition in bounds}

    def starts_of(self, options: Options) -> dict[int, int]:
        """Where a stream begins that was not read before: at the end, unless something else is asked for."""
        return self._wait(self._starts_of(options))

    async def _starts_of(self, options: Options) -> dict[int, int]:
        return await self._ends(options, await self._bounds(options.topic), options.start, options.start_ms, LATEST)

    async def _ends(
        self, options: Options, bounds: Bounds, asked: Ends | None, stamp_ms: int | None, default: int
    ) -> dict[int, int]:
        found: dict[int, int] = {}
        if isinstance(asked, dict) and (unknown := asked.keys() - bounds.keys()):
            raise Refused(f"topic '{options.topic}' has partitions 0 to {len(bounds) - 1}, not {min(unknown)}")
        for partition, (start, end) in bounds.items():
            offset = asked.get(partition, default) if isinstance(asked, dict) else default if asked is None else asked
            if stamp_ms is not None:
                stream = self._engine.stream_of(options.topic, partition)
                first = await self._engine.offset_at(stream, stamp_ms)
                offset = end if first is None else first[0]
            if offset == EARLIEST:
                offset = start
            elif offset == LATEST:
                offset = end
            if not start <= offset <= end:
                if options.fail_on_data_loss and offset < start:
                    raise Refused(
                        f"offset {offset} of partition {partition} of '{options.topic}' is gone, the first that is left "
                        f"is {start}: begin there, or set failOnDataLoss to false"
                    )
                offset = min(max(offset, start), end)
            found[partition] = offset
        return found

    def size(self, topic: str, wanted: Bounds) -> int:
        """About how many bytes some offsets take."""
        known = self._engine.topics.get(topic)
        total = 0
        for partition, (first, end) in wanted.items():
            if known is not None and first < end:
                parts = self._parts(known.streams[partition], first, end)
                total += sum(part.length for part in parts)
        return total

    # --- where rows lie

    def pieces(self, scan: Scan, wanted: Bounds, piece_bytes: int) -> list[Piece]:
        """What tasks read: all offsets that are wanted, nothing else."""
        return self._wait(self._pieces(scan, wanted, piece_bytes))

    async def _pieces(self, scan: Scan, wanted: Bounds, piece_bytes: int) -> list[Piece]:
        bounds = await self._bounds(scan.topic)
        topic = await self._topic(scan.topic)
        pieces: list[Piece] = []
        for partition, (first, end) in sorted(wanted.items()):
            if first >= end:
                continue
            start, last = bounds.get(partition, (0, 0))
            if end > last:
                raise Refused(
                    f"partition {partition} of '{scan.topic}' ends at {last}, before {end}: is it another topic?"
                )
            stream = topic.streams[partition]
            parts = self._parts(stream, max(first, start), end)
            pieces += [Piece(partition, stream, *run) for run in cut(parts, max(first, start), end, piece_bytes)]
        return pieces

    def _parts(self, stream: int, first: int, end: int) -> list[Part]:
        state = self._state_of(stream)
        parts: list[Part] = []
        while first < end:
            more = plan_read(state, stream, first, EVERYTHING).parts
            if not more:
                break
            parts += more
            first = parts[-1].end
        return parts

    def _state_of(self, stream: int) -> ShardState:
        return self._engine.shards.of_stream(StreamId(stream)).state

    # --- what rows look like

    def scan(self, options: Options) -> Scan:
        """How the topic is read, with the columns that it has now."""
        topic = self._wait(self._topic(options.topic))
        root = self._engine.root
        outside = self._settings.registry
        schemas = Schemas(addresses_of(root.nodes.values(), outside), at_hand=None if outside else at_hand_in(root))
        if not outside:
            schemas.take_along(root, SCHEMA_BYTES_MAX)
        rules = replace(row_rules(topic.settings), partition=())
        if options.values is not None:
            values, schema_id = read_values_rule(options.values)
            rules = RowRules(values=values, schema_id=schema_id)
        scan = Scan(topic.name, objects_url(self._settings), schemas, rules, TableColumns())
        scan = self._with_columns(scan, topic, root.registry)
        known = {column.name.lower() for column in scan.columns.all}
        for name in options.columns:
            if name.lower() not in known:
                every = ", ".join(column.name for column in scan.columns.all)
                raise Refused(f"topic '{topic.name}' has no column '{name}': it has {every}")
        return replace(scan, wanted=options.columns)

    def _with_columns(self, scan: Scan, topic: Topic, registry: Registry) -> Scan:
        """Columns as schemas under the topic's name give them, and as some of its values show."""
        asked = scan.rules.values
        columns = self._wait(self._columns_of_table(topic))
        if columns.values is not None and asked not in (Values.AUTO, columns.values):
            columns = TableColumns()
        table_ids = columns.last_id if columns.columns else 0
        if asked in (Values.AUTO, Values.SCHEMA) and scan.rules.schema_id is None:
            subject = registry.subject(f"{topic.name}-value")
            writers = [scan.schemas.writer(version.id) for version in (subject.live() if subject is not None else [])]
            if writers:
                columns = columns.with_wants(Wants(Values.SCHEMA, tuple(writers)))
        for sample in self._samples(topic):
            columns = learned(replace(scan, columns=columns), sample)
        if columns.values is None:
            columns = columns.with_wants(Wants(Values.RAW if asked is Values.AUTO else asked))
        values = columns.values if asked is Values.AUTO else asked
        assert values is not None, "how values are read is settled by now"
        return replace(scan, columns=columns, rules=replace(scan.rules, values=values), table_ids=table_ids)

    async def _columns_of_table(self, topic: Topic) -> TableColumns:
        """The columns that the topic's table has with its last commit; none if it has none yet."""
        table = self._engine.root.tables.get(topic.id)
        commits = [] if table is None else [*table.recent, *([table.pending] if table.pending else [])]
        if not commits:
            return TableColumns()
        name = ObjectName(commits[-1].manifest)
        return read_manifest(name, bytes(await self._engine.objects.read(name))).columns

    def _samples(self, topic: Topic) -> list[Piece]:
        """The first and last bytes of some partitions."""
        bounds = self._wait(self._bounds(topic.name))
        samples: list[Piece] = []
        for partition, (start, end) in bounds.items():
            if start >= end or len(samples) >= SAMPLES_MAX:
                continue
            stream = topic.streams[partition]
            parts = self._parts(stream, start, end)
            samples.append(Piece(partition, stream, start, parts[0].end, (parts[0],)))
            if len(parts) > 1:
                samples.append(Piece(partition, stream, parts[-1].first, end, (parts[-1],)))
        return samples

    async def _topic(self, name: str) -> Topic:
        await self._engine.catch_up(ROOT)
        topic = self._engine.topics.get(name)
        if topic is None:
            raise NotThere(f"topic '{name}' does not exist")
        return topic


def look_again(options: Options, scan: Scan, piece: Piece) -> Piece:
    """The same rows, where they lie now. Whoever asks needs a way to the ledger."""
    with open_lake(settings_of(options)) as lake:
        found = lake.pieces(scan, {piece.partition: (piece.first, piece.end)}, EVERYTHING)
    if len(found) != 1 or (found[0].first, found[0].end) != (piece.first, piece.end):
        raise Unavailable(
            f"rows {piece.first} to {piece.end - 1} of partition {piece.partition} of '{scan.topic}' are gone meanwhile: "
            "retention was faster than the query"
        )
    return found[0]


def settings_of(options: Options, environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings of the cluster that options (or else this machine's environment) name."""
    flags: dict[str, str] = dict(options.settings)
    config = flags.pop("config", "")
    return load(flags, environ, Path(config) if config else None).settings


@contextmanager
def open_lake(settings: Settings) -> Iterator[Lake]:
    """The cluster of some settings, as long as the block."""
    configure(level="error", form=settings.log_format)
    if ledger_url(settings).startswith("memory:") or objects_url(settings).startswith("memory:"):
        raise Refused("what a node keeps in memory cannot be read from outside: use file:// and sqlite://, or a bucket")
    ledger = urlsplit(ledger_url(settings))
    if ledger.scheme == "sqlite" and not Path(unquote(ledger.path)).exists():
        raise Refused(f"there is no ledger at {unquote(ledger.path)}: name the node's data_dir or ledger")
    with asyncio.Runner() as runner:
        objects = open_store(objects_url(settings), clock=SystemClock(), chance=Chance())
        try:
            runner.run(_require_cluster(settings, objects))
            engine = Engine(objects=objects, ledger=ledger_url(settings), eager=False)
            runner.run(engine.open())
            try:
                yield Lake(engine, settings, runner)
            finally:
                runner.run(engine.close())
        finally:
            runner.run(objects.close())


async def _require_cluster(settings: Settings, objects: ObjectStore) -> None:
    """Looking must not found a cluster."""
    try:
        await objects.read(CLUSTER)
    except NotThere:
        raise Refused(
            f"there is no cluster in {objects_url(settings)}: start 'runnel serve' first, or name its data_dir"
        ) from None
