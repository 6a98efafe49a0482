"""The five compressions of Kafka: none, gzip, snappy, lz4, zstd, each with a bound on what may come out.

A few hundred bytes can unfold to gigabytes, so `decompress` never makes more than `largest` bytes: it raises
`TooLarge` first. Brokers do not come here when they append or fetch (bodies stay sealed); tools, the HTTP door
and the lookup of records by time do.

Snappy has two shapes on the wire: Java's xerial framing (a magic, then blocks with their lengths), which we write,
and one raw block, which some clients send; both are read. Lz4 and zstd are plain frames, one after another allowed.
"""

import zlib
from enum import IntEnum
from struct import Struct

import cramjam

from runnel.errors import Refused

Buffer = bytes | bytearray | memoryview


class Compression(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TooLarge(Refused):
    """The bytes would unfold to more than the reader is willing to hold."""


UNFOLDED_BYTES_MAX = 64 << 20

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEAD = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable since version 1
_XERIAL_BLOCK = 32 << 10  # what the Java library writes
_LENGTH = Struct(">i")
_FIRST_GUESS = 4  # times what came in; then eight times more with each try
_LZ4_LEVEL = 1  # as fast as the Java client; the library would take five times as long for 7 % less
_ZSTD_LEVEL = 3  # zstd's own default, and the Java client's


def compress(data: Buffer, how: Compression) -> bytes:
    """The bytes folded up; the same bytes give the same result."""
    if how is Compression.NONE:
        return bytes(data)
    if how is Compression.GZIP:
        # zlib writes no time of day into the header, so equal batches stay equal
        folder = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        return folder.compress(data) + folder.flush()
    if how is Compression.SNAPPY:
        return _compress_xerial(data)
    if how is Compression.LZ4:
        return bytes(cramjam.lz4.compress(data, level=_LZ4_LEVEL))
    return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))


def decompress(data: Buffer, how: Compression, *, largest: int = UNFOLDED_BYTES_MAX) -> bytes | memoryview:
    """The bytes unfolded; `TooLarge` if they would be more than `largest`, `Refused` if they are no such thing."""
    if how is Compression.NONE:
        if len(data) > largest:
            raise _too_large(how, largest)
        return memoryview(data)
    if how is Compression.GZIP:
        return _decompress_gzip(data, largest)
    if how is Compression.SNAPPY:
        return _decompress_snappy(data, largest)
    return _decompress_frames(data, how, largest)


def _compress_xerial(data: Buffer) -> bytes:
    parts = [_XERIAL_HEAD]
    view = memoryview(data)
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK]))
        parts += (_LENGTH.pack(len(block)), block)
    return b"".join(parts)


def _decompress_gzip(data: Buffer, largest: int) -> bytes:
    parts: list[bytes] = []
    made = 0
    rest: Buffer = data
    try:
        while True:
            unfolder = zlib.decompressobj(16 + zlib.MAX_WBITS)
            part = unfolder.decompress(rest, largest - made + 1)
            made += len(part)
            if made > largest:
                raise _too_large(Compression.GZIP, largest)
            parts.append(part)
            if not unfolder.eof:
                raise Refused("gzip bytes are cut off")
            rest = unfolder.unused_data
            if not rest:
                return b"".join(parts)
    except zlib.error as error:
        raise Refused(f"gzip bytes do not unfold: {error}") from None


def _decompress_snappy(data: Buffer, largest: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(view, largest, largest)
    parts: list[bytes] = []
    made = 0
    at = len(_XERIAL_HEAD)
    if len(view) < at:
        raise Refused("snappy bytes are cut off in their head")
    while at < len(view):
        if at + 4 > len(view):
            raise Refused(f"snappy bytes are cut off at byte {at}")
        (length,) = _LENGTH.unpack_from(view, at)
        at += 4
        if length < 0 or at + length > len(view):
            raise Refused(f"a snappy block at byte {at} claims {length} bytes; {len(view) - at} are left")
        part = _decompress_snappy_block(view[at : at + length], largest - made, largest)
        made += len(part)
        parts.append(part)
        at += length
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, room: int, largest: int) -> bytes:
    try:
        size = int(cramjam.snappy.decompress_raw_len(block))
        if size > room:
            raise _too_large(Compression.SNAPPY, largest)
        if not size and len(block) != 1:
            raise Refused("snappy bytes are empty")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise Refused(f"snappy bytes do not unfold: {error}") from None


def _decompress_frames(data: Buffer, how: Compression, largest: int) -> memoryview:
    codec = cramjam.lz4 if how is Compression.LZ4 else cramjam.zstd
    if not len(data):
        raise Refused(f"{how.name.lower()} bytes are empty")
    room = min(largest, max(4096, _FIRST_GUESS * len(data)))
    while True:
        out = bytearray(room)
        try:
            size = codec.decompress_into(data, out)
            return memoryview(out)[:size]
        except cramjam.DecompressionError as error:
            # the library tells a full buffer from broken bytes only by these words; a test holds it to them
            if "whole buffer" not in str(error):
                raise Refused(f"{how.name.lower()} bytes do not unfold: {error}") from None
        if room >= largest:
            raise _too_large(how, largest)
        room = min(largest, 8 * room)


def _too_large(how: Compression, largest: int) -> TooLarge:
    return TooLarge(f"{how.name.lower()} bytes unfold to more than {largest} bytes")
