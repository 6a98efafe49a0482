"""A topic read from outside: exactly the rows of a cut, under the columns of its schemas."""

import asyncio
import pickle
from dataclasses import replace
from functools import partial

import pyarrow as pa
import pytest
from tests.lake.conftest import ORDER, ORDER_2, avro, record

from runnel.errors import NotThere, Refused, Unavailable
from runnel.lake import rows as rows_of_pieces
from runnel.lake.options import read_options
from runnel.lake.places import look_again, open_lake, settings_of
from runnel.lake.rows import read_piece


def rows(place, topic, *, piece_bytes=1 << 20, **more):
    """All rows that the options ask for, as dictionaries."""
    options = place.options(topic, **more)
    with open_lake(settings_of(options, {})) as lake:
        scan = lake.scan(options)
        pieces = lake.pieces(scan, lake.range_of(options), piece_bytes)
    scan, pieces = pickle.loads(pickle.dumps((scan, pieces)))
    batches = [batch for piece in pieces for batch in read_piece(scan, piece)]
    return pa.Table.from_batches(batches, schema=scan.schema()).to_pylist()


def test_raw_rows_have_everything_that_a_record_has(place):
    headers = [("h", b"1"), ("h", None)]
    place.fill("raw", [(0, [record(b"a", headers=headers), record(None, key=None)]), (1, [record(b"b")])], partitions=2)
    read = rows(place, "raw")
    assert [(row["partition"], row["offset"], row["key"], row["value"]) for row in read] == [
        (0, 0, b"k", b"a"),
        (0, 1, None, None),
        (1, 0, b"k", b"b"),
    ]
    assert read[0]["headers"] == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert read[0]["timestamp"].timestamp() == 1_700_000_000
    assert read[0]["schema_id"] is None


def test_a_cut_goes_through_the_middle_of_batches_and_objects(place):
    place.fill("cut", [(0, [record(b"%d" % (10 * batch + n)) for n in range(10)]) for batch in range(5)])
    for first, end in ((0, 50), (3, 47), (10, 20), (19, 21), (7, 7), (49, 50)):
        read = rows(place, "cut", startingOffsets=str(first), endingOffsets=str(end), piece_bytes=100)
        assert [row["offset"] for row in read] == list(range(first, end))
        assert [row["value"] for row in read] == [b"%d" % n for n in range(first, end)]


def test_offsets_are_named_by_partition_by_word_and_by_time(place):
    place.fill("ends", [(n % 2, [record(b"x", timestamp=1000 * n)]) for n in range(10)], partitions=2)

    def offsets(**more):
        return [(row["partition"], row["offset"]) for row in rows(place, "ends", **more)]

    assert offsets(startingOffsets='{"0": 3, "1": -1}') == [(0, 3), (0, 4)]
    assert offsets(startingOffsets='{"ends": {"0": 4}}', endingOffsets='{"1": 1}') == [(0, 4), (1, 0)]
    assert offsets(startingOffsets="latest") == []
    assert offsets(startingTimestamp="6000") == [(0, 3), (0, 4), (1, 3), (1, 4)]
    assert offsets(startingTimestamp="1970-01-01T00:00:06Z", endingTimestamp="8000") == [(0, 3), (1, 3)]
    with pytest.raises(Refused, match="partitions 0 to 1, not 7"):
        offsets(startingOffsets='{"7": 1}')


def test_values_are_read_by_the_schemas_that_they_name(place):
    first, second = place.register("orders-value", ORDER, ORDER_2)
    values = [avro(first, 1, "a"), avro(second, 2, "b", 0.5), b"broken", avro(first, 3, "c"), None]
    place.fill("orders", [(0, [record(value) for value in values])])
    read = rows(place, "orders")
    assert [(row["offset"], row["id"], row["note"], row["price"], row["schema_id"]) for row in read] == [
        (0, 1, "a", None, first),
        (1, 2, "b", 0.5, second),
        (3, 3, "c", None, first),
        (4, None, None, None, None),
    ]
    assert [row["value"] for row in rows(place, "orders", values="raw")] == values
    assert rows(place, "orders", columns="note,offset")[1] == {"note": "b", "offset": 1}


@pytest.mark.parametrize("values", ["auto", "raw"])
def test_rows_are_the_same_in_parquet_in_write_ahead_objects_and_across_both(place, values):
    first, second = place.register("mixed-value", ORDER, ORDER_2)

    def some(begin, end):
        return [
            (n % 2, [record(avro(first, n, "a")), record(avro(second, n, "b", n / 2)), record(b"bad"), record(None)])
            for n in range(begin, end)
        ]

    place.fill("mixed", some(0, 20), partitions=2)
    before = rows(place, "mixed", values=values)
    place.compact("mixed")
    assert rows(place, "mixed", values=values) == before
    place.fill("mixed", some(20, 30))
    after = rows(place, "mixed", values=values, piece_bytes=500)
    assert len(after) == (120 if values == "raw" else 90)
    assert [row for row in after if row["offset"] < 40] == before
    for begin, end in ((0, 60), (13, 14), (37, 43), (39, 40), (40, 41)):
        cut = rows(place, "mixed", values=values, startingOffsets=str(begin), endingOffsets=str(end))
        assert cut == [row for row in after if begin <= row["offset"] < end]


@pytest.mark.parametrize("wanted", [(), ("offset", "price", "id"), ("note",)])
def test_the_tables_own_files_are_read_as_they_are(place, wanted):
    first, second = place.register("direct-value", ORDER, ORDER_2)
    values = [avro(first, 1, "a"), b"bad", avro(second, 2, "b", 0.5), None, avro(first, 3, "c")] * 20
    place.fill("direct", [(0, [record(value) for value in values])])
    before = rows(place, "direct", columns=",".join(wanted))
    columns = place.compact("direct")
    options = place.options("direct", columns=",".join(wanted))
    with open_lake(settings_of(options, {})) as lake:
        scan = lake.scan(options)
        pieces = lake.pieces(scan, {0: (3, 97)}, 1 << 20)
    direct = replace(scan, columns=columns, table_ids=columns.last_id)
    again, as_they_are = (
        pa.Table.from_batches([batch for piece in pieces for batch in read_piece(how, piece)]).to_pylist()
        for how in (scan, direct)
    )
    assert as_they_are == again == before[2:-3]


def test_rows_that_a_sweep_has_taken_from_under_a_reader_are_looked_for_again(place, monkeypatch):
    for name in ("RUNNEL_OBJECTS", "RUNNEL_LEDGER"):
        monkeypatch.delenv(name, raising=False)
    (first,) = place.register("swept-value", ORDER)
    place.fill("swept", [(0, [record(avro(first, 10 * batch + n, "a")) for n in range(10)]) for batch in range(6)])
    options = place.options("swept")
    with open_lake(settings_of(options, {})) as lake:
        scan = lake.scan(options)
        (piece,) = lake.pieces(scan, {0: (5, 55)}, 1 << 20)
    monkeypatch.setattr(rows_of_pieces, "PORTION_BYTES", 300)
    again = partial(look_again, options, scan)
    reading = read_piece(scan, piece, again)
    found = [next(reading)]
    place.compact("swept")
    for part in piece.parts:
        (place.folder / "objects" / part.name).unlink()
    found += list(reading)
    assert pa.Table.from_batches(found).column("id").to_pylist() == list(range(5, 55))
    with pytest.raises(Unavailable, match="start the query again"):
        list(read_piece(scan, piece))

    async def truncate():
        async with place.engine() as engine:
            await engine.truncate({engine.stream_of("swept", 0): 30})

    asyncio.run(truncate())
    with pytest.raises(Unavailable, match="retention was faster"):
        list(read_piece(scan, piece, again))


def test_a_topic_without_values_has_the_columns_of_its_subject(place):
    place.register("empty-value", ORDER)
    place.fill("empty", [])
    options = place.options("empty")
    with open_lake(settings_of(options, {})) as lake:
        assert lake.scan(options).schema().names[:3] == ["id", "note", "partition"]
        assert lake.pieces(lake.scan(options), lake.range_of(options), 1000) == []


def test_json_without_schemas_shows_its_columns(place):
    place.fill("logs", [(0, [record(b'{"a": 1}'), record(b'{"a": 2, "b": "x"}')])])
    read = rows(place, "logs", values="json")
    assert [(row["a"], row["b"]) for row in read] == [(1, None), (2, "x")]


def test_schemas_that_come_after_the_cut_was_planned_change_no_column(place):
    (first,) = place.register("late-value", ORDER)
    place.fill("late", [(0, [record(avro(first, 1, "a"))])])
    options = place.options("late")
    with open_lake(settings_of(options, {})) as lake:
        scan = lake.scan(options)
        place.register("late-value", ORDER_2)
        place.fill("late", [(0, [record(avro(first + 1, 2, "b", 0.5))])])
        pieces = lake.pieces(scan, {0: (0, 2)}, 1 << 20)
        batches = [batch for piece in pieces for batch in read_piece(scan, piece)]
    assert pa.Table.from_batches(batches).column("note").to_pylist() == ["a", "b"]
    assert "price" not in batches[0].schema.names


def test_what_retention_took_is_an_error_unless_it_may_be_missing(place):
    place.fill("gone", [(0, [record(b"x")] * 10)])

    async def truncate():
        async with place.engine() as engine:
            await engine.truncate({engine.stream_of("gone", 0): 4})

    asyncio.run(truncate())
    with pytest.raises(Refused, match="is gone, the first that is left is 4"):
        rows(place, "gone", startingOffsets="2")
    assert len(rows(place, "gone", startingOffsets="2", failOnDataLoss="false")) == 6
    assert len(rows(place, "gone")) == 6


def test_what_was_acknowledged_a_moment_ago_is_read(place):
    async def work():
        async with place.engine() as engine:
            topic = await engine.topics.create("now")
            for number in range(3):
                await engine.append_records(topic.streams[0], [record(b"%d" % number)])
                read = await asyncio.to_thread(rows, place, "now")
                assert [row["offset"] for row in read] == list(range(number + 1))

    asyncio.run(work())


class TestBadInput:
    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"topic": ""}, "name a topic"),
            ({"topik": "x"}, "no option 'topik': did you mean 'topic'"),
            ({"startingOffsets": "soon"}, "startingOffsets"),
            ({"startingOffsets": '{"0": -3}'}, "startingOffsets"),
            ({"endingTimestamp": "tomorrow"}, "endingTimestamp"),
            ({"maxOffsetsPerTrigger": "0"}, "at least 1"),
            ({"failOnDataLoss": "maybe"}, "true or false"),
            ({"values": "xml"}, "none of auto"),
            ({"columns": "a,b"}, "has no column 'a'"),
        ],
    )
    def test_an_option_that_is_wrong_is_named(self, place, more, words):
        place.fill("t", [(0, [record(b"x")])])

        def look():
            options = read_options({**place.settings, "topic": "t", **more})
            with open_lake(settings_of(options, {})) as lake:
                lake.scan(options)

        with pytest.raises(Refused, match=words):
            look()

    def test_looking_founds_no_cluster(self, place):
        options = place.options("t")
        with pytest.raises(Refused, match="there is no"), open_lake(settings_of(options, {})):
            pass
        assert list(place.folder.iterdir()) in ([], [place.folder / "objects"])

    def test_a_topic_that_is_not_there_is_said_so(self, place):
        place.fill("t", [])
        options = place.options("u")
        with open_lake(settings_of(options, {})) as lake, pytest.raises(NotThere, match="topic 'u'"):
            lake.scan(options)

    def test_memory_cannot_be_read_from_outside(self):
        options = read_options({"topic": "t", "objects": "memory://", "ledger": "memory:"})
        with pytest.raises(Refused, match="from outside"), open_lake(settings_of(options, {})):
            pass
