"""JSON Schemas: checked against their draft's own schema, every reference found, and seen as few kinds of node.

`look(schema)` is what the comparison walks: a `View` of a schema, in which a reference has become what it refers to, a
list of types an `anyOf` of them, and several demands at once an `allOf` of each.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin

from runnel.errors import Refused
from runnel.schemas.bounds import BadSchema, compact, read_json, settled

_META = ("http://json-schema.org/", "https://json-schema.org/")
_DRAFT_7 = "http://json-schema.org/draft-07/schema#"
_HOPS_MAX = 100
_KEYWORDS = {
    "object": {
        "properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties",
        "dependencies", "dependentRequired", "dependentSchemas", "propertyNames", "unevaluatedProperties",
    },
    "array": {
        "items", "additionalItems", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains",
        "unevaluatedItems",
    },
    "string": {"minLength", "maxLength", "pattern"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}  # fmt: skip
_BESIDE_REF = {word for words in _KEYWORDS.values() for word in words} | {
    "type", "enum", "const", "allOf", "anyOf", "oneOf", "not",
}  # fmt: skip
_MAPS = ("properties", "patternProperties", "definitions", "$defs", "dependentSchemas", "dependencies")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLES = (
    "additionalProperties", "additionalItems", "items", "not", "contains", "propertyNames", "if", "then", "else",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """One node: `kind` is any, nothing, a JSON type, enum, not, allOf, anyOf or oneOf."""

    kind: str
    words: dict[str, Any]
    base: "Document"
    parts: tuple[Any, ...] = ()
    """Of allOf, anyOf and oneOf: schemas of `base`. Of enum: the values."""


@dataclass(slots=True, eq=False)
class Document:
    """One text with the places in it that have names, and the other texts that it may refer to."""

    schema: Any
    others: dict[str, "Document"]
    id: str = ""
    named: dict[str, Any] = field(default_factory=dict)

    def resolve(self, reference: str) -> tuple[Any, "Document"]:
        """What `$ref` means here, and the document it stands in."""
        target, _, fragment = reference.partition("#")
        whole = urljoin(self.id, target)
        document = self
        if target and whole != self.id:
            if target in self.named or whole in self.named:
                return _follow(self.named.get(target) or self.named[whole], fragment, reference), self
            known = self.others.get(target) or self.others.get(whole)
            known = known or next((other for other in self.others.values() if other.id == whole), None)
            if known is None:
                if target.startswith(_META):
                    return True, self
                raise BadSchema(f"the reference {reference[:200]!r} leads nowhere: name it among the references")
            document = known
        if fragment and not fragment.startswith("/"):
            if f"#{fragment}" not in document.named:
                raise BadSchema(f"the reference {reference[:200]!r} leads nowhere")
            return document.named[f"#{fragment}"], document
        return _follow(document.schema, fragment, reference), document


@dataclass(frozen=True, slots=True, eq=False)
class JsonSchema:
    document: Document
    text: str
    meaning: bytes


def read_json_schema(text: str, references: dict[str, str] | None = None) -> JsonSchema:
    """A schema whose references all lead somewhere; `references` are the other texts by the names it uses."""
    others: dict[str, Document] = {}
    for name, other in (references or {}).items():
        others[name] = _document(read_json(other, "json schema"), others)
    schema = read_json(text, "json schema")
    document = _document(schema, others)
    _check(schema)
    for place in _places(schema):
        if isinstance(place, dict) and isinstance(place.get("$ref"), str):
            document.resolve(place["$ref"])
    return JsonSchema(document, compact(schema), settled(schema).encode())


def _check(schema: Any) -> None:
    import jsonschema_rs  # noqa: PLC0415  only registries with JSON Schemas pay for it

    if not isinstance(schema, (dict, bool)):
        raise BadSchema("a json schema is an object, true or false")
    draft = schema.get("$schema") if isinstance(schema, dict) else None
    checked = schema
    if isinstance(schema, dict) and not (isinstance(draft, str) and draft.startswith(_META)):
        checked = {**schema, "$schema": _DRAFT_7}
    try:
        jsonschema_rs.meta.validate(checked)
    except jsonschema_rs.ValidationError as bad:
        place = "/".join(map(str, bad.instance_path))
        raise BadSchema(f"invalid json schema at #/{place}: {bad.message[:200]}") from None
    except (ValueError, jsonschema_rs.ReferencingError) as bad:
        raise BadSchema(f"invalid json schema: {str(bad)[:200]}") from None


def _document(schema: Any, others: dict[str, Document]) -> Document:
    document = Document(schema, dict(others))
    if isinstance(schema, dict):
        document.id = str(schema.get("$id") or schema.get("id") or "").rstrip("#")
    for place in _places(schema):
        if not isinstance(place, dict):
            continue
        name = place.get("$id") or place.get("id")
        if isinstance(name, str) and place is not schema:
            document.named[name] = document.named[urljoin(document.id, name)] = place
        for word in ("$anchor", "$dynamicAnchor"):
            if isinstance(place.get(word), str):
                document.named[f"#{place[word]}"] = place
    return document


def _places(schema: Any) -> Iterator[Any]:
    """Every schema inside a schema, itself first."""
    waiting = [schema]
    while waiting:
        place = waiting.pop()
        yield place
        if not isinstance(place, dict):
            continue
        for word in _MAPS:
            if isinstance(place.get(word), dict):
                waiting.extend(place[word].values())
        for word in (*_LISTS, "items"):
            if isinstance(place.get(word), list):
                waiting.extend(place[word])
        waiting.extend(place[word] for word in _SINGLES if isinstance(place.get(word), dict))


def _follow(at: Any, fragment: str, reference: str) -> Any:
    for step in fragment.split("/")[1:] if fragment else ():
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict) and key in at:
            at = at[key]
        elif isinstance(at, list) and key.isdecimal() and int(key) < len(at):
            at = at[int(key)]
        else:
            raise BadSchema(f"the reference {reference[:200]!r} leads nowhere")
    if not isinstance(at, (dict, bool)):
        raise BadSchema(f"the reference {reference[:200]!r} does not lead to a schema")
    return at


def look(schema: Any, base: Document) -> View:
    """A schema as one node."""
    for _ in range(_HOPS_MAX):
        if schema is True or schema == {}:
            return View("any", {}, base)
        if schema is False:
            return View("nothing", {}, base)
        if not isinstance(schema, dict):
            raise Refused("a schema is an object, true or false")
        if isinstance(schema.get("$ref"), str):
            beside = {word: value for word, value in schema.items() if word in _BESIDE_REF}
            if beside and _counts_beside_ref(base):
                return View("allOf", schema, base, ({"$ref": schema["$ref"]}, beside))
            schema, base = base.resolve(schema["$ref"])
            continue
        return _node(schema, base)
    raise BadSchema("references that lead only to each other")


def _counts_beside_ref(base: Document) -> bool:
    """Up to draft 7, what stands beside a `$ref` means nothing."""
    draft = str(base.schema.get("$schema", "")) if isinstance(base.schema, dict) else ""
    return "/2019-" in draft or "/2020-" in draft


def _node(schema: dict[str, Any], base: Document) -> View:
    demands: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = []
    if "const" in schema or "enum" in schema:
        values = [schema["const"]] if "const" in schema else schema["enum"]
        demands.append(("enum", schema, tuple(values)))
    else:
        demands.extend(_typed(schema))
    demands.extend(
        (word, {word: schema[word]}, tuple(schema[word]))
        for word in ("allOf", "anyOf", "oneOf")
        if isinstance(schema.get(word), list)
    )
    if "not" in schema:
        demands.append(("not", schema, (schema["not"],)))
    if not demands:
        return View("any", schema, base)
    if len(demands) == 1:
        kind, words, parts = demands[0]
        if kind == "not" and parts[0] in (True, {}):
            return View("nothing", {}, base)
        return View(kind, words, base, parts)
    apart = [_alone(kind, words, parts) for kind, words, parts in demands]
    return View("allOf", schema, base, tuple(apart))


def _alone(kind: str, words: dict[str, Any], parts: tuple[Any, ...]) -> dict[str, Any]:
    """One demand as a schema of its own."""
    if kind in ("allOf", "anyOf", "oneOf"):
        return {kind: list(parts)}
    if kind == "not":
        return {"not": parts[0]}
    if kind == "enum":
        return {"enum": list(parts)}
    return {word: value for word, value in words.items() if word not in ("allOf", "anyOf", "oneOf", "not")}


def _typed(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any], tuple[Any, ...]]]:
    kinds = schema.get("type")
    if kinds is None:
        found = [kind for kind, words in _KEYWORDS.items() if words & schema.keys()]
        kinds = found[0] if len(found) == 1 else found
    if isinstance(kinds, str):
        return [(kinds, schema, ())]
    if len(kinds) == 1:
        return [(kinds[0], {**schema, "type": kinds[0]}, ())]
    if not kinds:
        return []
    rest = {word: value for word, value in schema.items() if word not in ("type", "allOf", "anyOf", "oneOf", "not")}
    branches = tuple({**_words_of(kind, rest), "type": kind} for kind in kinds)
    return [("anyOf", schema, branches)]


def _words_of(kind: str, words: dict[str, Any]) -> dict[str, Any]:
    """Only those words that say something of a type."""
    mine = _KEYWORDS.get("number" if kind == "integer" else kind, set())
    return {word: value for word, value in words.items() if word in mine}
