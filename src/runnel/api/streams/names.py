"""Which streams and buckets may exist.

A stream of the protocol has a path of one or more parts; Ursula's streams have a bucket and a name. Both become one
name of the engine: bucket, a slash, the rest. `/v1/stream/...` keeps its streams in a bucket of its own.
"""

import re

from runnel.errors import Refused
from runnel.metadata.buckets import HASHED_WHOLE

PROTOCOL_BUCKET = HASHED_WHOLE
BUCKET = re.compile(r"[a-z0-9_-]{4,64}\Z")
NAME_BYTES_MAX = 1_024
RESERVED = {"streams"}
RESERVED_PREFIX = "__"


def bucket_name(bucket: str) -> str:
    if not BUCKET.match(bucket):
        raise Refused(f"bucket {bucket[:80]!r} is not 4 to 64 of a-z, 0-9, '_' and '-'")
    return bucket


def stream_name(path: str, bucket: str = PROTOCOL_BUCKET) -> str:
    """The engine's name of a stream: stable, unique, and never that of another bucket's stream."""
    encoded = path.encode()
    if not path or len(encoded) > NAME_BYTES_MAX:
        raise Refused(f"a stream's name has 1 to {NAME_BYTES_MAX} bytes, this one {len(encoded)}")
    if any(part == "" for part in path.split("/")):
        raise Refused("a stream's path has no empty parts: leave out the doubled or last slash")
    if not path.isprintable():
        raise Refused("a stream's name has no control characters")
    if path in RESERVED or path.startswith(RESERVED_PREFIX):
        raise Refused(f"{path[:80]!r} is a reserved name: choose another")
    return f"{bucket}/{path}"


def path_in(header: str) -> str:
    """The path that Stream-Forked-From names, root-relative or in a whole address."""
    path = header.partition("?")[0]
    return "/" + path.partition("://")[2].partition("/")[2] if "://" in path else path


def fork_source(header: str, prefix: str) -> str:
    """The path of a stream named in Stream-Forked-From, under our own prefix."""
    path = path_in(header)
    if not path.startswith(prefix) or len(path) == len(prefix):
        raise Refused(f"Stream-Forked-From is {header[:80]!r}, not the path of a stream ({prefix}...)")
    return path[len(prefix) :]
