"""Protobuf schemas: a .proto file as text, or its descriptor in base64, as some serializers send it.

A descriptor is told as text first, so that both ways lead to one thing: the same messages have the same meaning,
whoever registered them. Comments, the order of options and the name of the file mean nothing.
"""

import base64
import binascii
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runnel.schemas.bounds import DEPTH_MAX, BadSchema
from runnel.schemas.proto_known import with_known
from runnel.schemas.proto_text import proto_text

FILE = "runnel/registered.proto"
_OPENING, _CLOSING = "{[(<", "}])>"


@dataclass(frozen=True, slots=True, eq=False)
class ProtobufSchema:
    file: Any
    """Its FileDescriptorProto."""
    others: tuple[Any, ...]
    """Those of all that it imports."""
    text: str
    meaning: bytes


def read_protobuf(text: str, references: dict[str, str] | None = None) -> ProtobufSchema:
    """Read a schema; `references` are the files that it imports, by import path, dependencies first."""
    text = _as_text(text)
    others = {name: _as_text(other) for name, other in (references or {}).items()}
    files = {file.name: file for file in _compile(text, others)}
    mine = files.pop(FILE)
    mine.ClearField("source_code_info")
    return ProtobufSchema(mine, tuple(files.values()), text, _meaning(mine))


def descriptor_of(text: str, references: dict[str, str] | None = None) -> str:
    """The descriptor of a schema in base64: what Python's serializers read."""
    file = read_protobuf(text, references).file
    return base64.b64encode(file.SerializeToString(deterministic=True)).decode()


def _as_text(text: str) -> str:
    descriptor = _descriptor(text)
    return text if descriptor is None else proto_text(descriptor)


def _descriptor(text: str) -> Any | None:
    """The FileDescriptorProto in a text, if that is what it is."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415  comes with protoxy, when it is needed
    from google.protobuf.message import DecodeError  # noqa: PLC0415  as above

    if not text or any(char in text for char in ";{}\n "):
        return None
    try:
        descriptor = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError, ValueError):
        return None
    return descriptor if descriptor.ListFields() else None


def _compile(text: str, others: dict[str, str]) -> Any:
    import protoxy  # noqa: PLC0415  only registries with Protobuf pay for it

    for one in (text, *others.values()):
        _check_depth(one)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, body in with_known({**others, FILE: text}).items():
            if Path(name).is_absolute() or ".." in Path(name).parts or "\0" in name or len(name) > 500:
                raise BadSchema(f"the import path {name[:80]!r} cannot be used")
            path = root / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(body)
            except OSError as bad:
                raise BadSchema(f"the import path {name[:80]!r} cannot be used: {bad.strerror}") from None
        try:
            return protoxy.compile([str(root / FILE)], [folder], include_source_info=False).file
        except (ValueError, protoxy.ProtoxyError) as bad:
            said = str(bad).replace(f"{folder}/", "").replace(FILE, "schema")[:300]
            raise BadSchema(f"this is no protobuf schema: {said}") from None


def _check_depth(text: str) -> None:
    """The compiler goes down as deep as the text does: how deep that is has to be known before."""
    depth = 0
    for char in text:
        if char in _OPENING:
            depth += 1
            if depth > DEPTH_MAX:
                raise BadSchema(f"this protobuf schema is nested deeper than {DEPTH_MAX} levels")
        elif char in _CLOSING:
            depth = max(0, depth - 1)


def _meaning(file: Any) -> bytes:
    plain = type(file)()
    plain.CopyFrom(file)
    plain.ClearField("name")
    plain.ClearField("source_code_info")
    waiting = list(plain.message_type)
    while waiting:
        message = waiting.pop()
        for field in message.field:
            field.ClearField("json_name")
        waiting.extend(message.nested_type)
    told: bytes = plain.SerializeToString(deterministic=True)
    return told
