"""Writes the decoder of one version of one message, as Python source, and compiles it.

The source is one straight function: structs are laid into it where they stand, neighbours of fixed size are unpacked
by one call, and the first byte of a length or of a tagged section rides along in that call. This is what makes plain
Python quick here: per struct one `unpack_from` and no function call of our own.

    decode(frame, at) -> (message, position after it)

`frame` holds exactly one frame. What it claims is checked before use: a length against the end, a count of elements
against the bytes that remain (each element takes some), a tagged field against its own size. So no input makes the
decoder loop, or take more memory than the frame is long times a small factor. It raises `BadMessage` and nothing else.
Bytes after the message are left alone, as Kafka leaves them.
"""

import struct
from collections.abc import Callable
from typing import Any

from runnel.codec.declare import Message, Struct
from runnel.codec.primitives import BadMessage, read_uvarint, rest_of_uvarint, skip_tagged
from runnel.codec.shapes import FEW, FIXED, Shape, shapes_of, smallest_of

Decoder = Callable[[Any, int], tuple[Any, int]]


def compile_decoder(message: type[Message], version: int) -> Decoder:
    writer = DecoderSource(message, version)
    exec(writer.source(), writer.space)  # noqa: S102 - written here, from our own declarations
    return writer.space["decode"]  # type: ignore[no-any-return]


class DecoderSource:
    """The lines of one decoder, and the names they use."""

    def __init__(self, message: type[Message], version: int) -> None:
        assert message.version_first <= version <= message.version_last, f"{message.__name__} has no version {version}"
        self.message = message
        self.version = version
        self.flexible = version >= message.flexible_from
        self.lines: list[str] = []
        self.depth = 2
        self.names = 0
        self.run: list[tuple[str, str]] = []  # fixed-size neighbours: (struct letter, where the value goes)
        self.space: dict[str, Any] = {
            "BadMessage": BadMessage,
            "malformed": (struct.error, IndexError, UnicodeDecodeError),
            "new": object.__new__,
            "read_uvarint": read_uvarint,
            "rest_of_uvarint": rest_of_uvarint,
            "skip_tagged": skip_tagged,
            "unpack_from": struct.unpack_from,
            "where": f"{message.__name__} v{version}",
        }

    def source(self) -> str:
        root = self.struct(self.message)
        self.flush()
        return "\n".join(
            [
                "def decode(frame, at):",
                "  frame = memoryview(frame)",
                "  end = len(frame)",
                "  try:",
                *self.lines,
                f"    return {root}, at",
                "  except malformed as why:",
                "    raise BadMessage(f'{where}: cut off or malformed near byte {at}: {why}') from why",
                "  except BadMessage as why:",
                "    raise BadMessage(f'{where}: {why}') from why",
            ]
        )

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

    def default(self, value: Any) -> str:
        if value is None or isinstance(value, bool | int | str | bytes) or value == ():
            return repr(value)
        return self.constant("D", value)

    def flush(self) -> None:
        """Unpacks the fixed-size neighbours gathered so far."""
        if not self.run:
            return
        letters = ">" + "".join(letter for letter, _ in self.run)
        targets = ", ".join(target for _, target in self.run)
        if letters == ">B":
            self.put(f"{targets} = frame[at]; at += 1")
        else:
            packer = struct.Struct(letters)
            unpack = f"U_{letters[1:].replace('?', 't')}"
            self.space[unpack] = packer.unpack_from
            self.put(f"{targets}, = {unpack}(frame, at); at += {packer.size}")
        self.run = []

    # -- the protocol's parts

    def struct(self, kind: type[Struct]) -> str:
        """Decodes a struct into a new name. The last run may stay open, so that neighbours join it."""
        me = self.fresh("m")
        self.put(f"{me} = new({self.constant('C', kind)})")
        tagged: list[Shape] = []
        for shape in shapes_of(kind):
            if not shape.facts.exists_in(self.version):
                self.put(f"{me}.{shape.name} = {self.default(shape.facts.default)}")
            elif self.flexible and shape.tagged_in(self.version):
                self.put(f"{me}.{shape.name} = {self.default(shape.facts.default)}")
                tagged.append(shape)
            else:
                self.field(shape, f"{me}.{shape.name}")
        if self.flexible:
            self.tagged(me, tagged)
        return me

    def tagged(self, me: str, shapes: list[Shape]) -> None:
        count = self.fresh("n")
        self.run.append(("B", count))
        self.flush()
        self.put(f"if {count}:")
        self.depth += 1
        if shapes:
            self.known_tagged(me, shapes, count)
        else:
            self.put(f"at = skip_tagged(frame, at, end, {count})")
        self.depth -= 1

    def known_tagged(self, me: str, shapes: list[Shape], count: str) -> None:
        outer, tag, size = self.fresh("e"), self.fresh("t"), self.fresh("s")
        self.put(f"if {count} > 127: {count}, at = rest_of_uvarint(frame, at, end, {count})")
        self.put(f"if 2 * {count} > end - at:")
        self.put(f"  raise BadMessage(f'{{{count}}} tagged fields are claimed where {{end - at}} bytes remain')")
        self.put(f"{outer} = end")
        self.put(f"for _ in range({count}):")
        self.depth += 1
        self.put(f"{tag}, at = read_uvarint(frame, at, end)")
        self.put(f"{size}, at = read_uvarint(frame, at, end)")
        self.put(f"if {size} > end - at: raise BadMessage(f'tagged field {{{tag}}} runs past the end of its message')")
        self.put(f"end = at + {size}")
        for shape in shapes:
            self.put(f"if {tag} == {shape.facts.tag}:")
            self.depth += 1
            self.field(shape, f"{me}.{shape.name}")
            self.flush()
            self.put(f"if at != end: raise BadMessage('tagged field {shape.name} is not as long as it says')")
            self.depth -= 1
        self.put("at = end")
        self.put(f"end = {outer}")
        self.depth -= 1

    def field(self, shape: Shape, target: str) -> None:
        nullable = shape.nullable_in(self.version)
        if shape.array:
            self.array(shape, target, nullable)
        elif shape.struct is not None:
            self.nested(shape.struct, target, nullable)
        elif shape.word in FIXED:
            self.run.append((FIXED[shape.word][0], target))
        else:
            self.bytes_like(shape.word, target, nullable, shape.name)

    def nested(self, kind: type[Struct], target: str, nullable: bool) -> None:
        if nullable:
            sign = self.fresh("n")
            self.run.append(("b", sign))
            self.flush()
            self.put(f"{target} = None")
            self.put(f"if {sign} >= 0:")
            self.depth += 1
        me = self.struct(kind)
        self.flush()
        self.put(f"{target} = {me}")
        self.depth -= nullable

    def length(self, letter: str) -> str:
        """Reads a length or count; in both ways of writing it, a negative number says null."""
        n = self.fresh("n")
        self.run.append(("B" if self.flexible else letter, n))
        self.flush()
        if self.flexible:
            # Two bytes are common for records and strings, and not worth a call.
            self.put(f"if {n} > 127:")
            self.put(f"  if frame[at] < 128: {n} += (frame[at] << 7) - 128; at += 1")
            self.put(f"  else: {n}, at = rest_of_uvarint(frame, at, end, {n})")
            self.put(f"{n} -= 1")
        return n

    def null(self, n: str, target: str, nullable: bool, name: str) -> None:
        """Opens the branch for a value that is there; the caller closes it."""
        self.put(f"if {n} < 0:")
        if nullable:
            self.put(f"  {target} = None")
        else:
            self.put(f"  raise BadMessage('{name} is null, which it must not be')")
        self.put("else:")
        self.depth += 1

    def bytes_like(self, word: str, target: str, nullable: bool, name: str) -> None:
        n, q = self.length("h" if word == "string" else "i"), self.fresh("q")
        self.null(n, target, nullable, name)
        self.put(f"{q} = at + {n}")
        self.put(f"if {q} > end: raise BadMessage(f'{name} runs {{{q} - end}} bytes past the end of its message')")
        part = f"frame[at:{q}]"
        self.put(f"{target} = " + {"string": f"str({part}, 'utf-8')", "bytes": f"bytes({part})"}.get(word, part))
        self.put(f"at = {q}")
        self.depth -= 1

    def array(self, shape: Shape, target: str, nullable: bool) -> None:
        n = self.length("i")
        self.null(n, target, nullable, shape.name)
        least = smallest_of(shape, self.version, self.flexible, alone=True)
        self.put(f"if {n} * {least} > end - at:")
        self.put(f"  raise BadMessage(f'{{{n}}} {shape.name} are claimed where {{end - at}} bytes remain')")
        if shape.word in FIXED and shape.word != "uuid":
            letter, size = FIXED[shape.word]
            few = self.constant("R", [struct.Struct(f">{count}{letter}").unpack_from for count in range(FEW)])
            self.put(f"if {n} < {FEW}: {target} = list({few}[{n}](frame, at))")
            self.put(f"else: {target} = list(unpack_from(f'>{{{n}}}{letter}', frame, at))")
            self.put(f"at += {size} * {n}")
        else:
            items, add = self.fresh("a"), self.fresh("f")
            self.put(f"{target} = {items} = []; {add} = {items}.append")
            self.put(f"for _ in range({n}):")
            self.depth += 1
            if shape.struct is not None:
                item = self.struct(shape.struct)
            else:
                item = self.fresh("v")
                if shape.word == "uuid":
                    self.run.append(("16s", item))
                else:
                    self.bytes_like(shape.word, item, nullable=False, name=shape.name)
            self.flush()
            self.put(f"{add}({item})")
            self.depth -= 1
        self.depth -= 1
