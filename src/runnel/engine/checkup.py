"""What a doctor finds in a cluster's bucket and ledger. It changes nothing, and a cluster may be at work meanwhile.

cluster      what is written in the bucket, and whether the root shard says the same
shards       checkpoints that cannot be read; entries that cannot be applied; invariants that do not hold
objects      those that a shard refers to and that are not there; with `whole`, every byte of the write-ahead ones
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

from runnel.engine.cluster import Cluster, known_cluster
from runnel.errors import Corrupt, NotThere, RunnelError
from runnel.log.names import PREFIX
from runnel.log.reader import check_object
from runnel.metadata.checkpoint import checkpoint_prefix, decode_checkpoint
from runnel.metadata.follower import Follower
from runnel.metadata.invariants import broken
from runnel.metadata.ledger import Ledger
from runnel.metadata.state import ShardState
from runnel.model import ROOT, ObjectName, ShardId
from runnel.world.objects import ObjectStore
from runnel.world.world import World

TOLD_MAX = 20
"""Findings of one kind that are told one by one; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Found:
    """`state` is `good`, `note` (it works, something is damaged) or `bad` (a shard or records cannot be served)."""

    what: str
    state: str
    says: str


async def look_at_cluster(
    objects: ObjectStore, ledger: Ledger, world: World, *, whole: bool = False
) -> AsyncIterator[Found]:
    """One finding for everything that is wrong, and a summary of what is right."""
    try:
        cluster = await known_cluster(objects)
    except RunnelError as error:
        yield Found("cluster", "bad", str(error))
        return
    if cluster is None:
        yield Found("cluster", "good", "none yet: the first node that starts founds it")
        return
    entries, kept = 0, 0
    referred: dict[str, int] = {}
    for number in range(cluster.shards + 1):
        shard = ShardId(number)
        async for damage in _damaged_checkpoints(objects, shard):
            yield Found(f"shard {shard}", "note", f"{damage}: the checkpoint before it serves in its place")
        state, found = await _bring_up(shard, cluster, objects, ledger, world)
        for one in found:
            yield one
        entries += state.position
        kept += sum(len(stream.extents) for stream in state.streams.values() if stream.extents is not None)
        referred.update(dict.fromkeys(state.objects.slot_of, number))
    yield Found(
        "shards",
        "good",
        f"{cluster.shards} and the root of cluster {cluster.id}; {entries:,} entries, {kept:,} extents",
    )
    async for one in _look_at_objects(objects, referred, whole=whole):
        yield one


async def _damaged_checkpoints(objects: ObjectStore, shard: ShardId) -> AsyncIterator[Corrupt]:
    names = [facts.name async for facts in objects.list(checkpoint_prefix(shard))]
    for name in names:
        try:
            decode_checkpoint(await objects.read(name), name)
        except NotThere:
            continue  # replaced meanwhile
        except Corrupt as error:
            yield error


async def _bring_up(
    shard: ShardId, cluster: Cluster, objects: ObjectStore, ledger: Ledger, world: World
) -> tuple[ShardState, list[Found]]:
    """A shard as a node that starts now would see it."""
    follower = Follower(shard, cluster.shards, ledger=ledger, objects=objects, world=world, writes_checkpoints=False)
    what = f"shard {shard}"
    found = []
    try:
        await follower.start()
    except RunnelError as error:
        found.append(Found(what, "bad", f"cannot be followed beyond position {follower.state.position}: {error}"))
    await follower.close()
    found += [Found(what, "bad", sentence) for sentence in broken(follower.state)]
    theirs = follower.state.cluster_id
    if shard == ROOT and theirs not in {"", cluster.id}:
        found.append(Found(what, "bad", f"is of cluster {theirs}, the bucket belongs to {cluster.id}"))
    return follower.state, found


async def _look_at_objects(objects: ObjectStore, referred: dict[str, int], *, whole: bool) -> AsyncIterator[Found]:
    there: dict[str, int] = {}
    for prefix in sorted({name.split("/", 1)[0] + "/" for name in referred}):
        async for facts in objects.list(prefix):
            if facts.name in referred:
                there[facts.name] = facts.size
    missing = [name for name in referred if name not in there]
    for name in missing[:TOLD_MAX]:
        yield Found("objects", "bad", f"{name} is not in the store, shard {referred[name]} refers to it")
    if len(missing) > TOLD_MAX:
        yield Found("objects", "bad", f"{len(missing) - TOLD_MAX} more are not in the store")
    checked = 0
    for name in there if whole else ():
        if not name.startswith(PREFIX):
            continue
        try:
            check_object(name, await objects.read(ObjectName(name)))
        except NotThere:
            continue  # swept meanwhile
        except Corrupt as error:
            yield Found("objects", "bad", str(error))
        checked += 1
    how = f"every byte of {checked:,} checked" if whole else "--whole reads and checks every byte"
    yield Found("objects", "good", f"{len(there):,} referred to and there, {sum(there.values()):,} bytes; {how}")
