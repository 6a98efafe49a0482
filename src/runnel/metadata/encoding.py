"""How ledger entries are written. Little-endian:

    magic      2  b"RE"
    version    1  newer than this program: stop and ask for an upgrade
    reserved   1
    crc        4  CRC-32C of everything behind it; from version 2 on of what is before it, too
    id        16  the same for every copy of one entry
    after      8  the position that the proposer had applied
    at_ms      8  the proposer's wall clock; a fact to keep, never used for order
    updates       msgpack: an array of tagged arrays (see updates/)

Updates grow by new tags and by fields appended to old ones; readers pass over fields that they do not know. A tag that
this program does not know stops it, like a newer version: guessing would split the truth.
"""

from struct import Struct

import msgspec
from crc32c import crc32c

from runnel.errors import Corrupt
from runnel.metadata.entry import Entry
from runnel.metadata.updates import AnyUpdate

MAGIC = b"RE"
VERSION = 1
HEAD = Struct("<2sBxI16sqq")
CRC_FROM = 8

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[AnyUpdate])


class NewerVersion(Corrupt):
    """Written by a newer program; this one must be upgraded before it may go on."""


def encode_entry(entry: Entry) -> bytes:
    body = _encoder.encode(entry.updates)
    head = bytearray(HEAD.pack(MAGIC, VERSION, 0, entry.id, entry.after, entry.at_ms))
    head[4:8] = crc32c(body, crc32c(head[CRC_FROM:])).to_bytes(4, "little")
    return bytes(head) + body


def decode_entry(data: bytes | memoryview, where: str) -> Entry:
    """Read an entry; `where` names it in errors."""
    view = memoryview(data)
    if len(view) < HEAD.size or view[:2] != MAGIC:
        raise Corrupt(f"{where} is not a ledger entry")
    _, version, crc, entry_id, after, at_ms = HEAD.unpack_from(view)
    holds = crc32c(view[CRC_FROM:]) == crc
    if version > VERSION and not holds:
        raise NewerVersion(f"{where} has format {version}, this program knows {VERSION}: upgrade runnel")
    if version != VERSION or not holds:
        # A newer version's checksum would cover its version and so not hold here: this one's version is damaged.
        raise Corrupt(f"{where} fails its checksum")
    try:
        updates = _decoder.decode(view[HEAD.size :])
    except msgspec.MsgspecError as error:
        # The checksum holds, so these are the bytes that somebody meant to write.
        raise NewerVersion(
            f"{where} holds an update that this program does not know: upgrade runnel ({error})"
        ) from error
    return Entry(entry_id, after, at_ms, updates)
