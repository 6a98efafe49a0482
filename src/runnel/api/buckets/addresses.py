"""What may be a bucket, an affinity key, a stream; and the engine's name for it.

    /{bucket}/{stream}                 the stream's whole name chooses its shard
    /{bucket}/{affinity}/{stream}      bucket and affinity key choose it: all streams of one key live together

The engine's name of a stream is its address without the first slash. The streams of `/v1/stream/…` live in a bucket of
their own, which has no face here.
"""

from dataclasses import dataclass

from runnel.api.streams.names import BUCKET, PROTOCOL_BUCKET
from runnel.errors import NotThere, Refused

KEY_BYTES_MAX = 122
LISTING = "streams"
BELOW_A_STREAM = frozenset({"$transaction", "append-batch", "attrs", "bootstrap", "retention", "snapshot"})


@dataclass(frozen=True, slots=True)
class Address:
    """One stream in a bucket."""

    bucket: str
    stream: str
    affinity: str | None = None

    @property
    def name(self) -> str:
        """The engine's."""
        return f"{self.placement}/{self.stream}" if self.affinity is not None else f"{self.bucket}/{self.stream}"

    @property
    def placement(self) -> str:
        """What is hashed to choose the shard."""
        return f"{self.bucket}/{self.affinity}" if self.affinity is not None else f"{self.bucket}/{self.stream}"


def bucket_id(text: str, taken: frozenset[str] = frozenset()) -> str:
    """A bucket's name. `taken` are first parts of paths that lead elsewhere on this server."""
    if not BUCKET.match(text):
        raise Refused(f"bucket {text[:80]!r} is not 4 to 64 of a-z, 0-9, '_' and '-'")
    if text in taken:
        raise Refused(f"'{text}' cannot be a bucket, it is an address of this server: choose another name")
    if text == PROTOCOL_BUCKET:
        raise NotThere(f"the streams of '{text}' are at /v1/stream/")
    return text


def address(bucket: str, stream: str, affinity: str | None = None, taken: frozenset[str] = frozenset()) -> Address:
    bucket_id(bucket, taken)
    _local("stream", stream)
    if affinity is not None:
        _local("affinity key", affinity)
        if stream in BELOW_A_STREAM:
            raise Refused(f"'{stream}' is a reserved name: choose another")
    elif stream == LISTING:
        raise Refused(f"'{LISTING}' is where a bucket lists its streams: choose another name")
    found = Address(bucket, stream, affinity)
    if (size := len(found.name.encode())) > KEY_BYTES_MAX:
        raise Refused(f"bucket and stream have {size} bytes together, at most {KEY_BYTES_MAX} are possible")
    return found


def _local(what: str, text: str) -> None:
    if not text or "/" in text or "\0" in text or ".." in text:
        raise Refused(f"{what} {text[:80]!r} is empty or contains '/', '..' or NUL")
    if not text.isprintable():
        raise Refused(f"the {what}'s name has no control characters")
