"""Bootstrap: a stream's newest snapshot and every record after it, in one `multipart/mixed` answer.

The first part is the snapshot, or empty where there is none; each further part is one record. Parts are written one by
one, so the answer needs no more memory than its largest part. The boundary has 128 bits of luck: no body contains it.
"""

from runnel.api.streams.content_types import DEFAULT
from runnel.world.chance import Chance

NO_SNAPSHOT = "-1"


def draw_boundary(chance: Chance) -> str:
    return f"runnel-{chance.getrandbits(128):032x}"


def part(boundary: str, content_type: str, body: bytes) -> bytes:
    return b"--%b\r\nContent-Type: %b\r\n\r\n%b\r\n" % (boundary.encode(), content_type.encode("latin-1"), body)


def empty_part(boundary: str) -> bytes:
    """Stands where the snapshot would."""
    return part(boundary, DEFAULT, b"")


def end(boundary: str) -> bytes:
    return b"--%b--\r\n" % boundary.encode()
