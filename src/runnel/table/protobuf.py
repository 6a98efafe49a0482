"""Protobuf schemas (.proto text) as shapes.

    int32, sint32, sfixed32   int32      uint32, fixed32   int64        float, double   float32, float64
    int64, sint64, sfixed64   int64      uint64, fixed64   decimal(20)  bool            bool
    string, bytes             string, binary                            enum            string
    repeated, map, message    list, map, struct (nullable)

Fields with presence (`optional`, oneof members, messages, proto2) are nullable; others hold their default. A message
without fields, or one that contains itself, stays the bytes of its encoding. Well-known types are what their
messages say: a Timestamp is a struct of seconds and nanos, so that no nanosecond is lost.

Confluent's framing names the message inside the file by a path of indexes: `read_indexes`, `write_indexes`.
"""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from runnel.errors import Refused
from runnel.schemas.proto_known import with_known
from runnel.table.reasons import Unreadable
from runnel.table.records_plain import read_long, write_long
from runnel.table.shapes import NOT_NULLABLE, NULLABLE, Kind, Shape, Wire

FILE = "schema.proto"
_U64 = pa.decimal128(20, 0)
_REPEATED, _REQUIRED = 3, 2
# by the numbers of FieldDescriptorProto.Type
_SCALARS: dict[int, tuple[Kind, int]] = {
    1: (Kind.DOUBLE, 0),
    2: (Kind.FLOAT, 0),
    3: (Kind.INT64, 0),
    4: (Kind.DECIMAL, 0),
    5: (Kind.INT32, 0),
    6: (Kind.DECIMAL, Wire.FIXED64),
    7: (Kind.INT64, Wire.FIXED32),
    8: (Kind.BOOL, 0),
    9: (Kind.STRING, 0),
    12: (Kind.BYTES, 0),
    13: (Kind.INT64, Wire.UNSIGNED),
    14: (Kind.INT32, 0),
    15: (Kind.INT32, Wire.FIXED32),
    16: (Kind.INT64, Wire.FIXED64),
    17: (Kind.INT32, Wire.ZIGZAG),
    18: (Kind.INT64, Wire.ZIGZAG),
}
_GROUP, _MESSAGE, _ENUM = 10, 11, 14
_INDEXES_MAX = 64


def compile_proto(schema: str, references: dict[str, str] | None = None) -> Any:
    """The FileDescriptorSet of a .proto text; `references` are the files it imports, by import path."""
    import protoxy  # noqa: PLC0415  # only topics with Protobuf pay for it

    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, text in with_known({**(references or {}), FILE: schema}).items():
            if Path(name).is_absolute() or ".." in Path(name).parts:
                raise Refused(f"protobuf import {name!r} leaves its folder")
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        try:
            return protoxy.compile([str(root / FILE)], [folder], include_source_info=False)
        except (ValueError, protoxy.ProtoxyError) as bad:
            raise Refused(f"this is no protobuf schema: {str(bad).replace(folder, '')[:300]}") from None


def protobuf_shape(schema: str, indexes: tuple[int, ...] = (0,), references: dict[str, str] | None = None) -> Shape:
    """The shape of the message that `indexes` leads to."""
    compiled = compile_proto(schema, references)
    files = list(compiled.file)
    mine = next(file for file in files if file.name.endswith(FILE))
    at, name = mine.message_type, mine.package
    message = None
    for index in indexes:
        if not 0 <= index < len(at):
            raise Refused(f"the protobuf schema has no message at {list(indexes)}")
        message = at[index]
        name = f"{name}.{message.name}" if name else message.name
        at = message.nested_type
    if message is None:
        raise Refused("the protobuf schema names no message")
    types: dict[str, tuple[Any, str]] = {}
    for file in files:
        prefix = f".{file.package}" if file.package else ""
        syntax = file.syntax or "proto2"
        types.update({f"{prefix}.{enum.name}": (enum, syntax) for enum in file.enum_type})
        for one in file.message_type:
            _collect(one, prefix, syntax, types)
    return _message(message, f".{name}", types, (), NOT_NULLABLE)


def _collect(message: Any, prefix: str, syntax: str, types: dict[str, tuple[Any, str]]) -> None:
    name = f"{prefix}.{message.name}"
    types[name] = (message, syntax)
    types.update({f"{name}.{enum.name}": (enum, syntax) for enum in message.enum_type})
    for nested in message.nested_type:
        _collect(nested, name, syntax, types)


def _message(
    message: Any, name: str, types: dict[str, tuple[Any, str]], inside: tuple[str, ...], null_at: int
) -> Shape:
    _, syntax = types[name]
    fields = sorted(message.field, key=lambda field: field.number)
    kids = tuple(_field(field, syntax, types, (*inside, name)) for field in fields)
    return Shape(kind=Kind.STRUCT, null_at=null_at, kids=kids)


def _field(field: Any, syntax: str, types: dict[str, tuple[Any, str]], inside: tuple[str, ...]) -> Shape:
    named = {"name": field.name, "arg": field.number}
    if field.type == _GROUP:
        raise Refused(f"protobuf group {field.name!r} cannot be read; use a message")
    if field.label == _REPEATED:
        entry = types[field.type_name][0] if field.type == _MESSAGE else None
        if entry is not None and entry.options.map_entry:
            key, value = (_single(one, types, inside) for one in entry.field)
            return Shape(kind=Kind.MAP, kids=(key, value), **named)
        item = _single(field, types, inside)
        packs = field.type not in {9, 12, _MESSAGE}
        packed = field.options.packed if field.options.HasField("packed") else syntax != "proto2"
        return Shape(kind=Kind.LIST, wire=Wire.PACKED if packs and packed else 0, kids=(item,), **named)
    has_presence = (
        syntax == "proto2" or field.type == _MESSAGE or field.proto3_optional or field.HasField("oneof_index")
    )
    shape = _single(field, types, inside)
    wire = shape.wire | (Wire.REQUIRED if field.label == _REQUIRED else 0)
    null_at = NULLABLE if has_presence and field.label != _REQUIRED else NOT_NULLABLE
    return Shape(
        kind=shape.kind,
        wire=wire,
        null_at=null_at,
        kids=shape.kids,
        type=shape.type,
        symbols=shape.symbols,
        **named,
    )


def _single(field: Any, types: dict[str, tuple[Any, str]], inside: tuple[str, ...]) -> Shape:
    """One value of a field, as if it stood alone."""
    if field.type == _MESSAGE:
        message, _ = types[field.type_name]
        if field.type_name in inside or not message.field:
            return Shape(kind=Kind.BYTES, name=field.name, arg=field.number)
        shape = _message(message, field.type_name, types, inside, NOT_NULLABLE)
        return Shape(kind=Kind.STRUCT, kids=shape.kids, name=field.name, arg=field.number)
    if field.type not in _SCALARS:
        raise Refused(f"protobuf field {field.name!r} has a type that is not known")
    kind, wire = _SCALARS[field.type]
    symbols: tuple[tuple[int, str], ...] = ()
    if field.type == _ENUM:
        symbols = tuple({value.number: value.name for value in reversed(types[field.type_name][0].value)}.items())
    arrow = _U64 if kind is Kind.DECIMAL else None
    return Shape(kind=kind, wire=wire, name=field.name, arg=field.number, type=arrow, symbols=symbols)


def read_indexes(value: bytes, at: int = 5) -> tuple[tuple[int, ...], int] | None:
    """The path of indexes behind the frame, and where the message begins; None if there is none."""
    try:
        count, at = read_long(value, at, len(value))
        if not count:
            return (0,), at
        if not 0 < count <= _INDEXES_MAX:
            return None
        path = []
        for _ in range(count):
            index, at = read_long(value, at, len(value))
            path.append(index)
    except Unreadable:
        return None
    return tuple(path), at


def write_indexes(path: tuple[int, ...]) -> bytes:
    if path == (0,):
        return b"\0"
    return write_long(len(path)) + b"".join(map(write_long, path))
