"""What a JSON Schema accepts of what another allowed: the writer's values have to be the reader's, too.

An object that allows unknown properties (as JSON Schema does unless told otherwise) may have written anything under a
name that the reader now gives a meaning to: so a property can be added only where the writer's content model is
closed, and left out only where the reader's is open. That is how Confluent's registry sees it.
"""

import re
from collections.abc import Callable
from typing import Any

from runnel.schemas.bounds import Steps, compact
from runnel.schemas.json_schema import Document, JsonSchema, View, look

COMPLAINTS_MAX = 100
_COMBINED = ("allOf", "anyOf", "oneOf")
_SUMS = ("anyOf", "oneOf")
_UPPER = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties")
_LOWER = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties")
Said = list[str]


def json_complaints(reader: JsonSchema, writer: JsonSchema) -> list[str]:
    """Why `reader` would refuse values that `writer` allows."""
    comparison = _Comparison()
    return comparison.compare(
        (writer.document.schema, writer.document), (reader.document.schema, reader.document), "#"
    )[:COMPLAINTS_MAX]


Place = tuple[Any, Document]


def _say(kind: str, path: str, more: str = "") -> Said:
    tail = f", additionalInfo:'{more}'" if more else ""
    what = kind.lower().replace("_", " ")
    return [f'{{errorType:"{kind}", description:"{what} at path \'{path}\' in the new schema"{tail}}}']


class _Comparison:
    def __init__(self) -> None:
        self.steps = Steps()
        self.under_way: set[tuple[int, int]] = set()

    def compare(self, writer_at: Place, reader_at: Place, path: str) -> Said:
        self.steps.take()
        pair = (id(writer_at[0]), id(reader_at[0]))
        if pair in self.under_way:
            return []
        self.under_way.add(pair)
        try:
            return self._views(look(*writer_at), look(*reader_at), path)
        finally:
            self.under_way.discard(pair)

    def _views(self, writer: View, reader: View, path: str) -> Said:
        if reader.kind == "any" or writer.kind == "nothing":
            return []
        if writer.kind in _COMBINED or reader.kind in _COMBINED:
            return self._combined(writer, reader, path)
        if writer.kind == "enum":
            return self._enum(writer, reader, path)
        if writer.kind == "integer" and reader.kind == "number":
            return self._number(writer, reader, path)
        if writer.kind != reader.kind:
            kind = "TYPE_NARROWED" if (writer.kind, reader.kind) == ("number", "integer") else "TYPE_CHANGED"
            return _say(kind, path, f"{writer.kind} to {reader.kind}")
        match reader.kind:
            case "object":
                return self._object(writer, reader, path)
            case "array":
                return self._array(writer, reader, path)
            case "string":
                return [*_bounds(writer.words, reader.words, path), *_same("pattern", writer, reader, path)]
            case "number" | "integer":
                return self._number(writer, reader, path)
            case "not":
                inner = self.compare((reader.parts[0], reader.base), (writer.parts[0], writer.base), f"{path}/not")
                return _say("NOT_TYPE_EXTENDED", path) if inner else []
            case _:
                return []

    # --- several at once

    def _combined(self, writer: View, reader: View, path: str) -> Said:
        """Sound rules first; what they do not settle is incompatible, as in Confluent's registry."""
        if writer.kind in _COMBINED and reader.kind in _COMBINED:
            return self._both(writer, reader, path)
        if reader.kind in _COMBINED:
            answers = [self._part_reader(writer, reader, number, path) for number in range(len(reader.parts))]
            if reader.kind == "allOf":
                return [said for answer in answers for said in answer]
            if not all(answers):
                return []
            return answers[0] if len(answers) == 1 else _say("TYPE_CHANGED", path, f"{writer.kind} to {reader.kind}")
        answers = [self._part_writer(writer, number, reader, path) for number in range(len(writer.parts))]
        if writer.kind in _SUMS:
            return [said for answer in answers for said in answer]
        if not all(answers):
            return []
        return answers[0] if len(answers) == 1 else _say("TYPE_CHANGED", path, f"{writer.kind} to {reader.kind}")

    def _part_reader(self, writer: View, reader: View, number: int, path: str) -> Said:
        self.steps.take()
        return self._views(writer, look(reader.parts[number], reader.base), f"{path}/{reader.kind}/{number}")

    def _part_writer(self, writer: View, number: int, reader: View, path: str) -> Said:
        self.steps.take()
        return self._views(look(writer.parts[number], writer.base), reader, f"{path}/{writer.kind}/{number}")

    def _both(self, writer: View, reader: View, path: str) -> Said:
        written, read = len(writer.parts), len(reader.parts)
        if writer.kind != reader.kind and not (
            reader.kind == "anyOf"
            or (reader.kind == "oneOf" and written == 1)
            or (reader.kind == "allOf" and written == read == 1)
        ):
            return _say("COMBINED_TYPE_CHANGED", path, f"{writer.kind} to {reader.kind}")

        def fits(one: int, other: int) -> bool:
            return not self.compare(
                (writer.parts[one], writer.base), (reader.parts[other], reader.base), f"{path}/{reader.kind}/{other}"
            )

        if reader.kind == "allOf":
            if read > written:
                return _say("PRODUCT_TYPE_EXTENDED", path)
            return [] if _matched(read, written, lambda mine, its: fits(its, mine)) else self._changed(path)
        if read < written:
            return _say("SUM_TYPE_NARROWED", path)
        return [] if _matched(written, read, fits) else self._changed(path)

    @staticmethod
    def _changed(path: str) -> Said:
        return _say("COMBINED_TYPE_SUBSCHEMAS_CHANGED", path)

    # --- one kind at a time

    def _enum(self, writer: View, reader: View, path: str) -> Said:
        if reader.kind == "enum":
            allowed = {compact(value) for value in reader.parts}
            gone = [value for value in writer.parts if compact(value) not in allowed]
            return _say("ENUM_ARRAY_NARROWED", f"{path}/enum", compact(gone)[:200].replace("'", "")) if gone else []
        if reader.words.keys() <= {"type", "title", "description", "default", "$id", "$comment", "examples"}:
            kinds = {_kind_of(value) for value in writer.parts}
            accepted = {"number", "integer"} if reader.kind == "number" else {reader.kind}
            if kinds <= accepted:
                return []
        return _say("TYPE_CHANGED", path, f"enum to {reader.kind}")

    @staticmethod
    def _number(writer: View, reader: View, path: str) -> Said:
        said = _bounds(writer.words, reader.words, path)
        old, new = writer.words.get("multipleOf"), reader.words.get("multipleOf")
        if new is not None and new != old:
            if old is None:
                said += _say("MULTIPLE_OF_ADDED", f"{path}/multipleOf")
            elif old % new:
                said += _say("MULTIPLE_OF_CHANGED", f"{path}/multipleOf")
        return said

    def _object(self, writer: View, reader: View, path: str) -> Said:
        written, read = _properties(writer), _properties(reader)
        required_before = set(writer.words.get("required", ()))
        required_now = set(reader.words.get("required", ()))
        said = _bounds(writer.words, reader.words, path)
        for name in dict.fromkeys((*written, *read)):
            here = f"{path}/properties/{name}"
            if name not in read:
                said += self._left_out(name, written[name], writer, reader, here)
            elif name not in written:
                said += self._added(name, read[name], writer, reader, here)
                if not _open(writer) and name in required_now and not _has_default(read[name]):
                    said += _say("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL", here)
            else:
                said += self.compare((written[name], writer.base), (read[name], reader.base), here)
                if name in required_now - required_before and not _has_default(read[name]):
                    said += _say("REQUIRED_ATTRIBUTE_ADDED", f"{path}/required/{name}")
            if len(said) > COMPLAINTS_MAX:
                return said
        said += self._others(writer, reader, path, "additionalProperties", "ADDITIONAL_PROPERTIES")
        return said + self._dependencies(writer, reader, path)

    def _left_out(self, name: str, old: Any, writer: View, reader: View, here: str) -> Said:
        if _open(reader):
            return []
        covering = _covering(reader, name)
        if covering is not None:
            inner = self.compare((old, writer.base), (covering, reader.base), here)
            return (
                [*inner, *_say("PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", here)] if inner else []
            )
        return [] if old is False else _say("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL", here)

    def _added(self, name: str, new: Any, writer: View, reader: View, here: str) -> Said:
        if _open(writer):
            accepts_all = look(new, reader.base).kind == "any"
            return [] if accepts_all else _say("PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL", here)
        covering = _covering(writer, name)
        if covering is None:
            return []
        inner = self.compare((covering, writer.base), (new, reader.base), here)
        return [*inner, *_say("PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", here)] if inner else []

    def _others(self, writer: View, reader: View, path: str, word: str, called: str) -> Said:
        """What is said of all that has no name (or no place) of its own."""
        old, new = writer.words.get(word, True), reader.words.get(word, True)
        here = f"{path}/{word}"
        if new is True or old is False:
            return []
        if new is False:
            return _say(f"{called}_REMOVED", here)
        if old is True:
            return [] if look(new, reader.base).kind == "any" else _say(f"{called}_NARROWED", here)
        return self.compare((old, writer.base), (new, reader.base), here)

    def _dependencies(self, writer: View, reader: View, path: str) -> Said:
        said: Said = []
        before, now = _dependencies(writer), _dependencies(reader)
        for name, wanted in now.items():
            here = f"{path}/dependencies/{name}"
            known = before.get(name)
            if isinstance(wanted, list):
                if not isinstance(known, list):
                    said += _say("DEPENDENCY_ARRAY_ADDED", here)
                elif not set(wanted) <= set(known):
                    said += _say("DEPENDENCY_ARRAY_EXTENDED", here)
            elif known is None or isinstance(known, list):
                said += _say("DEPENDENCY_SCHEMA_ADDED", here)
            else:
                said += self.compare((known, writer.base), (wanted, reader.base), here)
        return said

    def _array(self, writer: View, reader: View, path: str) -> Said:
        said = _bounds(writer.words, reader.words, path)
        if reader.words.get("uniqueItems") and not writer.words.get("uniqueItems"):
            said += _say("UNIQUE_ITEMS_ADDED", f"{path}/uniqueItems")
        places_before, rest_before = _items(writer)
        places_now, rest_now = _items(reader)
        for number in range(max(len(places_before), len(places_now))):
            here = f"{path}/items/{number}"
            old = places_before[number] if number < len(places_before) else rest_before
            new = places_now[number] if number < len(places_now) else rest_now
            inner = self.compare((old, writer.base), (new, reader.base), here)
            if inner and number >= len(places_now):
                inner += _say("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL", here)
            elif inner and number >= len(places_before):
                inner += _say("ITEM_ADDED_TO_OPEN_CONTENT_MODEL", here)
            said += inner
        return said + self.compare((rest_before, writer.base), (rest_now, reader.base), f"{path}/items")


def _bounds(writer: dict[str, Any], reader: dict[str, Any], path: str) -> Said:
    said: Said = []
    for words, verb in ((_UPPER, "DECREASED"), (_LOWER, "INCREASED")):
        for word in words:
            old, new = writer.get(word), reader.get(word)
            if new is None or isinstance(new, bool) or new == old:
                continue
            name = re.sub(r"([A-Z])", r"_\1", word).upper()
            if old is None or isinstance(old, bool):
                said += _say(f"{name}_ADDED", f"{path}/{word}") if new != 0 or words is _UPPER else []
            elif (new < old) is (words is _UPPER):
                said += _say(f"{name}_{verb}", f"{path}/{word}")
    return said


def _same(word: str, writer: View, reader: View, path: str) -> Said:
    old, new = writer.words.get(word), reader.words.get(word)
    if new is None or new == old:
        return []
    return _say(f"{word.upper()}_{'ADDED' if old is None else 'CHANGED'}", f"{path}/{word}")


def _properties(view: View) -> dict[str, Any]:
    found = view.words.get("properties")
    return found if isinstance(found, dict) else {}


def _open(view: View) -> bool:
    """Whether any property may come that is not named."""
    return not view.words.get("patternProperties") and view.words.get("additionalProperties", True) in (True, {})


def _covering(view: View, name: str) -> Any:
    """The schema of a property that is not named, where there is one."""
    for pattern, schema in (view.words.get("patternProperties") or {}).items():
        try:
            if re.search(pattern, name):
                return schema
        except re.error:
            continue
    others = view.words.get("additionalProperties")
    return others if isinstance(others, dict) else None


def _has_default(schema: Any) -> bool:
    return isinstance(schema, dict) and "default" in schema


def _dependencies(view: View) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in ("dependencies", "dependentRequired", "dependentSchemas"):
        if isinstance(view.words.get(word), dict):
            found.update(view.words[word])
    return found


def _items(view: View) -> tuple[list[Any], Any]:
    """The schemas of the first places, and that of all others."""
    items = view.words.get("items", True)
    if isinstance(view.words.get("prefixItems"), list):
        return view.words["prefixItems"], items
    if isinstance(items, list):
        return items, view.words.get("additionalItems", True)
    return [], items


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _matched(small: int, large: int, fits: Callable[[int, int], bool]) -> bool:
    """Whether each of the `small` many can have one of the `large` many for itself."""
    edges = [[other for other in range(large) if fits(one, other)] for one in range(small)]
    partner: dict[int, int] = {}

    def find(one: int, tried: set[int]) -> bool:
        for other in edges[one]:
            if other not in tried:
                tried.add(other)
                if other not in partner or find(partner[other], tried):
                    partner[other] = one
                    return True
        return False

    return all(find(one, set()) for one in range(small))
