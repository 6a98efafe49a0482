"""JSON values as columns: by a JSON Schema, or by what was seen.

    json_schema_shape(schema)   columns as a JSON Schema describes them
    infer(samples), widen(a, b) columns as values show them, and the columns that fit both
    best_style(...)             how a producer writes its JSON: spaces, escapes, nulls, whole numbers

A value that may be of several types (`oneOf`, tuples, no type at all) is kept as its JSON text in a string column.
An integer that does not fit 64 bits cannot be read into an integer column and is reported.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import Refused
from runnel.table.shapes import NULLABLE, Format, Kind, Shape, Wire, encode

ROOT_COLUMN = "value"
STYLES = range(16)  # the bits of native/json.c: spaces, ASCII, nulls written, whole doubles without ".0"
_DEPTH_MAX = 32
_TYPES = {"string": Kind.STRING, "integer": Kind.INT64, "number": Kind.DOUBLE, "boolean": Kind.BOOL}

RAW = Shape(kind=Kind.STRING, wire=Wire.RAW, null_at=NULLABLE)
NOTHING = Shape(kind=Kind.HOLLOW, null_at=NULLABLE)


def _struct(kids: Iterable[Shape]) -> Shape:
    return Shape(kind=Kind.STRUCT, null_at=NULLABLE, kids=tuple(kids))


def _root(shape: Shape) -> Shape:
    if shape.kind is Kind.STRUCT:
        return replace(shape, null_at=-1)
    return Shape(kind=Kind.STRUCT, wire=Wire.BARE, kids=(shape.named(ROOT_COLUMN),))


def json_schema_shape(schema: str, references: dict[str, str] | None = None) -> Shape:
    """The shape of a JSON Schema's values; `references` are other schemas by the name they are referred to."""
    try:
        parsed = json.loads(schema)
        others = {name: json.loads(text) for name, text in (references or {}).items()}
    except ValueError as bad:
        raise Refused(f"this is no json schema: {bad}") from None
    return _root(_Schemas(parsed, others).shape(parsed, 0))


class _Schemas:
    """A schema and the ones it refers to."""

    def __init__(self, root: Any, others: dict[str, Any]) -> None:
        self.root = root
        self.others = others

    def resolve(self, reference: str) -> Any:
        document, _, path = reference.partition("#")
        at = self.others.get(document, None) if document else self.root
        for step in path.strip("/").split("/") if path.strip("/") else []:
            key = step.replace("~1", "/").replace("~0", "~")
            at = at.get(key) if isinstance(at, dict) else None
        return at

    def shape(self, schema: Any, depth: int) -> Shape:
        if not isinstance(schema, dict) or depth > _DEPTH_MAX:
            return RAW
        if "$ref" in schema:
            return self.shape(self.resolve(str(schema["$ref"])), depth + 1)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                kinds = [branch for branch in schema[word] if branch != {"type": "null"}]
                return self.shape(kinds[0], depth + 1) if len(kinds) == 1 else RAW
        if "allOf" in schema:
            return self.all_of(schema, depth)
        kind = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kind, list):
            kinds = [one for one in kind if one != "null"]
            kind = kinds[0] if len(kinds) == 1 else "number" if set(kinds) == {"integer", "number"} else None
        if kind in _TYPES:
            return Shape(kind=_TYPES[kind], null_at=NULLABLE)
        if kind == "array" and isinstance(schema.get("items"), dict):
            return Shape(kind=Kind.LIST, null_at=NULLABLE, kids=(self.shape(schema["items"], depth + 1),))
        if kind != "object":
            return RAW
        fields = schema.get("properties", {})
        if fields:
            return _struct(self.shape(field, depth + 1).named(name) for name, field in fields.items())
        if isinstance(schema.get("additionalProperties"), dict):
            key = Shape(kind=Kind.STRING, name="key")
            item = self.shape(schema["additionalProperties"], depth + 1).named("value")
            return Shape(kind=Kind.MAP, null_at=NULLABLE, kids=(key, item))
        return RAW

    def all_of(self, schema: dict[str, Any], depth: int) -> Shape:
        parts = [self.shape(part, depth + 1) for part in schema["allOf"]]
        if "properties" in schema:
            parts.append(self.shape({k: v for k, v in schema.items() if k != "allOf"}, depth + 1))
        if not all(part.kind is Kind.STRUCT for part in parts):
            return parts[0] if len(parts) == 1 else RAW
        fields: dict[str, Shape] = {}
        for part in parts:
            fields.update({kid.name: kid for kid in part.kids})
        return _struct(fields.values())


def infer(samples: Iterable[bytes], known: Shape | None = None) -> Shape:
    """The columns that fit all samples, and what was known before; samples that are no JSON are passed over."""
    found = NOTHING if known is None else _unrooted(known)
    for sample in samples:
        try:
            found = widen(found, _seen(json.loads(sample), 0))
        except (ValueError, RecursionError):
            continue
    return _root(found)


def _unrooted(root: Shape) -> Shape:
    return root.kids[0].named("") if root.wire == Wire.BARE else replace(root, null_at=NULLABLE)


def widen_roots(a: Shape, b: Shape) -> Shape:
    """The columns that fit the values of two inferred shapes."""
    return _root(widen(_unrooted(a), _unrooted(b)))


def _seen(value: Any, depth: int) -> Shape:
    if value is None:
        return NOTHING
    if depth > _DEPTH_MAX:
        return RAW
    match value:
        case bool():
            return Shape(kind=Kind.BOOL, null_at=NULLABLE)
        case int():
            return Shape(kind=Kind.INT64, null_at=NULLABLE) if -(2**63) <= value < 2**63 else RAW
        case float():
            return Shape(kind=Kind.DOUBLE, null_at=NULLABLE)
        case str():
            return Shape(kind=Kind.STRING, null_at=NULLABLE)
        case list():
            element = NOTHING
            for item in value:
                element = widen(element, _seen(item, depth + 1))
            return Shape(kind=Kind.LIST, null_at=NULLABLE, kids=(element,))
        case _:
            return _struct(_seen(item, depth + 1).named(key) for key, item in value.items())


def widen(a: Shape, b: Shape) -> Shape:
    """The narrowest shape that can hold the values of both; what has nothing in common is kept as JSON text."""
    name = a.name or b.name
    if a.kind is Kind.HOLLOW or b.kind is Kind.HOLLOW:
        return (b if a.kind is Kind.HOLLOW else a).named(name)
    if a.kind is b.kind and a.wire == b.wire:
        if a.kind is Kind.STRUCT:
            theirs = {kid.name: kid for kid in b.kids}
            kids = [widen(kid, theirs.pop(kid.name)) if kid.name in theirs else kid for kid in a.kids]
            return replace(a, kids=(*kids, *theirs.values()), name=name)
        if a.kids:
            return replace(a, kids=tuple(widen(x, y) for x, y in zip(a.kids, b.kids, strict=True)), name=name)
        return a.named(name)
    if {a.kind, b.kind} == {Kind.INT64, Kind.DOUBLE}:
        return Shape(kind=Kind.DOUBLE, null_at=NULLABLE, name=name)
    return RAW.named(name)


def best_style(shape: Shape, rows: pa.StructArray, originals: pa.Array, prefix: bytes, sample: int = 64) -> int:
    """The style in which most of the first rows come out as they were."""
    rows, originals = rows.slice(0, sample), originals.slice(0, sample)

    def hits(style: int) -> int:
        again = encode(Format.JSON, shape, rows, prefix, style)
        return int(pc.sum(pc.equal(again, originals)).as_py() or 0)

    return max(STYLES, key=hits)
