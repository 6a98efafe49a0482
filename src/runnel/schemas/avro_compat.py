"""What an Avro schema reads of what another wrote: the rules of Avro's specification for schema resolution.

Every disagreement is found, not only the first, and said with its place in the reader's schema.
"""

from runnel.schemas.avro import NO_DEFAULT, AvroSchema, Field, Type
from runnel.schemas.bounds import Steps

_PROMOTED = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
COMPLAINTS_MAX = 100


def avro_complaints(reader: AvroSchema, writer: AvroSchema) -> list[str]:
    """Why `reader` cannot read the values of `writer`."""
    comparison = _Comparison()
    return comparison.compare(reader.root, writer.root, "/")[:COMPLAINTS_MAX]


def _said(kind: str, what: str, more: str) -> str:
    return f"{{errorType:'{kind}', description:'{what}', additionalInfo:'{more}'}}"


class _Comparison:
    def __init__(self) -> None:
        self.steps = Steps()
        self.seen: set[tuple[int, int]] = set()
        """Pairs of named types that are compared already, or just now: within a ring they are taken to fit."""
        self.known: dict[tuple[int, int], list[str]] = {}

    def compare(self, reader: Type, writer: Type, path: str) -> list[str]:
        self.steps.take()
        if writer.kind == "union":
            return self._from_union(reader, writer, path)
        if reader.kind == "union":
            return self._into_union(reader, writer, path)
        if reader.kind != writer.kind:
            if reader.kind in _PROMOTED.get(writer.kind, ()):
                return []
            what = (
                f"The type (path {path!r}) of a field in the new schema does not match with the old schema"
                if path != "/"
                else "The type of the new schema does not match with the old schema"
            )
            more = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
            return [_said("TYPE_MISMATCH", what.replace("'", '"'), more)]
        match reader.kind:
            case "array":
                return self.compare(reader.of[0], writer.of[0], _below(path, "items"))
            case "map":
                return self.compare(reader.of[0], writer.of[0], _below(path, "values"))
            case "record" | "enum" | "fixed":
                return self._named(reader, writer, path)
            case _:
                return []

    def _from_union(self, reader: Type, writer: Type, path: str) -> list[str]:
        if reader.kind == "union":
            return [said for branch in writer.of for said in self._into_union(reader, branch, path)]
        return [said for branch in writer.of for said in self.compare(reader, branch, path)]

    def _into_union(self, reader: Type, writer: Type, path: str) -> list[str]:
        best: list[str] | None = None
        for number, branch in enumerate(reader.of):
            said = self.compare(branch, writer, _below(path, str(number)))
            if not said:
                return []
            if branch.kind == writer.kind and branch.name == writer.name:
                best = said
        if best is not None and writer.kind in ("record", "array", "map"):
            return best
        what = f'The new schema is missing a type inside a union field at path "{path}" in the old schema'
        more = f"reader union lacking writer type: {writer.name or writer.kind.upper()}"
        return [_said("MISSING_UNION_BRANCH", what, more)]

    def _named(self, reader: Type, writer: Type, path: str) -> list[str]:
        if reader.short != writer.short and writer.name not in reader.aliases:
            what = f'The name of the schema has changed (path "{_below(path, "name")}")'
            return [_said("NAME_MISMATCH", what, f"expected: {writer.name}")]
        if reader.kind == "fixed":
            if reader.size == writer.size:
                return []
            what = f'The size of FIXED type field at path "{_below(path, "size")}" in the new schema does not match'
            return [_said("FIXED_SIZE_MISMATCH", what, f"expected: {writer.size}, found: {reader.size}")]
        if reader.kind == "enum":
            missing = [symbol for symbol in writer.symbols if symbol not in reader.symbols]
            if not missing or reader.default is not NO_DEFAULT:
                return []
            what = f'The new schema is missing enum symbols {missing} at path "{_below(path, "symbols")}"'.replace(
                "'", ""
            )
            return [_said("MISSING_ENUM_SYMBOLS", what, f"[{', '.join(missing)}]")]
        pair = (id(reader), id(writer))
        if pair in self.known:
            return self.known[pair]
        if pair in self.seen:
            return []
        self.seen.add(pair)
        said = self.known[pair] = self._record(reader, writer, path)
        return said

    def _record(self, reader: Type, writer: Type, path: str) -> list[str]:
        written = {one.name: one for one in writer.fields}
        said: list[str] = []
        for number, one in enumerate(reader.fields):
            here = _below(path, f"fields/{number}")
            old = _found(one, written)
            if old is not None:
                said += self.compare(one.type, old.type, _below(here, "type"))
            elif one.default is NO_DEFAULT:
                if one.type.kind == "enum" and one.type.default is not NO_DEFAULT:
                    continue
                what = f'The field "{one.name}" at path "{here}" in the new schema has no default value and is missing'
                said.append(_said("READER_FIELD_MISSING_DEFAULT_VALUE", f"{what} in the old schema", one.name))
            if len(said) > COMPLAINTS_MAX:
                break
        return said


def _found(one: Field, written: dict[str, Field]) -> Field | None:
    return next((written[name] for name in (one.name, *one.aliases) if name in written), None)


def _below(path: str, step: str) -> str:
    return f"{path.rstrip('/')}/{step}"
