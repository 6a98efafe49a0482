"""Protobuf's wire format in plain Python: the twin of native/protobuf.c."""

from decimal import Decimal
from struct import Struct
from typing import TYPE_CHECKING, Any

from runnel.table.avro_plain import text
from runnel.table.reasons import Reason, Unreadable
from runnel.table.records_plain import read_varint, write_varint

if TYPE_CHECKING:
    from runnel.table.shapes import Shape

_VARINT, _I64, _LEN, _I32 = 0, 1, 2, 5
_DEPTH_MAX = 64
_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")
_ZIGZAG, _FIXED32, _FIXED64, _UNSIGNED, _PACKED, _REQUIRED = 4, 5, 6, 7, 0x100, 0x200
_MASK = 0xFFFFFFFFFFFFFFFF
_Field = tuple[int, int, int, int]  # number, wire type, where its value begins and ends


def _fields(data: bytes, kids: "dict[int, Shape] | None" = None) -> list[_Field]:
    """The fields as they lie; of those that stand alone in `kids` the wire type must be the right one."""
    found: list[_Field] = []
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at, len(data))
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise Unreadable(Reason.SYNTAX)
        start = at
        if wire == _VARINT:
            _, at = read_varint(data, at, len(data))
        elif wire == _LEN:
            length, at = read_varint(data, at, len(data))
            at += length
        elif wire in {_I64, _I32}:
            at += 8 if wire == _I64 else 4
        else:
            raise Unreadable(Reason.SYNTAX)
        if at > len(data):
            raise Unreadable(Reason.CUT)
        kid = kids.get(number) if kids else None
        if kid is not None and kid.kind not in {9, 10} and wire != _wire_type(kid):
            raise Unreadable(Reason.TYPE)
        found.append((number, wire, start, at))
    return found


def _wire_type(shape: "Shape") -> int:
    if shape.kind in {6, 7, 10, 11}:
        return _LEN
    if shape.kind in {4, 5}:
        return _I32 if shape.kind == 4 else _I64
    return {_FIXED32: _I32, _FIXED64: _I64}.get(shape.wire & 0xFF, _VARINT)


def read(shape: "Shape", data: bytes) -> tuple[Any, bool]:
    return _message(shape, data, 0), False


def _span(data: bytes, start: int, end: int) -> bytes:
    length, at = read_varint(data, start, end)
    return data[at : at + length]


def _value(shape: "Shape", data: bytes, at: int, end: int, depth: int) -> tuple[Any, int]:
    """One value and where it ends."""
    kind, wire = _wire_type(shape), shape.wire & 0xFF
    if kind == _LEN:
        length, at = read_varint(data, at, end)
        span, at = data[at : at + length], at + length
        if shape.kind == 11:
            return _message(shape, span, depth + 1), at
        return (text(span) if shape.kind == 7 else span), at
    if kind == _VARINT:
        raw, at = read_varint(data, at, end)
    else:
        size = 8 if kind == _I64 else 4
        if end - at < size:
            raise Unreadable(Reason.CUT)
        raw, at = int.from_bytes(data[at : at + size], "little"), at + size
        if shape.kind in {4, 5}:
            return (_FLOAT if size == 4 else _DOUBLE).unpack(data[at - size : at])[0], at
    return _number(shape, raw, wire), at


def _number(shape: "Shape", raw: int, wire: int) -> Any:
    if shape.kind == 1:
        return raw != 0
    if shape.kind == 12:
        return Decimal(raw)
    bits = 32 if shape.kind == 2 else 64
    raw &= (1 << bits) - 1
    if wire in {_UNSIGNED, _FIXED32} and shape.kind == 3:
        return raw & 0xFFFFFFFF
    if wire == _ZIGZAG:
        return (raw >> 1) ^ -(raw & 1)
    return raw - (1 << bits) if raw >> (bits - 1) else raw


def _default(shape: "Shape") -> Any:
    if shape.kind == 11:
        return _message(shape, b"", _DEPTH_MAX - 1)
    return {1: False, 4: 0.0, 5: 0.0, 6: b"", 7: "", 12: Decimal(0)}.get(shape.kind, 0)


def _message(shape: "Shape", data: bytes, depth: int) -> dict[str, Any]:
    if depth > _DEPTH_MAX:
        raise Unreadable(Reason.DEPTH)
    fields = _fields(data, {kid.arg: kid for kid in shape.kids})
    row: dict[str, Any] = {}
    for kid in shape.kids:
        mine = [field for field in fields if field[0] == kid.arg]
        if kid.kind in {9, 10}:
            row[kid.name] = [item for field in mine for item in _items(kid, data, field, depth)]
        elif mine:
            row[kid.name] = _value(kid, data, mine[-1][2], mine[-1][3], depth)[0]
        elif kid.wire & _REQUIRED:
            raise Unreadable(Reason.MISSING)
        else:
            row[kid.name] = None if kid.is_nullable else _default(kid)
    return row


def _items(shape: "Shape", data: bytes, field: _Field, depth: int) -> list[Any]:
    _, wire, start, end = field
    if shape.kind == 10:
        if wire != _LEN:
            raise Unreadable(Reason.TYPE)
        return [_entry(shape, _span(data, start, end), depth + 1)]
    kid = shape.kids[0]
    if wire == _wire_type(kid):
        return [_value(kid, data, start, end, depth)[0]]
    if wire != _LEN:
        raise Unreadable(Reason.TYPE)
    packed = _span(data, start, end)
    items, at = [], 0
    while at < len(packed):
        item, at = _value(kid, packed, at, len(packed), depth)
        items.append(item)
    return items


def _entry(shape: "Shape", data: bytes, depth: int) -> tuple[Any, Any]:
    pair = [None, None]
    found: dict[int, _Field] = {}
    for field in _fields(data):
        if field[0] in {1, 2} and field[1] == _wire_type(shape.kids[field[0] - 1]):
            found[field[0]] = field
    for n, kid in enumerate(shape.kids):
        field = found.get(n + 1)  # type: ignore[assignment]
        pair[n] = _value(kid, data, field[2], field[3], depth)[0] if field else _default(kid)
    return pair[0], pair[1]


def write(shape: "Shape", row: Any) -> bytes:
    out = bytearray()
    for kid in shape.kids:
        value = row.get(kid.name)
        if value is None:
            continue
        if kid.kind in {9, 10}:
            out += _written_items(kid, value)
        elif kid.is_nullable or kid.wire & _REQUIRED or not _is_default(kid, value):
            out += _tag(kid.arg, _wire_type(kid)) + _written(kid, value)
    return bytes(out)


def _tag(number: int, wire: int) -> bytes:
    return write_varint(number << 3 | wire)


def _framed(body: bytes) -> bytes:
    return write_varint(len(body)) + body


def _written_items(shape: "Shape", items: list[Any]) -> bytes:
    if not items:
        return b""
    if shape.kind == 10:
        parts = []
        for pair in items:
            body = b"".join(_tag(n + 1, _wire_type(kid)) + _written(kid, pair[n]) for n, kid in enumerate(shape.kids))
            parts.append(_tag(shape.arg, _LEN) + _framed(body))
        return b"".join(parts)
    kid = shape.kids[0]
    if shape.wire & _PACKED:
        return _tag(shape.arg, _LEN) + _framed(b"".join(_written(kid, item) for item in items))
    return b"".join(_tag(shape.arg, _wire_type(kid)) + _written(kid, item) for item in items)


def _is_default(shape: "Shape", value: Any) -> bool:
    if shape.kind in {4, 5}:
        return not any(_DOUBLE.pack(value))
    return shape.kind != 11 and not value


def _written(shape: "Shape", value: Any) -> bytes:
    wire = shape.wire & 0xFF
    match shape.kind:
        case 1:
            return b"\1" if value else b"\0"
        case 4:
            return _FLOAT.pack(value)
        case 5:
            return _DOUBLE.pack(value)
        case 6:
            return _framed(value)
        case 7:
            return _framed(value.encode())
        case 11:
            return _framed(write(shape, value))
        case _:
            number = int(value)
            if wire in {_FIXED32, _FIXED64}:
                size = 4 if wire == _FIXED32 else 8
                return (number & ((1 << size * 8) - 1)).to_bytes(size, "little")
            if wire == _ZIGZAG:
                bits = 32 if shape.kind == 2 else 64
                return write_varint(((number << 1) ^ (number >> 63)) & ((1 << bits) - 1))
            return write_varint(number & _MASK)
