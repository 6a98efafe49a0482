"""Avro schemas as trees: names resolved, defaults checked, one spelling for all that mean the same.

A `Type` is a node. Named types are nodes that others share, so a record that contains itself is a ring of nodes; what
walks them remembers where it has been.
"""

import re
from dataclasses import dataclass, field
from typing import Any

from runnel.schemas.bounds import BadSchema, compact, read_json, settled

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
NO_DEFAULT: Any = object()
_RESERVED = {
    "record": {"type", "name", "namespace", "doc", "aliases", "fields"},
    "error": {"type", "name", "namespace", "doc", "aliases", "fields"},
    "enum": {"type", "name", "namespace", "doc", "aliases", "symbols", "default"},
    "fixed": {"type", "name", "namespace", "doc", "aliases", "size"},
    "array": {"type", "items"},
    "map": {"type", "values"},
}
_FIELD_WORDS = {"name", "type", "doc", "default", "order", "aliases"}


@dataclass(slots=True, eq=False)
class Field:
    name: str
    type: "Type"
    default: Any
    aliases: tuple[str, ...]
    facts: dict[str, Any]


@dataclass(slots=True, eq=False)
class Type:
    """`kind` is a primitive, or record, enum, fixed, array, map, union."""

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[Field] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: Any = NO_DEFAULT
    size: int = 0
    of: list["Type"] = field(default_factory=list)
    """The items of an array, the values of a map, the branches of a union."""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def short(self) -> str:
        return self.name.rpartition(".")[2]


@dataclass(frozen=True, slots=True, eq=False)
class AvroSchema:
    root: Type
    text: str
    meaning: bytes


def read_avro(text: str, references: tuple[str, ...] = ()) -> AvroSchema:
    """A schema with all its names resolved; `references` are the schemas it names, dependencies first."""
    reader = _Reader()
    for other in references:
        reader.read(read_json(other, "avro schema"), "")
    document = read_json(text, "avro schema") if text.lstrip()[:1] in {"{", "[", '"'} else text.strip()
    root = reader.read(document, "")
    reader.check_defaults()
    return AvroSchema(root, compact(document), settled(_spelled(root, set())).encode())


class _Reader:
    """Reads one schema after another into one world of names."""

    def __init__(self) -> None:
        self.names: dict[str, Type] = {}
        self.with_defaults: list[tuple[str, Type, Any]] = []

    def read(self, node: Any, space: str) -> Type:
        if isinstance(node, str):
            return self._named(node, space)
        if isinstance(node, list):
            return self._union(node, space)
        if not isinstance(node, dict):
            raise BadSchema(f"a type is a name, an object or a list, not {compact(node)[:80]}")
        kind = node.get("type")
        if isinstance(kind, (dict, list)):
            return self.read(kind, space)
        if not isinstance(kind, str):
            raise BadSchema(f"no type: {compact(node)[:80]}")
        if kind in ("record", "error"):
            return self._record(node, space)
        if kind == "enum":
            return self._enum(node, space)
        if kind == "fixed":
            return self._fixed(node, space)
        if kind in ("array", "map"):
            word = "items" if kind == "array" else "values"
            if word not in node:
                raise BadSchema(f"type {kind} has no '{word}'")
            return Type(kind, of=[self.read(node[word], space)], facts=_facts(node, kind))
        found = self._named(kind, space)
        if found.kind in PRIMITIVES and len(node) > 1:
            return Type(found.kind, facts={key: value for key, value in node.items() if key != "type"})
        return found

    def _named(self, name: str, space: str) -> Type:
        if name in PRIMITIVES:
            return Type(name)
        for full in (f"{space}.{name}", name) if space and "." not in name else (name,):
            if full in self.names:
                return self.names[full]
        raise BadSchema(f"{name!r} is not a defined name")

    def _define(self, kind: str, node: dict[str, Any], space: str) -> Type:
        name = node.get("name")
        if not isinstance(name, str):
            raise BadSchema(f"no name in schema: {compact(node)[:80]}")
        if "." not in name:
            around = node.get("namespace", space)
            if not isinstance(around, str):
                raise BadSchema(f"the namespace of {name!r} is no string")
            name = f"{around}.{name}" if around else name
        if not all(NAME.match(part) for part in name.split(".")):
            raise BadSchema(f"illegal name: {name[:80]}")
        if name in self.names or name in PRIMITIVES:
            raise BadSchema(f"can't redefine: {name}")
        inside = name.rpartition(".")[0]
        aliases = tuple(
            alias if "." in alias or not inside else f"{inside}.{alias}" for alias in _strings(node, "aliases")
        )
        made = self.names[name] = Type(kind, name, aliases, facts=_facts(node, kind))
        return made

    def _record(self, node: dict[str, Any], space: str) -> Type:
        made = self._define("record", node, space)
        inside = made.name.rpartition(".")[0]
        fields = node.get("fields")
        if not isinstance(fields, list):
            raise BadSchema(f"record {made.name} has no fields")
        seen: set[str] = set()
        for one in fields:
            name = one.get("name") if isinstance(one, dict) else None
            if not isinstance(name, str) or "type" not in one:
                raise BadSchema(f"a field of record {made.name} has no name or no type: {compact(one)[:80]}")
            if not NAME.match(name):
                raise BadSchema(f"illegal name: {name[:80]}")
            if name in seen:
                raise BadSchema(f"duplicate field {name} in record {made.name}")
            seen.add(name)
            order = one.get("order", "ascending")
            if order not in ("ascending", "descending", "ignore"):
                raise BadSchema(f"field {name} of record {made.name} has no such order: {str(order)[:40]}")
            type_ = self.read(one["type"], inside)
            default = one.get("default", NO_DEFAULT)
            if default is not NO_DEFAULT:
                self.with_defaults.append((f"{made.name}.{name}", type_, default))
            facts = {key: value for key, value in one.items() if key not in _FIELD_WORDS} | {"order": order}
            if "doc" in one:
                facts["doc"] = one["doc"]
            made.fields.append(Field(name, type_, default, _strings(one, "aliases"), facts))
        return made

    def _enum(self, node: dict[str, Any], space: str) -> Type:
        made = self._define("enum", node, space)
        made.symbols = _strings(node, "symbols")
        if not made.symbols or not all(NAME.match(symbol) for symbol in made.symbols):
            raise BadSchema(f"enum {made.name} has no symbols, or one that is no name")
        if len(set(made.symbols)) < len(made.symbols):
            raise BadSchema(f"enum {made.name} has a symbol twice")
        if "default" in node:
            made.default = node["default"]
            if made.default not in made.symbols:
                raise BadSchema(f"the default of enum {made.name} is not among its symbols")
        return made

    def _fixed(self, node: dict[str, Any], space: str) -> Type:
        made = self._define("fixed", node, space)
        size = node.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise BadSchema(f"fixed {made.name} has no size")
        made.size = size
        return made

    def _union(self, node: list[Any], space: str) -> Type:
        branches = [self.read(branch, space) for branch in node]
        seen: set[str] = set()
        for branch in branches:
            if branch.kind == "union":
                raise BadSchema("a union cannot be a branch of a union")
            name = branch.name or branch.kind
            if name in seen:
                raise BadSchema(f"duplicate in union: {name}")
            seen.add(name)
        return Type("union", of=branches)

    def check_defaults(self) -> None:
        for where, type_, default in self.with_defaults:
            if not _fits(default, type_):
                raise BadSchema(f"invalid default for field {where}: {compact(default)[:80]} not a {_called(type_)}")


def _fits(value: Any, type_: Type) -> bool:
    """Whether a JSON value can be a default; that of a union may be of any of its branches (Avro 1.12)."""
    match type_.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bound = 2**31 if type_.kind == "int" else 2**63
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool) and -bound <= value < bound
        case "float" | "double":
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case "bytes" | "fixed":
            return isinstance(value, str) and all(ord(char) < 256 for char in value)
        case "string":
            return isinstance(value, str)
        case "enum":
            return isinstance(value, str) and value in type_.symbols
        case "array":
            return isinstance(value, list) and all(_fits(one, type_.of[0]) for one in value)
        case "map":
            return isinstance(value, dict) and all(_fits(one, type_.of[0]) for one in value.values())
        case "union":
            return any(_fits(value, branch) for branch in type_.of)
        case _:
            return isinstance(value, dict) and all(
                _fits(value[one.name], one.type) if one.name in value else one.default is not NO_DEFAULT
                for one in type_.fields
            )


def _called(type_: Type) -> str:
    return type_.name or type_.kind


def _strings(node: dict[str, Any], word: str) -> tuple[str, ...]:
    values = node.get(word, ())
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
        raise BadSchema(f"'{word}' is no list of strings: {compact(values)[:80]}")
    return tuple(values)


def _facts(node: dict[str, Any], kind: str) -> dict[str, Any]:
    facts = {key: value for key, value in node.items() if key not in _RESERVED[kind]}
    if "doc" in node:
        facts["doc"] = node["doc"]
    return facts


def _spelled(type_: Type, told: set[int]) -> Any:
    """One document for all spellings: full names, each type told where it first comes, nothing that can be left out."""
    if type_.kind in PRIMITIVES:
        return {**type_.facts, "type": type_.kind} if type_.facts else type_.kind
    if type_.kind == "union":
        return [_spelled(branch, told) for branch in type_.of]
    if type_.kind in ("array", "map"):
        return {**type_.facts, "type": type_.kind, "of": _spelled(type_.of[0], told)}
    if id(type_) in told:
        return type_.name
    told.add(id(type_))
    document: dict[str, Any] = {**type_.facts, "type": type_.kind, "name": type_.name}
    if type_.aliases:
        document["aliases"] = type_.aliases
    if type_.kind == "enum":
        document["symbols"] = type_.symbols
        if type_.default is not NO_DEFAULT:
            document["default"] = type_.default
    elif type_.kind == "fixed":
        document["size"] = type_.size
    else:
        document["fields"] = [
            {
                **one.facts,
                "name": one.name,
                "type": _spelled(one.type, told),
                **({"aliases": one.aliases} if one.aliases else {}),
                **({} if one.default is NO_DEFAULT else {"default": one.default}),
            }
            for one in type_.fields
        ]
    return document
