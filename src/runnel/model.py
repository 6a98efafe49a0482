"""Words that every floor shares: what a stream, a shard and a position are, and how they relate.

A *stream* (a Kafka topic-partition or an HTTP durable stream) has a 64-bit id. The id alone says in which *shard*
it lives, so no table has to be asked. Shard 0 is the *root*: topics, nodes, tables. The *data shards* are 1…N.

A *position* is the place of an entry in one shard's ledger: 1, 2, 3 and so on, without gaps; 0 is before the first.
An *offset* is the place of a record in its stream, as Kafka counts.
"""

from typing import NewType

from crc32c import crc32c

StreamId = NewType("StreamId", int)
ShardId = NewType("ShardId", int)
Position = NewType("Position", int)
Offset = NewType("Offset", int)
NodeId = NewType("NodeId", int)
ObjectName = NewType("ObjectName", str)

ROOT = ShardId(0)
BEGINNING = Position(0)

# Ids that a data shard gives out itself (HTTP streams) carry this bit, so that they never meet ids of the root.
SHARD_BORN = 1 << 62


def shard_of(stream: StreamId, shards: int) -> ShardId:
    """The data shard in which a stream lives."""
    return ShardId(1 + stream % shards)


def shard_of_name(name: str, shards: int) -> ShardId:
    """The data shard in which a thing with a name of its own (a group, an HTTP stream) lives."""
    return ShardId(1 + crc32c(name.encode()) % shards)


def stream_drawn_in(shard: ShardId, luck: int, shards: int) -> StreamId:
    """An id that somebody draws for a stream before its shard knows of it; far from those that the shard gives out."""
    drawn = SHARD_BORN + (SHARD_BORN >> 1) + luck % (SHARD_BORN >> 2)
    return StreamId(drawn + (shard - 1 - drawn) % shards)


def stream_born_in(shard: ShardId, count: int, shards: int) -> StreamId:
    """The id of the `count`-th stream that a data shard makes by itself; `shard_of` leads back to the shard."""
    return StreamId(SHARD_BORN + count * shards + (shard - 1 - SHARD_BORN) % shards)
