"""The registry's paths as an OpenAPI document, for programs that make clients and for people who try things.

It is made from the table of routes, so that neither can be without the other.
"""

import re
from collections.abc import Iterable
from typing import Any

from runnel.metadata.schemas import ID_MAX
from runnel.schemas.kinds import KINDS
from runnel.schemas.levels import LEVELS
from runnel.version import __version__

_TEXT, _WHOLE, _SWITCH = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
_PAGE = {"offset": _WHOLE, "limit": _WHOLE}
# What may stand behind a question mark, by method and path.
_QUERIES: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/subjects"): {"subjectPrefix": _TEXT, "deleted": _SWITCH, "deletedOnly": _SWITCH, **_PAGE},
    ("POST", "/subjects/{subject}"): {"normalize": _SWITCH, "deleted": _SWITCH, "format": _TEXT},
    ("DELETE", "/subjects/{subject}"): {"permanent": _SWITCH},
    ("GET", "/subjects/{subject}/versions"): {"deleted": _SWITCH, "deletedOnly": _SWITCH, **_PAGE},
    ("POST", "/subjects/{subject}/versions"): {"normalize": _SWITCH},
    ("GET", "/subjects/{subject}/versions/{version}"): {"deleted": _SWITCH, "format": _TEXT},
    ("DELETE", "/subjects/{subject}/versions/{version}"): {"permanent": _SWITCH},
    ("GET", "/subjects/{subject}/metadata"): {"key": _TEXT, "value": _TEXT, "deleted": _SWITCH},
    ("GET", "/schemas"): {"subjectPrefix": _TEXT, "deleted": _SWITCH, "latestOnly": _SWITCH, **_PAGE},
    ("GET", "/schemas/ids/{id}"): {"subject": _TEXT, "format": _TEXT, "fetchMaxId": _SWITCH},
    ("POST", "/compatibility/subjects/{subject}/versions"): {"verbose": _SWITCH, "normalize": _SWITCH},
    ("POST", "/compatibility/subjects/{subject}/versions/{version}"): {"verbose": _SWITCH, "normalize": _SWITCH},
    ("GET", "/config/{subject}"): {"defaultToGlobal": _SWITCH},
    ("GET", "/mode/{subject}"): {"defaultToGlobal": _SWITCH},
    ("PUT", "/mode"): {"force": _SWITCH},
    ("PUT", "/mode/{subject}"): {"force": _SWITCH},
}
_PARAMETERS: dict[str, Any] = {
    "subject": _TEXT,
    "version": {"oneOf": [{"type": "integer", "minimum": 1, "maximum": ID_MAX}, {"const": "latest"}]},
    "id": {"type": "integer", "minimum": 1, "maximum": ID_MAX},
    "guid": {"type": "string", "format": "uuid"},
}
_SCHEMAS: dict[str, Any] = {
    "Schema": {
        "type": "object",
        "properties": {
            "schema": _TEXT,
            "schemaType": {"enum": list(KINDS), "default": "AVRO"},
            "references": {"type": "array", "items": {"$ref": "#/components/schemas/Reference"}},
            "metadata": {"type": "object"},
            "ruleSet": {"type": "object"},
            "id": _WHOLE,
            "version": _WHOLE,
        },
        "required": ["schema"],
    },
    "Reference": {
        "type": "object",
        "properties": {"name": _TEXT, "subject": _TEXT, "version": _WHOLE},
        "required": ["name", "subject", "version"],
    },
    "Config": {
        "type": "object",
        "properties": {"compatibility": {"enum": list(LEVELS)}, "normalize": _SWITCH},
    },
    "Mode": {"type": "object", "properties": {"mode": _TEXT}, "required": ["mode"]},
    "Error": {
        "type": "object",
        "properties": {"error_code": _WHOLE, "message": _TEXT},
        "required": ["error_code", "message"],
    },
}
_CONTENT = "application/vnd.schemaregistry.v1+json"


def openapi(table: Iterable[tuple[str, str, str]]) -> dict[str, Any]:
    """The document; `table` are (method, pattern, what it does)."""
    paths: dict[str, dict[str, Any]] = {}
    for method, pattern, told in table:
        paths.setdefault(pattern, {})[method.lower()] = _operation(method, pattern, told)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Runnel schema registry", "version": __version__},
        "paths": paths,
        "components": {"schemas": _SCHEMAS},
    }


def _operation(method: str, pattern: str, told: str) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _PARAMETERS[name]}
        for name in re.findall(r"{(\w+)}", pattern)
    ]
    parameters += [
        {"name": name, "in": "query", "schema": kind} for name, kind in _QUERIES.get((method, pattern), {}).items()
    ]
    operation: dict[str, Any] = {
        "summary": told,
        "parameters": parameters,
        "responses": {
            "200": {"description": "done", "content": {_CONTENT: {}}},
            "default": {"description": "refused", "content": {_CONTENT: {"schema": _reference("Error")}}},
        },
    }
    if method in {"POST", "PUT"}:
        kind = "Config" if pattern.startswith("/config") else "Mode" if pattern.startswith("/mode") else "Schema"
        operation["requestBody"] = {"required": True, "content": {_CONTENT: {"schema": _reference(kind)}}}
    return operation


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
