"""A shape is a schema as a tree of columns; the formats read values into it and write values out of it.

    Shape                     one column (or struct of columns): what it holds and how it lies in its format
    arrow_type(shape)         the Arrow type of its column
    decode(...), encode(...)  values <-> columns, in the compiled helper or in plain Python (shapes_plain)

The numbers of kinds and wires are those of native/shapes.h. A *hollow* shape holds nothing (Avro's null, an empty
record): it has no column.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from runnel.table import compiled, shapes_plain

NOT_NULLABLE = -1
NULLABLE = -2  # nullable without an index of its own in the format


class Format(IntEnum):
    AVRO = 0
    JSON = 1
    PROTOBUF = 2


class Kind(IntEnum):
    HOLLOW = 0
    BOOL = 1
    INT32 = 2
    INT64 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTES = 6
    STRING = 7
    FIXED = 8
    LIST = 9
    MAP = 10
    STRUCT = 11
    DECIMAL = 12
    UNION = 13


class Wire(IntEnum):
    PLAIN = 0
    INT = 1
    RAW = 2
    BARE = 3
    ZIGZAG = 4
    FIXED32 = 5
    FIXED64 = 6
    UNSIGNED = 7
    PACKED = 0x100
    REQUIRED = 0x200


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One column. `type` overrides the Arrow type that follows from the kind; `symbols` make an enum of an INT32."""

    kind: Kind
    name: str = ""
    wire: int = 0
    null_at: int = NOT_NULLABLE
    arg: int = 0
    kids: tuple["Shape", ...] = ()
    type: pa.DataType | None = None
    symbols: tuple[tuple[int, str], ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def is_hollow(self) -> bool:
        if self.kind is Kind.STRUCT:
            return all(kid.is_hollow for kid in self.kids)
        return self.kind is Kind.HOLLOW

    @property
    def is_nullable(self) -> bool:
        return self.null_at != NOT_NULLABLE

    def named(self, name: str) -> "Shape":
        return replace(self, name=name)

    def program(self) -> tuple[Any, ...]:
        """The shape as the compiled helper takes it."""
        return (
            int(self.kind),
            int(self.wire),
            self.null_at,
            self.arg,
            self.name.encode(),
            tuple(kid.program() for kid in self.kids),
        )


_PLAIN_TYPES = {
    Kind.BOOL: pa.bool_(),
    Kind.INT32: pa.int32(),
    Kind.INT64: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.BYTES: pa.binary(),
    Kind.STRING: pa.string(),
}
TAG = "tag"


def branch_name(number: int) -> str:
    """The column of a union's branch, as Iceberg and Spark name it."""
    return f"field{number}"


def arrow_type(shape: Shape) -> pa.DataType:
    """What the table sees."""
    if shape.symbols:
        return pa.string()
    if shape.type is not None:
        return shape.type
    match shape.kind:
        case Kind.HOLLOW:
            return pa.bool_()  # only as the element of a list or map, where something must stand
        case Kind.FIXED:
            return pa.binary(shape.arg)
        case Kind.LIST:
            return pa.list_(pa.field("element", arrow_type(shape.kids[0])))
        case Kind.MAP:
            return pa.map_(arrow_type(shape.kids[0]), arrow_type(shape.kids[1]))
        case Kind.STRUCT if shape.is_hollow:
            return pa.bool_()
        case Kind.STRUCT:
            return pa.struct([pa.field(kid.name, arrow_type(kid)) for kid in shape.kids if not kid.is_hollow])
        case Kind.UNION:
            branches = [
                pa.field(branch_name(n), arrow_type(kid)) for n, kid in enumerate(shape.kids) if not kid.is_hollow
            ]
            return pa.struct([pa.field(TAG, pa.int32()), *branches])
        case _:
            return _PLAIN_TYPES[shape.kind]


def decode(fmt: Format, shape: Shape, values: pa.Array, prefix: bytes) -> tuple[pa.StructArray, memoryview]:
    """Values as a struct array with one row for each that could be read, and the status of every value.

    A status is 0, -1 (read, but JSON keys were met that the shape does not know) or a `Reason`.
    """
    if compiled.helper is None:
        rows, status = shapes_plain.decode(fmt, shape, values, prefix)
        if shape.is_hollow:
            return _empty_rows(len(rows)), memoryview(status).cast("i")
        return _from_python(shape, rows), memoryview(status).cast("i")
    columns, status = compiled.helper.decode(int(fmt), shape.program(), values.__arrow_c_array__()[1], prefix)
    if shape.is_hollow:
        return _empty_rows(columns[0]), memoryview(status).cast("i")
    return _array(shape, columns), memoryview(status).cast("i")


def encode(fmt: Format, shape: Shape, rows: pa.StructArray, prefix: bytes, style: int = 0) -> pa.Array:
    """Rows of the shape's own type (see `arrow_type`) as binary values."""
    raw = _to_raw(shape, rows)
    if compiled.helper is None:
        units = raw.view(_unit_type(shape)) if _has_times(shape) else raw
        return pa.array(shapes_plain.encode(fmt, shape, units.to_pylist(), prefix, style), pa.binary())
    ends, data = compiled.helper.encode(int(fmt), shape.program(), raw.__arrow_c_array__()[1], prefix, style)
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(data)])


def _empty_rows(count: int) -> pa.StructArray:
    """Rows of a schema without columns: there must be so many of them, that is all."""
    return pa.array([{}] * count, pa.struct([]))


def _buffer(data: bytes | None) -> Any:
    return pa.py_buffer(b"" if data is None else data)


def _array(shape: Shape, columns: tuple[Any, ...]) -> pa.Array:
    """Arrow arrays around what the helper gave."""
    count, valid, ends, data, kids = columns
    validity = None if valid is None else pa.py_buffer(valid)
    wanted = arrow_type(shape)
    if shape.is_hollow:
        return pa.nulls(count, wanted)
    match shape.kind:
        case Kind.LIST:
            element = _array(shape.kids[0], kids[0])
            return pa.Array.from_buffers(wanted, count, [validity, _buffer(ends)], children=[element])
        case Kind.MAP:
            pair = pa.struct([wanted.key_field, wanted.item_field])
            entries = pa.Array.from_buffers(
                pair,
                kids[0][0],
                [None],
                children=[_array(kid, made) for kid, made in zip(shape.kids, kids, strict=True)],
            )
            return pa.Array.from_buffers(wanted, count, [validity, _buffer(ends)], children=[entries])
        case Kind.STRUCT | Kind.UNION:
            arrays = [_array(kid, made) for kid, made in zip(shape.kids, kids, strict=True) if not kid.is_hollow]
            if shape.kind is Kind.UNION:
                arrays = [pa.Array.from_buffers(pa.int32(), count, [None, _buffer(data)]), *arrays]
            return pa.Array.from_buffers(wanted, count, [validity], children=arrays)
        case Kind.BYTES | Kind.STRING:
            return pa.Array.from_buffers(wanted, count, [validity, _buffer(ends), _buffer(data)])
        case Kind.INT32 if shape.symbols:
            return _names(shape, pa.Array.from_buffers(pa.int32(), count, [validity, _buffer(data)]))
        case _:
            return pa.Array.from_buffers(wanted, count, [validity, _buffer(data)])


def _names(shape: Shape, numbers: pa.Array) -> pa.Array:
    """An enum's numbers as its symbols; a number without one (Protobuf's enums are open) as its digits."""
    known = pa.array([number for number, _ in shape.symbols], pa.int32())
    names = pa.array([name for _, name in shape.symbols], pa.string())
    named = pc.take(names, pc.index_in(numbers, value_set=known, skip_nulls=True))
    return pc.coalesce(named, pc.cast(numbers, pa.string()))


def _numbers(shape: Shape, names: pa.Array) -> pa.Array:
    known = pa.array([name for _, name in shape.symbols], pa.string())
    numbers = pa.array([number for number, _ in shape.symbols], pa.int32())
    found = pc.take(numbers, pc.index_in(names, value_set=known, skip_nulls=True))
    if found.null_count == names.null_count:
        return found
    digits = pc.if_else(pc.match_substring_regex(names, r"^-?\d{1,9}$"), names, None)
    return pc.coalesce(found, pc.cast(digits, pa.int32()))


def _has_symbols(shape: Shape) -> bool:
    return bool(shape.symbols) or any(map(_has_symbols, shape.kids))


def _to_raw(shape: Shape, array: pa.Array) -> pa.Array:
    """Symbols of enums back to numbers, wherever they are; everything else as it is."""
    if not _has_symbols(shape) or shape.is_hollow:
        return array
    if shape.symbols:
        return _numbers(shape, array)
    mask = pc.is_null(array) if array.null_count else None
    match shape.kind:
        case Kind.LIST:
            element = _to_raw(shape.kids[0], array.values)
            wanted = pa.list_(pa.field("element", element.type))
            return pa.ListArray.from_arrays(array.offsets, element, type=wanted, mask=mask)
        case Kind.MAP:
            items = _to_raw(shape.kids[1], array.items)
            return pa.MapArray.from_arrays(array.offsets, array.keys, items, mask=mask)
        case _:
            extra = 1 if shape.kind is Kind.UNION else 0
            kids = [kid for kid in shape.kids if not kid.is_hollow]
            arrays = [array.field(n) for n in range(extra)]
            arrays += [_to_raw(kid, array.field(n + extra)) for n, kid in enumerate(kids)]
            names = [field.name for field in array.type]
            fields = [pa.field(name, made.type) for name, made in zip(names, arrays, strict=True)]
            return pa.StructArray.from_arrays(arrays, fields=fields, mask=mask)


def _has_times(shape: Shape) -> bool:
    return _is_time(shape) or any(map(_has_times, shape.kids))


def _is_time(shape: Shape) -> bool:
    return shape.type is not None and pa.types.is_temporal(shape.type)


def _unit_type(shape: Shape) -> pa.DataType:
    """Times as the numbers they are, for Python, whose own times end in the year 9999."""

    def bare(one: Shape) -> Shape:
        kind = None if _is_time(one) else one.type
        return replace(one, type=kind, symbols=(), kids=tuple(map(bare, one.kids)))

    return arrow_type(bare(shape))


def _raw_type(shape: Shape) -> pa.DataType:
    """The type of the plain twin's rows: symbols are numbers there."""
    return arrow_type(_without_symbols(shape))


def _without_symbols(shape: Shape) -> Shape:
    return replace(shape, symbols=(), kids=tuple(map(_without_symbols, shape.kids)))


def _from_python(shape: Shape, rows: list[Any]) -> pa.StructArray:
    return _with_names(shape, pa.array(rows, _raw_type(shape)))


def _with_names(shape: Shape, array: pa.Array) -> pa.Array:
    if not _has_symbols(shape) or shape.is_hollow:
        return array
    if shape.symbols:
        return _names(shape, array)
    mask = pc.is_null(array) if array.null_count else None
    match shape.kind:
        case Kind.LIST:
            element = _with_names(shape.kids[0], array.values)
            return pa.ListArray.from_arrays(array.offsets, element, type=arrow_type(shape), mask=mask)
        case Kind.MAP:
            return pa.MapArray.from_arrays(
                array.offsets, array.keys, _with_names(shape.kids[1], array.items), mask=mask
            )
        case _:
            extra = 1 if shape.kind is Kind.UNION else 0
            kids = [kid for kid in shape.kids if not kid.is_hollow]
            arrays = [array.field(n) for n in range(extra)]
            arrays += [_with_names(kid, array.field(n + extra)) for n, kid in enumerate(kids)]
            return pa.StructArray.from_arrays(arrays, fields=list(arrow_type(shape)), mask=mask)
