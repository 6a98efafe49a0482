"""What a reader asks for. Names are those of Spark's Kafka source where it has them; case does not matter.

topic                 the topic to read
data_dir, objects, ledger, registry, config    which cluster: settings of `runnel serve`, else RUNNEL_… and defaults
startingOffsets       earliest (batch), latest (stream), a number for all partitions, or {"0": 17, "1": -2}
endingOffsets         latest, a number, or {"0": 42}; batch alone (-2 is earliest, -1 latest)
startingTimestamp, endingTimestamp             milliseconds since 1970 or 2026-01-31T12:00:00Z, instead of offsets
values                auto (as the topic's table has them), raw, schema, schema:ID, json
columns               some of the columns, with commas: only these are handed over
maxOffsetsPerTrigger, maxBytesPerTrigger       how much a stream takes at once
bytesPerPartition     how much one task reads
failOnDataLoss        true: offsets that retention has taken are an error, not a gap
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from runnel.errors import Refused
from runnel.settings import nearest

EARLIEST, LATEST = -2, -1
SETTINGS = ("data_dir", "objects", "ledger", "registry", "config")
PARTITION_BYTES = 64 << 20

Ends = int | dict[int, int]
"""An offset for all partitions, or for some; `EARLIEST` and `LATEST` are offsets, too."""

_KNOWN = {
    name.lower(): name
    for name in (
        "topic", *SETTINGS, "startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp", "values",
        "columns", "maxOffsetsPerTrigger", "maxBytesPerTrigger", "bytesPerPartition", "failOnDataLoss",
    )
}  # fmt: skip
_SPARKS_OWN = {"path", "schema"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """See the module."""

    topic: str
    settings: dict[str, str] = field(default_factory=dict)
    start: Ends | None = None
    end: Ends = LATEST
    start_ms: int | None = None
    end_ms: int | None = None
    values: str | None = None
    columns: tuple[str, ...] = ()
    trigger_offsets_max: int | None = None
    trigger_bytes_max: int | None = None
    partition_bytes: int = PARTITION_BYTES
    fail_on_data_loss: bool = True


def read_options(given: Mapping[str, str]) -> Options:
    """The options as they were written; `Refused` with the name of what is wrong."""
    said: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() in _KNOWN:
            said[_KNOWN[name.lower()]] = value
        elif name.lower() not in _SPARKS_OWN:
            raise Refused(f"there is no option {name!r}{nearest(name, _KNOWN.values())}")
    topic = said.get("topic", "").strip()
    if not topic:
        raise Refused('name a topic: .option("topic", "orders")')
    return Options(
        topic=topic,
        settings={name: said[name] for name in SETTINGS if said.get(name)},
        start=_ends("startingOffsets", said["startingOffsets"]) if "startingOffsets" in said else None,
        end=_ends("endingOffsets", said.get("endingOffsets", "latest")),
        start_ms=_stamp("startingTimestamp", said),
        end_ms=_stamp("endingTimestamp", said),
        values=said.get("values"),
        columns=tuple(name.strip() for name in said.get("columns", "").split(",") if name.strip()),
        trigger_offsets_max=_count("maxOffsetsPerTrigger", said),
        trigger_bytes_max=_count("maxBytesPerTrigger", said),
        partition_bytes=_count("bytesPerPartition", said) or PARTITION_BYTES,
        fail_on_data_loss=_flag("failOnDataLoss", said.get("failOnDataLoss", "true")),
    )


def _ends(name: str, text: str) -> Ends:
    word = text.strip().lower()
    if word in {"earliest", "latest"}:
        return EARLIEST if word == "earliest" else LATEST
    try:
        found = json.loads(text)
        if isinstance(found, dict):
            if len(found) == 1 and isinstance(inner := next(iter(found.values())), dict):
                found = inner  # {"topic": {"0": 17}}, as Kafka's source writes it
            return {int(partition): _offset(offset) for partition, offset in found.items()}
        return _offset(found)
    except (ValueError, TypeError):
        raise Refused(f'option {name} is {text!r}: write earliest, latest, 17 or {{"0": 17, "1": 42}}') from None


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < EARLIEST:
        raise ValueError(value)
    return value


def _stamp(name: str, said: Mapping[str, str]) -> int | None:
    text = said.get(name)
    if not text:
        return None
    try:
        if text.strip().lstrip("-").isdecimal():
            return int(text)
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise Refused(f"option {name} is {text!r}: write milliseconds since 1970, or 2026-01-31T12:00:00Z") from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _count(name: str, said: Mapping[str, str]) -> int | None:
    text = said.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) < 1:
        raise Refused(f"option {name} is {text!r}: write a number of at least 1")
    return int(text)


def _flag(name: str, text: str) -> bool:
    if text.strip().lower() not in {"true", "false"}:
        raise Refused(f"option {name} is {text!r}: write true or false")
    return text.strip().lower() == "true"
