"""What a Protobuf schema reads of what another wrote: numbers are what counts, names of fields are not.

Types that share an encoding may take each other's place (int32, int64, uint32, uint64, bool and enums; strings and
bytes; and so on). A message may not go away or become another package's; a required field may neither come nor go; a
`oneof` may take in one field that stood alone, not two.
"""

from typing import Any

from runnel.schemas.bounds import Steps
from runnel.schemas.protobuf import ProtobufSchema

COMPLAINTS_MAX = 100
_MESSAGE_TYPES = (10, 11)
_REQUIRED, _REPEATED = 2, 3
# by the numbers of FieldDescriptorProto.Type
_GROUPS = {
    **dict.fromkeys((3, 4, 5, 8, 13, 14), "number"),
    **dict.fromkeys((17, 18), "signed number"),
    **dict.fromkeys((9, 12), "string or bytes"),
    **dict.fromkeys((7, 15), "fixed32"),
    **dict.fromkeys((6, 16), "fixed64"),
    1: "double",
    2: "float",
}
_PACKABLE = {"number", "signed number", "fixed32", "fixed64", "double", "float"}


def protobuf_complaints(reader: ProtobufSchema, writer: ProtobufSchema) -> list[str]:
    """Why `reader` cannot take the place of `writer`."""
    comparison = _Comparison(_Types(writer), _Types(reader))
    if writer.file.package != reader.file.package:
        comparison.say("PACKAGE_CHANGED", "/", f"{writer.file.package} to {reader.file.package}")
    comparison.messages(writer.file.message_type, reader.file.message_type, "#")
    return comparison.said[:COMPLAINTS_MAX]


class _Types:
    """Messages by their full names, and the package of each."""

    def __init__(self, schema: ProtobufSchema) -> None:
        self.messages: dict[str, tuple[Any, str]] = {}
        for file in (schema.file, *schema.others):
            prefix = f".{file.package}" if file.package else ""
            waiting = [(prefix, message) for message in file.message_type]
            while waiting:
                above, message = waiting.pop()
                name = f"{above}.{message.name}"
                self.messages[name] = (message, prefix)
                waiting.extend((name, nested) for nested in message.nested_type)

    def local(self, name: str) -> str:
        known = self.messages.get(name)
        return name.removeprefix(known[1]).lstrip(".") if known is not None else name.lstrip(".")


class _Comparison:
    def __init__(self, written: _Types, read: _Types) -> None:
        self.written, self.read = written, read
        self.said: list[str] = []
        self.steps = Steps()
        self.seen: set[tuple[int, int]] = set()

    def say(self, kind: str, path: str, more: str = "") -> None:
        what = kind.lower().replace("_", " ")
        tail = f", additionalInfo:'{more}'" if more else ""
        self.said.append(f'{{errorType:"{kind}", description:"{what} at path \'{path}\' in the new schema"{tail}}}')

    def messages(self, written: Any, read: Any, path: str) -> None:
        known = {message.name: message for message in read}
        for message in written:
            if message.name in known:
                self.message(message, known[message.name], f"{path}/{message.name}")
            elif not message.options.map_entry:
                self.say("MESSAGE_REMOVED", f"{path}/{message.name}")

    def message(self, written: Any, read: Any, path: str) -> None:
        self.steps.take()
        pair = (id(written), id(read))
        if pair in self.seen or len(self.said) > COMPLAINTS_MAX:
            return
        self.seen.add(pair)
        before = {field.number: field for field in written.field}
        now = {field.number: field for field in read.field}
        self.oneofs(written, read, before, now, path)
        for number, field in before.items():
            here = f"{path}/{number}"
            if number in now:
                self.field(field, now[number], here)
            elif field.label == _REQUIRED:
                self.say("REQUIRED_FIELD_REMOVED", here)
            elif (inside := _oneof(written, field)) is not None and inside in _oneofs(read):
                self.say("ONEOF_FIELD_REMOVED", f"{path}/{inside}/{number}")
        for number, field in now.items():
            if number not in before and field.label == _REQUIRED:
                self.say("REQUIRED_FIELD_ADDED", f"{path}/{number}")
        self.messages(written.nested_type, read.nested_type, path)

    def oneofs(self, written: Any, read: Any, before: dict[int, Any], now: dict[int, Any], path: str) -> None:
        moved: dict[str, list[int]] = {}
        there: dict[str, int] = {}
        for number, field in now.items():
            inside = _oneof(read, field)
            if inside is None or number not in before:
                continue
            if _oneof(written, before[number]) is None:
                moved.setdefault(inside, []).append(number)
            else:
                there[inside] = there.get(inside, 0) + 1
        for inside, numbers in moved.items():
            if len(numbers) > 1:
                self.say("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{inside}")
            elif there.get(inside):
                self.say("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{inside}")

    def field(self, written: Any, read: Any, path: str) -> None:
        self.steps.take()
        before, now = written.type in _MESSAGE_TYPES, read.type in _MESSAGE_TYPES
        if before != now:
            self.say("FIELD_KIND_CHANGED", path)
        elif now:
            self.named(written, read, path)
        elif _GROUPS[written.type] != _GROUPS[read.type]:
            self.say("FIELD_SCALAR_KIND_CHANGED", path, f"{_GROUPS[written.type]} to {_GROUPS[read.type]}")
        elif (written.label == _REPEATED) != (read.label == _REPEATED) and _GROUPS[read.type] in _PACKABLE:
            self.say("FIELD_NUMERIC_LABEL_CHANGED", path)

    def named(self, written: Any, read: Any, path: str) -> None:
        before = self.written.messages.get(written.type_name, (None, ""))[0]
        now = self.read.messages.get(read.type_name, (None, ""))[0]
        as_map = [message is not None and message.options.map_entry for message in (before, now)]
        if as_map[0] != as_map[1]:
            self.say("FIELD_KIND_CHANGED", path)
        elif all(as_map):
            for old, new in zip(before.field, now.field, strict=True):
                self.field(old, new, path)
        elif self.written.local(written.type_name) != self.read.local(read.type_name):
            self.say("FIELD_NAMED_TYPE_CHANGED", path, f"{written.type_name} to {read.type_name}".replace("'", ""))
        elif before is not None and now is not None:
            self.message(before, now, path)


def _oneof(message: Any, field: Any) -> str | None:
    """The oneof that a field is in; an `optional` of proto3 is in none that anyone wrote."""
    if not field.HasField("oneof_index") or field.proto3_optional:
        return None
    return str(message.oneof_decl[field.oneof_index].name)


def _oneofs(message: Any) -> set[str]:
    return {name for field in message.field if (name := _oneof(message, field)) is not None}
