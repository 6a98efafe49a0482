"""What a request asks of the registry, validated: bodies, versions, switches, pages."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from runnel.api.messages import Request
from runnel.api.registry.trouble import (
    Trouble,
    invalid_level,
    invalid_mode,
    invalid_schema,
    invalid_subject,
    invalid_version,
    not_permitted,
    too_large,
)
from runnel.metadata.schemas import DEFAULT_CONTEXT, ID_MAX, TEXT_BYTES_MAX, Reference, join_subject, split_subject
from runnel.schemas.bounds import compact
from runnel.schemas.kinds import KINDS
from runnel.schemas.levels import LEVELS

T = TypeVar("T")

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
REFERENCES_MAX = 100
SUBJECT_CHARS_MAX = 1000
LATEST = -1
# Web pages may send these anywhere without asking first; a registry's client never does.
_REFUSED_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
_KNOWN_RULES = {"compatibility", "compatibilityLevel", "normalize"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchema:
    """A schema as a client sends it."""

    kind: str
    text: str
    references: list[Reference] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)
    id: int = 0
    version: int = 0


def body_of(request: Request) -> dict[str, Any]:
    """The JSON object in a request's body."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in _REFUSED_TYPES:
        raise Trouble(415, 415, "HTTP 415 Unsupported Media Type: send application/vnd.schemaregistry.v1+json")
    try:
        document = json.loads(request.body)
    except RecursionError:
        raise Trouble(400, 400, "the request body is nested too deeply") from None
    except ValueError as bad:
        raise Trouble(400, 400, f"the request body is no JSON: {str(bad)[:200]}") from None
    if not isinstance(document, dict):
        raise Trouble(400, 400, "the request body is no JSON object")
    return document


def new_schema(document: dict[str, Any]) -> NewSchema:
    text = document.get("schema")
    if text is None or text == "":
        raise invalid_schema("Empty schema")
    if not isinstance(text, str):
        raise Trouble(400, 400, "'schema' is no string: send the schema's text")
    kind = document.get("schemaType") or "AVRO"
    if not isinstance(kind, str) or kind.upper() not in KINDS:
        raise invalid_schema(f"Invalid schema type {compact(kind)[:80]}. Valid types are {', '.join(KINDS)}")
    extra = {word: compact(document[word]) for word in ("metadata", "ruleSet") if document.get(word) not in (None, {})}
    size = len(text.encode(errors="replace")) + sum(map(len, extra.values()))
    if size > TEXT_BYTES_MAX:
        raise too_large(f"Schema is too large: {size} bytes, and {TEXT_BYTES_MAX} are allowed")
    return NewSchema(
        kind=kind.upper(),
        text=text,
        references=_references(document.get("references") or []),
        extra=extra,
        id=_number(document, "id"),
        version=_number(document, "version"),
    )


def _references(given: Any) -> list[Reference]:
    if not isinstance(given, list) or len(given) > REFERENCES_MAX:
        raise invalid_schema(f"'references' is a list of up to {REFERENCES_MAX}")
    found = []
    for one in given:
        name = one.get("name") if isinstance(one, dict) else None
        subject = one.get("subject") if isinstance(one, dict) else None
        version = one.get("version") if isinstance(one, dict) else None
        if not isinstance(name, str) or not name or not isinstance(subject, str) or not subject:
            raise invalid_schema("a reference has a name, a subject and a version")
        if not isinstance(version, int) or isinstance(version, bool):
            raise invalid_version(str(version))
        found.append(Reference(name, subject, version))
    if len({reference.name for reference in found}) < len(found):
        raise invalid_schema("two references have the same name")
    return found


def _number(document: dict[str, Any], word: str) -> int:
    value = document.get(word)
    if value is None or value in (-1, 0):
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= ID_MAX:
        raise Trouble(400, 400, f"'{word}' is a number from 1 to {ID_MAX}")
    return value


def subject_in(found: dict[str, str]) -> str:
    """The subject in a path, spelled as it is kept; `/contexts/NAME/…` puts one that names no context into that one."""
    subject = found["subject"]
    if len(subject) > SUBJECT_CHARS_MAX or any(ord(char) < 32 or ord(char) == 127 for char in subject):
        raise invalid_subject(subject)
    context, name = split_subject(subject, context_in(found) or DEFAULT_CONTEXT)
    if not name:
        raise invalid_subject(subject)
    return join_subject(context, name)


def scope_in(found: dict[str, str]) -> str:
    """The subject or the whole context that settings are for."""
    subject = found["subject"]
    context, name = split_subject(subject, context_in(found) or DEFAULT_CONTEXT)
    if name:
        return subject_in(found)
    return "" if context == DEFAULT_CONTEXT else f":{context}:"


def context_in(found: dict[str, str]) -> str | None:
    """The context that a path begins with, if it does; `:.name:` and `.name` are both understood."""
    given = found.get("context")
    if given is None:
        return None
    name = given.removeprefix(":").removesuffix(":")
    if not name.startswith(".") or ":" in name or len(name) > SUBJECT_CHARS_MAX:
        raise invalid_subject(given)
    return name


def version_in(found: dict[str, str]) -> int:
    """A version's number, or `LATEST`."""
    text = found["version"]
    if text in {"latest", "-1"}:
        return LATEST
    if not text.isascii() or not text.isdecimal() or not 0 < int(text[:20]) <= ID_MAX:
        raise invalid_version(text)
    return int(text)


def id_in(found: dict[str, str]) -> int:
    text = found["id"]
    if not text.isascii() or not text.isdecimal() or int(text[:20]) > ID_MAX:
        raise Trouble(404, 404, "HTTP 404 Not Found")
    return int(text)


def switch(request: Request, name: str, default: bool = False) -> bool:
    given = request.ask(name)
    return default if given is None or given == "" else given.lower() == "true"


def page(request: Request, rows: Sequence[T]) -> list[T]:
    """The part of a list that `offset` and `limit` name."""
    offset, limit = _whole(request, "offset", 0), _whole(request, "limit", -1)
    return list(rows[offset:] if limit < 0 else rows[offset : offset + limit])


def _whole(request: Request, name: str, default: int) -> int:
    given = request.ask(name)
    if not given:
        return default
    try:
        value = int(given[:20])
    except ValueError:
        raise Trouble(400, 400, f"'{name}' is no number") from None
    return max(value, 0) if name == "offset" else value


def rules_of(document: dict[str, Any]) -> dict[str, str]:
    """What a request sets for a scope, as it is kept."""
    unknown = sorted(word for word, value in document.items() if value is not None and word not in _KNOWN_RULES)
    if unknown:
        raise not_permitted(f"this registry does not know the setting {unknown[0][:80]!r}")
    rules: dict[str, str] = {}
    level = document.get("compatibility") or document.get("compatibilityLevel")
    if level is not None:
        if not isinstance(level, str) or level.upper() not in LEVELS:
            raise invalid_level()
        rules["compatibility"] = level.upper()
    if isinstance(document.get("normalize"), bool):
        rules["normalize"] = str(document["normalize"]).lower()
    if not rules:
        raise invalid_level()
    return rules


def mode_of(document: dict[str, Any]) -> str:
    mode = document.get("mode")
    if not isinstance(mode, str) or mode.upper() not in MODES:
        raise invalid_mode(MODES)
    return mode.upper()
