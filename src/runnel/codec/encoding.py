"""Writes the encoder of one version of one message, as Python source, and compiles it. The twin of `decoding`.

    encode(message, out, parts) -> the bytearray that is now being filled

Small things are added to the bytearray `out`. Record data of `SCATTER_FROM` bytes and more is not copied: `out` goes to
`parts`, the buffer goes to `parts`, and a fresh bytearray takes over. So a response is a list of buffers that a
transport can write at once, and the caller adds the last one.

A value that does not fit its field is our own mistake: it surfaces as TypeError, AttributeError or struct.error.
"""

import struct
from collections.abc import Callable
from typing import Any

from runnel.codec.declare import Message, Struct
from runnel.codec.primitives import Buffer, uvarint
from runnel.codec.shapes import FEW, FIXED, Shape, shapes_of

Encoder = Callable[[Any, bytearray, list[Buffer]], bytearray]

# Copying less than this costs less than carrying one buffer more to the transport.
SCATTER_FROM = 16 * 1024
LISTS = (list, tuple)


def compile_encoder(message: type[Message], version: int) -> Encoder:
    writer = EncoderSource(message, version)
    exec(writer.source(), writer.space)  # noqa: S102 - written here, from our own declarations
    return writer.space["encode"]  # type: ignore[no-any-return]


def put_records(records: Any, size: int, out: bytearray, parts: list[Buffer]) -> bytearray:
    """Adds record data, one buffer or a list of them, copying the small and carrying the large."""
    pieces = records if records.__class__ in LISTS else (records,)
    if size < SCATTER_FROM:
        for piece in pieces:
            out += piece
        return out
    parts.append(out)
    parts.extend(pieces)
    return bytearray()


def size_of(pieces: Any) -> int:
    return sum(map(len, pieces))


class EncoderSource:
    """The lines of one encoder, and the names they use."""

    def __init__(self, message: type[Message], version: int) -> None:
        assert message.version_first <= version <= message.version_last, f"{message.__name__} has no version {version}"
        self.message = message
        self.version = version
        self.flexible = version >= message.flexible_from
        self.lines: list[str] = []
        self.depth = 1
        self.names = 0
        self.out = "out"
        self.run: list[tuple[str, str]] = []  # fixed-size neighbours: (struct letter, expression)
        self.space: dict[str, Any] = {
            "LISTS": LISTS,
            "pack": struct.pack,
            "put_records": put_records,
            "size_of": size_of,
            "uvarint": uvarint,
        }

    def source(self) -> str:
        self.struct(self.message, "message")
        self.flush()
        return "\n".join(["def encode(message, out, parts):", *self.lines, "  return out"])

    # -- lines and names

    def put(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    def fresh(self, letter: str) -> str:
        self.names += 1
        return f"{letter}{self.names}"

    def constant(self, letter: str, value: Any) -> str:
        name = self.fresh(letter)
        self.space[name] = value
        return name

    def packed(self, run: list[tuple[str, str]]) -> str:
        letters = "".join(letter for letter, _ in run)
        pack = f"P_{letters.replace('?', 't')}"
        self.space[pack] = struct.Struct(">" + letters).pack
        return f"{pack}({', '.join(value for letter, value in run if letter != 'x')})"

    def flush(self) -> None:
        if not self.run:
            return
        if self.run == [("x", "")]:
            self.put(f"{self.out}.append(0)")
        else:
            self.put(f"{self.out} += {self.packed(self.run)}")
        self.run = []

    # -- the protocol's parts

    def struct(self, kind: type[Struct], me: str) -> None:
        tagged = []
        for shape in shapes_of(kind):
            if not shape.facts.exists_in(self.version):
                continue
            if self.flexible and shape.tagged_in(self.version):
                tagged.append(shape)
            else:
                self.field(shape, f"{me}.{shape.name}")
        if tagged:
            self.tagged(sorted(tagged, key=lambda shape: shape.facts.tag or 0), me)
        elif self.flexible:
            self.run.append(("x", ""))

    def tagged(self, shapes: list[Shape], me: str) -> None:
        """Tagged fields that hold their default are left out; mostly all of them do."""
        self.flush()
        told = {shape.name: self.is_told(shape, f"{me}.{shape.name}") for shape in shapes}
        self.put(f"if not ({' or '.join(told.values())}): {self.out}.append(0)")
        self.put("else:")
        self.depth += 1
        section, count, body, outer = self.fresh("s"), self.fresh("n"), self.fresh("o"), self.out
        self.put(f"{section} = bytearray(); {count} = 0")
        for shape in shapes:
            self.put(f"if {told[shape.name]}:")
            self.depth += 1
            self.put(f"{body} = bytearray()")
            self.out = body
            self.field(shape, f"{me}.{shape.name}")
            self.flush()
            self.out = outer
            self.put(f"{section} += uvarint({shape.facts.tag}); {section} += uvarint(len({body}))")
            self.put(f"{section} += {body}; {count} += 1")
            self.depth -= 1
        self.put(f"{self.out} += uvarint({count}); {self.out} += {section}")
        self.depth -= 1

    def is_told(self, shape: Shape, value: str) -> str:
        default = shape.facts.default
        if shape.array and default == ():
            return f"({value} is None or len({value}))" if shape.optional else f"len({value})"
        return f"{value} is not None" if default is None else f"{value} != {default!r}"

    def field(self, shape: Shape, value: str) -> None:
        nullable = shape.nullable_in(self.version)
        if shape.array:
            self.array(shape, value, nullable)
        elif shape.struct is not None:
            self.nested(shape, value)
        elif shape.word in FIXED:
            self.run.append((FIXED[shape.word][0], value))
        else:
            self.bytes_like(shape.word, value, nullable)

    def nested(self, shape: Shape, value: str) -> None:
        assert shape.struct is not None
        me = self.fresh("m")
        self.put(f"{me} = {value}")
        if shape.nullable_in(self.version):
            self.flush()
            self.put(f"if {me} is None: {self.out}.append(255)")
            self.put("else:")
            self.depth += 1
            self.run.append(("b", "1"))
            self.struct(shape.struct, me)
            self.flush()
            self.depth -= 1
        else:
            self.struct(shape.struct, me)

    def length(self, size: str, letter: str) -> None:
        """Puts a length or count behind the open run."""
        if not self.flexible:
            self.run.append((letter, size))
            self.flush()
            return
        self.put(f"{size} += 1")
        short = f"{self.out} += {self.packed([*self.run, ('B', size)])}" if self.run else f"{self.out}.append({size})"
        self.put(f"if {size} < 128: {short}")
        two = self.packed([*self.run, ("B", f"{size} & 127 | 128"), ("B", f"{size} >> 7")])
        self.put(f"elif {size} < 16384: {self.out} += {two}")
        long = f"{self.out} += {self.packed(self.run)}; " if self.run else ""
        self.put(f"else: {long}{self.out} += uvarint({size})")
        self.run = []

    def null(self, value: str, nullable: bool, letter: str) -> bool:
        """Writes the null of a value that may be null, and opens the branch for one that is there."""
        if not nullable:
            return False
        self.flush()
        null = f"{self.out}.append(0)" if self.flexible else f"{self.out} += {self.packed([(letter, '-1')])}"
        self.put(f"if {value} is None: {null}")
        self.put("else:")
        self.depth += 1
        return True

    def bytes_like(self, word: str, value: str, nullable: bool) -> None:
        v, n = self.fresh("v"), self.fresh("n")
        letter = "h" if word == "string" else "i"
        self.put(f"{v} = {value}")
        opened = self.null(v, nullable, letter)
        if word == "string":
            self.put(f"{v} = {v}.encode()")
        if word == "records":
            size = self.fresh("z")
            self.put(f"{size} = {n} = size_of({v}) if {v}.__class__ in LISTS else len({v})")
            self.length(n, letter)
            self.put(f"if {size} < {SCATTER_FROM} and {v}.__class__ not in LISTS: {self.out} += {v}")
            self.put(f"else: {self.out} = put_records({v}, {size}, {self.out}, parts)")
        else:
            self.put(f"{n} = len({v})")
            self.length(n, letter)
            self.put(f"{self.out} += {v}")
        self.depth -= opened

    def array(self, shape: Shape, value: str, nullable: bool) -> None:
        a, n, item = self.fresh("a"), self.fresh("n"), self.fresh("i")
        self.put(f"{a} = {value}")
        opened = self.null(a, nullable, "i")
        self.put(f"{n} = len({a})")
        if shape.word in FIXED and shape.word != "uuid":
            self.length(n, "i")
            letter = FIXED[shape.word][0]
            few = self.constant("R", [struct.Struct(f">{count}{letter}").pack for count in range(FEW)])
            self.put(f"if len({a}) < {FEW}: {self.out} += {few}[len({a})](*{a})")
            self.put(f"else: {self.out} += pack(f'>{{len({a})}}{letter}', *{a})")
        else:
            self.length(n, "i")
            self.put(f"for {item} in {a}:")
            self.depth += 1
            if shape.struct is not None:
                self.struct(shape.struct, item)
            elif shape.word == "uuid":
                self.run.append(("16s", item))
            else:
                self.bytes_like(shape.word, item, nullable=False)
            self.flush()
            self.depth -= 1
        self.depth -= opened
