"""The columns of a table: the union of every schema its values had, with ids that never change their meaning.

    TableColumns           all columns, those of the values first, then the record's own
      .with_wants(wants)   the table after it has met new schemas; by that alone does it change
      .resolve(shape)      the columns that values of a shape go into, or None when some are not known yet
      .arrow_schema()      the table's schema, field ids in the metadata as Parquet and Iceberg have them
      .to_json, .of_json   for keeping

**Rules of growth** (Iceberg's). A column is added where a field is new, nullable always. A type grows from int to
long, from float to double, and a decimal gets more digits before the point. A field whose aliases (Avro) name a column
renames it, and older values still find it under its former name; files, which are shared by Iceberg and Delta, and
Delta itself, which cannot rename, keep its first name for ever. A field that comes back with a type that the column
cannot grow into gets a column of its own, called by its name and its type (`price_string`), so that nothing is ever
refused. Columns are never removed and never required.

Names are told apart without regard to case, because engines do. A field whose name is taken by one of the record's own
columns is called `value_NAME`.

Some types are kept as simpler ones that every engine and both formats have: a time of day as its microseconds (long),
fixed bytes as binary.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from runnel.errors import Corrupt
from runnel.table.files.partitions import PartitionField, fields_of
from runnel.table.files.rules import RowRules, Values
from runnel.table.json_values import widen_roots
from runnel.table.shapes import TAG, Kind, Shape, Wire, arrow_type, branch_name
from runnel.table.values import Writer, shape_of

FIELD_ID = b"PARQUET:field_id"
VALUE = "value"
_RAW_FIELD = "(raw)"  # no field of any schema is called so
COLUMNS_MAX = 2000
"""Columns of a table, nested ones counted; schemas that bring more are not read, their values go to the dead letters."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `type` is Iceberg's word for it; a struct, list or map has `kids` (a list: element; a map: key, value).

    `former` are names that values had for it, `field` is what they call it where the table must call it otherwise.
    `named` are names that the table had for it before it was renamed.
    """

    id: int
    name: str
    type: str
    kids: tuple["Column", ...] = ()
    former: tuple[str, ...] = ()
    field: str = ""
    named: tuple[str, ...] = ()

    @property
    def field_name(self) -> str:
        return self.field or self.name

    @property
    def file_name(self) -> str:
        """Its name in Parquet files and in Delta, which both go by names: the first that it had, for ever."""
        return self.named[0] if self.named else self.name

    @property
    def is_raw(self) -> bool:
        """Whether it holds values as they are."""
        return self.field == _RAW_FIELD

    def walk(self) -> Iterator["Column"]:
        yield self
        for kid in self.kids:
            yield from kid.walk()

    def leaves(self) -> Iterator["Column"]:
        """Columns that hold values, in the order in which Parquet has them."""
        if not self.kids:
            yield self
        for kid in self.kids:
            yield from kid.leaves()

    def arrow_type(self, *, in_files: bool = False) -> pa.DataType:
        kids = [kid.arrow_field(in_files=in_files) for kid in self.kids]
        match self.type:
            case "struct":
                return pa.struct(kids)
            case "list":
                return pa.list_(kids[0])
            case "map":
                return pa.map_(kids[0].with_nullable(False), kids[1])
            case _:
                return _arrow_of(self.type)

    def arrow_field(self, *, in_files: bool = False) -> pa.Field:
        name = self.file_name if in_files else self.name
        return pa.field(name, self.arrow_type(in_files=in_files), metadata={FIELD_ID: str(self.id).encode()})


_ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}
_WORDS = {arrow: word for word, arrow in _ARROW.items()}


def _arrow_of(word: str) -> pa.DataType:
    if word.startswith("decimal("):
        precision, scale = word[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    return _ARROW[word]


def _word_of(arrow: pa.DataType) -> str:
    if pa.types.is_decimal(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if pa.types.is_time(arrow):
        return "long"
    if pa.types.is_fixed_size_binary(arrow):
        return "binary"
    return _WORDS[arrow]


PARTITION, OFFSET, TIMESTAMP, KEY, HEADERS, SCHEMA_ID = (
    "partition",
    "offset",
    "timestamp",
    "key",
    "headers",
    "schema_id",
)
RECORD_COLUMNS = (
    Column(1, PARTITION, "int"),
    Column(2, OFFSET, "long"),
    Column(3, TIMESTAMP, "timestamptz"),
    Column(4, KEY, "binary"),
    Column(
        5,
        HEADERS,
        "list",
        (Column(6, "element", "struct", (Column(7, "key", "string"), Column(8, "value", "binary"))),),
    ),
    Column(9, SCHEMA_ID, "int"),
)
"""Every row has these, behind the columns of its value."""
_RESERVED = frozenset(column.name for column in RECORD_COLUMNS)
_FIRST_ID = 10


@dataclass(frozen=True, slots=True)
class Wants:
    """What work met and the table does not know: how values are written, by whom, and how JSON looks."""

    values: Values
    writers: tuple[Writer, ...] = ()
    inferred: Shape | None = None

    def __or__(self, other: "Wants") -> "Wants":
        """Both; of two opinions about how values are written the one that sees schemas holds."""
        writers = dict.fromkeys((*self.writers, *other.writers))
        shapes = [each.inferred for each in (self, other) if each.inferred is not None]
        both = widen_roots(*shapes) if len(shapes) == 2 else shapes[0] if shapes else None
        values = Values.SCHEMA if Values.SCHEMA in (self.values, other.values) else self.values
        return Wants(values, tuple(sorted(writers, key=lambda each: (each.id, each.indexes))), both)


@dataclass(frozen=True, slots=True)
class TableColumns:
    """See the module. `values` is how this table's values are read, once that is known; `version` counts changes."""

    columns: tuple[Column, ...] = ()
    last_id: int = _FIRST_ID - 1
    values: Values | None = None
    inferred: Shape | None = None
    """Of JSON without schemas: what has been seen so far."""
    passed: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """Schemas (id, message indexes) that were passed over because there would be more than `COLUMNS_MAX` columns."""
    is_closed: bool = False
    """JSON without schemas brings no more columns, for the same reason; what is new stays in the kept originals."""
    version: int = 0

    @property
    def all(self) -> tuple[Column, ...]:
        return (*self.columns, *RECORD_COLUMNS)

    def find(self, name: str) -> Column | None:
        """A column at the top by its name; those of values go before those of records, as nobody else has the name."""
        return next((column for column in self.all if column.name.lower() == name.lower()), None)

    @property
    def raw(self) -> Column | None:
        """The column of values that are kept as they are."""
        return next((column for column in self.columns if column.is_raw), None)

    def arrow_schema(self, *, in_files: bool = False) -> pa.Schema:
        """All columns under their names, or under those that they have in files and in Delta."""
        return pa.schema([column.arrow_field(in_files=in_files) for column in self.all])

    def partition_fields(self, rules: RowRules) -> tuple[PartitionField, ...]:
        """How this table's files are partitioned: what the rules say, as far as there are columns for it."""
        return fields_of(rules.partition, self.find)

    def with_wants(self, wants: Wants) -> "TableColumns":
        grown = _Growth(self.last_id)
        columns = self.columns
        values = wants.values if self.values in (None, Values.RAW) else self.values
        if wants.values is Values.RAW and self.raw is None:
            columns = (*columns, Column(grown.next_id(), _free(VALUE, columns, _RESERVED), "binary", field=_RAW_FIELD))
        passed = set(self.passed)
        for writer in sorted(wants.writers, key=lambda each: (each.id, each.indexes)):
            larger = grown.grow(columns, _kids(shape_of(writer)), _RESERVED)
            if count_of(larger) > COLUMNS_MAX:
                passed.add((writer.id, writer.indexes))
            else:
                columns = larger
        inferred, is_closed = self.inferred, self.is_closed
        if wants.inferred is not None and not is_closed:
            seen = wants.inferred if inferred is None else widen_roots(inferred, wants.inferred)
            larger = grown.grow(columns, _kids(seen), _RESERVED)
            is_closed = count_of(larger) > COLUMNS_MAX
            if not is_closed:
                columns, inferred = larger, seen
        after = TableColumns(
            columns, grown.last_id, values, inferred, tuple(sorted(passed)), is_closed, version=self.version
        )
        return self if after == self else replace(after, version=self.version + 1)

    def resolve(self, shape: Shape) -> tuple[Column, ...] | None:
        """The columns for the kids of a shape that hold something, as the file of its values has them."""
        return _resolve(self.columns, _kids(shape))

    # --- keeping

    def to_json(self) -> str:
        return json.dumps(
            {
                "columns": [_column_json(column) for column in self.columns],
                "last_id": self.last_id,
                "values": None if self.values is None else self.values.value,
                "inferred": None if self.inferred is None else inferred_json(self.inferred),
                "passed": self.passed,
                "closed": self.is_closed,
                "version": self.version,
            },
            separators=(",", ":"),
        )

    @classmethod
    def of_json(cls, text: str) -> "TableColumns":
        try:
            data = json.loads(text)
            return cls(
                tuple(_column_of(each) for each in data["columns"]),
                data["last_id"],
                None if data["values"] is None else Values(data["values"]),
                None if data["inferred"] is None else inferred_of(data["inferred"]),
                tuple((number, tuple(indexes)) for number, indexes in data["passed"]),
                data["closed"],
                data["version"],
            )
        except (ValueError, KeyError, TypeError) as bad:
            raise Corrupt(f"these are not the columns of a table: {bad!r}") from None


def count_of(columns: Sequence[Column]) -> int:
    """All columns, nested ones counted."""
    return sum(1 for column in columns for _ in column.walk())


def _kids(shape: Shape) -> list[Shape]:
    """What a struct's or union's columns are made of; a union's branches have the names of their columns."""
    if shape.kind is Kind.UNION:
        tag = Shape(kind=Kind.INT32, name=TAG)
        return [tag, *(kid.named(branch_name(n)) for n, kid in enumerate(shape.kids) if not kid.is_hollow)]
    return [kid for kid in shape.kids if not kid.is_hollow]


def _type_of(shape: Shape) -> str:
    if shape.is_hollow:
        return "boolean"
    if shape.kind in (Kind.STRUCT, Kind.UNION):
        return "struct"
    if shape.kind is Kind.LIST:
        return "list"
    return "map" if shape.kind is Kind.MAP else _word_of(arrow_type(shape))


def _inner(shape: Shape) -> list[Shape]:
    """The kids of any shape, as columns have them."""
    if shape.is_hollow:
        return []
    if shape.kind is Kind.LIST:
        return [shape.kids[0].named("element")]
    if shape.kind is Kind.MAP:
        return [shape.kids[0].named("key"), shape.kids[1].named("value")]
    return _kids(shape) if shape.kind in (Kind.STRUCT, Kind.UNION) else []


def wider(mine: str, theirs: str) -> str | None:
    """The type that holds both, by Iceberg's promotions alone; None where there is none."""
    if mine == theirs:
        return mine
    for small, large in (("int", "long"), ("float", "double")):
        if {mine, theirs} == {small, large}:
            return large
    if mine.startswith("decimal(") and theirs.startswith("decimal("):
        a, b = _arrow_of(mine), _arrow_of(theirs)
        if a.scale == b.scale:
            return mine if a.precision >= b.precision else theirs
    return None


class _Growth:
    """Draws ids while columns grow."""

    def __init__(self, last_id: int) -> None:
        self.last_id = last_id

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def grow(
        self, columns: Sequence[Column], shapes: Sequence[Shape], reserved: frozenset[str] = frozenset()
    ) -> tuple[Column, ...]:
        """Columns, wide enough for values of these shapes."""
        grown = list(columns)
        fresh = {shape.name for shape in shapes}
        met: set[int] = set()
        for shape in shapes:
            at = _find(grown, shape, met, fresh)
            if at is None:
                grown.append(self._new(shape, grown, reserved))
                met.add(grown[-1].id)
                continue
            column = grown[at]
            if column.field_name != shape.name and shape.name not in column.former:
                name = _free(shape.name, [each for each in grown if each is not column], reserved)
                field = shape.name if name != shape.name else ""
                former, named = (*column.former, column.field_name), (*column.named, column.name)
                column = replace(column, name=name, field=field, former=former, named=named)
            word = wider(column.type, _type_of(shape))
            assert word is not None, f"column {column.name} was found for a type that it cannot hold"
            grown[at] = replace(column, type=word, kids=self.grow(column.kids, _inner(shape)))
            met.add(column.id)
        return tuple(grown)

    def _new(self, shape: Shape, taken: Sequence[Column], reserved: frozenset[str]) -> Column:
        name = shape.name
        if any(name in (column.field_name, *column.former) for column in taken):
            name = f"{name}_{_type_of(shape).partition('(')[0]}"  # it is there with a type that this one does not fit
        name = _free(name, taken, reserved)
        number = self.next_id()
        kids = self.grow((), _inner(shape))
        return Column(number, name, _type_of(shape), kids, field=shape.name if name != shape.name else "")


def _free(name: str, taken: Sequence[Column], reserved: frozenset[str]) -> str:
    """A name that no other column has, whatever the case of its letters."""
    used = {each.lower() for column in taken for each in (column.name, *column.named)}
    if name.lower() in reserved:
        name = f"value_{name}"
    free, number = name, 1
    while free.lower() in used or free.lower() in reserved:
        number += 1
        free = f"{name}_{number}"
    return free


def _find(columns: Sequence[Column], shape: Shape, met: set[int], fresh: set[str]) -> int | None:
    """The column whose values a shape's are: by its name, a former name, or a name that its aliases give.

    `met` are columns that other fields of the same schema have, `fresh` the names of all of these fields.
    """
    word = _type_of(shape)

    def fits(at: int) -> bool:
        column = columns[at]
        return column.id not in met and wider(column.type, word) is not None and _keys_fit(column, shape)

    places = [at for at in range(len(columns)) if fits(at)]
    for at in places:
        if columns[at].field_name == shape.name:
            return at
    for at in places:
        if shape.name in columns[at].former and columns[at].field_name not in fresh:
            return at
    if any(column.field_name == shape.name for column in columns):
        return None  # a column cannot be renamed to what another one is called
    for at in places:
        if columns[at].field_name in shape.aliases and columns[at].field_name not in fresh:
            return at
    return None


def _keys_fit(column: Column, shape: Shape) -> bool:
    """Elements of lists and the keys and values of maps cannot get columns of their own: all of them must fit."""
    if column.type not in ("list", "map"):
        return True
    return all(
        wider(kid.type, _type_of(inner)) is not None and _keys_fit(kid, inner)
        for kid, inner in zip(column.kids, _inner(shape), strict=True)
    )


def _resolve(columns: Sequence[Column], shapes: Sequence[Shape]) -> tuple[Column, ...] | None:
    found: list[Column] = []
    fresh = {shape.name for shape in shapes}
    met: set[int] = set()
    for shape in shapes:
        at = _find(columns, shape, met, fresh)
        if at is None or wider(columns[at].type, _type_of(shape)) != columns[at].type:
            return None
        if columns[at].field_name != shape.name and shape.name not in columns[at].former:
            return None  # a rename that the table has not heard of
        kids = _resolve(columns[at].kids, _inner(shape))
        if kids is None:
            return None
        met.add(columns[at].id)
        found.append(replace(columns[at], kids=kids))
    return tuple(found)


def _column_json(column: Column) -> list[Any]:
    kids = [_column_json(kid) for kid in column.kids]
    return [column.id, column.name, column.type, kids, list(column.former), column.field, list(column.named)]


def _column_of(data: list[Any]) -> Column:
    number, name, word, kids, former, field, named = data
    return Column(number, name, word, tuple(map(_column_of, kids)), tuple(former), field, tuple(named))


def inferred_json(shape: Shape) -> list[Any]:
    """A shape that was inferred from JSON, as JSON."""
    kids = [inferred_json(kid) for kid in shape.kids]
    return [int(shape.kind), shape.name, int(shape.wire), shape.null_at, kids]


def inferred_of(data: list[Any]) -> Shape:
    kind, name, wire, null_at, kids = data
    return Shape(
        kind=Kind(kind),
        name=name,
        wire=Wire(wire) if wire else 0,
        null_at=null_at,
        kids=tuple(map(inferred_of, kids)),
    )
