"""A FileDescriptorProto as .proto text.

Messages, enums and their fields keep their order: framed values name a message by its place. Options that the
descriptor knows by name are told; custom options, which it holds as numbers only, are not.
"""

from collections.abc import Iterator
from typing import Any

_TYPES = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
_GROUP = 10
_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3
_NUMBER_MAX, _ENUM_NUMBER_MAX = 2**29, 2**31 - 1
_ENUM_TYPE, _STRING_TYPES, _MESSAGE_TYPE = 14, (9, 12), 11


def proto_text(file: Any) -> str:
    """The text of a file."""
    return "\n".join(_file(file)) + "\n"


def _file(file: Any) -> Iterator[str]:
    syntax = file.syntax or "proto2"
    yield f'syntax = "{syntax}";'
    if file.package:
        yield f"package {file.package};"
    for number, name in enumerate(file.dependency):
        word = "public " if number in file.public_dependency else "weak " if number in file.weak_dependency else ""
        yield f'import {word}"{name}";'
    yield from _options(file.options, "")
    for message in file.message_type:
        yield from _message(message, syntax, "")
    for enum in file.enum_type:
        yield from _enum(enum, "")
    yield from _extensions(file.extension, syntax, "")
    for service in file.service:
        yield f"service {service.name} {{"
        yield from _options(service.options, "  ")
        for method in service.method:
            takes = ("stream " if method.client_streaming else "") + method.input_type
            gives = ("stream " if method.server_streaming else "") + method.output_type
            options = list(_options(method.options, "    "))
            if options:
                yield f"  rpc {method.name} ({takes}) returns ({gives}) {{"
                yield from options
                yield "  }"
            else:
                yield f"  rpc {method.name} ({takes}) returns ({gives});"
        yield "}"


def _message(message: Any, syntax: str, indent: str) -> Iterator[str]:
    yield f"{indent}message {message.name} {{"
    yield from _inside(message, syntax, indent + "  ")
    yield f"{indent}}}"


def _inside(message: Any, syntax: str, inner: str) -> Iterator[str]:
    yield from _options(message.options, inner, leave=("map_entry",))
    maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    groups = {field.type_name.rpartition(".")[2] for field in message.field if field.type == _GROUP}
    yield from _reserved(message, inner, _NUMBER_MAX - 1, ends_before=True)
    for extension in message.extension_range:
        end = "max" if extension.end >= _NUMBER_MAX else str(extension.end - 1)
        yield f"{inner}extensions {extension.start} to {end};"
    written: set[int] = set()
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            if field.oneof_index in written:
                continue
            written.add(field.oneof_index)
            yield f"{inner}oneof {message.oneof_decl[field.oneof_index].name} {{"
            yield from _options(message.oneof_decl[field.oneof_index].options, inner + "  ")
            for member in message.field:
                if member.HasField("oneof_index") and member.oneof_index == field.oneof_index:
                    yield from _field(member, message, syntax, inner + "  ", maps, in_oneof=True)
            yield f"{inner}}}"
        else:
            yield from _field(field, message, syntax, inner, maps)
    for nested in message.nested_type:
        if nested.name not in maps and nested.name not in groups:
            yield from _message(nested, syntax, inner)
    for enum in message.enum_type:
        yield from _enum(enum, inner)
    yield from _extensions(message.extension, syntax, inner)


def _field(
    field: Any, message: Any | None, syntax: str, indent: str, maps: dict[str, Any], *, in_oneof: bool = False
) -> Iterator[str]:
    local = field.type_name.rpartition(".")[2]
    if message is not None and field.label == _REPEATED and local in maps and field.type == _MESSAGE_TYPE:
        key, value = maps[local].field
        kind = f"map<{_type(key)}, {_type(value)}>"
        label = ""
    else:
        kind = _type(field)
        label = _label(field, syntax, in_oneof=in_oneof)
    if field.type == _GROUP and message is not None:
        group = next(nested for nested in message.nested_type if nested.name == local)
        yield f"{indent}{label}group {group.name} = {field.number} {{"
        yield from _inside(group, syntax, indent + "  ")
        yield f"{indent}}}"
        return
    yield f"{indent}{label}{kind} {field.name} = {field.number}{_field_options(field)};"


def _label(field: Any, syntax: str, *, in_oneof: bool) -> str:
    if field.label == _REPEATED:
        return "repeated "
    if field.label == _REQUIRED:
        return "required "
    return "optional " if not in_oneof and (field.proto3_optional or syntax == "proto2") else ""


def _type(field: Any) -> str:
    return _TYPES.get(field.type) or str(field.type_name)


def _field_options(field: Any) -> str:
    if not field.HasField("default_value"):
        return _bracketed(field.options)
    quoted = field.type in _STRING_TYPES
    return _bracketed(
        field.options, f"default = {_quoted(field.default_value, field.type) if quoted else field.default_value}"
    )


def _bracketed(options: Any, *first: str) -> str:
    told = [*first, *(line.removeprefix("option ").removesuffix(";") for line in _options(options, ""))]
    return f" [{', '.join(told)}]" if told else ""


def _quoted(value: str, kind: int) -> str:
    # of bytes, the descriptor holds the text with its escapes
    return f'"{value}"' if kind == 12 else _string(value)


def _enum(enum: Any, indent: str) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    inner = indent + "  "
    yield from _options(enum.options, inner)
    yield from _reserved(enum, inner, _ENUM_NUMBER_MAX, ends_before=False)
    for value in enum.value:
        yield f"{inner}{value.name} = {value.number}{_bracketed(value.options)};"
    yield f"{indent}}}"


def _reserved(owner: Any, indent: str, last: int, *, ends_before: bool) -> Iterator[str]:
    ranges = []
    for one in owner.reserved_range:
        end = one.end - 1 if ends_before else one.end
        ranges.append(str(one.start) if end == one.start else f"{one.start} to {'max' if end >= last else end}")
    if ranges:
        yield f"{indent}reserved {', '.join(ranges)};"
    if owner.reserved_name:
        yield f"{indent}reserved {', '.join(map(_string, owner.reserved_name))};"


def _extensions(fields: Any, syntax: str, indent: str) -> Iterator[str]:
    for field in fields:
        yield f"{indent}extend {field.extendee} {{"
        yield from _field(field, None, syntax, indent + "  ", {})
        yield f"{indent}}}"


def _options(options: Any, indent: str, leave: tuple[str, ...] = ()) -> Iterator[str]:
    for descriptor, value in options.ListFields():
        if descriptor.is_extension or descriptor.name in leave or descriptor.type == _MESSAGE_TYPE:
            continue
        values = value if descriptor.label == _REPEATED else [value]
        for one in values:
            yield f"{indent}option {descriptor.name} = {_option(descriptor, one)};"


def _option(descriptor: Any, value: Any) -> str:
    if descriptor.type == _ENUM_TYPE:
        return str(descriptor.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _string(value) if isinstance(value, str) else str(value)


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
