"""Values of any schema become columns, and what cannot be read is named, value by value.

    Writer                     one schema that values were written by: format, id, text, references
    read_values(values, ...)   values -> Columns: rows, the writer of each, originals where needed, what is unreadable
    write_values(...)          columns -> the values they came from

Framed values begin with a zero byte and a four-byte schema id, as Confluent's serializers write them (Protobuf adds a
path of message indexes). They are grouped by their frame, each group is read by its writer's shape in one call, and
re-encoded from the columns at once: where that gives other bytes, the original is kept beside the row. So a value
that is read back is always the value that was written.

A null value (a tombstone) is a row of nulls without a schema id.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from runnel.errors import Refused, RunnelError
from runnel.table import json_values, protobuf
from runnel.table.avro import avro_shape
from runnel.table.reasons import Reason
from runnel.table.shapes import Format, Shape, arrow_type, decode, encode

FRAME_BYTES = 5
UNFRAMED = 0  # the schema id of values that carry none
FRAMES_MAX = 1000  # different frames in one call; a topic with more is no topic with schemas
INFER_SAMPLES = 200
INFER_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Writer:
    """A schema that values were written by. `references` are (name, text), dependencies first."""

    format: Format
    id: int
    schema: str
    references: tuple[tuple[str, str], ...] = ()
    indexes: tuple[int, ...] = (0,)
    framed: bool = True

    @property
    def prefix(self) -> bytes:
        if not self.framed:
            return b""
        frame = b"\0" + self.id.to_bytes(4, "big")
        return frame + protobuf.write_indexes(self.indexes) if self.format is Format.PROTOBUF else frame


@lru_cache(maxsize=1024)
def shape_of(writer: Writer) -> Shape:
    """The shape of a writer's values; `Refused` if its schema cannot be a table."""
    match writer.format:
        case Format.AVRO:
            return avro_shape(writer.schema, tuple(text for _, text in writer.references))
        case Format.JSON:
            return json_values.json_schema_shape(writer.schema, dict(writer.references))
        case _:
            return protobuf.protobuf_shape(writer.schema, writer.indexes, dict(writer.references))


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one writer: which values they are, their columns, and what re-encoding needs to know."""

    writer: Writer
    shape: Shape
    places: pa.Int64Array
    rows: pa.StructArray
    style: int
    originals: pa.BinaryArray  # null where re-encoding gives the same bytes


@dataclass(frozen=True, slots=True)
class Columns:
    """All values of one call. Every value is in one group, among the nulls, or unreadable."""

    groups: tuple[Group, ...]
    nulls: pa.Int64Array
    unreadable: dict[int, str] = field(default_factory=dict)


Lookup = Callable[[int], Writer]  # a schema id's writer; NotThere or Refused if there is none, Unavailable passes


def read_values(values: pa.BinaryArray, lookup: Lookup | Writer) -> Columns:
    """Framed values by `lookup`, or unframed ones by the one writer they all have."""
    places = pa.array(range(len(values)), pa.int64())
    nulls = places.filter(pc.is_null(values))
    unreadable: dict[int, str] = {}
    groups: list[Group] = []
    if isinstance(lookup, Writer):
        _read_group(lookup, places, values, groups, unreadable)
        return Columns(tuple(groups), nulls, unreadable)
    frames = pc.binary_slice(values, 0, FRAME_BYTES).dictionary_encode()
    known = frames.dictionary.to_pylist()
    framed = 0
    for number, frame in enumerate(known):
        mine = None if len(known) == 1 and not values.null_count else pc.equal(frames.indices, number)
        here = places if mine is None else places.filter(mine)
        if len(frame) < FRAME_BYTES or frame[0]:
            _refuse(here, "no schema id is in front of it (a zero byte and four more)", unreadable)
            continue
        framed += 1
        if framed > FRAMES_MAX:
            _refuse(here, f"more than {FRAMES_MAX} different schema ids in one piece", unreadable)
            continue
        schema_id = int.from_bytes(frame[1:], "big")
        try:
            writer = lookup(schema_id)
        except Refused as bad:
            _refuse(here, str(bad), unreadable)
            continue
        part = values if mine is None else values.filter(mine)
        if writer.format is Format.PROTOBUF:
            _read_protobuf(writer, here, part, groups, unreadable)
        else:
            _read_group(writer, here, part, groups, unreadable)
    return Columns(tuple(groups), nulls, unreadable)


def _refuse(places: pa.Int64Array, why: str, unreadable: dict[int, str]) -> None:
    unreadable.update(dict.fromkeys(places.to_pylist(), why))


def _read_protobuf(
    writer: Writer, places: pa.Int64Array, values: pa.BinaryArray, groups: list[Group], unreadable: dict[int, str]
) -> None:
    """Values of one schema id, message by message: mostly there is one."""
    for _ in range(FRAMES_MAX):
        if not len(values):
            return
        first = values[0].as_py()
        found = protobuf.read_indexes(first)
        if found is None:
            head = first[:FRAME_BYTES]
            same, why = pc.equal(values, first), "no message index is behind the schema id"
        else:
            head, same, why = first[: found[1]], None, ""
        if same is None:
            same = pc.starts_with(values, head)
        here, rest = places.filter(same), pc.invert(same)
        if found is None:
            _refuse(here, why, unreadable)
        else:
            path = Writer(writer.format, writer.id, writer.schema, writer.references, found[0], writer.framed)
            _read_group(path, here, values.filter(same), groups, unreadable, head)
        places, values = places.filter(rest), values.filter(rest)
    _refuse(places, f"more than {FRAMES_MAX} different messages of one schema", unreadable)


def _read_group(
    writer: Writer,
    places: pa.Int64Array,
    values: pa.BinaryArray,
    groups: list[Group],
    unreadable: dict[int, str],
    prefix: bytes | None = None,
) -> None:
    try:
        shape = shape_of(writer)
    except RunnelError as bad:
        if not isinstance(bad, Refused):
            raise
        _refuse(places.filter(pc.is_valid(values)), str(bad), unreadable)
        return
    group = _read(writer, shape, places, values, unreadable, writer.prefix if prefix is None else prefix)
    if len(group.rows):
        groups.append(group)


def _read(
    writer: Writer,
    shape: Shape,
    places: pa.Int64Array,
    values: pa.BinaryArray,
    unreadable: dict[int, str],
    prefix: bytes,
) -> Group:
    rows, status = decode(writer.format, shape, values, prefix)
    originals = values
    if len(rows) != len(values):
        codes = pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(status)])
        good = pc.less_equal(codes, 0)
        for place, code in zip(
            places.filter(pc.invert(good)).to_pylist(), codes.filter(pc.invert(good)).to_pylist(), strict=True
        ):
            if code != Reason.NULL:
                unreadable[place] = Reason(code).words
        places, originals = places.filter(good), values.filter(good)
    style = json_values.best_style(shape, rows, originals, prefix) if writer.format is Format.JSON else 0
    again = encode(writer.format, shape, rows, writer.prefix, style)
    differs = pc.not_equal(again, originals)
    kept = pc.if_else(differs, originals, None) if pc.any(differs).as_py() else pa.nulls(len(rows), pa.binary())
    return Group(writer, shape, places, rows, style, kept)


def read_inferred(values: pa.BinaryArray, known: Shape | None = None) -> tuple[Columns, Shape]:
    """Unframed JSON without a schema: the columns that the values show, beginning with those already known.

    Only values that do not fit what is known are looked at one by one, a few hundred a round: a stream whose shape
    has settled is read at full speed.
    """
    present = values.drop_null()
    shape = known or json_values.infer(present.slice(0, INFER_SAMPLES).to_pylist())
    for _ in range(INFER_ROUNDS):
        _, status = decode(Format.JSON, shape, present, b"")
        codes = pa.Array.from_buffers(pa.int32(), len(present), [None, pa.py_buffer(status)])
        misfits = pc.is_in(codes, value_set=pa.array([-1, Reason.TYPE, Reason.RANGE], pa.int32()))
        if not pc.any(misfits).as_py():
            break
        wider = json_values.infer(present.filter(misfits).slice(0, INFER_SAMPLES).to_pylist(), shape)
        if wider == shape:
            break
        shape = wider
    return read_known(values, shape), shape


def read_known(values: pa.BinaryArray, shape: Shape) -> Columns:
    """Unframed JSON by a shape that was inferred before; keys that it does not have stay in the originals."""
    unreadable: dict[int, str] = {}
    places = pa.array(range(len(values)), pa.int64())
    group = _read(Writer(Format.JSON, UNFRAMED, "", framed=False), shape, places, values, unreadable, b"")
    nulls = places.filter(pc.is_null(values))
    return Columns((group,) if len(group.rows) else (), nulls, unreadable)


def write_values(writer: Writer, shape: Shape, rows: pa.StructArray, style: int, originals: pa.BinaryArray) -> pa.Array:
    """The values that `rows` (of the shape's own type) came from."""
    assert shape.is_hollow or rows.type == arrow_type(shape), f"rows are {rows.type}, not {arrow_type(shape)}"
    made = encode(writer.format, shape, rows, writer.prefix, style)
    return made if originals.null_count == len(originals) else pc.coalesce(originals, made)
