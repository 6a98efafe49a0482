"""Avro's binary encoding in plain Python: the twin of native/avro.c."""

from decimal import Context, Decimal
from struct import Struct
from typing import TYPE_CHECKING, Any

from runnel.table.reasons import Reason, Unreadable
from runnel.table.records_plain import read_long, write_long

if TYPE_CHECKING:
    from runnel.table.shapes import Shape

_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")
_HOLLOW, _BOOL, _INT32, _INT64, _FLOAT_KIND, _DOUBLE_KIND, _BYTES, _STRING, _FIXED = range(9)
_LIST, _MAP, _STRUCT, _DECIMAL, _UNION = range(9, 14)
_WIDE = Context(prec=60)
_EMPTY_ITEMS_MAX = 4096


class _Input:
    """Bytes with a place in them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def long(self) -> int:
        value, self.at = read_long(self.data, self.at, len(self.data))
        return value

    def take(self, count: int) -> bytes:
        if count < 0:
            raise Unreadable(Reason.LENGTH)
        if len(self.data) - self.at < count:
            raise Unreadable(Reason.CUT)
        self.at += count
        return self.data[self.at - count : self.at]


def read(shape: "Shape", data: bytes) -> tuple[Any, bool]:
    source = _Input(data)
    row = _value(shape, source)
    if source.at != len(data):
        raise Unreadable(Reason.REST)
    return row, False


def _value(shape: "Shape", source: _Input) -> Any:
    if shape.null_at >= 0:
        branch = source.long()
        if branch == shape.null_at:
            return None
        if branch != 1 - shape.null_at:
            raise Unreadable(Reason.INDEX)
    match shape.kind:
        case 0:
            return None
        case 1:
            flag = source.take(1)[0]
            if flag > 1:
                raise Unreadable(Reason.RANGE)
            return bool(flag)
        case 2 | 3:
            return _number(shape, source.long())
        case 4:
            return _FLOAT.unpack(source.take(4))[0]
        case 5:
            return _DOUBLE.unpack(source.take(8))[0]
        case 6:
            return source.take(source.long())
        case 7:
            return text(source.take(source.long()))
        case 8:
            return source.take(shape.arg)
        case 9:
            return _blocks(shape, source, lambda: _value(shape.kids[0], source))
        case 10:
            return _blocks(shape, source, lambda: (_value(shape.kids[0], source), _value(shape.kids[1], source)))
        case 11:
            row = {kid.name: _value(kid, source) for kid in shape.kids}
            return None if shape.is_hollow else row
        case 12:
            digits = int.from_bytes(source.take(shape.arg or source.long()), "big", signed=True)
            if not -(2**127) <= digits < 2**127:
                raise Unreadable(Reason.RANGE)
            return Decimal(digits).scaleb(-_scale(shape), _WIDE)
        case _:
            tag = source.long()
            if not 0 <= tag < len(shape.kids):
                raise Unreadable(Reason.INDEX)
            return {"tag": tag, f"field{tag}": _value(shape.kids[tag], source)}


def _scale(shape: "Shape") -> int:
    assert shape.type is not None
    return int(shape.type.scale)


def text(span: bytes) -> str:
    try:
        return span.decode()
    except UnicodeDecodeError:
        raise Unreadable(Reason.UTF8) from None


def _number(shape: "Shape", value: int) -> int:
    if (shape.kind == _INT32 or shape.wire == 1) and not -(2**31) <= value < 2**31:
        raise Unreadable(Reason.RANGE)
    if shape.kind == _INT32 and shape.arg and not 0 <= value < shape.arg:
        raise Unreadable(Reason.INDEX)
    if shape.kind == _INT64 and shape.arg > 1:
        value *= shape.arg
        if not -(2**63) <= value < 2**63:
            raise Unreadable(Reason.TIME)
    return value


def _blocks(shape: "Shape", source: _Input, item: Any) -> list[Any]:  # noqa: ARG001  # as the others
    items: list[Any] = []
    while count := source.long():
        if count < 0:
            if count == -(2**63):
                raise Unreadable(Reason.LENGTH)
            count = -count
            source.long()
        if count > len(source.data) - source.at and count > _EMPTY_ITEMS_MAX:
            raise Unreadable(Reason.LENGTH)
        items.extend(item() for _ in range(count))
    return items


def write(shape: "Shape", row: Any) -> bytes:
    """A value; what null costs is its branch."""
    if shape.null_at >= 0:
        if row is None and shape.kind != _HOLLOW:
            return write_long(shape.null_at)
        return write_long(1 - shape.null_at) + _body(shape, row)
    return _body(shape, row)


def _body(shape: "Shape", row: Any) -> bytes:
    data: bytes
    match shape.kind:
        case 0:
            return b""
        case 1:
            return bytes([row])
        case 2:
            return write_long(row)
        case 3:
            return write_long(row // shape.arg if shape.arg > 1 else row)
        case 4:
            return bytes(_FLOAT.pack(row))
        case 5:
            return bytes(_DOUBLE.pack(row))
        case 6:
            data = row
            return write_long(len(data)) + data
        case 7:
            data = row.encode()
            return write_long(len(data)) + data
        case 8:
            return bytes(row)
        case 9:
            return (write_long(len(row)) if row else b"") + b"".join(write(shape.kids[0], item) for item in row) + b"\0"
        case 10:
            pairs = b"".join(write(shape.kids[0], key) + write(shape.kids[1], item) for key, item in row)
            return (write_long(len(row)) if row else b"") + pairs + b"\0"
        case 11:
            return b"".join(write(kid, None if row is None else row.get(kid.name)) for kid in shape.kids)
        case 12:
            digits = int(row.scaleb(_scale(shape), _WIDE))
            if shape.arg:
                return digits.to_bytes(shape.arg, "big", signed=True)
            length = (digits if digits >= 0 else ~digits).bit_length() // 8 + 1
            return write_long(length) + digits.to_bytes(length, "big", signed=True)
        case _:
            tag = row["tag"]
            return write_long(tag) + write(shape.kids[tag], row.get(f"field{tag}"))
