"""A cluster on disk, and someone who fills it."""

import asyncio
import json
import struct
from contextlib import asynccontextmanager

import pytest

from runnel.codec.records import Record
from runnel.engine import Engine
from runnel.lake.options import read_options
from runnel.metadata.objects import FileKind
from runnel.metadata.updates import RegisterSchema, ReplaceExtents
from runnel.metadata.updates.extents import Replacement
from runnel.model import ROOT, StreamId, shard_of
from runnel.table.files.columns import TableColumns
from runnel.table.files.facts import Range, Sizes, Slice, Work
from runnel.table.files.rules import row_rules
from runnel.table.files.write import write_files
from runnel.table.schemas import Schemas, at_hand_in
from runnel.world.chance import Chance

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
}
ORDER_2 = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": ["null", "double"], "default": None}]}


class Place:
    """Where a cluster is; `engine` opens it as a node would."""

    def __init__(self, folder) -> None:
        self.folder = folder

    @property
    def settings(self):
        return {"objects": f"file://{self.folder}/objects", "ledger": f"sqlite://{self.folder}/ledger.sqlite"}

    def options(self, topic, **more):
        return read_options({**self.settings, "topic": topic, **more})

    @asynccontextmanager
    async def engine(self):
        async with Engine(**self.settings, shards=2) as engine:
            yield engine

    def fill(self, topic, records, *, partitions=1, settings=None):
        """Append (partition, record) pairs, a batch for each run of one partition; make the topic if need be."""

        async def work():
            async with self.engine() as engine:
                known = engine.topics.get(topic) or await engine.topics.create(topic, partitions, settings or {})
                for partition, record in records:
                    await engine.append_records(StreamId(known.streams[partition]), record)

        asyncio.run(work())

    def compact(self, topic, values="schema"):
        """What the table service does, without Spark: all that is in write-ahead objects becomes Parquet.

        The table's columns after that.
        """

        async def work():
            columns = TableColumns()
            async with self.engine() as engine:
                lookup = Schemas((), at_hand=at_hand_in(engine.root)).writer
                for partition, stream in enumerate(engine.topics.get(topic).streams):
                    columns = await _swap(engine, topic, partition, stream, values, lookup, columns)
            return columns

        return asyncio.run(work())

    def register(self, subject, *documents):
        async def work():
            async with self.engine() as engine:
                made = []
                for document in documents:
                    text = json.dumps(document)
                    known = engine.root.registry.subject(subject)
                    revision = 0 if known is None else known.revision
                    update = RegisterSchema(
                        subject, "AVRO", text, str(len(text)).encode().ljust(16), [], {}, revision, 0
                    )
                    made.append((await engine.propose(ROOT, update))[0])
                return made

        return asyncio.run(work())


async def _swap(engine, topic, partition, stream, values, lookup, columns):
    state = engine.shards.of_stream(StreamId(stream)).state
    slices = tuple(
        Slice(state.objects.names[each.slot], each.place, each.length, each.first, each.end, each.stamp)
        for each in state.streams[stream].extents or ()
        if state.objects.kinds[each.slot] == FileKind.WAL
    )
    while slices:
        work = Work(
            topic=topic,
            folder=f"tables/{topic}",
            ranges=(Range(stream=stream, partition=partition, slices=slices),),
            rules=row_rules({"table.values": values}),
            columns=columns,
            stamp=1,
            sizes=Sizes(chunk_bytes=1000),
        )
        written = await write_files(work, engine.objects, lookup, chance=Chance())
        if written.wants is None:
            answers = await engine.propose(shard_of(StreamId(stream), 2), ReplaceExtents(*written.replacement()))
            assert set(answers) == {Replacement.REPLACED}
            break
        columns = columns.with_wants(written.wants)
    return columns


def record(value, key=b"k", timestamp=1_700_000_000_000, headers=()):
    return Record(key, value, timestamp=timestamp, headers=headers)


def long(number):
    number = number << 1
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def avro(schema_id, number, note, price=...):
    body = long(number) + long(len(note)) + note.encode()
    if price is not ...:
        body += b"\0" if price is None else b"\2" + struct.pack("<d", price)
    return b"\0" + schema_id.to_bytes(4, "big") + body


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)
