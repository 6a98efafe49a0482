"""Buckets of named streams: made, listed, measured, limited, deleted when they are empty. See metadata/buckets.py.

A bucket's streams lie in many shards, and the root knows only that it exists. Whoever makes a stream looks here first;
a node that has not heard of a deletion yet is stopped by the seals.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from typing import Any, NamedTuple

from runnel.engine.shards import Shards
from runnel.errors import AlreadyThere, NotThere, Refused
from runnel.metadata.buckets import Bucket
from runnel.metadata.entry import Update
from runnel.metadata.state import ShardState
from runnel.metadata.stream import Stream
from runnel.metadata.updates import ForgetBucket, LeaveBucket, LimitBucket, MakeBucket, SealBucket, UnsealBucket
from runnel.model import ROOT, ShardId
from runnel.world.world import World

USAGE_MS = 1_000
"""How old a measurement may be by which an append or a new stream is judged."""

Propose = Callable[[ShardId, Update], Awaitable[Any]]


class NotEmpty(AlreadyThere):
    """There are streams in the bucket."""


class OverLimit(Refused):
    """The bucket holds as much as it may."""


class Usage(NamedTuple):
    """What a bucket holds, and what ever went through it."""

    streams: int = 0
    bytes_kept: int = 0
    bytes_ever: int = 0
    records_ever: int = 0


class Page(NamedTuple):
    """Some of a bucket's streams by their names without the bucket, in order; `total` counts all that fit."""

    streams: list[tuple[str, Stream]]
    total: int
    more: bool


@dataclass(slots=True)
class _Measured:
    at_ms: int
    usage: Usage
    made: int = 0
    """Streams that this node has let in since."""


class Buckets:
    """See the module."""

    def __init__(self, propose: Propose, shards: Shards, world: World) -> None:
        self._propose = propose
        self._shards = shards
        self._world = world
        self._measured: dict[str, _Measured] = {}

    # --- looking

    def known(self, name: str) -> Bucket | None:
        """The bucket as far as the root is applied here; one that is about to be deleted does not count."""
        bucket = self._root.buckets.get(name)
        return None if bucket is None or bucket.leaving else bucket

    async def find(self, name: str) -> Bucket:
        """The bucket; looks at the ledger's tail before it says `NotThere`."""
        bucket = self.known(name)
        if bucket is None:
            await self._shards.follower(ROOT).catch_up()
            bucket = self.known(name)
        if bucket is None:
            raise NotThere(f"bucket '{name}' does not exist: make it first, with PUT /{name}")
        return bucket

    async def page(self, name: str, *, prefix: str = "", after: str = "", most: int = 1000) -> Page:
        """Streams of a bucket, as of now."""
        await self._catch_up()
        wanted = f"{name}/{prefix}"
        cut = len(name) + 1
        total = 0
        behind: list[tuple[str, Stream]] = []
        for state in self._states():
            found = [(known[cut:], number) for known, number in state.names.items() if known.startswith(wanted)]
            found = [(known, number) for known, number in found if not _leaving(state.streams[number])]
            total += len(found)
            behind += [(known, state.streams[number]) for known, number in found if known > after]
            behind = nsmallest(most + 1, behind, key=_by_name)
            await asyncio.sleep(0)  # a shard may have very many names
        return Page(behind[:most], total, len(behind) > most)

    async def count(self, name: str) -> int:
        return (await self.page(name, most=1)).total

    async def usage(self) -> dict[str, Usage]:
        """What every bucket holds, from what is applied here."""
        sums = {name: [0, 0, 0, 0] for name in self._root.buckets}
        for state in self._states():
            for name, number in state.names.items():
                found = sums.get(name.partition("/")[0])
                if found is not None:
                    _count(found, state.streams[number])
            _count_departed(sums, state)
            await asyncio.sleep(0)
        return {name: Usage(*found) for name, found in sums.items()}

    # --- coming and going

    async def make(self, name: str) -> None:
        """Let a bucket be; `AlreadyThere` if it is."""
        await self._propose(ROOT, MakeBucket(name))
        await self._unseal(name)

    async def delete(self, name: str) -> None:
        """Let an empty bucket go; `NotThere`, or `NotEmpty` with the bucket as it was."""
        await self._shards.follower(ROOT).catch_up()
        if name not in self._root.buckets:
            raise NotThere(f"bucket '{name}' does not exist")
        if streams := await self.count(name):
            raise NotEmpty(f"bucket '{name}' holds {streams} streams: delete them first")
        await self._propose(ROOT, LeaveBucket(name))
        try:
            for shard in self._data_shards():
                await self._propose(shard, SealBucket(name))
        except Refused as error:  # a stream came in between
            await self.make(name)
            raise NotEmpty(str(error)) from error
        await self._propose(ROOT, ForgetBucket(name))
        self._measured.pop(name, None)

    async def limit(self, name: str, *, streams_max: int | None, bytes_max: int | None) -> None:
        await self._propose(ROOT, LimitBucket(name, streams_max, bytes_max))

    async def _unseal(self, name: str) -> None:
        await self._catch_up()
        for shard in self._data_shards():
            if name in self._shards.follower(shard).state.sealed:
                await self._propose(shard, UnsealBucket(name))

    # --- limits

    def room_for_bytes(self, bucket: Bucket) -> None:
        """Raise `OverLimit` if the bucket holds all the bytes that it may; a second's appends may go beyond."""
        if bucket.bytes_max is not None:
            kept = self._measure(bucket.name).usage.bytes_kept
            if kept >= bucket.bytes_max:
                raise OverLimit(f"bucket '{bucket.name}' holds {kept} bytes, at most {bucket.bytes_max} are allowed")

    def room_for_stream(self, bucket: Bucket) -> None:
        """Raise `OverLimit` if the bucket has all the streams that it may; else there will be one more."""
        if bucket.streams_max is None:
            return
        measured = self._measure(bucket.name)
        streams = measured.usage.streams + measured.made
        if streams >= bucket.streams_max:
            raise OverLimit(f"bucket '{bucket.name}' has {streams} streams, at most {bucket.streams_max} are allowed")
        measured.made += 1

    def _measure(self, name: str) -> "_Measured":
        now = self._world.clock.now_ms()
        known = self._measured.get(name)
        if known is not None and now - known.at_ms < USAGE_MS:
            return known
        sums = [0, 0, 0, 0]
        prefix = name + "/"
        for state in self._states():
            for stream_name, number in state.names.items():
                if stream_name.startswith(prefix):
                    _count(sums, state.streams[number])
        found = self._measured[name] = _Measured(now, Usage(*sums))
        return found

    # --- shards

    @property
    def _root(self) -> ShardState:
        return self._shards.follower(ROOT).state

    def _data_shards(self) -> Iterator[ShardId]:
        return (ShardId(number) for number in range(1, self._shards.count + 1))

    def _states(self) -> Iterator[ShardState]:
        return (self._shards.follower(shard).state for shard in self._data_shards())

    async def _catch_up(self) -> None:
        await self._shards.follow(self._data_shards())
        await asyncio.gather(*(self._shards.follower(shard).catch_up() for shard in self._data_shards()))


def _by_name(found: tuple[str, Stream]) -> str:
    return found[0]


def _leaving(stream: Stream) -> bool:
    return stream.traits is not None and stream.traits.leaving


def _count(sums: list[int], stream: Stream) -> None:
    fork = stream.traits.fork if stream.traits is not None else None
    sums[0] += not _leaving(stream)
    sums[1] += stream.bytes_kept
    sums[2] += stream.size
    sums[3] += stream.end - (fork.offset if fork is not None else 0)


def _count_departed(sums: dict[str, list[int]], state: ShardState) -> None:
    for name, past in state.departed.items():
        found = sums.get(name)
        if found is not None:
            found[2] += past.size
            found[3] += past.records
