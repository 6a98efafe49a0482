"""A cluster and its table service in one process: an engine on files, threads as executors, SQLite as the catalog."""

from contextlib import asynccontextmanager

from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from runnel import Engine, Record
from runnel.engine.tables import EngineTruth
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
from runnel.table.catalogs.delta import Delta
from runnel.table.catalogs.iceberg import Iceberg
from runnel.table.catalogs.places import Place
from runnel.table.commit import Commits, nothing
from runnel.table.executor import Threads
from runnel.table.files.facts import Sizes
from runnel.table.lease import Lease
from runnel.table.pipeline import Pipeline
from runnel.table.plan import Bounds
from runnel.table.removal import Removal
from runnel.table.schemas import Schema, Schemas
from runnel.table.service import Service
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.files import FileObjects


class Lake:
    """The parts that outlive a planner: store, ledger, catalog."""

    def __init__(self, folder, *, bounds=None, sizes=None, lease_ms=10_000, registry=()):
        self.folder = folder
        self.objects = FileObjects(folder / "objects", Chance(7))
        self.shelf = MemoryShelf()
        self.url = f"file://{folder / 'objects'}"
        self.properties = {"type": "sql", "uri": f"sqlite:///{folder / 'catalog.sqlite'}", "warehouse": self.url}
        self.bounds = bounds or Bounds()
        self.sizes = sizes or Sizes()
        self.lease_ms = lease_ms
        self.grace_ms = 0
        self.schemas = Schemas(registry or (f"http://127.0.0.1:9{folder}",))

    async def close(self):
        await self.objects.close()

    @asynccontextmanager
    async def engine(self):
        async with Engine(objects=self.objects, ledger=MemoryLedger(self.shelf), shards=2) as engine:
            yield engine

    def iceberg(self, **more):
        return Iceberg(self.properties, Place(self.url), now_ms=SystemClock().now_ms, **more)

    def delta(self, truth, **more):
        return Delta(Place(self.url), truth.put_from_a_thread, **more)

    @asynccontextmanager
    async def service(
        self, engine, *, formats=None, reached=nothing, holder="me", workers=None, swap=True, patience_s=30.0, **more
    ):
        truth = EngineTruth(engine)
        lease = Lease(truth, holder, self.lease_ms)
        formats = [self.iceberg(), self.delta(truth)] if formats is None else formats(truth)
        commits = Commits(truth, lease, formats, reached=reached, swap=swap, **more)
        workers = workers or Threads(self.url, self.schemas)
        self.removal = Removal(truth, lease, formats, grace_ms=self.grace_ms)
        pipeline = Pipeline(
            truth,
            lease,
            commits,
            workers,
            bounds=self.bounds,
            sizes=self.sizes,
            reached=reached,
            removal=self.removal,
        )
        try:
            yield Service(truth, lease, pipeline, look_s=0.01, patience_s=patience_s)
        finally:
            await workers.close()
            await lease.give_up()

    # --- reading tables as others do

    def catalog(self):
        return load_catalog("runnel", **self.properties)

    def iceberg_table(self, topic):
        return self.catalog().load_table(("runnel", topic))

    def iceberg_rows(self, topic, *columns):
        return self.iceberg_table(topic).scan(selected_fields=columns or ("*",)).to_arrow()

    def delta_table(self, table):
        return DeltaTable(f"{self.url}/{table.folder}")

    def delta_rows(self, table):
        return self.delta_table(table).to_pyarrow_table()


def numbered(first, count, size=20):
    """Records whose values say their number."""
    return [Record(f"k{n}".encode(), f"{n:0{size}}".encode()) for n in range(first, first + count)]


def knows(schemas, number, text):
    """Let a client of registries know an Avro schema without one."""
    schemas.kept[number] = Schema(number, "AVRO", text)


async def produce(engine, topic, count, *, partition=0, first=0):
    stream = engine.stream_of(topic, partition)
    await engine.append_records(stream, numbered(first, count))
