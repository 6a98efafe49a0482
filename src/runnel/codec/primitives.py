"""The small words of the Kafka protocol that every message shares: varints, tagged sections, the error.

Positions are plain numbers into one buffer that holds exactly one frame, so the buffer's end is the frame's end.
Everything that a frame claims is held against that end before it is used.
"""

import base64

from runnel.errors import Refused

VARINT_BYTES_MAX = 5


class BadMessage(Refused):
    """Bytes from outside that are no Kafka message of the kind and version they claim to be."""


Buffer = bytes | bytearray | memoryview


def uvarint(value: int) -> bytes:
    """An unsigned varint: seven bits a byte, the lowest first."""
    assert 0 <= value < 1 << 32, f"{value} is no unsigned 32-bit number"
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Buffer, at: int, end: int) -> tuple[int, int]:
    """The unsigned varint at a position, and the position after it."""
    if at >= end:
        raise BadMessage(f"a varint at byte {at} begins past the end of its message")
    first = buffer[at]
    if first < 128:
        return first, at + 1
    return rest_of_uvarint(buffer, at + 1, end, first)


def rest_of_uvarint(buffer: Buffer, at: int, end: int, first: int) -> tuple[int, int]:
    """Goes on with a varint whose first byte was read already and says that more follow."""
    value = first & 127
    for shift in range(7, 7 * VARINT_BYTES_MAX, 7):
        if at >= end:
            raise BadMessage(f"a varint is cut off at byte {at}")
        byte = buffer[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise BadMessage(f"a varint before byte {at} is longer than {VARINT_BYTES_MAX} bytes")


def skip_tagged(buffer: Buffer, at: int, end: int, count: int, *, whole: bool = False) -> int:
    """Steps over a section of tagged fields of which none is known.

    `count` is the section's first byte, read already, or (`whole`) all of its varint.
    """
    if count > 127 and not whole:
        count, at = rest_of_uvarint(buffer, at, end, count)
    if 2 * count > end - at:
        raise BadMessage(f"{count} tagged fields are claimed where {end - at} bytes remain")
    for _ in range(count):
        _, at = read_uvarint(buffer, at, end)
        size, at = read_uvarint(buffer, at, end)
        at += size
        if at > end:
            raise BadMessage(f"a tagged field runs {at - end} bytes past the end of its message")
    return at


def uuid_text(uuid: bytes) -> str:
    """A topic id as Kafka's tools print it: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_of_text(text: str) -> bytes:
    try:
        uuid = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except ValueError as why:
        raise BadMessage(f"{text!r} is no topic id: 22 characters of url-safe base64 are") from why
    if len(uuid) != 16:
        raise BadMessage(f"{text!r} is no topic id: it holds {len(uuid)} bytes, not 16")
    return uuid
