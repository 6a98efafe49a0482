"""The settings of a topic: every name that Apache Kafka knows, its type and default, and what it does here.

Each is either *honoured* or *explained*: a setting that means nothing without segments, replicas or leaders is taken,
kept and given back, and its documentation (DescribeConfigs) says why it changes nothing. A name that is not in the list
is refused with the nearest one that is, a value of the wrong kind with what would be right.

    read_settings   text as a client sent it, checked; Refused with the name of the setting
    value_of        what holds for a topic: its own value, the cluster's (under the broker's name for it), the default
    rules_of        the honoured ones as numbers, for those who append, read and tidy up
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from re import IGNORECASE, fullmatch

from runnel.errors import Refused

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
DAY_MS = 86_400_000
UNLIMITED = -1


class Kind(Enum):
    """Types of values, with their codes in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting. `here` says what we do with it; `broker` is Kafka's name for the default of all topics."""

    name: str
    kind: Kind
    default: str
    says: str
    here: str = ""
    honoured: bool = False
    low: float = 0
    high: float = LONG_MAX
    choices: tuple[str, ...] = ()
    refused: Mapping[str, str] | None = None
    form: str = ""
    """A pattern that the whole text fits, case aside."""
    broker: str = ""

    @property
    def documentation(self) -> str:
        return f"{self.says} {'Honoured.' if self.honoured else 'Accepted, and changes nothing:'} {self.here}".strip()

    def read(self, text: str) -> str:
        """The value in its plain form, or `Refused`."""
        text = text.strip()
        if self.kind in (Kind.INT, Kind.LONG, Kind.DOUBLE):
            return self._number(text)
        if self.kind is Kind.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise Refused(f"setting {self.name} is '{text}', neither true nor false")
            return text.lower()
        if self.form and not fullmatch(self.form, text, IGNORECASE):
            raise Refused(f"setting {self.name} is '{text}', which it cannot be. {self.says}")
        words = [word.strip() for word in text.split(",")] if self.kind is Kind.LIST else [text]
        words = [word for word in words if word or self.kind is Kind.STRING]
        for word in words:
            if self.refused and word in self.refused:
                raise Refused(f"setting {self.name} cannot be '{word}' here: {self.refused[word]}")
            if self.choices and word not in self.choices:
                raise Refused(f"setting {self.name} is '{word}', none of {', '.join(self.choices)}")
        return ",".join(words)

    def _number(self, text: str) -> str:
        whole = self.kind is not Kind.DOUBLE
        try:
            value = int(text) if whole else float(text)
        except ValueError:
            raise Refused(f"setting {self.name} is '{text}', not a {'whole ' if whole else ''}number") from None
        high = min(self.high, INT_MAX) if self.kind is Kind.INT else self.high
        if not self.low <= value <= high:
            raise Refused(f"setting {self.name} is {text}, not between {self.low:,} and {high:,}")
        return str(value)


_SEGMENTS = "records lie in objects of many topics, not in segment files."
_COMPACTION = "there is no compaction by key yet."
_REPLICAS = "every acknowledged record is in the object store; there are no replicas."
_TIERS = "all records are in the object store from the start, there is no other tier."
_FLUSH = "every acknowledged record is durable already."
_RECOMPRESS = "batches are kept as their producers compressed them."

_DIVIDED_BY = r"((year|month|day|hour)\(\s*[^()\s,]+\s*\)|[^()\s,]+)"

_ALL = (
    Setting(
        name="cleanup.policy",
        kind=Kind.LIST,
        default="delete",
        says="What happens to old records: 'delete' removes them by age and size, empty keeps them all.",
        here="'compact' is refused.",
        honoured=True,
        choices=("delete",),
        refused={"compact": "compaction by key does not exist yet, only 'delete' does"},
        broker="log.cleanup.policy",
    ),
    Setting(
        name="compression.type",
        kind=Kind.STRING,
        default="producer",
        says="How the broker compresses batches.",
        here=_RECOMPRESS,
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        broker="compression.type",
    ),
    Setting(
        name="compression.gzip.level",
        kind=Kind.INT,
        default="-1",
        says="The level when the broker compresses with gzip.",
        here=_RECOMPRESS,
        low=-1,
        high=9,
        broker="compression.gzip.level",
    ),
    Setting(
        name="compression.lz4.level",
        kind=Kind.INT,
        default="9",
        says="The level when the broker compresses with lz4.",
        here=_RECOMPRESS,
        low=1,
        high=17,
        broker="compression.lz4.level",
    ),
    Setting(
        name="compression.zstd.level",
        kind=Kind.INT,
        default="3",
        says="The level when the broker compresses with zstd.",
        here=_RECOMPRESS,
        low=-131_072,
        high=22,
        broker="compression.zstd.level",
    ),
    Setting(
        name="delete.retention.ms",
        kind=Kind.LONG,
        default=str(DAY_MS),
        says="How long a compacted topic keeps the marks of deleted keys.",
        here=_COMPACTION,
        broker="log.cleaner.delete.retention.ms",
    ),
    Setting(
        name="file.delete.delay.ms",
        kind=Kind.LONG,
        default="60000",
        says="How long a removed segment file stays on disk.",
        here="the sweep has a grace of its own for all objects.",
        broker="log.segment.delete.delay.ms",
    ),
    Setting(
        name="flush.messages",
        kind=Kind.LONG,
        default=str(LONG_MAX),
        says="After how many records the log is flushed to disk.",
        here=_FLUSH,
        low=1,
        broker="log.flush.interval.messages",
    ),
    Setting(
        name="flush.ms",
        kind=Kind.LONG,
        default=str(LONG_MAX),
        says="After how long the log is flushed to disk.",
        here=_FLUSH,
        broker="log.flush.interval.ms",
    ),
    Setting(
        name="follower.replication.throttled.replicas",
        kind=Kind.LIST,
        default="",
        says="Replicas whose followers are slowed down.",
        here=_REPLICAS,
    ),
    Setting(
        name="leader.replication.throttled.replicas",
        kind=Kind.LIST,
        default="",
        says="Replicas whose leaders are slowed down.",
        here=_REPLICAS,
    ),
    Setting(
        name="index.interval.bytes",
        kind=Kind.INT,
        default="4096",
        says="How often an entry is added to the offset index.",
        here=_SEGMENTS,
        broker="log.index.interval.bytes",
    ),
    Setting(
        name="local.retention.bytes",
        kind=Kind.LONG,
        default="-2",
        says="How much is kept on the broker's own disk when tiered storage is on.",
        here=_TIERS,
        low=-2,
        broker="log.local.retention.bytes",
    ),
    Setting(
        name="local.retention.ms",
        kind=Kind.LONG,
        default="-2",
        says="How long records are kept on the broker's own disk when tiered storage is on.",
        here=_TIERS,
        low=-2,
        broker="log.local.retention.ms",
    ),
    Setting(
        name="max.compaction.lag.ms",
        kind=Kind.LONG,
        default=str(LONG_MAX),
        says="The longest time that a record stays uncompacted.",
        here=_COMPACTION,
        low=1,
        broker="log.cleaner.max.compaction.lag.ms",
    ),
    Setting(
        name="max.message.bytes",
        kind=Kind.INT,
        default="1048588",
        says="The largest record batch that is taken, after compression.",
        honoured=True,
        broker="message.max.bytes",
    ),
    Setting(
        name="message.timestamp.after.max.ms",
        kind=Kind.LONG,
        default="3600000",
        says="How far a record's timestamp may lie ahead of the broker's clock, with CreateTime.",
        honoured=True,
        broker="log.message.timestamp.after.max.ms",
    ),
    Setting(
        name="message.timestamp.before.max.ms",
        kind=Kind.LONG,
        default=str(LONG_MAX),
        says="How far a record's timestamp may lie behind the broker's clock, with CreateTime.",
        here="The oldest of a batch is taken to be its first.",
        honoured=True,
        broker="log.message.timestamp.before.max.ms",
    ),
    Setting(
        name="message.timestamp.type",
        kind=Kind.STRING,
        default="CreateTime",
        says="Whether a record's timestamp is the producer's (CreateTime) or the broker's (LogAppendTime).",
        honoured=True,
        choices=("CreateTime", "LogAppendTime"),
        broker="log.message.timestamp.type",
    ),
    Setting(
        name="min.cleanable.dirty.ratio",
        kind=Kind.DOUBLE,
        default="0.5",
        says="From which share of uncompacted records on a log is compacted.",
        here=_COMPACTION,
        high=1,
        broker="log.cleaner.min.cleanable.ratio",
    ),
    Setting(
        name="min.compaction.lag.ms",
        kind=Kind.LONG,
        default="0",
        says="The shortest time that a record stays uncompacted.",
        here=_COMPACTION,
        broker="log.cleaner.min.compaction.lag.ms",
    ),
    Setting(
        name="min.insync.replicas",
        kind=Kind.INT,
        default="1",
        says="How many replicas must have a record before acks=all is answered.",
        here=_REPLICAS,
        low=1,
        broker="min.insync.replicas",
    ),
    Setting(
        name="preallocate",
        kind=Kind.BOOLEAN,
        default="false",
        says="Whether segment files are made in their full size.",
        here=_SEGMENTS,
        broker="log.preallocate",
    ),
    Setting(
        name="remote.storage.enable",
        kind=Kind.BOOLEAN,
        default="false",
        says="Whether old segments move to tiered storage.",
        here=_TIERS,
    ),
    Setting(
        name="remote.log.copy.disable",
        kind=Kind.BOOLEAN,
        default="false",
        says="Whether tiered storage takes nothing new.",
        here=_TIERS,
    ),
    Setting(
        name="remote.log.delete.on.disable",
        kind=Kind.BOOLEAN,
        default="false",
        says="Whether tiered records go when tiered storage is switched off.",
        here=_TIERS,
    ),
    Setting(
        name="retention.bytes",
        kind=Kind.LONG,
        default="-1",
        says="How many bytes a partition keeps at least before the oldest go; -1 for no limit.",
        here="Records go in the runs in which they were stored.",
        honoured=True,
        low=-1,
        broker="log.retention.bytes",
    ),
    Setting(
        name="retention.ms",
        kind=Kind.LONG,
        default=str(7 * DAY_MS),
        says="How long a partition keeps records, by their timestamps; -1 for ever.",
        here="Records go in the runs in which they were stored.",
        honoured=True,
        low=-1,
        broker="log.retention.ms",
    ),
    Setting(
        name="segment.bytes",
        kind=Kind.INT,
        default="1073741824",
        says="The size of a segment file.",
        here=_SEGMENTS,
        low=14,
        broker="log.segment.bytes",
    ),
    Setting(
        name="segment.index.bytes",
        kind=Kind.INT,
        default="10485760",
        says="The size of a segment's offset index.",
        here=_SEGMENTS,
        low=4,
        broker="log.index.size.max.bytes",
    ),
    Setting(
        name="segment.jitter.ms",
        kind=Kind.LONG,
        default="0",
        says="By how much the times of new segments are spread.",
        here=_SEGMENTS,
        broker="log.roll.jitter.ms",
    ),
    Setting(
        name="segment.ms",
        kind=Kind.LONG,
        default=str(7 * DAY_MS),
        says="After how long a new segment file is begun.",
        here=_SEGMENTS,
        low=1,
        broker="log.roll.ms",
    ),
    Setting(
        name="table.formats",
        kind=Kind.LIST,
        default="iceberg,delta",
        says="As what the topic's table is published: iceberg, delta, or both from the same files; empty for no table.",
        honoured=True,
        choices=("iceberg", "delta"),
        broker="table.formats",
    ),
    Setting(
        name="table.values",
        kind=Kind.STRING,
        default="auto",
        says="How the table reads values: auto, raw, schema (framed values), schema:ID (values without frames) or json.",
        here="auto reads framed values by their schemas where the registry knows them, and keeps all others raw.",
        honoured=True,
        form=r"auto|raw|json|schema(:[1-9]\d{0,9})?",
    ),
    Setting(
        name="table.partition",
        kind=Kind.STRING,
        default="",
        says="What the table is partitioned by, such as 'day(timestamp), country': year, month, day, hour, or a field.",
        honoured=True,
        form=rf"({_DIVIDED_BY}(\s*,\s*{_DIVIDED_BY})*)?",
    ),
    Setting(
        name="table.dead.letters",
        kind=Kind.STRING,
        default="",
        says="The topic that gets records which cannot be rows of the table, with the reason.",
        here="When empty, the topic's own name with '-dead-letters' behind it.",
        honoured=True,
    ),
    Setting(
        name="unclean.leader.election.enable",
        kind=Kind.BOOLEAN,
        default="false",
        says="Whether a replica that lags behind may become leader.",
        here=_REPLICAS,
        broker="unclean.leader.election.enable",
    ),
)

FORMATS = ("iceberg", "delta")
"""What a topic's table can be known as."""

TOPIC_SETTINGS: Mapping[str, Setting] = {setting.name: setting for setting in sorted(_ALL, key=lambda each: each.name)}
BROKER_SETTINGS: Mapping[str, Setting] = {each.broker: each for each in TOPIC_SETTINGS.values() if each.broker}
"""The same by the names under which a cluster keeps the default of all topics."""


def setting_of(name: str) -> Setting:
    known = TOPIC_SETTINGS.get(name)
    if known is None:
        raise Refused(f"there is no topic setting '{name}'{nearest(name, TOPIC_SETTINGS)}")
    return known


def nearest(name: str, names: Mapping[str, object]) -> str:
    close = get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f": did you mean '{close[0]}'?" if close else ""


def read_settings(given: Mapping[str, str | None]) -> dict[str, str]:
    """Settings as a client sent them, checked and in their plain form; without a value a setting keeps its default."""
    return {name: setting_of(name).read(text) for name, text in given.items() if setting_of(name) and text is not None}


def value_of(setting: Setting, own: Mapping[str, str], cluster: Mapping[str, str]) -> str:
    """What holds for a topic with its own settings in a cluster with these."""
    value = own.get(setting.name)
    if value is None and setting.broker:
        value = cluster.get(setting.broker)
    return setting.default if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRules:
    """The honoured settings of one topic."""

    retention_ms: int
    retention_bytes: int
    max_message_bytes: int
    is_append_time: bool
    before_max_ms: int
    after_max_ms: int
    table_formats: tuple[str, ...] = FORMATS
    dead_letters: str = ""

    @property
    def keeps_all(self) -> bool:
        return self.retention_ms == UNLIMITED and self.retention_bytes == UNLIMITED


def rules_of(own: Mapping[str, str], cluster: Mapping[str, str]) -> TopicRules:
    """The rules of a topic. Keep the result as long as neither the topic nor the cluster's settings change."""

    def value(name: str) -> str:
        return value_of(TOPIC_SETTINGS[name], own, cluster)

    deletes = "delete" in value("cleanup.policy")
    return TopicRules(
        retention_ms=int(value("retention.ms")) if deletes else UNLIMITED,
        retention_bytes=int(value("retention.bytes")) if deletes else UNLIMITED,
        max_message_bytes=int(value("max.message.bytes")),
        is_append_time=value("message.timestamp.type") == "LogAppendTime",
        before_max_ms=int(value("message.timestamp.before.max.ms")),
        after_max_ms=int(value("message.timestamp.after.max.ms")),
        table_formats=tuple(word for word in value("table.formats").split(",") if word),
        dead_letters=value("table.dead.letters"),
    )
