"""What applications publish beside streams: the body into the store first, then the entry that refers to it.

A crash in between leaves a body that nothing refers to; the sweep takes it. A body that a sweep's horizon has passed is
written again under a younger name.
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

from runnel.engine.shards import Shards
from runnel.errors import AlreadyThere, NotThere, RunnelError, Unavailable, Uncertain
from runnel.log.names import UNIQUE_BITS, body_name
from runnel.metadata.entry import Update
from runnel.metadata.stream import Snapshot
from runnel.metadata.updates import PublishSnapshot
from runnel.metadata.updates.commit import HorizonPassed
from runnel.model import ObjectName, ShardId, StreamId, shard_of
from runnel.world.objects import ObjectStore
from runnel.world.world import World

TRIES_MAX = 3


def digest_of(body: bytes, content_type: str) -> str:
    """What tells two snapshots apart, whatever node is asked."""
    return sha256(content_type.encode() + b"\0" + body).hexdigest()


class Snapshots:
    """See the module."""

    def __init__(
        self,
        objects: ObjectStore,
        propose: Callable[[ShardId, Update], Awaitable[Any]],
        shards: Shards,
        world: World,
    ) -> None:
        self._objects = objects
        self._propose = propose
        self._shards = shards
        self._world = world

    async def publish(
        self, stream: StreamId, offset: int, body: bytes, content_type: str, *, match: str | None = None
    ) -> Snapshot:
        """Let a body stand for a stream's records before an offset; what stands there then."""
        digest = digest_of(body, content_type)
        shard = shard_of(stream, self._shards.count)
        state = self._shards.follower(shard).state
        trouble: RunnelError | None = None
        for _ in range(TRIES_MAX):
            known = state.streams.get(stream)
            newest = known.traits.snapshot if known is not None and known.traits is not None else None
            if newest is not None and (newest.offset, newest.digest) == (offset, digest):
                return newest
            stamp = max(self._world.clock.now_ms(), state.horizon)
            name = body_name(stamp, self._world.chance.getrandbits(UNIQUE_BITS))
            try:
                await self._objects.put_new(name, body)
            except (AlreadyThere, Unavailable, Uncertain) as error:
                trouble = error
                continue  # under another name; what may have been written under this one is the sweep's
            snapshot = Snapshot(offset, name, len(body), content_type, digest)
            try:
                await self._propose(shard, PublishSnapshot(int(stream), snapshot, stamp, match))
            except HorizonPassed as error:
                trouble = error
                continue
            return snapshot
        raise Unavailable(f"the snapshot could not be stored, try again: {trouble}")

    async def body(self, snapshot: Snapshot) -> bytes:
        """A snapshot's body; `NotThere` once a newer one has taken its place and the sweep has been here."""
        if not snapshot.size:
            return b""
        try:
            return bytes(await self._objects.read(ObjectName(snapshot.object), 0, snapshot.size))
        except NotThere:
            raise NotThere(
                f"the snapshot at record {snapshot.offset} is gone, a newer one has taken its place"
            ) from None
