"""Buckets come and go, and what they may hold. See metadata/buckets.py for the order of a deletion."""

from typing import TYPE_CHECKING

import msgspec

from runnel.errors import AlreadyThere, NotThere, Refused
from runnel.metadata.buckets import BUCKETS_MAX, SEALED_MAX, Bucket

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class MakeBucket(msgspec.Struct, array_like=True, frozen=True, tag="make-bucket"):
    """A bucket comes to be (root). One that is leaving comes back as it was, with what it may hold."""

    name: str

    def check(self, state: "ShardState") -> None:
        known = state.buckets.get(self.name)
        if known is not None and not known.leaving:
            raise AlreadyThere(f"bucket '{self.name}' exists")
        if known is None and len(state.buckets) >= BUCKETS_MAX:
            raise Refused(f"there are {BUCKETS_MAX} buckets, no more are made: delete one that is empty")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        known = state.buckets.get(self.name)
        if known is None:
            state.buckets[self.name] = Bucket(self.name, at_ms)
        else:
            known.leaving = False


class LeaveBucket(msgspec.Struct, array_like=True, frozen=True, tag="leave-bucket"):
    """A bucket is about to be deleted: no more streams are made in it (root)."""

    name: str

    def check(self, state: "ShardState") -> None:
        _known(state, self.name)

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        state.buckets[self.name].leaving = True


class ForgetBucket(msgspec.Struct, array_like=True, frozen=True, tag="forget-bucket"):
    """A bucket whose name every data shard has sealed is gone (root)."""

    name: str

    def check(self, state: "ShardState") -> None:
        if not _known(state, self.name).leaving:
            raise Refused(f"bucket '{self.name}' is not about to be deleted")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        del state.buckets[self.name]


class LimitBucket(msgspec.Struct, array_like=True, frozen=True, tag="limit-bucket"):
    """What a bucket may hold from now on (root). None is no limit."""

    name: str
    streams_max: int | None
    bytes_max: int | None

    def check(self, state: "ShardState") -> None:
        _known(state, self.name)

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        bucket = state.buckets[self.name]
        bucket.streams_max = self.streams_max
        bucket.bytes_max = self.bytes_max


class SealBucket(msgspec.Struct, array_like=True, frozen=True, tag="seal-bucket"):
    """No stream can be made under a bucket's name in this shard any more. Refused while one bears it."""

    name: str

    def check(self, state: "ShardState") -> None:
        prefix = self.name + "/"
        if any(name.startswith(prefix) for name in state.names):
            raise Refused(f"bucket '{self.name}' is not empty")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        state.sealed.pop(self.name, None)
        while len(state.sealed) >= SEALED_MAX:
            del state.sealed[next(iter(state.sealed))]
        state.sealed[self.name] = None


class UnsealBucket(msgspec.Struct, array_like=True, frozen=True, tag="unseal-bucket"):
    """Streams may be made under a bucket's name in this shard again."""

    name: str

    def check(self, state: "ShardState") -> None:
        """Always allowed."""

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        state.sealed.pop(self.name, None)


def _known(state: "ShardState", name: str) -> Bucket:
    known = state.buckets.get(name)
    if known is None:
        raise NotThere(f"bucket '{name}' does not exist")
    return known
