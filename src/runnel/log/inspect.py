"""An object told to a person: what is inside, and whether it is what was written.

`inspect_object` is what `runnel log inspect OBJECT` prints. It reads the footer alone; with `whole` it reads all bytes
and checks every one of them. A broken object is told as far as it goes, and the place of the damage is named.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from runnel.codec.compression import Compression
from runnel.errors import Refused
from runnel.log.names import parse_wal_name
from runnel.log.opening import read_footer
from runnel.log.reader import Footer, check_object, check_slice_batches
from runnel.model import ObjectName
from runnel.world.objects.seam import Buffer, ObjectStore

SLICES_SHOWN_MAX = 50


@dataclass(frozen=True, slots=True)
class Described:
    """Facts of one object, ready for JSON, and the lines for a person."""

    facts: dict[str, Any]
    lines: list[str]


def describe(footer: Footer, data: Buffer | None = None, *, slices_shown_max: int = SLICES_SHOWN_MAX) -> Described:
    """What a footer tells; with the object's bytes also what is in its batches' heads."""
    facts: dict[str, Any] = {
        "object": footer.name,
        "written_at": _written_at(footer.name),
        "writer": None if footer.writer < 0 else footer.writer,
        "version": footer.version,
        "bytes": footer.size,
        "streams": len(footer.slices),
        "batches": len(footer.batch_lengths),
        "records": footer.records,
        "checked": "every byte" if data is not None else "footer",
        "slices": _slices(footer, data),
    }
    return Described(facts, _lines(facts, slices_shown_max))


async def inspect_object(store: ObjectStore, name: str, *, as_json: bool = False, whole: bool = False) -> str:
    """The text that `runnel log inspect OBJECT` prints; `NotThere` and `Corrupt` say what is wrong instead."""
    object_name = ObjectName(name)
    data = None
    if whole:
        data = await store.read(object_name)
        footer = check_object(name, data)
    else:
        footer = await read_footer(store, object_name)
    described = describe(footer, data)
    return json.dumps(described.facts, indent=2) if as_json else "\n".join(described.lines)


def _slices(footer: Footer, data: Buffer | None) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = []
    for each, batches in footer.walk():
        facts: dict[str, Any] = {
            "stream": each.stream,
            "position": each.place,
            "bytes": each.length,
            "records": each.records,
            "largest_timestamp": each.stamp,
            "checksum": f"{each.checksum:08x}",
            "batches": [
                {"position": batch.place, "bytes": batch.length, "records": batch.records} for batch in batches
            ],
        }
        if data is not None:
            heads = check_slice_batches(footer, each, memoryview(data)[each.place : each.place + each.length])
            for batch, head in zip(facts["batches"], heads, strict=True):
                batch["compression"] = _compression(head.compression)
                batch["largest_timestamp"] = head.max_timestamp
                if head.is_idempotent:
                    batch |= {"producer": head.producer, "epoch": head.epoch, "sequence": head.sequence}
        told.append(facts)
    return told


def _lines(facts: dict[str, Any], slices_shown_max: int) -> list[str]:
    by = "" if facts["writer"] is None else f" by node {facts['writer']}"
    when = f", written {facts['written_at']}{by}" if facts["written_at"] else by
    checked = f"checked: {facts['checked']}"
    lines = [
        f"{facts['object']}: format {facts['version']}, {facts['bytes']:,} bytes{when}",
        f"{facts['records']:,} records in {facts['batches']:,} batches of {facts['streams']:,} streams, {checked}",
        "",
        f"{'stream':>20} {'position':>11} {'bytes':>11} {'records':>9} {'batches':>8}  largest timestamp",
    ]
    shown = facts["slices"][:slices_shown_max]
    lines += [
        f"{each['stream']:>20} {each['position']:>11,} {each['bytes']:>11,} {each['records']:>9,} "
        f"{len(each['batches']):>8,}  {_when(each['largest_timestamp'])}"
        for each in shown
    ]
    left = len(facts["slices"]) - len(shown)
    if left:
        lines.append(f"… and {left:,} more; --json shows all")
    return lines


def _written_at(name: str) -> str | None:
    try:
        return _when(parse_wal_name(name)[0])
    except Refused:
        return None  # a copy under another name is worth a look too


def _when(at_ms: int) -> str:
    if at_ms < 0:
        return "none"
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return f"{at_ms} ms"  # producers may send any number


def _compression(number: int) -> str:
    return Compression(number).name.lower() if number <= max(Compression) else f"unknown ({number})"
