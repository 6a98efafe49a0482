"""How a table's columns grow, by schemas that come one after another."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import Corrupt, Refused
from runnel.table.files import columns as columns_module
from runnel.table.files.columns import Column, TableColumns, Wants, wider
from runnel.table.files.partitions import PartitionBy, fields_of, read_partition, split
from runnel.table.files.rules import RowRules, Values, row_rules
from runnel.table.json_values import infer
from runnel.table.shapes import Format
from runnel.table.values import Writer, shape_of


def avro(number, *fields):
    text = json.dumps({"type": "record", "name": "R", "fields": [dict(field) for field in fields]})
    return Writer(Format.AVRO, number, text)


def field(name, kind, *aliases):
    return {"name": name, "type": kind, "aliases": list(aliases)}


def grown(*writers, start=None):
    columns = start or TableColumns()
    for writer in writers:
        columns = columns.with_wants(Wants(Values.SCHEMA, (writer,)))
    return columns


def said(columns):
    return [(column.name, column.type, column.id) for column in columns.columns]


def test_fields_are_added_and_types_grow_while_ids_stay():
    one = avro(
        1,
        field("a", "int"),
        field("b", "float"),
        field("c", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}),
    )
    two = avro(
        2,
        field("b", "double"),
        field("d", "string"),
        field("c", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
        field("a", "long"),
    )
    assert said(grown(one)) == [("a", "int", 10), ("b", "float", 11), ("c", "decimal(4,2)", 12)]
    both = grown(one, two)
    assert said(both) == [("a", "long", 10), ("b", "double", 11), ("c", "decimal(9,2)", 12), ("d", "string", 13)]
    assert [column.id for column in both.resolve(shape_of(one))] == [10, 11, 12]
    assert [column.id for column in both.resolve(shape_of(two))] == [11, 13, 12, 10]
    assert said(grown(two, one)) == [
        ("b", "double", 10),
        ("d", "string", 11),
        ("c", "decimal(9,2)", 12),
        ("a", "long", 13),
    ]


def test_a_rename_keeps_the_column_and_old_values_find_it():
    one, two = avro(1, field("id", "long")), avro(2, field("number", "long", "id"))
    three = avro(3, field("key_number", "long", "number"))
    columns = grown(one, two, three)
    assert said(columns) == [("key_number", "long", 10)]
    assert columns.columns[0].file_name == "id"
    for writer in (one, two, three):
        assert [column.id for column in columns.resolve(shape_of(writer))] == [10]


def test_a_name_that_was_freed_by_a_rename_is_another_column():
    one, two = avro(1, field("id", "long")), avro(2, field("number", "long", "id"), field("id", "long"))
    columns = grown(one, two)
    assert [column.id for column in columns.resolve(shape_of(two))] == [11, 10]


def test_a_type_that_does_not_fit_gets_a_column_of_its_own():
    one, two = avro(1, field("price", "long")), avro(2, field("price", "string"))
    three = avro(3, field("price", {"type": "array", "items": "string"}))
    columns = grown(one, two, three)
    assert said(columns)[:2] == [("price", "long", 10), ("price_string", "string", 11)]
    assert columns.columns[2].name == "price_list"
    for writer, number in ((one, 10), (two, 11), (three, 12)):
        assert [column.id for column in columns.resolve(shape_of(writer))] == [number]
    again = grown(avro(4, field("price", "string"), field("price_string", "long")), start=columns)
    assert [column.id for column in again.resolve(shape_of(avro(4, field("price", "string"))))] == [11]


def test_names_of_the_record_and_names_that_differ_in_case_are_kept_apart():
    columns = grown(
        avro(1, field("offset", "long"), field("Timestamp", "long"), field("a", "long"), field("A", "string"))
    )
    assert [name for name, _, _ in said(columns)] == ["value_offset", "value_Timestamp", "a", "A_2"]
    names = [column.name.lower() for column in columns.all]
    assert len(set(names)) == len(names)
    assert columns.resolve(shape_of(avro(1, field("offset", "long"))))[0].name == "value_offset"


def test_nested_fields_grow_inside_lists_maps_and_structs():
    def inner(*fields):
        return {"type": "record", "name": "Inner", "fields": list(fields)}

    one = avro(
        1,
        field("lines", {"type": "array", "items": inner(field("n", "int"))}),
        field("m", {"type": "map", "values": "int"}),
    )
    two = avro(
        2,
        field("lines", {"type": "array", "items": inner(field("n", "long"), field("t", "string"))}),
        field("m", {"type": "map", "values": "long"}),
    )
    columns = grown(one, two)
    element = columns.columns[0].kids[0]
    assert [(kid.name, kid.type) for kid in element.kids] == [("n", "long"), ("t", "string")]
    assert [kid.type for kid in columns.columns[1].kids] == ["string", "long"]
    ids = [each.id for column in columns.all for each in column.walk()]
    assert len(set(ids)) == len(ids)
    assert [kid.name for kid in columns.resolve(shape_of(one))[0].kids[0].kids] == ["n"]
    other = grown(avro(3, field("m", {"type": "map", "values": "string"})), start=columns)
    assert [column.name for column in other.columns] == ["lines", "m", "m_map"]


kinds = st.recursive(
    st.sampled_from(
        ["int", "long", "float", "double", "string", "bytes", "boolean", "null", ["null", "long"], ["int", "string"]]
    ),
    lambda inner: (
        inner.map(lambda one: {"type": "array", "items": one}) | inner.map(lambda one: {"type": "map", "values": one})
    ),
    max_leaves=3,
)
fields = st.lists(
    st.builds(
        field, st.sampled_from(["a", "b", "A", "key", "value", "a_string"]), kinds, st.sampled_from(["a", "b", "c"])
    ),
    min_size=1,
    max_size=4,
    unique_by=lambda one: one["name"],
)


@given(schemas=st.lists(fields, min_size=1, max_size=6))
def test_whatever_schemas_come_every_value_has_a_place_and_no_column_changes_its_meaning(schemas):
    columns = TableColumns()
    seen = {}
    for number, each in enumerate(schemas):
        writer = avro(number + 1, *each)
        columns = grown(writer, start=columns)
        assert columns.resolve(shape_of(writer)) is not None
        for column in columns.all:
            for leaf in column.walk():
                known = seen.setdefault(leaf.id, leaf.type)
                assert wider(known, leaf.type) == leaf.type
                seen[leaf.id] = leaf.type
        names = [column.name.lower() for column in columns.all]
        in_files = [column.file_name.lower() for column in columns.all]
        assert len(set(names)) == len(set(in_files)) == len(names)
        assert TableColumns.of_json(columns.to_json()) == columns
        assert grown(writer, start=columns) == columns
    for number, each in enumerate(schemas):
        found = columns.resolve(shape_of(avro(number + 1, *each)))
        assert found is not None
        ids = [column.id for column in found]
        assert len(set(ids)) == len(ids)


def test_json_brings_columns_as_it_shows_them():
    columns = TableColumns().with_wants(Wants(Values.JSON, inferred=infer([b'{"a":1,"b":{"c":"x"}}'])))
    columns = columns.with_wants(Wants(Values.JSON, inferred=infer([b'{"a":1.5,"b":{"d":[1]}}'])))
    assert [(column.name, column.type) for column in columns.columns] == [
        ("a", "long"),
        ("b", "struct"),
        ("a_double", "double"),
    ]
    assert [(kid.name, kid.type) for kid in columns.columns[1].kids] == [("c", "string"), ("d", "list")]
    assert columns.resolve(columns.inferred) is not None


def test_a_table_does_not_grow_without_end(monkeypatch):
    monkeypatch.setattr(columns_module, "COLUMNS_MAX", 5)
    wide = avro(7, *(field(f"f{n}", "long") for n in range(6)))
    columns = grown(avro(1, field("a", "long")), wide)
    assert said(columns) == [("a", "long", 10)]
    assert columns.passed == ((7, (0,)),)
    columns = columns.with_wants(
        Wants(Values.JSON, inferred=infer([json.dumps({f"f{n}": n for n in range(6)}).encode()]))
    )
    assert columns.is_closed
    assert len(columns.columns) == 1


def test_columns_that_were_kept_badly_are_refused():
    for text in ("", "{}", '{"columns":[[1]]}'):
        with pytest.raises(Corrupt):
            TableColumns.of_json(text)


def test_rules_are_read_or_refused_by_name():
    assert row_rules({}) == RowRules()
    assert row_rules({"table.values": "schema:7"}) == RowRules(values=Values.SCHEMA, schema_id=7)
    rules = row_rules({"table.partition": "day(timestamp), country"})
    assert rules.partition == (PartitionBy("day", "timestamp"), PartitionBy("identity", "country"))
    for bad in ("avro", "raw:3", "schema:x", "schema:0"):
        with pytest.raises(Refused, match=r"table\.values"):
            row_rules({"table.values": bad})
    for bad in ("week(a)", "day(a", "a b", "a,a"):
        with pytest.raises(Refused, match=r"table\.partition"):
            read_partition(bad)


def test_partition_fields_are_those_that_exist_and_can_be():
    columns = grown(
        avro(
            1,
            field("country", "string"),
            field("price", "double"),
            field("born", {"type": "int", "logicalType": "date"}),
        )
    )
    rules = row_rules({"table.partition": "day(timestamp), country, price, year(born), hour(born), nothing"})
    fields = columns.partition_fields(rules)
    assert [(each.name, each.transform, each.delta_type) for each in fields] == [
        ("timestamp_day", "day", "date"),
        ("country", "identity", "string"),
        ("born_year", "year", "int"),
    ]
    assert [each.delta_value(value) for each, value in zip(fields, (19675, "de", 53), strict=True)] == [
        "2023-11-14",
        "de",
        "2023",
    ]
    assert fields[0].delta_value(None) is None


@given(moments=st.lists(st.none() | st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)), min_size=1))  # noqa: DTZ001
def test_every_row_falls_into_the_year_month_day_and_hour_of_its_time(moments):
    column = Column(3, "at", "timestamptz")
    by = read_partition("year(at), month(at), day(at), hour(at)")
    fields = fields_of(by, lambda name: column if name == "at" else None)
    stamps = [None if each is None else each.replace(tzinfo=UTC) for each in moments]
    array = pa.array(stamps, pa.timestamp("us", "UTC"))
    found = {}
    for values, places in split(len(stamps), lambda number: array if number == 3 else None, fields):
        for place in range(len(stamps)) if places is None else places.to_pylist():
            assert place not in found
            found[place] = values
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for place, stamp in enumerate(stamps):
        if stamp is None:
            assert found[place] == (None,) * 4
            continue
        hours = (stamp - epoch) // timedelta(hours=1)
        assert found[place] == (stamp.year - 1970, (stamp.year - 1970) * 12 + stamp.month - 1, hours // 24, hours)
