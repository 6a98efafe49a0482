"""What makes a bucket and a ledger one cluster: a small object that says how many shards there are, written once.

    cluster.json   {"format": 1, "cluster_id": "…", "shards": 16, "checksum": "…"}

The checksum is the CRC-32C of id and number: one flipped bit in the number would lead to other shards.

The root shard holds the same id, so that a bucket of one cluster and the ledger of another are noticed before anything
is written.
"""

import base64
import json
from contextlib import suppress
from dataclasses import dataclass

from crc32c import crc32c

from runnel.errors import AlreadyThere, Corrupt, NotThere, Refused, Uncertain
from runnel.model import ObjectName
from runnel.world.chance import Chance
from runnel.world.objects import ObjectStore

NAME = ObjectName("cluster.json")
FORMAT = 1
SHARDS = 16
SHARDS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Cluster:
    id: str
    shards: int


async def find_cluster(objects: ObjectStore, chance: Chance, shards: int = SHARDS) -> Cluster:
    """The cluster that lives in a bucket; an empty bucket becomes one. Of several founders one wins, for all."""
    if not 1 <= shards <= SHARDS_MAX:
        raise Refused(f"a cluster has 1 to {SHARDS_MAX} shards, not {shards}")
    cluster_id = base64.urlsafe_b64encode(chance.randbytes(16)).decode().rstrip("=")
    facts = {"format": FORMAT, "cluster_id": cluster_id, "shards": shards, "checksum": _checksum(cluster_id, shards)}
    body = json.dumps(facts).encode()
    while True:  # whoever it was, and whether or not our own attempt came through: what stands there is the cluster
        known = await known_cluster(objects)
        if known is not None:
            return known
        with suppress(AlreadyThere, Uncertain):
            await objects.put_new(NAME, body)


async def known_cluster(objects: ObjectStore) -> Cluster | None:
    """The cluster that lives in a bucket, if one does."""
    try:
        return _read(bytes(await objects.read(NAME)))
    except NotThere:
        return None


def _checksum(cluster_id: str, shards: int) -> str:
    return f"{crc32c(f'{cluster_id} {shards}'.encode()):08x}"


def _read(body: bytes) -> Cluster:
    try:
        facts = json.loads(body)
        if facts["format"] > FORMAT:
            raise Refused(f"{NAME} has format {facts['format']}, this program knows {FORMAT}: upgrade runnel")
        shards = facts["shards"]
        if not isinstance(shards, int) or not 1 <= shards <= SHARDS_MAX:
            raise Corrupt(f"{NAME} says {shards!r} shards")
        cluster_id = str(facts["cluster_id"])
        if facts.get("checksum", _checksum(cluster_id, shards)) != _checksum(cluster_id, shards):
            raise Corrupt(f"{NAME} fails its checksum")
        return Cluster(cluster_id, shards)
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(f"{NAME} cannot be read: {error!r}") from error
