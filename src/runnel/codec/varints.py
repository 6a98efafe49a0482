"""Zigzag varints, as Kafka's record batches use them: little numbers in few bytes, the sign in the lowest bit.

Only people, tests and our own small writers come here; the hot path never looks into a batch.
Reading is safe against bytes from outside: a number that is cut off, or longer than its type, raises `Refused`.
"""

from runnel.errors import Refused


def encode_varint(number: int) -> bytes:
    """A signed number in zigzag form: 0, -1, 1, -2 become 0, 1, 2, 3."""
    assert -(1 << 63) <= number < 1 << 63, f"{number} does not fit in 64 bits"
    rest = (number << 1) ^ (number >> 63)
    if rest < 0x80:
        return bytes((rest,))
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def decode_varint(buffer: bytes | bytearray | memoryview, at: int, end: int, *, bits: int = 32) -> tuple[int, int]:
    """A signed number that begins at `at` and stops before `end`: (number, where the next thing begins)."""
    if at < end and (byte := buffer[at]) < 0x80:  # nearly all of them
        return (byte >> 1) ^ -(byte & 1), at + 1
    value = shift = 0
    while True:
        if at >= end:
            raise Refused(f"a number is cut off at byte {at}")
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift >= bits:
            raise Refused(f"a number before byte {at} is longer than {bits} bits")
    if value >> bits:
        raise Refused(f"a number before byte {at} does not fit in {bits} bits")
    return (value >> 1) ^ -(value & 1), at
