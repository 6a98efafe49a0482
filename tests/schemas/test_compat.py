"""What one schema reads of what another wrote, kind by kind."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.schemas.kinds import complaints, read_schema


def judge(kind, reader, writer):
    """The names of what is wrong."""
    texts = [each if isinstance(each, str) else json.dumps(each) for each in (reader, writer)]
    said = complaints(*(read_schema(kind, text) for text in texts))
    return sorted({message.split("'" if kind == "AVRO" else '"')[1] for message in said})


def record(*fields, name="R", **more):
    made = [one if isinstance(one, dict) else {"name": one[0], "type": one[1]} for one in fields]
    return {"type": "record", "name": name, "fields": made, **more}


def enum(*symbols, **more):
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


AVRO = [
    # reader, writer, what is wrong
    ("int", "int", []),
    ("long", "int", []),
    ("double", "long", []),
    ("bytes", "string", []),
    ("int", "long", ["TYPE_MISMATCH"]),
    ("int", "string", ["TYPE_MISMATCH"]),
    (["null", "int"], "int", []),
    ("int", ["null", "int"], ["TYPE_MISMATCH"]),
    (["null", "long", "string"], ["null", "int"], []),
    (["null"], ["null", "int"], ["MISSING_UNION_BRANCH"]),
    (record(), record(("a", "int")), []),
    (record(("a", "int")), record(), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
    (record({"name": "a", "type": "int", "default": 1}), record(), []),
    (record({"name": "b", "type": "int", "aliases": ["a"]}), record(("a", "int")), []),
    (record(name="S"), record(), ["NAME_MISMATCH"]),
    (record(name="S", aliases=["R"]), record(), []),
    (record(name="a.R"), record(name="b.R"), []),
    (enum("A", "B"), enum("A"), []),
    (enum("A"), enum("A", "B"), ["MISSING_ENUM_SYMBOLS"]),
    (enum("A", default="A"), enum("A", "B"), []),
    ({"type": "fixed", "name": "F", "size": 4}, {"type": "fixed", "name": "F", "size": 8}, ["FIXED_SIZE_MISMATCH"]),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, []),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "long"}, ["TYPE_MISMATCH"]),
    (
        record(("a", record(("x", "long"), name="I"))),
        record(("a", record(("x", "int"), ("y", "int"), name="I"))),
        [],
    ),
    (
        record(("next", ["null", "R"]), ("v", "int")),
        record(("next", ["null", "R"]), ("v", "string")),
        ["TYPE_MISMATCH"],
    ),
]


@pytest.mark.parametrize(("reader", "writer", "wrong"), AVRO)
def test_avro(reader, writer, wrong):
    texts = [json.dumps(each) for each in (reader, writer)]
    assert judge("AVRO", *texts) == wrong


OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**OPEN, "additionalProperties": False}


def with_b(schema, **more):
    return {**schema, "properties": {**schema["properties"], "b": {"type": "integer"}}, **more}


JSON = [
    (OPEN, OPEN, []),
    (OPEN, with_b(OPEN), []),
    (with_b(OPEN), OPEN, ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (with_b(CLOSED), CLOSED, []),
    (CLOSED, with_b(CLOSED), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (with_b(CLOSED, required=["b"]), CLOSED, ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"]),
    ({**OPEN, "required": ["a"]}, OPEN, ["REQUIRED_ATTRIBUTE_ADDED"]),
    (OPEN, {**OPEN, "required": ["a"]}, []),
    ({"type": "object", "properties": {"a": {"type": "string", "default": ""}}, "required": ["a"]}, OPEN, []),
    (OPEN, CLOSED, []),
    (CLOSED, OPEN, ["ADDITIONAL_PROPERTIES_REMOVED"]),
    ({**OPEN, "additionalProperties": {"type": "string"}}, OPEN, ["ADDITIONAL_PROPERTIES_NARROWED"]),
    ({**OPEN, "additionalProperties": {"type": "integer"}}, with_b(CLOSED), []),
    (
        {**OPEN, "additionalProperties": {"type": "string"}},
        with_b(CLOSED),
        ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_CHANGED"],
    ),
    ({"type": "number"}, {"type": "integer"}, []),
    ({"type": "integer"}, {"type": "number"}, ["TYPE_NARROWED"]),
    ({"type": "string"}, {"type": "integer"}, ["TYPE_CHANGED"]),
    ({"type": ["string", "null"]}, {"type": "string"}, []),
    ({"type": "string"}, {"type": ["string", "null"]}, ["TYPE_CHANGED"]),
    ({"oneOf": [{"type": "null"}, {"type": "number"}]}, {"oneOf": [{"type": "integer"}, {"type": "null"}]}, []),
    ({"oneOf": [{"type": "null"}]}, {"oneOf": [{"type": "integer"}, {"type": "null"}]}, ["SUM_TYPE_NARROWED"]),
    (
        {"oneOf": [{"type": "null"}, {"type": "string"}]},
        {"oneOf": [{"type": "integer"}, {"type": "null"}]},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"],
    ),
    ({"anyOf": [{"type": "null"}, {"type": "string"}]}, {"oneOf": [{"type": "string"}]}, []),
    ({"allOf": [{"type": "string"}]}, {"allOf": [{"type": "string"}, {"maxLength": 5}]}, []),
    ({"allOf": [{"type": "string"}, {"maxLength": 5}]}, {"allOf": [{"type": "string"}]}, ["PRODUCT_TYPE_EXTENDED"]),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}, []),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_NARROWED"]),
    ({"type": "string"}, {"enum": ["a"]}, []),
    ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 4}, []),
    ({"type": "string", "maxLength": 4}, {"type": "string", "maxLength": 5}, ["MAX_LENGTH_DECREASED"]),
    ({"type": "string", "pattern": "a"}, {"type": "string"}, ["PATTERN_ADDED"]),
    ({"type": "number", "minimum": 1}, {"type": "number"}, ["MINIMUM_ADDED"]),
    ({"type": "number", "minimum": 2}, {"type": "number", "minimum": 1}, ["MINIMUM_INCREASED"]),
    ({"type": "integer", "multipleOf": 2}, {"type": "integer", "multipleOf": 4}, []),
    ({"type": "integer", "multipleOf": 4}, {"type": "integer", "multipleOf": 2}, ["MULTIPLE_OF_CHANGED"]),
    ({"type": "array", "items": {"type": "number"}}, {"type": "array", "items": {"type": "integer"}}, []),
    ({"type": "array", "uniqueItems": True}, {"type": "array"}, ["UNIQUE_ITEMS_ADDED"]),
    ({}, OPEN, []),
    (OPEN, {}, ["TYPE_CHANGED"]),
    (True, False, []),
    (
        {"$ref": "#/definitions/x", "definitions": {"x": {"type": "number"}}},
        {"$ref": "#/definitions/x", "definitions": {"x": {"type": "integer"}}},
        [],
    ),
    (
        {"type": "object", "properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}},
        {"type": "object", "properties": {"next": {"$ref": "#"}, "v": {"type": "number"}}},
        ["TYPE_NARROWED"],
    ),
    ({"not": {"type": "string"}}, {"not": {"type": ["string", "null"]}}, []),
    ({"not": {"type": ["string", "null"]}}, {"not": {"type": "string"}}, ["NOT_TYPE_EXTENDED"]),
]


@pytest.mark.parametrize(("reader", "writer", "wrong"), JSON)
def test_json(reader, writer, wrong):
    assert judge("JSON", json.dumps(reader), json.dumps(writer)) == wrong


def message(*lines, package="p"):
    return f'syntax = "proto3"; package {package}; message M {{ {" ".join(lines)} }}'


PROTOBUF = [
    (message("int32 a = 1;"), message("int32 a = 1;"), []),
    (message("int32 a = 1; string b = 2;"), message("int32 a = 1;"), []),
    (message(), message("int32 a = 1;"), []),
    (message("int64 other = 1;"), message("int32 a = 1;"), []),
    (message("bytes a = 1;"), message("string a = 1;"), []),
    (message("string a = 1;"), message("int32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    (message("sint32 a = 1;"), message("int32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    (message("M a = 1;"), message("int32 a = 1;"), ["FIELD_KIND_CHANGED"]),
    (message("repeated int32 a = 1;"), message("int32 a = 1;"), ["FIELD_NUMERIC_LABEL_CHANGED"]),
    (message("repeated string a = 1;"), message("string a = 1;"), []),
    (message(package="q"), message(), ["PACKAGE_CHANGED"]),
    ('syntax = "proto3"; package p; message N {}', message(), ["MESSAGE_REMOVED"]),
    (message() + " message N {}", message(), []),
    (message("enum E { A = 0; } E e = 1;"), message("int32 e = 1;"), []),
    (message("oneof o { int32 a = 1; }"), message("int32 a = 1;"), []),
    (
        message("oneof o { int32 a = 1; int32 b = 2; }"),
        message("int32 a = 1; int32 b = 2;"),
        ["MULTIPLE_FIELDS_MOVED_TO_ONEOF"],
    ),
    (message("oneof o { int32 b = 2; }"), message("oneof o { int32 a = 1; int32 b = 2; }"), ["ONEOF_FIELD_REMOVED"]),
    (message("oneof o { int32 a = 1; int32 b = 2; }"), message("oneof o { int32 a = 1; }"), []),
    (message("map<string, int64> m = 1;"), message("map<string, int32> m = 1;"), []),
    (message("map<string, string> m = 1;"), message("map<string, int32> m = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    (
        message("message I { string x = 1; } I i = 1;"),
        message("message I { int32 x = 1; } I i = 1;"),
        ["FIELD_SCALAR_KIND_CHANGED"],
    ),
    ("message M { required int32 a = 1; }", "message M { }", ["REQUIRED_FIELD_ADDED"]),
    ("message M { }", "message M { required int32 a = 1; }", ["REQUIRED_FIELD_REMOVED"]),
]


@pytest.mark.parametrize(("reader", "writer", "wrong"), PROTOBUF)
def test_protobuf(reader, writer, wrong):
    assert judge("PROTOBUF", reader, writer) == wrong


names = st.sampled_from(["a", "b", "c"])
avro_types = st.recursive(
    st.sampled_from(["null", "int", "long", "float", "double", "string", "bytes", "boolean"]),
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda values: {"type": "map", "values": values}, inner)
    ),
    max_leaves=4,
)


def _record_of(fields):
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


@given(st.dictionaries(names, avro_types, max_size=3))
def test_every_avro_schema_reads_what_it_wrote_itself(fields):
    assert judge("AVRO", _record_of(fields), _record_of(fields)) == []


@given(st.dictionaries(names, avro_types, max_size=3), st.dictionaries(names, avro_types, max_size=3))
def test_avro_agrees_with_a_reader_that_really_reads(before, now):
    """What is called compatible is read by fastavro, whatever was written."""
    import io

    import fastavro

    writer, reader = _record_of(before), _record_of(now)
    values = {
        "null": None,
        "int": 1,
        "long": 2,
        "float": 1.0,
        "double": 2.0,
        "string": "x",
        "bytes": b"y",
        "boolean": True,
    }

    def value(kind):
        if isinstance(kind, str):
            return values[kind]
        return [value(kind["items"])] if kind["type"] == "array" else {"k": value(kind["values"])}

    if judge("AVRO", reader, writer):
        return
    body = io.BytesIO()
    fastavro.schemaless_writer(
        body, fastavro.parse_schema(writer), {name: value(kind) for name, kind in before.items()}
    )
    body.seek(0)
    read = fastavro.schemaless_reader(body, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    assert read.keys() == now.keys()


json_types = st.recursive(
    st.sampled_from([{"type": kind} for kind in ("string", "integer", "number", "boolean", "null")] + [True]),
    lambda inner: (
        st.builds(
            lambda properties, closed, required: {
                "type": "object",
                "properties": properties,
                **({"additionalProperties": False} if closed else {}),
                **({"required": sorted(properties)} if required and properties else {}),
            },
            st.dictionaries(names, inner, max_size=3),
            st.booleans(),
            st.booleans(),
        )
        | st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda kinds: {"anyOf": kinds}, st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=6,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, -1.5]) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


@given(json_types, json_types, st.lists(json_values, max_size=20))
def test_json_that_is_called_compatible_accepts_what_was_allowed(writer, reader, values):
    import jsonschema_rs

    if judge("JSON", json.dumps(reader), json.dumps(writer)):
        return
    for value in values:
        if jsonschema_rs.is_valid(writer, value):
            assert jsonschema_rs.is_valid(reader, value), (writer, reader, value)
