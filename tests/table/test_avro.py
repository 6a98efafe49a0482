"""Avro values to columns and back, against fastavro, in compiled and plain code."""

import io
import json
import random  # noqa: TID251  # a fixed seed

import fastavro
import pyarrow as pa
import pytest

from runnel.errors import Refused
from runnel.table import compiled
from runnel.table.avro import avro_shape
from runnel.table.shapes import Format, decode, encode

SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "weight", "type": ["float", "null"]},
        {"name": "ratio", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT", "DONE"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
            {"name": "sku", "type": "string"}, {"name": "count", "type": "int"}, {"name": "state", "type": "State"}]}}},
        {"name": "extra", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "either", "type": ["null", "long", "string"]},
        {"name": "nothing", "type": "null"},
        {"name": "blob", "type": "bytes"},
    ],
}  # fmt: skip


def orders(count):
    chance = random.Random(3)
    for n in range(count):
        yield {
            "id": chance.choice([n, -n, 2**62, -(2**63)]),
            "customer": chance.choice([None, "", f"Zoë {n}"]),
            "price": chance.choice([0, -1, 127, 128, -127, -129, n * 10**6]).__index__(),
            "weight": chance.choice([None, 0.5, -1.0]),
            "ratio": chance.random(),
            "paid": chance.random() < 0.5,
            "state": chance.choice(["NEW", "SENT", "DONE"]),
            "before": chance.choice([None, "NEW"]),
            "day": chance.randrange(-5000, 30000),
            "at": chance.randrange(-(10**12), 2 * 10**12),
            "clock": chance.randrange(86_400_000),
            "hash": chance.randbytes(4),
            "tags": [f"t{k}" for k in range(chance.randrange(4))],
            "lines": [{"sku": "s", "count": k, "state": "SENT"} for k in range(chance.randrange(3))],
            "extra": {f"k{k}": chance.choice([None, k]) for k in range(chance.randrange(3))},
            "either": chance.choice([None, 5, "five"]),
            "nothing": None,
            "blob": chance.randbytes(chance.randrange(20)),
        }


def written(schema, rows):
    from decimal import Decimal

    parsed = fastavro.parse_schema(schema)
    for row in rows:
        out = io.BytesIO()
        if "price" in row:
            row["price"] = Decimal(row["price"]) / 100
        fastavro.schemaless_writer(out, parsed, row)
        yield out.getvalue()


@pytest.fixture(params=["compiled", "plain"])
def helper(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(compiled, "helper", None)
    elif compiled.helper is None:
        pytest.skip("the compiled helper is not built")


def test_every_type_comes_out_as_fastavro_reads_it_and_goes_back_to_the_same_bytes(helper):
    shape = avro_shape(json.dumps(SCHEMA))
    values = pa.array([b"\0\0\0\0\7" + one for one in written(SCHEMA, orders(200))], pa.binary())
    rows, status = decode(Format.AVRO, shape, values, b"\0\0\0\0\7")
    rows.validate(full=True)
    assert set(status) == {0}
    parsed = fastavro.parse_schema(SCHEMA)
    for ours, value in zip(rows.to_pylist(), values.to_pylist(), strict=True):
        theirs = fastavro.schemaless_reader(io.BytesIO(value[5:]), parsed, None)
        either = ours.pop("either")
        assert (
            either[f"field{either['tag']}"] == theirs.pop("either") if either["tag"] else theirs.pop("either") is None
        )
        theirs.pop("nothing")
        assert {**ours, "extra": dict(ours["extra"])} == theirs
    assert encode(Format.AVRO, shape, rows, b"\0\0\0\0\7").equals(values)
    assert encode(Format.AVRO, shape, rows.slice(50, 20), b"\0\0\0\0\7").equals(values.slice(50, 20))


def test_broken_values_are_named_and_leave_the_others_alone(helper):
    shape = avro_shape(json.dumps(SCHEMA))
    sound = list(written(SCHEMA, orders(50)))
    chance = random.Random(5)
    values = []
    for n, value in enumerate(sound):
        values += [value, value[: chance.randrange(len(value))], value + b"\0", None, b"\x01" * n]
    rows, status = decode(Format.AVRO, shape, pa.array(values, pa.binary()), b"")
    rows.validate(full=True)
    good, _ = decode(Format.AVRO, shape, pa.array(sound, pa.binary()), b"")
    assert [status[n] for n in range(0, len(values), 5)] == [0] * len(sound)
    assert all(status[n] for n in range(1, len(values), 5))
    assert rows.filter(pa.array([n % 5 == 0 for n, bad in enumerate(status) if not bad])).equals(good)


@pytest.mark.skipif(compiled.helper is None, reason="the compiled helper is not built")
def test_compiled_and_plain_agree_on_any_bytes(monkeypatch):
    shape = avro_shape(json.dumps(SCHEMA))
    chance = random.Random(11)
    values = []
    for value in written(SCHEMA, orders(1500)):
        broken = bytearray(value)
        for _ in range(chance.randrange(3)):
            broken[chance.randrange(len(broken))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        values.append(bytes(broken))
    values = pa.array(values, pa.binary())
    ours, status = decode(Format.AVRO, shape, values, b"")
    again = encode(Format.AVRO, shape, ours, b"")
    monkeypatch.setattr(compiled, "helper", None)
    plain, plain_status = decode(Format.AVRO, shape, values, b"")
    assert status.tolist() == plain_status.tolist()
    assert ours.cast(plain.type).equals(plain) or str(ours) == str(plain)  # NaN is not equal to itself
    assert again.equals(encode(Format.AVRO, shape, plain, b""))


def test_schemas_that_are_no_record_get_one_column(helper):
    shape = avro_shape('["null", "string"]')
    rows, _ = decode(Format.AVRO, shape, pa.array([b"\x02\x04hi", b"\0"], pa.binary()), b"")
    assert rows.to_pylist() == [{"value": "hi"}, {"value": None}]


def test_a_record_that_contains_itself_is_refused_with_a_way_out():
    recursive = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    with pytest.raises(Refused, match="keep the topic's values raw"):
        avro_shape(json.dumps(recursive))


def test_references_supply_the_types_they_name(helper):
    line = '{"type": "record", "name": "Line", "namespace": "a", "fields": [{"name": "n", "type": "int"}]}'
    order = '{"type": "record", "name": "Order", "namespace": "a", "fields": [{"name": "line", "type": "Line"}]}'
    rows, _ = decode(Format.AVRO, avro_shape(order, (line,)), pa.array([b"\x04"], pa.binary()), b"")
    assert rows.to_pylist() == [{"line": {"n": 2}}]
