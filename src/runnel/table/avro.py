"""Avro schemas as shapes: what the compiled reader follows, and the columns a table gets.

    null                  no column              int, date, enum   int32, date32, string
    boolean               bool                   long              int64
    timestamp-millis/-micros (local-…)           timestamp[us, UTC] (without zone)
    time-millis/-micros   time64[us]             decimal           decimal128 (up to 38 digits; more stay binary)
    uuid                  string (as written)    fixed, duration   fixed size binary
    array, map, record    list, map, struct      union of null and one type: that type, nullable
    any other union       struct of `tag` and a column `fieldN` per branch, as Iceberg reads such unions

A table cannot hold a record that contains itself: such a schema is `Refused`.
"""

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa

from runnel.errors import Refused
from runnel.table.shapes import NOT_NULLABLE, NULLABLE, Kind, Shape, Wire

_PRIMITIVES = {
    "null": Kind.HOLLOW,
    "boolean": Kind.BOOL,
    "int": Kind.INT32,
    "long": Kind.INT64,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "bytes": Kind.BYTES,
    "string": Kind.STRING,
}
_US, _US_UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
_LOGICAL: dict[tuple[str, str], tuple[Kind, int, int, pa.DataType]] = {
    ("int", "date"): (Kind.INT32, 0, 0, pa.date32()),
    ("int", "time-millis"): (Kind.INT64, Wire.INT, 1000, pa.time64("us")),
    ("long", "time-micros"): (Kind.INT64, 0, 0, pa.time64("us")),
    ("long", "timestamp-millis"): (Kind.INT64, 0, 1000, _US_UTC),
    ("long", "timestamp-micros"): (Kind.INT64, 0, 0, _US_UTC),
    ("long", "local-timestamp-millis"): (Kind.INT64, 0, 1000, _US),
    ("long", "local-timestamp-micros"): (Kind.INT64, 0, 0, _US),
}
_DECIMAL_DIGITS_MAX = 38
ROOT_COLUMN = "value"  # what a schema that is no record puts its value in


def avro_shape(schema: str, references: tuple[str, ...] = ()) -> Shape:
    """The shape of a schema's values; `references` are the schemas it names, dependencies first."""
    try:
        names: dict[str, Any] = {}
        for text in references:
            _collect(json.loads(text), "", names)
        parsed = json.loads(schema)
        _collect(parsed, "", names)
    except (ValueError, TypeError, KeyError, AttributeError) as bad:
        raise Refused(f"this is no avro schema: {bad}") from None
    root = _shape(parsed, "", names, ())
    if root.kind is Kind.STRUCT and root.null_at == NOT_NULLABLE:
        return root
    return Shape(kind=Kind.STRUCT, kids=(root.named(ROOT_COLUMN),))


def full_name(schema: dict[str, Any], space: str) -> str:
    """A named type's full name; `space` is the namespace around it."""
    name = str(schema["name"])
    if "." in name:
        return name
    space = schema.get("namespace", space) or ""
    return f"{space}.{name}" if space else name


def space_of(name: str) -> str:
    return name.rpartition(".")[0]


def find(name: str, space: str, names: dict[str, Any]) -> str | None:
    """The full name that `name` means inside `space`."""
    if "." not in name and space and f"{space}.{name}" in names:
        return f"{space}.{name}"
    return name if name in names else None


def _collect(schema: Any, space: str, names: dict[str, Any]) -> None:
    """Every named type of a schema by its full name."""
    if isinstance(schema, list):
        for branch in schema:
            _collect(branch, space, names)
    elif isinstance(schema, dict):
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            name = full_name(schema, space)
            names[name] = schema
            for field in schema.get("fields", ()):
                _collect(field["type"], space_of(name), names)
        elif kind == "array":
            _collect(schema["items"], space, names)
        elif kind == "map":
            _collect(schema["values"], space, names)
        else:
            _collect(kind, space, names)


def _shape(schema: Any, space: str, names: dict[str, Any], inside: tuple[str, ...]) -> Shape:
    if isinstance(schema, list):
        return _union(schema, space, names, inside)
    if isinstance(schema, str):
        if schema in _PRIMITIVES:
            return Shape(kind=_PRIMITIVES[schema])
        found = find(schema, space, names)
        if found is None:
            raise Refused(f"avro type {schema!r} is not defined; name its schema in the references")
        return _named(names[found], found, names, inside)
    if not isinstance(schema, dict) or "type" not in schema:
        raise Refused(f"this is no avro schema: {json.dumps(schema)[:80]}")
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _shape(kind, space, names, inside)
    if kind in ("record", "error", "enum", "fixed"):
        return _named(schema, full_name(schema, space), names, inside)
    if kind == "array":
        return Shape(kind=Kind.LIST, kids=(_shape(schema["items"], space, names, inside),))
    if kind == "map":
        key = Shape(kind=Kind.STRING, name="key")
        return Shape(kind=Kind.MAP, kids=(key, _shape(schema["values"], space, names, inside).named("value")))
    logical = str(schema.get("logicalType", ""))
    if (kind, logical) in _LOGICAL:
        of, wire, arg, arrow = _LOGICAL[kind, logical]
        return Shape(kind=of, wire=wire, arg=arg, type=arrow)
    if kind == "bytes" and logical == "decimal":
        return _decimal(schema, 0) or Shape(kind=Kind.BYTES)
    return _shape(kind, space, names, inside)


def _named(schema: dict[str, Any], name: str, names: dict[str, Any], inside: tuple[str, ...]) -> Shape:
    if name in inside:
        raise Refused(f"avro record {name} contains itself, which a table cannot hold; keep the topic's values raw")
    if schema["type"] == "enum":
        symbols = tuple(enumerate(map(str, schema["symbols"])))
        return Shape(kind=Kind.INT32, arg=len(symbols), symbols=symbols)
    if schema["type"] == "fixed":
        size = int(schema["size"])
        plain = Shape(kind=Kind.FIXED, arg=size)
        return (_decimal(schema, size) or plain) if schema.get("logicalType") == "decimal" else plain
    fields = tuple(
        replace(
            _shape(field["type"], space_of(name), names, (*inside, name)),
            name=str(field["name"]),
            aliases=tuple(map(str, field.get("aliases", ()))),
        )
        for field in schema["fields"]
    )
    return Shape(kind=Kind.STRUCT, kids=fields)


def _decimal(schema: dict[str, Any], size: int) -> Shape | None:
    precision, scale = int(schema.get("precision", 0)), int(schema.get("scale", 0))
    if not 0 < precision <= _DECIMAL_DIGITS_MAX or not 0 <= scale <= precision:
        return None
    return Shape(kind=Kind.DECIMAL, arg=size, type=pa.decimal128(precision, scale))


def _union(branches: list[Any], space: str, names: dict[str, Any], inside: tuple[str, ...]) -> Shape:
    kids = [_shape(branch, space, names, inside) for branch in branches]
    nulls = [n for n, kid in enumerate(kids) if kid.kind is Kind.HOLLOW]
    if len(kids) == 2 and len(nulls) == 1:
        return replace(kids[1 - nulls[0]], null_at=nulls[0])
    return Shape(kind=Kind.UNION, kids=tuple(replace(kid, null_at=NULLABLE) for kid in kids))
