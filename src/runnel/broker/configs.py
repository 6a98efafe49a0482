"""Settings as Kafka clients see them: of topics, of brokers, of the whole cluster; where each value comes from.

    topic_entries     a topic's settings, the honoured and the explained ones
    broker_entries    this broker's: the cluster's defaults for topics, Kafka's names for some of our knobs, all knobs
    cluster_entries   what holds for all brokers because someone set it while the cluster ran
    altered           a set of settings after SET, DELETE, APPEND and SUBTRACT

Pure: it is given the settings and gives back values.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from runnel.errors import Refused
from runnel.metadata.topic_settings import (
    BROKER_SETTINGS,
    TOPIC_SETTINGS,
    Kind,
    Setting,
    nearest,
    setting_of,
)
from runnel.settings import Settings, described
from runnel.world.telemetry.log import mask_url


class Resource(IntEnum):
    """Things that have settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """Where a value comes from."""

    TOPIC = 1
    BROKER_DYNAMIC = 2
    CLUSTER = 3
    BROKER = 4
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Operation(IntEnum):
    """What to do with one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One setting with its value. A synonym is (name, value, source); the first one is the value that holds."""

    name: str
    value: str | None
    source: Source
    kind: Kind = Kind.STRING
    says: str = ""
    read_only: bool = False
    sensitive: bool = False
    synonyms: tuple[tuple[str, str | None, Source], ...] = ()


def _entry(name: str, kind: Kind, says: str, synonyms: Iterable[tuple[str, str | None, Source]]) -> Entry:
    known = tuple(synonyms)
    return Entry(name=name, value=known[0][1], source=known[0][2], kind=kind, says=says, synonyms=known)


def topic_entries(own: Mapping[str, str], cluster: Mapping[str, str]) -> list[Entry]:
    """The settings of a topic, in the order of their names."""

    def synonyms(setting: Setting) -> Iterable[tuple[str, str | None, Source]]:
        if setting.name in own:
            yield setting.name, own[setting.name], Source.TOPIC
        if setting.broker in cluster:
            yield setting.broker, cluster[setting.broker], Source.CLUSTER
        yield setting.broker or setting.name, setting.default, Source.DEFAULT

    return [_entry(each.name, each.kind, each.documentation, synonyms(each)) for each in TOPIC_SETTINGS.values()]


def cluster_entries(cluster: Mapping[str, str]) -> list[Entry]:
    """What was set for all brokers."""
    return [
        _entry(name, BROKER_SETTINGS[name].kind, _default_of(BROKER_SETTINGS[name]), [(name, value, Source.CLUSTER)])
        for name, value in sorted(cluster.items())
        if name in BROKER_SETTINGS
    ]


# Kafka's names for what is a knob here, for tools that look for them.
_NAMES: tuple[tuple[str, str, Kind], ...] = (
    ("auto.create.topics.enable", "auto_create_topics", Kind.BOOLEAN),
    ("broker.rack", "zone", Kind.STRING),
    ("broker.session.timeout.ms", "lease_ms", Kind.INT),
    ("connections.max.idle.ms", "kafka_idle_ms_max", Kind.LONG),
    ("fetch.max.bytes", "kafka_fetch_bytes_max", Kind.INT),
    ("log.dirs", "data_dir", Kind.STRING),
    ("log.retention.check.interval.ms", "retention_check_ms", Kind.LONG),
    ("max.connections", "kafka_connections_max", Kind.INT),
    ("max.incremental.fetch.session.cache.slots", "kafka_sessions_max", Kind.INT),
    ("num.partitions", "topic_partitions", Kind.INT),
    ("producer.id.expiration.ms", "producers_kept_ms", Kind.INT),
    ("socket.request.max.bytes", "kafka_request_bytes_max", Kind.INT),
)
_FIXED: tuple[tuple[str, str, Kind, str], ...] = (
    ("default.replication.factor", "1", Kind.INT, "Every record is in the object store; a partition has one replica."),
    ("delete.topic.enable", "true", Kind.BOOLEAN, "Topics can be deleted."),
    ("process.roles", "broker,controller", Kind.LIST, "Every node does everything."),
)
_KINDS: Mapping[type, Kind] = {bool: Kind.BOOLEAN, int: Kind.LONG, float: Kind.DOUBLE}
OWN = "runnel."
"""Before the names of our own knobs, as `runnel.object.age.ms.max`."""


def broker_entries(settings: Settings, cluster: Mapping[str, str], node: int, advertised: str) -> list[Entry]:
    """The settings of one broker, in the order of their names. Only the defaults of topics can change while it runs."""
    entries = []
    for name, setting in BROKER_SETTINGS.items():
        synonyms: list[tuple[str, str | None, Source]] = [(name, setting.default, Source.DEFAULT)]
        if name in cluster:
            synonyms.insert(0, (name, cluster[name], Source.CLUSTER))
        entries.append(_entry(name, setting.kind, _default_of(setting), synonyms))
    knobs = described(Settings)
    for name, knob_name, kind in _NAMES:
        knob = knobs[knob_name]
        says = f"{knob.knob.sentence} The setting {knob_name} of the node."
        entries.append(_fixed(name, getattr(settings, knob_name), knob.default, kind, says))
    entries += [_fixed(name, value, value, kind, says) for name, value, kind, says in _FIXED]
    for name in ("broker.id", "node.id"):
        entries.append(_fixed(name, node, None, Kind.INT, "The number of this node in its cluster."))
    entries.append(_fixed("listeners", f"PLAINTEXT://{settings.kafka}", None, Kind.LIST, "Where this node listens."))
    entries.append(
        _fixed("advertised.listeners", f"PLAINTEXT://{advertised}", None, Kind.LIST, "Where clients find this node.")
    )
    for name, knob in knobs.items():
        kind = _KINDS.get(knob.kind, Kind.STRING)
        entries.append(
            _fixed(
                f"{OWN}{name.replace('_', '.')}",
                getattr(settings, name),
                knob.default,
                kind,
                f"{knob.knob.sentence} Set with {knob.flag} or {knob.env} when the node starts.",
                sensitive=knob.knob.secret,
            )
        )
    return sorted(entries, key=lambda entry: entry.name)


def _default_of(setting: Setting) -> str:
    return f"The default of the topic setting {setting.name}. {setting.documentation}"


def _fixed(name: str, value: object, default: object, kind: Kind, says: str, *, sensitive: bool = False) -> Entry:
    source = Source.DEFAULT if value == default else Source.BROKER
    text: str | None = None
    if not sensitive:
        text = str(value).lower() if isinstance(value, bool) else mask_url(str(value))
    synonyms = ((name, text, source),)
    return Entry(
        name=name,
        value=text,
        source=source,
        kind=kind,
        says=says,
        read_only=True,
        sensitive=sensitive,
        synonyms=synonyms,
    )


# --- changing ---------------------------------------------------------------------------------------------------------

Change = tuple[str, Operation, str | None]


def cluster_setting_of(name: str) -> Setting:
    """The setting under a broker's name, if it can be changed while the cluster runs."""
    known = BROKER_SETTINGS.get(name)
    if known is None:
        if name in TOPIC_SETTINGS and TOPIC_SETTINGS[name].broker:
            raise Refused(f"'{name}' is a topic setting; its default for all topics is '{TOPIC_SETTINGS[name].broker}'")
        raise Refused(
            f"setting '{name}' cannot change while the cluster runs{nearest(name, BROKER_SETTINGS)}; "
            "what a node starts with is listed by 'runnel config'"
        )
    return known


def altered(
    now: Mapping[str, str], changes: Iterable[Change], of: Callable[[str], Setting] = setting_of
) -> dict[str, str]:
    """The settings after all changes, each value checked; `Refused` if one of them is wrong."""
    after = dict(now)
    for name, operation, value in changes:
        setting = of(name)
        if operation is Operation.DELETE:
            after.pop(name, None)
            continue
        if value is None:
            raise Refused(f"setting {name} is to be changed, and no value is given: delete it instead")
        if operation is Operation.SET:
            after[name] = setting.read(value)
            continue
        if setting.kind is not Kind.LIST:
            raise Refused(f"setting {name} is no list: nothing can be added to it or taken from it")
        words = [word for word in (after.get(name) or setting.default).split(",") if word]
        given = [word.strip() for word in value.split(",") if word.strip()]
        if operation is Operation.APPEND:
            words += [word for word in given if word not in words]
        else:
            words = [word for word in words if word not in given]
        after[name] = setting.read(",".join(words))
    return after


def difference(now: Mapping[str, str], after: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """What to put and what to drop to come from one to the other."""
    return {name: value for name, value in after.items() if now.get(name) != value}, [
        name for name in now if name not in after
    ]
