"""The only place that picks concrete parts: from settings to a node that runs.

Every part is imported when it is chosen, so that a start pays only for what it uses, and an extra that is not
installed is missed by name.
"""

import asyncio
import errno
import gc
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from runnel.api.buckets.routes import BucketRoutes
from runnel.api.buckets.service import BucketService
from runnel.api.buckets.tails import RecordTails
from runnel.api.durable.routes import StreamRoutes
from runnel.api.durable.service import StreamService
from runnel.api.durable.tails import TailLimits, Tails
from runnel.api.durable.topics import TopicRoutes
from runnel.api.openapi import add_openapi
from runnel.api.registry.registry import SchemaRegistry
from runnel.api.registry.routes import add_registry
from runnel.api.routes import Routes
from runnel.api.server import HttpServer
from runnel.api.streams.words import PREFLIGHT
from runnel.api.subscriptions.desk import Desk
from runnel.api.subscriptions.routes import SubscriptionRoutes
from runnel.api.subscriptions.waker import Waker
from runnel.api.vitals import add_vitals
from runnel.broker.broker import Broker
from runnel.broker.server import KafkaServer
from runnel.engine import Engine, EngineLimits
from runnel.engine.membership import Presence
from runnel.engine.upkeep import UpkeepLimits
from runnel.errors import Refused
from runnel.ingest.flush import FlushLimits
from runnel.ingest.gather import IngestLimits
from runnel.ingest.window import WindowBounds
from runnel.metadata.follower import FollowerLimits
from runnel.metadata.ledger.open import open_ledger as ledger_at
from runnel.metadata.ledger.seam import Ledger
from runnel.node import Announce, Door, Ending, Node
from runnel.settings import Address, Loaded, Settings, described
from runnel.settings.places import ledger_url, objects_url
from runnel.world.allocator import keep_memory_together
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.data_dir import DataDir
from runnel.world.objects.open import check_store, open_store
from runnel.world.objects.seam import ObjectStore
from runnel.world.processes import cores, run_processes
from runnel.world.tasks import Tasks
from runnel.world.telemetry import Health, configure, get_log
from runnel.world.world import World

if TYPE_CHECKING:
    from runnel.engine.tables import EngineTruth
    from runnel.table.catalogs.seam import TableFormat
    from runnel.table.child import TableChild
    from runnel.table.job import SparkSettings
    from runnel.table.pipeline import Progress
    from runnel.table.service import Service
    from runnel.table.status import Look

log = get_log("node")

TABLE_LIBRARIES = ("pyarrow", "pyspark", "pyiceberg", "deltalake", "duckdb", "sqlalchemy")
EXTRAS = {"obstore": "s3", "asyncpg": "postgres"} | dict.fromkeys(TABLE_LIBRARIES, "table")


def serve(loaded: Loaded, announce: Announce) -> int:
    """Run a node, in this process or in several, until it ends; the exit code."""
    settings = loaded.settings
    configure(level=settings.log_level, form=settings.log_format)
    keep_memory_together()
    with DataDir.open(Path(settings.data_dir)) as data_dir:
        count = settings.processes or cores()
        if count == 1:
            return _serve(settings, data_dir, announce)
        _check_shared(settings)
        gc.freeze()  # what is loaded by now is shared by all processes

        def work(number: int, report: Announce, lifeline: int) -> int:
            return _serve(settings_of_process(settings, number), data_dir.of_process(number), report, lifeline)

        def announce_all(found: list[dict[str, str]]) -> None:
            announce({door: ",".join(addresses[door] for addresses in found) for door in found[0]})

        return run_processes(count, work, announce_all, SystemClock())


def _serve(settings: Settings, data_dir: DataDir, announce: Announce, lifeline: int = -1) -> int:
    """One process of a node. It ends when `lifeline` becomes readable: then nobody looks after it any more."""

    async def serve() -> int:
        if lifeline >= 0:
            loop = asyncio.get_running_loop()

            def orphaned() -> None:
                loop.remove_reader(lifeline)
                os.kill(os.getpid(), signal.SIGTERM)

            loop.add_reader(lifeline, orphaned)
        async with AsyncExitStack() as parts:
            node = await build(settings, parts, data_dir)
            return await node.run(announce)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(serve())


def settings_of_process(settings: Settings, number: int) -> Settings:
    """The settings of one process of a node: each has the next higher ports, and the next number if they are given."""
    return replace(
        settings,
        http=_further(settings.http, number),
        kafka=_further(settings.kafka, number),
        kafka_advertised=_further(settings.kafka_advertised, number) if settings.kafka_advertised else "",
        node_id=settings.node_id + number if settings.node_id >= 0 else -1,
        table_service=settings.table_service and not number,
    )


def _further(text: str, number: int) -> str:
    address = Address.parse(text)
    return str(Address(address.host, address.port + number)) if address.port else text


def _check_shared(settings: Settings) -> None:
    """Processes meet in the store and in the ledger, so neither can be the memory of one of them."""
    for name in ("objects", "ledger"):
        if getattr(settings, name).startswith("memory:"):
            raise Refused(
                f"several processes cannot share {name} in memory: choose another with --{name}, or 1 process"
            )


async def build(settings: Settings, parts: AsyncExitStack, data_dir: DataDir | None = None) -> Node:
    """A node with all its parts; they are closed, the last opened first, when `parts` is left."""
    ending = Ending()
    world = World(clock=SystemClock(), chance=Chance(), tasks=Tasks(ending.died))
    health = Health()
    parts.push_async_callback(world.tasks.close)
    objects = await open_objects(settings, world)
    parts.push_async_callback(objects.close)
    await check_store(objects)
    ledger = await open_ledger(settings, world, objects)
    parts.push_async_callback(ledger.close)
    engine = Engine(
        objects=objects,
        ledger=ledger,
        world=world,
        limits=engine_limits(settings),
        shards=settings.shards,
        presence=Presence(
            id=None if settings.node_id < 0 else settings.node_id,
            zone=settings.zone,
            lease_ms=settings.lease_ms,
            former=data_dir.identity() if data_dir is not None else None,
        ),
    )
    await parts.enter_async_context(engine)
    membership = engine.membership
    assert membership is not None, "a node is one among others"
    if data_dir is not None:
        data_dir.remember(membership.id, membership.incarnation)
    health.vital("root shard", engine.vital_trouble)
    health.require("upgrade", engine.needs_upgrade)
    if (child := _table_child(settings, engine, world)) is not None:
        parts.push_async_callback(child.close)
    routes = Routes(options=PREFLIGHT)
    add_vitals(routes, health, world.metrics)
    add_openapi(routes)
    streams = StreamService(engine)
    tails = Tails(streams, tail_limits(settings))
    protocol = StreamRoutes(streams, tails)
    protocol.add_to(routes)
    TopicRoutes(streams, tails).add_to(routes)
    desk = Desk(streams, local=settings.webhooks_local)
    SubscriptionRoutes(desk).add_to(routes)
    waker = Waker(desk, membership.is_first)
    parts.push_async_callback(waker.close)
    if not settings.registry:
        add_registry(routes, SchemaRegistry(engine), world.tasks)
    buckets = BucketService(streams)
    BucketRoutes(buckets, protocol, RecordTails(buckets, tail_limits(settings))).add_to(routes)
    doors: list[Door] = [
        KafkaDoor(Broker.of(engine, settings), settings),
        HttpDoor(HttpServer(routes, clock=world.clock, tasks=world.tasks, metrics=world.metrics), settings.http),
    ]

    async def arrive(addresses: dict[str, str]) -> None:
        desk.base = settings.http_advertised.rstrip("/") or addresses["http"]
        await membership.tell(addresses)

    return Node(
        world=world,
        health=health,
        doors=doors,
        ending=ending,
        drain_ms_max=settings.drain_ms_max,
        arrive=arrive,
        depart=membership.drain,
    )


def tail_limits(settings: Settings) -> TailLimits:
    """How long live readers wait, as the settings have it."""
    return TailLimits(
        long_poll_seconds=settings.http_long_poll_ms / 1000, recycle_seconds=settings.http_sse_ms_max / 1000
    )


def engine_limits(settings: Settings) -> EngineLimits:
    """The engine's bounds, as the settings have them."""
    window = WindowBounds(bytes_max=settings.object_bytes_max, age_max=settings.object_age_ms_max / 1000)
    return EngineLimits(
        ingest=IngestLimits(window=window, inflight_bytes_max=settings.inflight_bytes_max),
        flush=FlushLimits(uploads_max=settings.uploads_max),
        follower=FollowerLimits(checkpoint_entries=settings.checkpoint_entries),
        upkeep=UpkeepLimits(
            retention_check_ms=settings.retention_check_ms,
            sweep_every_ms=settings.sweep_every_ms,
            sweep_grace_ms=settings.sweep_grace_ms,
            producers_kept_ms=settings.producers_kept_ms,
            offsets_kept_ms=settings.offsets_kept_ms,
        ),
        cache_bytes_max=settings.cache_bytes_max,
        loading_bytes_max=settings.loading_bytes_max,
        ahead_bytes_max=settings.ahead_bytes_max,
    )


async def open_objects(settings: Settings, world: World) -> ObjectStore:
    """The object store that a URL names. It may still be out of reach; `check_store` finds out."""
    with missed_by_name():
        return open_store(objects_url(settings), clock=world.clock, chance=world.chance.fork("objects"))


async def open_ledger(settings: Settings, world: World, objects: ObjectStore) -> Ledger:
    """The ledger that a URL names."""
    with missed_by_name():
        return await ledger_at(
            ledger_url(settings), objects=objects, clock=world.clock, chance=world.chance, tasks=world.tasks
        )


# --- tables


@asynccontextmanager
async def table_service(settings: Settings, progress: "Progress") -> "AsyncIterator[Service]":
    """A planner for tables, as a process of its own: an engine that serves nobody, formats, and Spark."""
    with missed_by_name():
        from runnel.table.commit import Commits
        from runnel.table.job import SparkWorkers
        from runnel.table.lease import Lease
        from runnel.table.pipeline import Pipeline
        from runnel.table.plan import Bounds
        from runnel.table.removal import Removal
        from runnel.table.schemas import Schemas, addresses_of
        from runnel.table.service import Service
    async with AsyncExitStack() as parts:
        truth = await _table_truth(settings, parts)
        formats = _table_formats(settings, truth)

        def schemas() -> Schemas:
            asked = Schemas(addresses_of(truth.root.nodes.values(), settings.registry))
            return asked if settings.registry else asked.take_along(truth.root)

        spark = _spark_settings(settings)
        workers = SparkWorkers(spark, objects_url(settings), schemas)
        parts.push_async_callback(workers.close)
        unique = truth.world.chance.fork("planner").getrandbits(32)
        lease = Lease(truth, f"{socket.gethostname()}:{os.getpid()}:{unique:08x}")
        parts.push_async_callback(lease.give_up)
        commits = Commits(truth, lease, formats, patience_s=settings.table_catalog_ms_max / 1000)
        bounds = Bounds(task_bytes=settings.table_task_bytes)
        removal = Removal(truth, lease, formats, grace_ms=settings.sweep_grace_ms)
        pipeline = Pipeline(truth, lease, commits, workers, bounds=bounds, progress=progress, removal=removal)
        yield Service(truth, lease, pipeline)


@asynccontextmanager
async def table_look(settings: Settings) -> "AsyncIterator[Look]":
    """A look at tables from outside."""
    with missed_by_name():
        from runnel.table.status import Look
    async with AsyncExitStack() as parts:
        truth = await _table_truth(settings, parts)
        yield Look(truth, _table_formats(settings, truth))


async def _table_truth(settings: Settings, parts: AsyncExitStack) -> "EngineTruth":
    from runnel.engine.tables import EngineTruth

    _require_cluster(settings)
    ending = Ending()
    world = World(clock=SystemClock(), chance=Chance(), tasks=Tasks(ending.died))
    parts.push_async_callback(world.tasks.close)
    objects = await open_objects(settings, world)
    parts.push_async_callback(objects.close)
    ledger = await open_ledger(settings, world, objects)
    parts.push_async_callback(ledger.close)
    engine = Engine(
        objects=objects, ledger=ledger, world=world, limits=engine_limits(settings), shards=settings.shards, eager=False
    )
    await parts.enter_async_context(engine)
    return EngineTruth(engine)


def _table_child(settings: Settings, engine: Engine, world: World) -> "TableChild | None":
    """The table service of a node, where it is wanted and can be."""
    if not settings.table_service:
        return None
    from runnel.table.child import TableChild, missing

    why = missing()
    if settings.ledger == "memory:" or settings.objects.startswith("memory:"):
        why = "what is in this process's memory cannot be reached from another"
    if why:
        log.info("table_service_off", why=why)
        return None
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RUNNEL_")}
    for knob in described(Settings).values():
        value = getattr(settings, knob.name)
        environ[knob.env] = str(value).lower() if knob.kind is bool else str(value)

    def wanted() -> bool:
        return any(
            not topic.name.startswith("_") and engine.topics.rules(topic).table_formats for topic in engine.topics.all()
        )

    return TableChild(environ, world, wanted)


def _spark_settings(settings: Settings) -> "SparkSettings":
    from runnel.table.job import SparkSettings

    return SparkSettings(
        master=settings.table_master,
        folder=Path(settings.data_dir).absolute() / "spark",
        memory_bytes=settings.table_memory_bytes,
    )


def _require_cluster(settings: Settings) -> None:
    if not settings.objects and not Path(settings.data_dir, "objects").exists():
        raise Refused(
            f"there is no cluster in '{settings.data_dir}': start 'runnel serve' first, or name its --data-dir"
        )
    if settings.ledger == "memory:":
        raise Refused(
            "tables need a ledger that other processes can reach: set 'ledger' to sqlite:///… or postgresql://…"
        )


def _table_formats(settings: Settings, truth: "EngineTruth") -> "list[TableFormat]":
    from runnel.table.catalogs.delta import Delta
    from runnel.table.catalogs.iceberg import Iceberg
    from runnel.table.catalogs.places import Place, catalog_properties

    place = Place(objects_url(settings))
    default = f"sqlite:///{(Path(settings.data_dir) / 'catalog.sqlite').absolute()}"
    properties = catalog_properties(settings.table_catalog or default, place)
    iceberg = Iceberg(
        properties,
        place,
        namespace=settings.table_namespace,
        catalog=settings.table_catalog if not properties else "runnel",
        now_ms=truth.world.clock.now_ms,
    )
    return [iceberg, Delta(place, truth.put_from_a_thread)]


class KafkaDoor:
    """The Kafka server at its address, and the address that clients are told."""

    name = "kafka"

    def __init__(self, broker: Broker, settings: Settings) -> None:
        self._broker = broker
        self._server = KafkaServer(broker)
        self._settings = settings
        self._address = Address.parse(settings.kafka)

    async def open(self) -> str:
        try:
            host, port = await self._server.start(self._address.host, self._address.port)
        except OSError as error:
            raise Refused(_cannot_listen("kafka", self._address, error)) from None
        told = self._advertised(host, port)
        self._broker.routing.announce(told.host, told.port, self._settings.zone)
        return str(told)

    def _advertised(self, host: str, port: int) -> Address:
        if self._settings.kafka_advertised:
            told = Address.parse(self._settings.kafka_advertised)
            return Address(told.host, told.port or port)
        return Address(socket.gethostname() if host in {"0.0.0.0", "::"} else host, port)  # noqa: S104  not a bind

    async def drain(self, seconds: float) -> None:
        await self._server.drain(seconds)


class HttpDoor:
    """The HTTP server at its address."""

    name = "http"

    def __init__(self, server: HttpServer, address: str) -> None:
        self._server = server
        self._address = Address.parse(address)

    async def open(self) -> str:
        try:
            host, port = await self._server.start(self._address.host, self._address.port)
        except OSError as error:
            raise Refused(_cannot_listen("http", self._address, error)) from None
        return f"http://{Address(host, port)}"

    async def drain(self, seconds: float) -> None:
        await self._server.drain(seconds)


def _cannot_listen(door: str, address: Address, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        reason = "is in use: stop what listens there, or choose another"
    elif error.errno in (errno.EACCES, errno.EPERM):
        reason = "needs more rights than this user has: choose a port above 1023"
    elif isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        reason = "is no address of this machine: choose another"
    else:
        reason = f"cannot be listened at ({error.strerror or error}): choose another"
    return f"{door} address {address} {reason} with --{door}"


@contextmanager
def missed_by_name() -> Iterator[None]:
    """An extra that is not installed becomes `Refused` with its name."""
    try:
        yield
    except ModuleNotFoundError as error:
        extra = EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        raise Refused(f"{error.name} is not installed: pip install 'runnel[{extra}]'") from None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    try:
        import uvloop
    except ImportError:
        return None
    return cast("Callable[[], asyncio.AbstractEventLoop]", uvloop.new_event_loop)
