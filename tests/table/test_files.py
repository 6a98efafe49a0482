"""Slices become Parquet files and these become the batches again, whatever was in them."""

import asyncio
import json
import resource
import signal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.codec.compression import Compression
from runnel.errors import Corrupt, NotThere, Unavailable
from runnel.metadata.updates.extents import RUN
from runnel.table.batches import seal_rows
from runnel.table.files.columns import TableColumns, Wants
from runnel.table.files.facts import (
    Aborted,
    Range,
    Sizes,
    Slice,
    Work,
    pack_written,
    parse_file_name,
    unpack_written,
)
from runnel.table.files.restore import objects_of, read_letters, read_trail
from runnel.table.files.rules import Values, row_rules
from runnel.table.files.statistics import delta_stats
from runnel.table.files.trail import pack_trail, unpack_trail
from runnel.table.files.write import write_files
from runnel.table.records import ROWS, Run, Stretch, open_runs
from runnel.table.shapes import Format
from runnel.table.values import Writer
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects

ORDER = """{"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "price", "type": "float"}, {"name": "country", "type": "string"}]}"""
ORDER_2 = """{"type": "record", "name": "Order", "fields": [
    {"name": "number", "aliases": ["id"], "type": "long"}, {"name": "price", "type": "double"},
    {"name": "country", "type": "string"}, {"name": "note", "type": ["null", "string"], "default": null}]}"""
WRITERS = {1: Writer(Format.AVRO, 1, ORDER), 2: Writer(Format.AVRO, 2, ORDER_2)}


def lookup(number):
    if number in WRITERS:
        return WRITERS[number]
    raise NotThere(f"schema {number} is not in the schema registry")


def avro(number, row):
    import io

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(WRITERS[number].schema)), row)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def as_rows(items, first=0):
    rows = [
        {"offset": first + n, "time": 1_700_000_000_000 + n, "key": None, "headers": []} | item
        for n, item in enumerate(items)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=ROWS)


class Stage:
    """A store with write-ahead slices, and what one wants to know of the files made of them."""

    def __init__(self):
        self.store = MemoryObjects(SystemClock())
        self.columns = TableColumns()
        self.chance = Chance(7)

    async def slices(self, rows, stretches=(), *, codec=Compression.NONE, batch_records=100, name="s"):
        made = []
        for number, batch in enumerate(
            seal_rows(rows, list(stretches), compression=codec, batch_records_max=batch_records)
        ):
            await self.store.put_new(f"wal/{name}{number}", b"head" + batch.data)
            made.append(Slice(f"wal/{name}{number}", 4, len(batch.data), batch.first, batch.last + 1))
        return tuple(made)

    def work(self, *ranges, rules=None, **sizes):
        return Work(
            topic="orders",
            folder="tables/orders",
            ranges=ranges,
            rules=row_rules(rules or {}),
            columns=self.columns,
            stamp=1_700_000_000_000,
            sizes=Sizes(**sizes),
        )

    async def write(self, *ranges, rules=None, find=lookup, **sizes):
        for _ in range(3):
            written = await write_files(self.work(*ranges, rules=rules, **sizes), self.store, find, chance=self.chance)
            if written.wants is None:
                return written
            self.columns = self.columns.with_wants(written.wants)
        raise AssertionError(f"never content: {written.wants}")

    async def batches(self, written, stream):
        """All sealed batches of a stream, by way of the extents that the ledger would have."""
        found = []
        for group in written.groups:
            reader = await read_trail(self.store, group.trail)
            for run in (each for each in group.runs if each.stream == stream):
                for number in reader.trail.chunks_of(run.place, run.first, run.end):
                    data = [await self.store.read(*each) for each in reader.ranges(number)]
                    found += reader.restore(number, data)
        return found

    async def rows_back(self, written, stream):
        batches = await self.batches(written, stream)
        return [
            row
            for each in batches
            for piece in open_runs([Run(each.first, each.data)])
            for row in piece.rows.to_pylist()
        ]

    async def table(self, written):
        """All rows of all files, in the order of partition and offset."""
        found = []
        for file in written.files:
            read = pq.read_table(pa.BufferReader(bytes(await self.store.read(file.name))))
            assert read.num_rows == file.records
            found += read.to_pylist()
        return sorted(found, key=lambda row: (row["partition"], row["offset"]))


keys = st.none() | st.binary(max_size=5)
item = st.fixed_dictionaries(
    {
        "time": st.integers(-1, 2**53) | st.integers(1_600_000_000_000, 1_800_000_000_000),
        "key": keys,
        "value": st.none() | st.binary(max_size=40) | st.sampled_from([b"\0\0\0\0\1", b"\0\0\0\0\x09x", b"{}", b"[1"]),
        "headers": st.lists(
            st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=4)}), max_size=2
        ),
    }
)
order = st.fixed_dictionaries(
    {
        "id": st.integers(-5, 2**40),
        "price": st.floats(width=32, allow_nan=False),
        "country": st.sampled_from(["de", "fr"]),
    }
)
order_2 = st.fixed_dictionaries(
    {
        "number": st.integers(-5, 5),
        "price": st.floats(),
        "country": st.just("it"),
        "note": st.none() | st.text(max_size=3),
    }
)
jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
value = st.one_of(
    order.map(lambda row: avro(1, row)),
    order.map(lambda row: avro(1, row)[:-2]),
    order_2.map(lambda row: avro(2, row)),
    jsons.map(lambda one: json.dumps(one).encode()),
    jsons.map(lambda one: json.dumps(one, separators=(",", ":"), indent=1).encode()),
)
anything = st.lists(
    st.tuples(item, st.none() | value).map(lambda two: two[0] | ({"value": two[1]} if two[1] else {})),
    min_size=1,
    max_size=40,
)


@given(
    items=anything,
    codec=st.sampled_from(Compression),
    rules=st.fixed_dictionaries(
        {
            "table.values": st.sampled_from(["auto", "raw", "schema", "schema:1", "json"]),
            "table.partition": st.sampled_from(
                ["", "day(timestamp)", "country, hour(timestamp)", "id", "month(timestamp)"]
            ),
        }
    ),
    records=st.integers(1, 9),
    first=st.integers(0, 2**40),
    chunk=st.sampled_from([1, 300, 1 << 20]),
)
def test_any_records_come_back_as_they_were(items, codec, rules, records, first, chunk):
    async def run():
        stage = Stage()
        rows = as_rows(items, first)
        slices = await stage.slices(rows, codec=codec, batch_records=records)
        of = Range(stream=9, partition=3, slices=slices)
        written = await stage.write(of, rules=rules, chunk_bytes=chunk, group_bytes_max=4000, portion_bytes=500)
        assert await stage.rows_back(written, 9) == rows.to_pylist()
        table = await stage.table(written)
        letters = [each for group in written.groups async for each in read_letters(stage.store, group)]
        offsets = [row["offset"] for row in table] + [letter.offset for letter in letters]
        assert sorted(offsets) == rows.column("offset").to_pylist()
        assert (written.records, written.letters) == (len(table), len(letters))
        assert (written.firsts, written.ends) == ({3: first}, {3: first + len(items)})
        files, runs = written.replacement()
        found = sorted((start, end) for _, start, end, _, _ in RUN.iter_unpack(runs))
        assert [start for start, _ in found] == [first, *(end for _, end in found[:-1])]
        assert {end for _, end in found} <= {each.end for each in slices}
        assert set(files) == {group.trail for group in written.groups}

    asyncio.run(run())


def test_what_is_written_survives_packing_and_names_tell_their_age():
    async def run():
        stage = Stage()
        of = Range(stream=1, partition=0, slices=await stage.slices(as_rows([{"value": b"x"}] * 10)))
        written = await stage.write(of)
        assert unpack_written(pack_written(written)) == written
        for name in await objects_of(stage.store, written.groups[0].trail):
            assert parse_file_name(name) == (1_700_000_000_000, written.groups[0].trail)
        assert parse_file_name("wal/0123456789ab-0123456789abcdef") is None

    asyncio.run(run())


def test_two_versions_of_a_schema_become_two_files_of_one_table():
    async def run():
        stage = Stage()
        values = [avro(1, {"id": n, "price": 0.5, "country": "de"}) for n in range(10)]
        values += [avro(2, {"number": n, "price": 0.1, "country": "fr", "note": None}) for n in range(10, 20)]
        values[3:13:3] = [values[15]] * 4
        of = Range(stream=1, partition=0, slices=await stage.slices(as_rows([{"value": one} for one in values])))
        written = await stage.write(of)
        assert [column.name for column in stage.columns.columns] == ["number", "price", "country", "note"]
        assert [column.type for column in stage.columns.columns] == ["long", "double", "string", "string"]
        assert sorted(file.schema_ids for file in written.files) == [(1,), (2,)]
        ids = {column.name: column.id for column in stage.columns.columns}
        for file in written.files:
            schema = pq.read_schema(pa.BufferReader(bytes(await stage.store.read(file.name))))
            assert int(schema.field("id").metadata[b"PARQUET:field_id"]) == ids["number"]
            assert file.columns[[each.id for each in file.columns].index(ids["number"])].nulls == 0
        assert [row["id"] for row in await stage.table(written)] == [
            0,
            1,
            2,
            15,
            4,
            5,
            15,
            7,
            8,
            15,
            10,
            11,
            15,
            *range(13, 20),
        ]

    asyncio.run(run())


def test_broken_records_become_letters_with_their_reasons_and_keep_their_offsets():
    async def run():
        stage = Stage()
        good = avro(1, {"id": 1, "price": 0.5, "country": "de"})
        items = [
            {"value": good},
            {"value": good[:-1], "key": b"k"},
            {"value": b"\0\0\0\0\x63"},
            {"value": b"x"},
            {"value": good},
        ]
        of = Range(stream=1, partition=4, slices=await stage.slices(as_rows(items)))
        written = await stage.write(of, rules={"table.values": "schema"})
        letters = [each async for each in read_letters(stage.store, written.groups[0])]
        assert [(each.partition, each.offset, each.key, each.value, each.why) for each in letters] == [
            (4, 1, b"k", good[:-1], "the bytes end too early"),
            (4, 2, None, b"\0\0\0\0\x63", "schema 99 is not in the schema registry"),
            (4, 3, None, b"x", "no schema id is in front of it (a zero byte and four more)"),
        ]
        assert [row["offset"] for row in await stage.table(written)] == [0, 4]

    asyncio.run(run())


def test_transactions_and_sealed_batches_come_back_in_their_places():
    async def run():
        stage = Stage()
        rows = as_rows([{"value": b"%d" % n, "time": 5} for n in range(12)])
        stretches = [Stretch(3, 5, 0x10, 77, 1), Stretch(6, 8, 0x10, 78, 1), Stretch(9, 11, 0x08)]
        slices = await stage.slices(rows, stretches, batch_records=3)
        of = Range(stream=1, partition=0, slices=slices, aborted=(Aborted(78, 6, 8),))
        written = await stage.write(of)
        before = [bytes(await stage.store.read(each.name, 4)) for each in slices]
        after = await stage.batches(written, 1)
        assert [row["offset"] for row in await stage.table(written)] == [0, 1, 2, 3, 4, 5, 9, 10, 11]
        assert [each.data[21:] for each in after] == [each[21:] for each in before]

    asyncio.run(run())


def test_small_streams_share_files_and_deleted_rows_stay_out():
    async def run():
        stage = Stage()
        ranges = [
            Range(
                stream=n,
                partition=n,
                start=10 + n,
                slices=await stage.slices(as_rows([{"value": b"x"}] * 5, 10), name=f"{n}-"),
            )
            for n in range(4)
        ]
        written = await stage.write(*ranges)
        assert len(written.files) == len(written.groups) == 1
        assert [(span.partition, span.first, span.last) for span in written.files[0].spans] == [
            (n, 10 + n, 14) for n in range(4)
        ]
        assert [row["offset"] for row in await stage.rows_back(written, 3)] == [13, 14]
        files, runs = written.replacement([2])
        assert [(stream, first, end) for stream, first, end, _, _ in RUN.iter_unpack(runs)] == [(2, 10, 15)]
        assert files == [written.groups[0].trail]

    asyncio.run(run())


def test_a_registry_that_is_away_stops_the_work_and_nothing_is_put():
    async def run():
        def away(number):
            raise Unavailable(f"schema {number} cannot be had")

        stage = Stage()
        of = Range(stream=1, partition=0, slices=await stage.slices(as_rows([{"value": b"\0\0\0\0\1xx"}])))
        with pytest.raises(Unavailable):
            await stage.write(of, find=away)
        assert [each.name async for each in stage.store.list("tables/")] == []

    asyncio.run(run())


def test_statistics_are_what_the_rows_say():
    async def run():
        stage = Stage()
        values = [
            avro(1, {"id": n, "price": n / 2, "country": "abcdefghijklmnopqrstu" if n else "a"}) for n in range(10)
        ]
        of = Range(stream=1, partition=0, slices=await stage.slices(as_rows([{"value": one} for one in values])))
        written = await stage.write(of)
        (file,) = written.files
        stats = json.loads(delta_stats(file, stage.columns))
        assert stats["numRecords"] == 10
        assert (stats["minValues"]["id"], stats["maxValues"]["id"]) == (0, 9)
        assert (stats["minValues"]["price"], stats["maxValues"]["price"]) == (0, 4.5)
        assert (stats["minValues"]["country"], stats["maxValues"]["country"]) == ("a", "abcdefghijklmnoq")
        assert stats["minValues"]["timestamp"] == "2023-11-14T22:13:20.000Z"
        assert stats["nullCount"]["key"] == 10
        by_id = {each.id: each for each in file.columns}
        assert by_id[2].lower == (0).to_bytes(8, "little")
        assert by_id[2].upper == (9).to_bytes(8, "little")

    asyncio.run(run())


def test_a_trail_that_was_touched_is_refused():
    async def run():
        stage = Stage()
        of = Range(stream=1, partition=0, slices=await stage.slices(as_rows([{"value": b"x"}])))
        trail = (await stage.write(of)).groups[0].trail
        data = bytes(await stage.store.read(trail))
        assert pack_trail(unpack_trail(trail, data)) == data
        for broken in (data[:10], data[:-1], b"X" + data[1:], data[:8] + b"\xff" + data[9:], data[:-1] + b"\0"):
            with pytest.raises(Corrupt, match="tables/orders"):
                unpack_trail(trail, broken)

    asyncio.run(run())


def test_more_partitions_than_files_may_be_open_are_written_all_the_same(monkeypatch):
    monkeypatch.setattr("runnel.table.files.write.OPEN_MAX", 3)

    async def run():
        stage = Stage()
        rows = as_rows([{"value": avro(1, {"id": n * n % 10, "price": 0, "country": f"c{n % 10}"})} for n in range(60)])
        of = Range(stream=1, partition=0, slices=await stage.slices(rows, batch_records=15))
        written = await stage.write(of, rules={"table.partition": "country"}, chunk_bytes=1, files_max=15)
        assert len(written.groups) == 2
        assert {file.partition for file in written.files} == {(f"c{n}",) for n in range(10)}
        assert await stage.rows_back(written, 1) == rows.to_pylist()
        assert len(await stage.table(written)) == 60

    asyncio.run(run())


def test_a_flipped_bit_anywhere_is_noticed_or_changes_nothing():
    async def run():
        stage = Stage()
        values = [avro(1, {"id": n, "price": n / 3, "country": "de"}) for n in range(20)]
        values[3] = values[3][:-1]
        rows = as_rows([{"value": one, "time": 10**15 if n == 5 else n} for n, one in enumerate(values)])
        written = await stage.write(Range(stream=1, partition=0, slices=await stage.slices(rows)))
        reader = await read_trail(stage.store, written.groups[0].trail)
        data = [bytes(await stage.store.read(*each)) for each in reader.ranges(0)]
        wanted = [each.data for each in reader.restore(0, data)]
        noticed = 0
        for number, one in enumerate(data):
            for place in range(len(one)):
                broken = bytearray(one)
                broken[place] ^= 1 << place % 8
                try:
                    found = reader.restore(0, [*data[:number], bytes(broken), *data[number + 1 :]])
                except Corrupt:
                    noticed += 1
                else:
                    assert [each.data for each in found] == wanted, f"byte {place} of part {number}"
        assert noticed > sum(map(len, data)) / 2

    asyncio.run(run())


def test_a_full_disk_is_said_and_nothing_is_put():
    async def run():
        stage = Stage()
        chance = Chance(1)
        items = [{"value": chance.randbytes(1000)} for _ in range(1000)]
        of = Range(stream=1, partition=0, slices=await stage.slices(as_rows(items)))
        stage.columns = stage.columns.with_wants(Wants(Values.RAW))
        before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, hard))
        try:
            with pytest.raises(Unavailable, match="see that it has room"):
                await stage.write(of, chunk_bytes=100_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, before)
        assert [each.name async for each in stage.store.list("tables/")] == []
        assert (await stage.write(of)).records == 1000

    asyncio.run(run())
