"""A pack: some entries of one shard side by side in one object, and the names of such objects.

    ledger/00003/00000000000000000041          a pack whose first entry has position 41
    ledger/00003-trimmed/00000000000000000040  says that everything up to 40 is forgotten

    header   magic 4s, version u16, entries u16, shard u32, first position u64, unique 16s, crc u32
    lengths  u32 for each entry
    entries

The checksum is over all bytes but itself. `unique` tells apart two packs that hold the same entries, so that a writer
whose answer was lost can see whether a pack is its own.
"""

import struct
from dataclasses import dataclass

from crc32c import crc32c

from runnel.errors import Corrupt
from runnel.metadata.ledger.seam import APPEND_ENTRIES_MAX
from runnel.model import ObjectName, Position, ShardId

MAGIC = b"RNLG"
VERSION = 1

_HEADER = struct.Struct(">4sHHIQ16s")
_CRC = struct.Struct(">I")
_START = _HEADER.size + _CRC.size


@dataclass(frozen=True, slots=True)
class Pack:
    shard: ShardId
    first: Position
    unique: bytes
    entries: tuple[bytes, ...]

    @property
    def last(self) -> Position:
        return Position(self.first + len(self.entries) - 1)


def folder(shard: ShardId) -> str:
    return f"ledger/{shard:05d}/"


def pack_name(shard: ShardId, first: int) -> ObjectName:
    return ObjectName(f"{folder(shard)}{first:020d}")


def trims_folder(shard: ShardId) -> str:
    return f"ledger/{shard:05d}-trimmed/"


def trim_name(shard: ShardId, upto: int) -> ObjectName:
    return ObjectName(f"{trims_folder(shard)}{upto:020d}")


def number_in(name: ObjectName) -> int:
    """The position that a name ends with."""
    digits = name.rpartition("/")[2]
    if len(digits) != 20 or not digits.isdecimal():
        raise Corrupt(f"object {name!r} does not belong among the ledger's: move it away")
    return int(digits)


def encode(pack: Pack) -> list[bytes]:
    """The parts of the object, entries uncopied."""
    assert 1 <= len(pack.entries) <= APPEND_ENTRIES_MAX, f"a pack of {len(pack.entries)} entries"
    header = _HEADER.pack(MAGIC, VERSION, len(pack.entries), pack.shard, pack.first, pack.unique)
    parts = [struct.pack(f">{len(pack.entries)}I", *map(len, pack.entries)), *pack.entries]
    total = crc32c(header)
    for part in parts:
        total = crc32c(part, total)
    return [header, _CRC.pack(total), *parts]


def decode(body: bytes, name: ObjectName, shard: ShardId, first: int) -> Pack:
    """The pack in an object, or `Corrupt` when it is not what was written under this name."""
    if len(body) < _START or body[:4] != MAGIC:
        raise _damaged(name, "it does not begin like a pack")
    _, version, count, held_shard, held_first, unique = _HEADER.unpack_from(body)
    if version > VERSION:
        raise Corrupt(f"object {name!r} is of version {version}, this runnel knows up to {VERSION}: upgrade runnel")
    (total,) = _CRC.unpack_from(body, _HEADER.size)
    if crc32c(memoryview(body)[_START:], crc32c(body[: _HEADER.size])) != total:
        raise _damaged(name, "its checksum is wrong")
    if (held_shard, held_first) != (shard, first):
        raise _damaged(name, f"it holds position {held_first} of shard {held_shard}")
    place = _START + 4 * count
    if place > len(body):
        raise _damaged(name, "it ends early")
    entries = []
    for (length,) in struct.iter_unpack(">I", body[_START:place]):
        entries.append(body[place : place + length])
        place += length
    if place != len(body) or not entries:
        raise _damaged(name, "its lengths do not add up")
    return Pack(shard, Position(first), unique, tuple(entries))


def _damaged(name: ObjectName, why: str) -> Corrupt:
    return Corrupt(f"ledger object {name!r} is damaged ({why}): stop every node, keep a copy of it, restore a backup")
