"""The three kinds of schema behind one word.

schema = read_schema("AVRO", text, references)       BadSchema if it is none
schema.text       as it is kept
schema.digest     16 bytes, the same for schemas that mean the same
complaints(reader, writer)   why `reader` cannot read what `writer` wrote; nothing if it can
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from runnel.errors import Refused
from runnel.schemas.bounds import BadSchema

KINDS = ("AVRO", "JSON", "PROTOBUF")


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema that was read. `tree` is its kind's own business."""

    kind: str
    text: str
    tree: Any
    meaning: bytes

    def digest(self, *more: str) -> bytes:
        """`more` is what tells it apart beside its own text: what it refers to, what is attached to it."""
        summary = blake2b(self.meaning, digest_size=16, key=self.kind.encode())
        for word in more:
            summary.update(b"\0" + word.encode())
        return summary.digest()


def read_schema(kind: str, text: str, references: Mapping[str, str] | None = None) -> Schema:
    """Read a text. `references` are the texts that it needs, by the names it uses, dependencies first."""
    others = dict(references or {})
    try:
        if kind == "AVRO":
            from runnel.schemas.avro import read_avro  # noqa: PLC0415  each kind comes when it is first met

            tree = read_avro(text, tuple(others.values()))
            return Schema(kind, tree.text, tree, tree.meaning)
        if kind == "JSON":
            from runnel.schemas.json_schema import read_json_schema  # noqa: PLC0415  as above

            document = read_json_schema(text, others)
            return Schema(kind, document.text, document, document.meaning)
        if kind == "PROTOBUF":
            from runnel.schemas.protobuf import read_protobuf  # noqa: PLC0415  as above

            file = read_protobuf(text, others)
            return Schema(kind, file.text, file, file.meaning)
    except ModuleNotFoundError as missing:
        raise Refused(
            f"{kind} schemas need {missing.name}, which is not installed: pip install 'runnel[registry]'"
        ) from None
    except RecursionError:
        raise BadSchema(f"this {kind} schema is nested too deeply") from None
    raise Refused(f"there is no schema type {kind[:40]!r}: {', '.join(KINDS)} are known")


def complaints(reader: Schema, writer: Schema) -> list[str]:
    """Why values of `writer` cannot be read by `reader`."""
    if reader.kind != writer.kind:
        return [f"a schema of type {reader.kind} cannot follow one of type {writer.kind}"]
    try:
        if reader.kind == "AVRO":
            from runnel.schemas.avro_compat import avro_complaints  # noqa: PLC0415  as above

            return avro_complaints(reader.tree, writer.tree)
        if reader.kind == "JSON":
            from runnel.schemas.json_compat import json_complaints  # noqa: PLC0415  as above

            return json_complaints(reader.tree, writer.tree)
        from runnel.schemas.protobuf_compat import protobuf_complaints  # noqa: PLC0415  as above

        return protobuf_complaints(reader.tree, writer.tree)
    except RecursionError:
        raise BadSchema("the schemas are nested too deeply to be compared") from None
