"""Schemas are read: what they mean, what they refer to, what is none."""

import base64
import json

import pytest
from google.protobuf import descriptor_pb2, struct_pb2, timestamp_pb2
from google.type import date_pb2, dayofweek_pb2, latlng_pb2, money_pb2, month_pb2, timeofday_pb2
from hypothesis import example, given
from hypothesis import strategies as st

from runnel.errors import Refused
from runnel.schemas.bounds import BadSchema
from runnel.schemas.kinds import KINDS, complaints, read_schema
from runnel.schemas.proto_known import KNOWN
from runnel.schemas.proto_text import proto_text
from runnel.schemas.protobuf import descriptor_of


def digest(kind, text, references=None):
    return read_schema(kind, text if isinstance(text, str) else json.dumps(text), references).digest()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"string"', '{"type":"string"}'),
        ("string", '"string"'),
        (
            {"type": "record", "name": "a.b.R", "fields": []},
            {"fields": [], "namespace": "a.b", "name": "R", "type": "record"},
        ),
        (
            {"type": "record", "name": "R", "namespace": "n", "fields": [{"name": "x", "type": {"type": "int"}}]},
            {"type": "record", "name": "n.R", "fields": [{"type": "int", "name": "x", "order": "ascending"}]},
        ),
    ],
)
def test_avro_has_one_meaning_for_all_spellings(one, other):
    assert digest("AVRO", one) == digest("AVRO", other)


@pytest.mark.parametrize(
    "other",
    [
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": "long"}]},
        {"type": "record", "name": "R", "doc": "d", "fields": [{"name": "x", "type": "int"}]},
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int", "default": 1}]},
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": {"type": "int", "logicalType": "date"}}]},
        {"type": "record", "name": "R", "owner": "me", "fields": [{"name": "x", "type": "int"}]},
    ],
)
def test_avro_that_differs_in_anything_is_another(other):
    assert digest("AVRO", other) != digest(
        "AVRO", {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}
    )


def test_avro_references_give_names():
    inner = '{"type":"record","name":"n.I","fields":[]}'
    outer = {"type": "record", "name": "n.O", "fields": [{"name": "i", "type": "I"}]}
    assert read_schema("AVRO", json.dumps(outer), {"n.I": inner}).text == json.dumps(outer, separators=(",", ":"))
    with pytest.raises(BadSchema, match="not a defined name"):
        read_schema("AVRO", json.dumps(outer))
    with pytest.raises(BadSchema, match="redefine"):
        read_schema("AVRO", inner, {"n.I": inner})


def test_a_chain_of_thousands_of_records_ends_in_words():
    chain = [{"type": "record", "name": "R0", "fields": []}]
    chain += [
        {"type": "record", "name": f"R{n}", "fields": [{"name": "x", "type": f"R{n - 1}"}]} for n in range(1, 3000)
    ]
    try:
        schema = read_schema("AVRO", json.dumps(chain))
        complaints(schema, schema)
    except BadSchema:
        pass


def test_schemas_that_are_entangled_are_given_up():
    schema = {"type": "string"}
    for _ in range(5):
        schema = {"anyOf": [{"type": "array", "items": schema}, *({"type": "array", "items": schema},) * 4]}
    tangled = read_schema("JSON", json.dumps(schema))
    with pytest.raises(BadSchema, match="too entangled"):
        complaints(tangled, tangled)


def test_json_finds_what_references_name():
    person = {"$id": "http://x/person.json", "properties": {"home": {"$ref": "address.json#/definitions/place"}}}
    address = json.dumps({"definitions": {"place": {"type": "string"}}})
    for name in ("address.json", "http://x/address.json"):
        read_schema("JSON", json.dumps(person), {name: address})
    with pytest.raises(BadSchema, match="leads nowhere"):
        read_schema("JSON", json.dumps(person), {"other.json": address})
    anchored = {"$defs": {"a": {"$anchor": "here", "type": "integer"}}, "properties": {"x": {"$ref": "#here"}}}
    read_schema("JSON", json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **anchored}))


PROTO = """
syntax = "proto3";
package a.b;
import "google/protobuf/timestamp.proto";
option java_package = "x.y";
message M {
  option deprecated = true;
  reserved 20 to 30, 40;
  reserved "gone";
  int32 x = 1;  // a comment
  optional string y = 2 [json_name = "why", deprecated = true];
  map<string, int64> m = 3;
  oneof k { string s = 4; bytes b = 5; }
  google.protobuf.Timestamp t = 6;
  enum E { option allow_alias = true; A = 0; B = 1; C = 1 [deprecated = true]; }
  E e = 7;
  repeated int32 l = 9 [packed = false];
  message N { M up = 1; }
  repeated N ns = 10;
}
service S { rpc Do (M) returns (stream M.N); rpc Not (stream M) returns (M) { option deprecated = true; } }
"""
PROTO2 = """
message G {
  required int32 a = 1 [default = 3];
  optional string s = 2 [default = "a\\"b\\n"];
  optional bytes by = 3 [default = "\\001\\"x"];
  optional group Gr = 4 { optional int32 q = 1; }
  extensions 100 to max;
  optional E e = 5 [default = B];
  enum E { A = 0; B = 1; }
}
extend G { optional int32 ext = 100; }
"""


@pytest.mark.parametrize("text", [PROTO, PROTO2])
def test_protobuf_means_the_same_as_text_and_as_a_descriptor(text):
    as_text = read_schema("PROTOBUF", text)
    as_descriptor = read_schema("PROTOBUF", descriptor_of(text))
    assert as_text.digest() == as_descriptor.digest()
    assert as_descriptor.text.startswith("syntax")
    assert complaints(as_text, as_descriptor) == complaints(as_descriptor, as_text) == []


@pytest.mark.parametrize("module", [descriptor_pb2, struct_pb2, timestamp_pb2])
def test_descriptors_that_others_wrote_are_told_as_text(module):
    file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    text = proto_text(file)
    again = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(descriptor_of(text)))
    assert [message.name for message in again.message_type] == [message.name for message in file.message_type]
    for mine, its in zip(again.message_type, file.message_type, strict=True):
        assert [(each.name, each.number, each.type, each.label) for each in mine.field] == [
            (each.name, each.number, each.type, each.label) for each in its.field
        ]


def test_what_everybody_knows_need_not_be_registered():
    imports = "".join(f'import "{name}";' for name in KNOWN)
    text = (
        f'syntax = "proto3"; {imports} message M {{ confluent.type.Decimal price = 1 '
        '[(confluent.field_meta) = {tags: ["PII"]}]; google.type.Date day = 2; google.type.Interval open = 3; }'
    )
    schema = read_schema("PROTOBUF", text)
    assert [field.type_name for field in schema.tree.file.message_type[0].field] == [
        ".confluent.type.Decimal",
        ".google.type.Date",
        ".google.type.Interval",
    ]
    own = 'syntax = "proto3"; package google.type; message Date { string text = 1; }'
    mine = read_schema("PROTOBUF", text, {"google/type/date.proto": own})
    assert mine.tree.others != schema.tree.others


@pytest.mark.parametrize("module", [date_pb2, money_pb2, timeofday_pb2, latlng_pb2, month_pb2, dayofweek_pb2])
def test_what_everybody_knows_is_what_it_is_elsewhere(module):
    known = read_schema("PROTOBUF", KNOWN[module.DESCRIPTOR.name])
    real = read_schema("PROTOBUF", base64.b64encode(module.DESCRIPTOR.serialized_pb).decode())
    assert complaints(known, real) == complaints(real, known) == []
    names = [[field.name for field in message.field] for message in known.tree.file.message_type]
    assert names == [[field.name for field in message.field] for message in real.tree.file.message_type]
    values = [[(each.name, each.number) for each in enum.value] for enum in known.tree.file.enum_type]
    assert values == [[(each.name, each.number) for each in enum.value] for enum in real.tree.file.enum_type]


@pytest.mark.parametrize("name", ["/etc/passwd", "../up.proto", "a\0b", "x" * 600, "a/../../b"])
def test_an_import_path_stays_in_its_folder(name):
    with pytest.raises(BadSchema, match="cannot be used"):
        read_schema("PROTOBUF", 'syntax = "proto3"; message M {}', {name: 'syntax = "proto3";'})


@pytest.mark.parametrize("kind", KINDS)
@given(st.text(max_size=60) | st.text('{}[]":,typerecodnamfilds01 \\/\n', max_size=80))
@example('{"type":{"type":{"type":"array"}}}')
@example("{}")
@example("AAAA")
@example('{"$ref":"#/"}')
def test_any_text_is_a_schema_or_is_refused(kind, text):
    try:
        schema = read_schema(kind, text)
    except Refused:
        return
    assert complaints(schema, schema) == []
    assert read_schema(kind, schema.text).digest() == schema.digest()
