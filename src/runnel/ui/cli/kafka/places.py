"""Where to start and stop reading, in words: pure.

beginning, end        the first record that is kept; after the last one
1234                  that offset
-10                   so many records before the end
15m, 2h, 3d           so long ago
2026-11-19T20:00:00   that moment, in this machine's time unless it names another: …Z, …+02:00
@1700000000000        that moment, in milliseconds since 1970
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeVar

from runnel.errors import Refused

WORDS = "beginning, end, an offset, -N, 15m (ago), 2026-11-19T20:00 or @MILLISECONDS"
_AGO = re.compile(r"(\d{1,9})(s|m|min|h|d)")
_MS = {"s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
OFFSET_MAX = (1 << 63) - 1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """`number` is an offset, how many before the end, or milliseconds since 1970."""

    kind: Literal["beginning", "end", "offset", "last", "time"]
    number: int = 0


BEGINNING, END = Place("beginning"), Place("end")


def place_of(text: str, now_ms: int) -> Place:
    """What the words mean, or `Refused` with the words there are."""
    text = text.strip()
    if text in ("beginning", "earliest", "start"):
        return BEGINNING
    if text in ("end", "latest"):
        return END
    if re.fullmatch(r"[+-]?\d{1,19}", text, re.ASCII) and abs(int(text)) <= OFFSET_MAX:
        return Place("last", -int(text)) if text.startswith("-") else Place("offset", int(text))
    if found := _AGO.fullmatch(text):
        return Place("time", now_ms - int(found[1]) * _MS[found[2]])
    return Place("time", moment_of(text))


def moment_of(text: str) -> int:
    """Milliseconds since 1970."""
    if re.fullmatch(r"@\d{1,15}", text, re.ASCII):
        return int(text[1:])
    try:
        moment = datetime.fromisoformat(text)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        raise Refused(f"{text!r} is no place in a topic: write {WORDS}") from None


def written(moment_ms: int) -> str:
    """A moment as people read it, in UTC: 2026-11-19T20:00:00.123Z."""
    try:
        moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"@{moment_ms}"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment_ms % 1000:03}Z"


def resolved(place: Place, first: Mapping[T, int], after: Mapping[T, int], by_time: Mapping[T, int]) -> dict[T, int]:
    """The offset of a place in each partition, kept between the first that is kept and the next. What `by_time` lacks is newer."""
    found = {}
    for partition, low in first.items():
        high = after[partition]
        at = {
            "beginning": low,
            "end": high,
            "offset": place.number,
            "last": high - place.number,
            "time": by_time.get(partition, high),
        }[place.kind]
        found[partition] = max(low, min(at, high))
    return found
