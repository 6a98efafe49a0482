"""Framed and unframed values of every format, the broken ones among them, and the bytes back."""

import json
import random  # noqa: TID251  # a fixed seed

import protoxy
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import NotThere, Refused
from runnel.table import compiled
from runnel.table.json_values import infer, json_schema_shape
from runnel.table.protobuf import compile_proto, protobuf_shape, read_indexes, write_indexes
from runnel.table.shapes import Format, arrow_type, decode, encode
from runnel.table.values import Writer, read_inferred, read_values, write_values

AVRO = '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}'
PROTO = """
syntax = "proto3";
package shop;
import "line.proto";
message Order {
  int64 id = 1; sint32 change = 2; uint64 big = 3; fixed32 f32 = 4; sfixed64 sf64 = 5; double d = 6; float f = 7;
  bool ok = 8; string name = 9; bytes blob = 10; repeated int32 numbers = 11; repeated string tags = 12;
  map<string, int64> counts = 13; Line line = 14; repeated Line lines = 15; State state = 16;
  optional int32 maybe = 17; oneof either { string text = 18; int32 number = 19; } uint32 u32 = 20; Order parent = 21;
  enum State { UNKNOWN = 0; SENT = 1; }
  message Inner { string a = 1; }
}
message Other { string x = 1; }
"""
LINE = 'syntax = "proto3"; package shop; message Line { string sku = 1; sint64 count = 2; }'


@pytest.fixture(params=["compiled", "plain"])
def helper(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(compiled, "helper", None)
    elif compiled.helper is None:
        pytest.skip("the compiled helper is not built")


def classes():
    pool = descriptor_pool.DescriptorPool()
    for file in compile_proto(PROTO, {"line.proto": LINE}).file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def orders(count):
    chance = random.Random(4)
    order = classes()("shop.Order")
    for n in range(count):
        one = order(
            id=chance.choice([0, n, -n]),
            change=chance.choice([0, -5, 2**31 - 1]),
            big=chance.choice([0, 2**64 - 1]),
            f32=chance.choice([0, 2**32 - 1]),
            sf64=-n,
            d=chance.random(),
            f=0.5,
            ok=n % 2 == 0,
            name="né" * (n % 3),
            blob=b"\xff" * (n % 2),
            numbers=range(n % 5),
            tags=["a"] * (n % 3),
            state=chance.choice([0, 1, 7]),
            u32=n,
        )
        if n % 3:
            one.counts["k"] = n
            one.line.sku = "x" * (n % 200)
            one.maybe = 0
        if n % 4 == 1:
            one.text = ""
        if n % 4 == 2:
            one.number = 0
            one.parent.id = 3
        for _ in range(n % 3):
            one.lines.add(sku="s", count=-n)
        yield one  # fmt: skip


def test_protobuf_comes_out_as_the_official_library_has_it_and_goes_back(helper):
    shape = protobuf_shape(PROTO, references={"line.proto": LINE})
    messages = list(orders(120))
    values = pa.array([one.SerializeToString(deterministic=True) for one in messages], pa.binary())
    rows, status = decode(Format.PROTOBUF, shape, values, b"")
    rows.validate(full=True)
    assert set(status) == {0}
    for row, one in zip(rows.to_pylist(), messages, strict=True):
        for name in ("id", "change", "big", "f32", "sf64", "d", "f", "ok", "name", "blob", "numbers", "tags", "u32"):
            theirs = getattr(one, name)
            assert row[name] == (list(theirs) if name in {"numbers", "tags"} else theirs)
        assert row["state"] == {0: "UNKNOWN", 1: "SENT", 7: "7"}[one.state]
        assert dict(row["counts"]) == dict(one.counts)
        assert row["maybe"] == (one.maybe if one.HasField("maybe") else None)
        assert row["text"] == (one.text if one.WhichOneof("either") == "text" else None)
        assert row["line"] == ({"sku": one.line.sku, "count": one.line.count} if one.HasField("line") else None)
        assert [line["count"] for line in row["lines"]] == [line.count for line in one.lines]
        assert row["parent"] == (one.parent.SerializeToString() if one.HasField("parent") else None)
    assert encode(Format.PROTOBUF, shape, rows, b"").equals(values)


@pytest.mark.skipif(compiled.helper is None, reason="the compiled helper is not built")
def test_compiled_and_plain_protobuf_agree_on_any_bytes(monkeypatch):
    shape = protobuf_shape(PROTO, references={"line.proto": LINE})
    chance = random.Random(12)
    values = []
    for one in orders(1500):
        broken = bytearray(one.SerializeToString()) or bytearray(b"\0")
        for _ in range(chance.randrange(3)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        values.append(bytes(broken))
    values = pa.array(values, pa.binary())
    ours, status = decode(Format.PROTOBUF, shape, values, b"")
    ours.validate(full=True)
    again = encode(Format.PROTOBUF, shape, ours, b"")
    monkeypatch.setattr(compiled, "helper", None)
    plain, plain_status = decode(Format.PROTOBUF, shape, values, b"")
    assert status.tolist() == plain_status.tolist()
    assert str(ours.to_pylist()) == str(plain.to_pylist())
    assert again.equals(encode(Format.PROTOBUF, shape, plain, b""))


def test_a_message_is_found_by_its_indexes():
    assert arrow_type(protobuf_shape(PROTO, (1,), {"line.proto": LINE})).field("x")
    nested = compile_proto(PROTO, {"line.proto": LINE}).file[-1].message_type[0].nested_type
    inner = next(n for n, one in enumerate(nested) if one.name == "Inner")
    assert arrow_type(protobuf_shape(PROTO, (0, inner), {"line.proto": LINE})).field("a")
    for path in [(0,), (1,), (0, 1), (3, 2, 1)]:
        assert read_indexes(b"\0\0\0\0\1" + write_indexes(path) + b"rest")[0] == path
    with pytest.raises(Refused):
        protobuf_shape(PROTO, (9,), {"line.proto": LINE})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(st.lists(st.dictionaries(st.sampled_from("abcd"), json_values, max_size=4), min_size=1, max_size=8), st.data())
def test_any_json_comes_back_byte_for_byte_with_and_without_the_helper(objects, data):
    dumps = data.draw(st.sampled_from([{}, {"separators": (",", ":")}, {"ensure_ascii": False}, {"indent": 1}]))
    values = pa.array([json.dumps(one, **dumps).encode() for one in objects], pa.binary())
    for one in {id(h): h for h in (compiled.helper, None)}.values():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compiled, "helper", one)
            columns, shape = read_inferred(values)
            assert columns.unreadable == {}
            back = []
            for group in columns.groups:
                group.rows.validate(full=True)
                back += write_values(group.writer, shape, group.rows, group.style, group.originals).to_pylist()
            assert back == values.to_pylist()


def test_json_in_one_producers_style_needs_no_originals(helper):
    objects = [{"id": n, "name": "Zoë", "price": n / 4, "tags": ["a"]} for n in range(50)]
    for how in ({}, {"separators": (",", ":")}, {"ensure_ascii": False}):
        values = pa.array([json.dumps(one, **how).encode() for one in objects], pa.binary())
        columns, _ = read_inferred(values)
        (group,) = columns.groups
        assert group.originals.null_count == len(values)
        assert group.rows.to_pylist()[3] == {"id": 3, "name": "Zoë", "price": 0.75, "tags": ["a"]}


def test_what_is_no_json_is_named_and_the_rest_goes_on(helper):
    values = pa.array(
        [b'{"a":1}', b"{", b'{"a":01}', None, b"\xff", b'{"a":1} x', b'{"a":2}', b'{"a":"\xff"}'], pa.binary()
    )
    columns, _ = read_inferred(values)
    assert sorted(columns.unreadable) == [1, 2, 4, 5, 7]
    assert columns.nulls.to_pylist() == [3]
    assert columns.groups[0].rows.field("a").to_pylist() == [1, 2]


def test_columns_of_inferred_json_grow_and_widen():
    _, shape = read_inferred(pa.array([b'{"a": 1}'], pa.binary()))
    columns, wider = read_inferred(pa.array([b'{"a": 1.5, "b": true}', b'{"b": "x"}'], pa.binary()), shape)
    assert str(arrow_type(wider)) == "struct<a: double, b: string>"
    assert columns.groups[0].rows.to_pylist() == [{"a": 1.5, "b": "true"}, {"a": None, "b": '"x"'}]


def test_a_json_schema_names_the_columns():
    schema = {
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": ["string", "null"]},
            "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "maybe": {"oneOf": [{"type": "null"}, {"type": "number"}]},
            "inner": {"$ref": "#/definitions/inner"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "list": {"type": "array", "items": {"type": "boolean"}},
        },
        "definitions": {"inner": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    }
    assert str(arrow_type(json_schema_shape(json.dumps(schema)))) == (
        "struct<id: int64, name: string, either: string, maybe: double, inner: struct<x: int64>, "
        "labels: map<string, string>, list: list<element: bool>>"
    )


def test_framed_values_of_several_schemas_are_read_each_by_its_own():
    order = classes()("shop.Order")
    writers = {
        1: Writer(Format.AVRO, 1, AVRO),
        2: Writer(Format.JSON, 2, '{"type": "object", "properties": {"n": {"type": "integer"}}}'),
        3: Writer(Format.PROTOBUF, 3, PROTO, (("line.proto", LINE),)),
    }

    def lookup(schema_id):
        if schema_id not in writers:
            raise NotThere(f"schema {schema_id} is not registered")
        return writers[schema_id]

    frame = [b"\0" + n.to_bytes(4, "big") for n in range(10)]
    other = b"\x02\x02"  # one index: message 1
    raw = [
        frame[1] + b"\x02", frame[2] + b'{"n":5}', None, frame[3] + b"\0" + order(id=4).SerializeToString(),
        frame[9] + b"?", b"unframed", frame[1] + b"\x80", frame[3] + other + b"\x0a\x01x", frame[2] + b'{ "n": 6 }', b"", frame[1] + b"\x04",
    ]  # fmt: skip
    values = pa.array(raw, pa.binary())
    columns = read_values(values, lookup)
    assert columns.nulls.to_pylist() == [2]
    assert columns.unreadable == {
        4: "schema 9 is not registered",
        5: "no schema id is in front of it (a zero byte and four more)",
        6: "the bytes end too early",
        9: "no schema id is in front of it (a zero byte and four more)",
    }
    found = {}
    for group in columns.groups:
        back = write_values(group.writer, group.shape, group.rows, group.style, group.originals)
        found.update(zip(group.places.to_pylist(), back.to_pylist(), strict=True))
    assert found == {n: raw[n] for n in (0, 1, 3, 7, 8, 10)}


def test_proto_imports_cannot_leave_their_folder():
    with pytest.raises(Refused):
        compile_proto(PROTO, {"../line.proto": LINE})
    assert protoxy
    assert infer([b"3"]).kids[0].name == "value"
