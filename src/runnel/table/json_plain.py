"""JSON into rows and back in plain Python: the twin of native/json.c."""

import json
import math
from typing import TYPE_CHECKING, Any

from runnel.table.reasons import Reason, Unreadable

if TYPE_CHECKING:
    from runnel.table.shapes import Shape

SPACES, ASCII, NULLS, INTEGRAL = 1, 2, 4, 8
_DEPTH_MAX = 64


class _Object:
    """An object with its keys in order; of a key that is there twice the first counts."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs: dict[str, Any] = {}
        for key, value in pairs:
            self.pairs.setdefault(key, value)
        self.every = pairs


class _Number(str):
    __slots__ = ()


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def read(shape: "Shape", data: bytes) -> tuple[Any, bool]:
    try:
        value = json.loads(
            data.decode(),
            object_pairs_hook=_Object,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_no_constant,
        )
    except UnicodeDecodeError:
        raise Unreadable(Reason.UTF8) from None
    except (ValueError, RecursionError):
        raise Unreadable(Reason.SYNTAX) from None
    seen = [False]
    if shape.wire == 3:
        return {shape.kids[0].name: _value(shape.kids[0], value, seen, 0)}, seen[0]
    if value is None:
        raise Unreadable(Reason.TYPE)
    return _value(shape, value, seen, 0), seen[0]


def _value(shape: "Shape", value: Any, unseen: list[bool], depth: int) -> Any:
    if depth > _DEPTH_MAX:
        raise Unreadable(Reason.DEPTH)
    if value is None:
        return None
    match shape.kind:
        case 0:
            unseen[0] = True
            return None
        case 1 if isinstance(value, bool):
            return value
        case 3 if isinstance(value, _Number):
            return _long(value)
        case 5 if isinstance(value, _Number):
            number = float(value)
            if not math.isfinite(number):
                raise Unreadable(Reason.RANGE)
            return number
        case 7 if shape.wire == 2:
            return _raw(value)
        case 7 if isinstance(value, str) and not isinstance(value, _Number):
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case 9 if isinstance(value, list):
            return [_value(shape.kids[0], item, unseen, depth + 1) for item in value]
        case 10 if isinstance(value, _Object):
            return [(key, _value(shape.kids[1], item, unseen, depth + 1)) for key, item in value.every]
        case 11 if isinstance(value, _Object):
            unseen[0] |= not value.pairs.keys() <= {kid.name for kid in shape.kids}
            row = {kid.name: _value(kid, value.pairs.get(kid.name), unseen, depth + 1) for kid in shape.kids}
            return None if depth and shape.is_hollow else row
        case _:
            raise Unreadable(Reason.TYPE)


def _long(text: str) -> int:
    if text.lstrip("-").isdigit():
        number = int(text)
        if not -(2**63) <= number < 2**63:
            raise Unreadable(Reason.RANGE)
        return number
    whole = float(text)
    if not math.isfinite(whole) or (whole.is_integer() and abs(whole) > 2**53):
        raise Unreadable(Reason.RANGE)
    if not whole.is_integer():
        raise Unreadable(Reason.TYPE)
    return int(whole)


def _raw(value: Any) -> str:
    """The text again; spaces between are lost here, which only makes the original be kept."""
    if isinstance(value, _Object):
        return "{" + ",".join(f"{json.dumps(key)}:{_raw(item)}" for key, item in value.every) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_raw, value)) + "]"
    return str(value) if isinstance(value, _Number) else json.dumps(value)


def write(shape: "Shape", row: Any, style: int) -> bytes:
    if shape.wire == 3:
        return _text(shape.kids[0], row[shape.kids[0].name], style).encode()
    return _text(shape, row, style).encode()


def _quoted(text: str, style: int) -> str:
    return json.dumps(text, ensure_ascii=bool(style & ASCII))


def _text(shape: "Shape", value: Any, style: int) -> str:
    comma, colon = (", ", ": ") if style & SPACES else (",", ":")
    if value is None or shape.is_hollow:
        return "null"
    match shape.kind:
        case 1:
            return "true" if value else "false"
        case 3:
            return str(value)
        case 5:
            if not math.isfinite(value):
                return "null"
            text = repr(value)
            return text.removesuffix(".0") if style & INTEGRAL else text
        case 7:
            return value if shape.wire == 2 else _quoted(value, style)
        case 9:
            return "[" + comma.join(_text(shape.kids[0], item, style) for item in value) + "]"
        case 10:
            parts = [_quoted(key, style) + colon + _text(shape.kids[1], item, style) for key, item in value]
            return "{" + comma.join(parts) + "}"
        case _:
            parts = [
                _quoted(kid.name, style) + colon + _text(kid, value.get(kid.name), style)
                for kid in shape.kids
                if style & NULLS or value.get(kid.name) is not None
            ]
            return "{" + comma.join(parts) + "}"
