"""A checkpoint: a shard's whole state at one position, as one object.

Little-endian: magic 8 b"RUNNELCP", version 7, reserved 2, CRC-32C 4 of everything else, then msgpack of Saved.
What there may be a million of (extents) is kept as packed columns, copied and not walked.

Version 2 says of each object what kind it is, and holds tables. Version 3 says which streams are forks and who holds
them. Version 4 holds buckets and what is published beside streams. Version 5 holds schemas, version 6 subscriptions.
Up to version 6 the checksum was over the body alone, so that a damaged version looked like a newer one.
What an older version says is read as before it had them.

Objects are named `checkpoints/{shard:05d}/{position:020d}-{unique:016x}`: the newest sorts last, and two nodes that
write one at the same position do not meet.
"""

from array import array
from struct import Struct

import msgspec
from crc32c import crc32c

from runnel.errors import Corrupt
from runnel.metadata.buckets import Bucket, Past
from runnel.metadata.encoding import NewerVersion
from runnel.metadata.extents import Extents
from runnel.metadata.groups import Group
from runnel.metadata.nodes import Node
from runnel.metadata.schemas import Registry
from runnel.metadata.state import ShardState
from runnel.metadata.stream import Stream, Traits
from runnel.metadata.subscriptions import Subscription
from runnel.metadata.tables import Planner, Table
from runnel.metadata.topics import Topic
from runnel.model import ObjectName, Position, ShardId

MAGIC = b"RUNNELCP"
VERSION = 7
HEAD_CHECKED_FROM = 7
HEAD = Struct("<8sHxxI")
CHECKED_BYTES = 12
"""Of the head: all but the checksum."""
STREAM = Struct("<qqqqqqIIxxxx")
"""id, start, end, size, epoch, floor of the extents, how many extents, closed."""


class Saved(msgspec.Struct, array_like=True):
    """What a checkpoint holds. New fields go last, with a default."""

    shard: int
    shards: int
    position: int
    cluster_id: str
    horizon: int
    remembered: list[tuple[bytes, int]]
    streams: bytes
    extents: bytes
    producers: list[tuple[int, int | str, int, int, bytes, int]]
    traits: list[tuple[int, Traits]]
    streams_born: int
    object_names: list[str]
    object_references: bytes
    groups: list[Group]
    topics: list[Topic]
    leaving: list[Topic]
    nodes: list[Node]
    settings: dict[str, str]
    counters: dict[str, int]
    object_kinds: bytes = b""
    tables: list[Table] = []
    planner: Planner | None = None
    buckets: list[Bucket] = []
    sealed: list[str] = []
    departed: dict[str, Past] = {}
    registry: Registry | None = None
    subscriptions: list[Subscription] = []


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Saved)


def checkpoint_prefix(shard: ShardId) -> str:
    return f"checkpoints/{shard:05d}/"


def checkpoint_name(shard: ShardId, position: Position, unique: int) -> ObjectName:
    return ObjectName(f"{checkpoint_prefix(shard)}{position:020d}-{unique:016x}")


def position_of(name: ObjectName) -> Position:
    """The position in a checkpoint's name, or `Corrupt` for a name of another shape."""
    try:
        return Position(int(name.rsplit("/", 1)[1].split("-", 1)[0]))
    except (IndexError, ValueError):
        raise Corrupt(f"{name} is not the name of a checkpoint") from None


def encode_checkpoint(state: ShardState) -> bytes:
    rows = bytearray()
    columns: list[bytes] = []
    producers = []
    traits = []
    for stream in state.streams.values():
        extents = stream.extents
        floor, count = (extents.floor, len(extents)) if extents is not None else (stream.end, 0)
        rows += STREAM.pack(
            stream.id, stream.start, stream.end, stream.size, stream.epoch, floor, count, int(stream.closed)
        )
        if extents is not None:
            columns.append(extents.pack())
        for key, producer in (stream.producers or {}).items():
            producers.append(
                (stream.id, key, producer.epoch, producer.last, producer.recent.tobytes(), producer.seen_ms)
            )
        if stream.traits is not None:
            traits.append((stream.id, stream.traits))
    body = _encoder.encode(
        Saved(
            shard=state.shard,
            shards=state.shards,
            position=state.position,
            cluster_id=state.cluster_id,
            horizon=state.horizon,
            remembered=list(state.remembered.items()),
            streams=bytes(rows),
            extents=b"".join(columns),
            producers=producers,
            traits=traits,
            streams_born=state.streams_born,
            object_names=state.objects.names,
            object_references=state.objects.references.tobytes(),
            groups=list(state.groups.values()),
            topics=list(state.topics.values()),
            leaving=list(state.leaving.values()),
            nodes=list(state.nodes.values()),
            settings=state.settings,
            counters=state.counters,
            object_kinds=bytes(state.objects.kinds),
            tables=list(state.tables.values()),
            planner=state.planner,
            buckets=list(state.buckets.values()),
            sealed=list(state.sealed),
            departed=state.departed,
            registry=state.registry,
            subscriptions=list(state.subscriptions.values()),
        )
    )
    return HEAD.pack(MAGIC, VERSION, crc32c(body, crc32c(HEAD.pack(MAGIC, VERSION, 0)[:CHECKED_BYTES]))) + body


def decode_checkpoint(data: bytes | bytearray | memoryview, name: str) -> ShardState:
    """Read a checkpoint; `name` names it in errors."""
    view = memoryview(data)
    if len(view) < HEAD.size or view[:8] != MAGIC:
        raise Corrupt(f"{name} is not a checkpoint")
    _, version, crc = HEAD.unpack_from(view)
    body = view[HEAD.size :]
    if crc32c(body, crc32c(view[:CHECKED_BYTES]) if version >= HEAD_CHECKED_FROM else 0) != crc:
        raise Corrupt(f"{name} fails its checksum")
    if version > VERSION:
        raise NewerVersion(f"{name} has format {version}, this program knows {VERSION}: upgrade runnel")
    try:
        saved = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise NewerVersion(f"{name} holds what this program does not know: upgrade runnel ({error})") from error
    return _restore(saved)


def _restore(saved: Saved) -> ShardState:
    state = ShardState(saved.shard, saved.shards)
    state.position = saved.position
    state.cluster_id = saved.cluster_id
    state.horizon = saved.horizon
    state.remembered = dict(saved.remembered)
    state.streams_born = saved.streams_born
    _restore_streams(state, saved)
    table = state.objects
    table.names = saved.object_names
    table.references = array("I")
    table.references.frombytes(saved.object_references)
    table.kinds = bytearray(saved.object_kinds or bytes(len(saved.object_names)))
    for slot, name in enumerate(table.names):
        if name:
            table.slot_of[name] = slot
        else:
            table.free.append(slot)
    state.groups = {group.name: group for group in saved.groups}
    state.topics = {topic.name: topic for topic in saved.topics}
    state.topic_names = {topic.id: topic.name for topic in saved.topics}
    state.leaving = {topic.id: topic for topic in saved.leaving}
    state.nodes = {node.id: node for node in saved.nodes}
    state.settings = saved.settings
    state.counters = saved.counters
    state.tables = {known.id: known for known in saved.tables}
    state.planner = saved.planner or Planner()
    state.buckets = {bucket.name: bucket for bucket in saved.buckets}
    state.sealed = dict.fromkeys(saved.sealed)
    state.departed = saved.departed
    state.registry = saved.registry or Registry({}, {})
    state.subscriptions = {each.id: each for each in saved.subscriptions}
    return state


def _restore_streams(state: ShardState, saved: Saved) -> None:
    columns = memoryview(saved.extents)
    at = 0
    for stream_id, start, end, size, epoch, floor, count, closed in STREAM.iter_unpack(saved.streams):
        stream = state.streams[stream_id] = Stream(stream_id, start)
        stream.end = end
        stream.size = size
        stream.epoch = epoch
        stream.closed = bool(closed)
        if count:
            stream.extents = Extents.unpack(floor, count, columns[at : at + 44 * count])
            at += 44 * count
    for stream_id, key, epoch, last, recent, seen_ms in saved.producers:
        producer = state.streams[stream_id].producer(key, epoch, seen_ms)
        producer.last = last
        producer.recent.frombytes(recent)
    for stream_id, traits in saved.traits:
        state.streams[stream_id].traits = traits
        state.names[traits.name] = stream_id
