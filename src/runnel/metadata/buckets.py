"""Buckets: namespaces of streams that really exist. The root knows them, with what they may hold.

The streams of a bucket lie in many shards, so an empty bucket is closed in two steps. First every data shard *seals*
the bucket's name, which it refuses while one of its streams bears it; from there on no stream can be made under it.
Then the root forgets the bucket. A bucket that is made anew is unsealed again. A deletion that is cut short leaves the
bucket *leaving*: deleting it again goes on, making it again takes it back.
"""

import msgspec

BUCKETS_MAX = 10_000
SEALED_MAX = 20_000
"""Names of deleted buckets that a shard remembers; the oldest goes first. More than there can be buckets."""


class Bucket(msgspec.Struct, array_like=True):
    """One bucket as the root knows it. New fields go last."""

    name: str
    born_ms: int = 0
    leaving: bool = False
    streams_max: int | None = None
    bytes_max: int | None = None


DEPARTED_MAX = 20_000
"""Buckets of whose former streams a shard keeps sums; the one that lost a stream longest ago goes first."""


class Past(msgspec.Struct, array_like=True):
    """What went through streams that are gone. New fields go last."""

    size: int = 0
    records: int = 0


HASHED_WHOLE = "v1-stream"
"""The bucket of the streams at /v1/stream/…, whose paths may have any number of parts."""


def placement_of(name: str) -> str:
    """What chooses a named stream's shard: bucket and affinity key if its name has three parts, else all of it."""
    bucket, _, rest = name.partition("/")
    key, _, stream = rest.partition("/")
    return f"{bucket}/{key}" if stream and bucket != HASHED_WHOLE else name


def bucket_of(name: str) -> str:
    """The bucket in which a stream with this name lives."""
    return name.partition("/")[0]
