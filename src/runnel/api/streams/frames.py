"""The body of append-batch: appends one behind the other, each with its length in front (u32, big-endian).

Malformed framing fails the whole request before anything is appended; frames are independent appends after that.
"""

from struct import Struct

from runnel.errors import Refused

FRAMES_MAX = 512
_LENGTH = Struct(">I")


def frames(body: bytes) -> list[bytes]:
    """The payloads of a batch."""
    found: list[bytes] = []
    at, end = 0, len(body)
    while at < end:
        if at + 4 > end:
            raise Refused(f"frame {len(found)} ends inside its length")
        (length,) = _LENGTH.unpack_from(body, at)
        at += 4
        if not length:
            raise Refused(f"frame {len(found)} is empty")
        if length > end - at:
            raise Refused(f"frame {len(found)} says {length} bytes, {end - at} are left")
        if len(found) == FRAMES_MAX:
            raise Refused(f"a batch has at most {FRAMES_MAX} frames")
        found.append(body[at : at + length])
        at += length
    if not found:
        raise Refused("the batch has no frames")
    return found
