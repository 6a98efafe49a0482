"""Places in a stream, as tokens that clients keep and compare but never read.

    0000000000000042_0000000000000000

The first number is the offset of a record, the second counts bytes into that record. Records are dense, so the tokens
of a stream sort as its bytes do; 16 digits hold more records than any stream will see. A read gives whole records, so
every token that we mint has a zero in its second place; it exists because the protocol's forks may cut inside an
append (`Stream-Fork-Sub-Offset` counts bytes there), and a place should be able to say where.

The shape is that of the protocol's reference server, because its published tests name the beginning of a stream by
writing it out. Tokens of another length are refused: `5` and `05` would be two names for one place, and sort wrongly.
Twenty digits (Ursula's tokens) are read as a record's offset, never minted.
"""

import re
from typing import NamedTuple

from runnel.errors import Refused

START = "-1"
NOW = "now"
OFFSET_MAX = 10**16 - 1

_TOKEN = re.compile(r"([0-9]{16})_([0-9]{16})\Z")
_TWENTY = re.compile(r"[0-9]{20}\Z")


class Place(NamedTuple):
    """A record, and how many of its bytes lie before the place."""

    record: int
    byte: int = 0


BEGINNING = Place(0)


def mint(record: int, byte: int = 0) -> str:
    assert 0 <= record <= OFFSET_MAX, f"record offset {record} has no token"
    assert 0 <= byte <= OFFSET_MAX, f"byte {byte} of a record has no token"
    return f"{record:016d}_{byte:016d}"


def parse(token: str) -> Place:
    """A minted token back into its place."""
    if found := _TOKEN.match(token):
        return Place(int(found[1]), int(found[2]))
    if _TWENTY.match(token) and int(token) <= OFFSET_MAX:
        return Place(int(token))
    raise Refused(f"{token[:64]!r} is not an offset: use one that this stream has returned, -1 or now")


def parse_wanted(token: str | None) -> Place | None:
    """The offset of a read: None means the tail (`now`); nothing and `-1` mean the beginning."""
    if token is None or token == START:
        return BEGINNING
    return None if token == NOW else parse(token)
