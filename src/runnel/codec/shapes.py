"""What a declared field is on the wire: read once from its class's annotations, then asked by both compilers."""

import types
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin

from runnel.codec.declare import FieldFacts, Struct

# Types of one size: the letter that `struct` has for them, and their size.
FIXED = {
    "bool": ("?", 1),
    "int8": ("b", 1),
    "int16": ("h", 2),
    "uint16": ("H", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "float64": ("d", 8),
    "uuid": ("16s", 16),
}

# Arrays of numbers shorter than this (replicas, mostly) have their `struct` ready made.
FEW = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One field: a word of the protocol or a struct, alone or as an array."""

    name: str
    word: str  # "int32", "string", … or "struct"
    struct: type[Struct] | None
    array: bool
    optional: bool
    facts: FieldFacts

    def tagged_in(self, version: int) -> bool:
        return self.facts.tag is not None and version >= self.facts.tagged

    def nullable_in(self, version: int) -> bool:
        """A tagged struct says null by not being there; it carries no sign of its own."""
        if self.struct is not None and not self.array and self.tagged_in(version):
            return False
        return self.optional and version >= (self.facts.nullable or 0)


@cache
def shapes_of(struct: type[Struct]) -> tuple[Shape, ...]:
    return tuple(_shape(name, struct.__annotations__[name], facts) for name, facts in struct.__facts__.items())


def _shape(name: str, annotation: Any, facts: FieldFacts) -> Shape:
    optional = array = False
    if get_origin(annotation) in (Union, types.UnionType):
        optional = True
        (annotation,) = (arm for arm in get_args(annotation) if arm is not type(None))
    if get_origin(annotation) is Sequence:
        array = True
        (annotation,) = get_args(annotation)
    is_struct = isinstance(annotation, type) and issubclass(annotation, Struct)
    return Shape(
        name=name,
        word="struct" if is_struct else annotation.__metadata__[0],
        struct=annotation if is_struct else None,
        array=array,
        optional=optional,
        facts=facts,
    )


@cache
def smallest(struct: type[Struct], version: int, flexible: bool) -> int:
    """The least number of bytes that the struct takes: what a claimed count of them is held against."""
    total = int(flexible)
    for shape in shapes_of(struct):
        if shape.facts.exists_in(version) and not shape.tagged_in(version):
            total += smallest_of(shape, version, flexible, alone=False)
    return max(1, total)


def smallest_of(shape: Shape, version: int, flexible: bool, *, alone: bool) -> int:
    """The same of one field, or (`alone`) of one element of an array."""
    if shape.array and not alone:
        return 1 if flexible else 4
    if shape.word in FIXED:
        return FIXED[shape.word][1]
    if shape.struct is not None:
        return 1 if shape.nullable_in(version) and not alone else smallest(shape.struct, version, flexible)
    if flexible:
        return 1
    return 2 if shape.word == "string" else 4
