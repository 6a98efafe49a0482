"""How write-ahead objects are called: `wal/{stamp_ms:012x}-{unique:016x}`.

The stamp is the writer's wall clock in milliseconds (48 bits, good until the year 10889), so that listing is in order
of age and a sweep can tell old from young by the name alone. The unique part comes from Chance, so that two writers
never meet. Both fit in 16 bytes, for places where a name would be long.
"""

import re
from struct import Struct

from runnel.errors import Refused
from runnel.model import ObjectName

PREFIX = "wal/"
BODY_PREFIX = "bodies/"
"""What is published beside a stream is called and swept alike: `bodies/{stamp_ms:012x}-{unique:016x}`."""
STAMP_MAX = (1 << 48) - 1
UNIQUE_BITS = 64

_PATTERN = re.compile(r"wal/([0-9a-f]{12})-([0-9a-f]{16})")
_STAMPED = re.compile(r"(?:wal|bodies)/([0-9a-f]{12})-[0-9a-f]{16}")
_SHORT = Struct(">QQ")


def wal_name(stamp_ms: int, unique: int) -> ObjectName:
    """The name of an object written at a time, with 64 bits of luck."""
    assert 0 <= stamp_ms <= STAMP_MAX, f"stamp {stamp_ms} does not fit in 48 bits"
    assert 0 <= unique < 1 << UNIQUE_BITS, f"unique part {unique} does not fit in 64 bits"
    return ObjectName(f"{PREFIX}{stamp_ms:012x}-{unique:016x}")


def parse_wal_name(name: str) -> tuple[int, int]:
    """(stamp, unique) of a name."""
    match = _PATTERN.fullmatch(name)
    if match is None:
        raise Refused(f"'{name}' is not the name of a write-ahead object (wal/TIME-UNIQUE, both hexadecimal)")
    return int(match[1], 16), int(match[2], 16)


def body_name(stamp_ms: int, unique: int) -> ObjectName:
    """The name of something published at a time."""
    return ObjectName(BODY_PREFIX + wal_name(stamp_ms, unique).removeprefix(PREFIX))


def stamp_of(name: str) -> int:
    """When an object that is swept was written, by its name."""
    match = _STAMPED.fullmatch(name)
    if match is None:
        raise Refused(f"'{name}' is neither a write-ahead object nor a published body")
    return int(match[1], 16)


def shorten(name: str) -> bytes:
    """The 16 bytes that say the same as a name."""
    return _SHORT.pack(*parse_wal_name(name))


def lengthen(short: bytes) -> ObjectName:
    """The name that 16 bytes stand for."""
    stamp_ms, unique = _SHORT.unpack(short)
    if stamp_ms > STAMP_MAX:
        raise Refused(f"{short.hex()} does not stand for a write-ahead object: its time is beyond all bounds")
    return wal_name(stamp_ms, unique)


def first_name_at(stamp_ms: int) -> str:
    """No object stamped at or after this time has a smaller name; for listing from a time on."""
    return f"{PREFIX}{stamp_ms:012x}-"
