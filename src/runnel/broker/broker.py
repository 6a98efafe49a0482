"""What every handler is given: the engine, the settings, and what the handlers share."""

from collections.abc import Callable
from dataclasses import dataclass, field

from runnel.broker.alarms import Alarms
from runnel.broker.catalog import Catalog
from runnel.broker.groups.bounds import GroupBounds
from runnel.broker.groups.coordinator import Coordinator
from runnel.broker.limits import Limits
from runnel.broker.routing import Routing
from runnel.broker.unsent import Unsent
from runnel.broker.versions import Versions
from runnel.engine import Engine
from runnel.settings import Settings
from runnel.world.world import World


@dataclass(slots=True, kw_only=True)
class Broker:
    """One node's Kafka side. Handlers keep a reference to it; state of their own they keep in objects of their own."""

    engine: Engine
    world: World
    settings: Settings
    limits: Limits
    catalog: Catalog
    routing: Routing
    unsent: Unsent
    groups: Coordinator
    alarms: Alarms
    versions: Versions = field(default_factory=dict)
    """What is offered: first and last version by API key."""
    when_open: list[Callable[[], None]] = field(default_factory=list)
    """Called when the server begins to listen."""
    when_draining: list[Callable[[], None]] = field(default_factory=list)
    """Called when the server goes down: whoever keeps clients waiting answers them now."""

    @classmethod
    def of(cls, engine: Engine, settings: Settings, limits: Limits | None = None) -> "Broker":
        """The broker of an engine that is open."""
        limits = limits or limits_of(settings)
        routing = Routing(engine)
        alarms = Alarms()
        groups = Coordinator(engine, routing, alarms, group_bounds_of(settings))
        return cls(
            engine=engine,
            world=engine.world,
            settings=settings,
            limits=limits,
            unsent=Unsent(limits.unsent_bytes_max),
            catalog=Catalog(engine, settings),
            routing=routing,
            groups=groups,
            alarms=alarms,
            when_open=[groups.open],
            when_draining=[groups.close],
        )


def limits_of(settings: Settings) -> Limits:
    return Limits(
        connections_max=settings.kafka_connections_max,
        request_bytes_max=settings.kafka_request_bytes_max,
        receive_bytes_max=settings.kafka_receive_bytes_max,
        fetch_bytes_max=settings.kafka_fetch_bytes_max,
        unsent_bytes_max=settings.kafka_unsent_bytes_max,
        sessions_max=settings.kafka_sessions_max,
        idle_seconds=settings.kafka_idle_ms_max / 1000,
    )


def group_bounds_of(settings: Settings) -> GroupBounds:
    return GroupBounds(
        groups_max=settings.groups_max,
        members_max=settings.group_members_max,
        metadata_bytes_max=settings.group_metadata_bytes_max,
        session_ms_min=settings.group_session_ms_min,
        session_ms_max=settings.group_session_ms_max,
        initial_delay_ms=settings.group_initial_delay_ms,
        consumer_session_ms=settings.consumer_session_ms,
        consumer_heartbeat_ms=settings.consumer_heartbeat_ms,
        note_bytes_max=settings.offset_note_bytes_max,
    )
