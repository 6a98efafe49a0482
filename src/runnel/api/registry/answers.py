"""What the registry answers, as JSON documents."""

import json
from typing import Any
from uuid import UUID

from runnel.metadata.schemas import Reference, Schema, Version


def told(schema: Schema, text: str | None = None) -> dict[str, Any]:
    """A schema: its kind where it is not Avro, what it refers to, its text."""
    document: dict[str, Any] = {"guid": guid(schema)}
    if schema.kind != "AVRO":
        document["schemaType"] = schema.kind
    if schema.references:
        document["references"] = [told_reference(reference) for reference in schema.references]
    for word, value in schema.extra.items():
        document[word] = json.loads(value)
    document["schema"] = schema.text if text is None else text
    return document


def told_version(subject: str, version: Version, schema: Schema, text: str | None = None) -> dict[str, Any]:
    document = {"subject": subject, "version": version.number, "id": schema.id, **told(schema, text)}
    if version.deleted:
        document["deleted"] = True
    return document


def told_reference(reference: Reference) -> dict[str, Any]:
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


def guid(schema: Schema) -> str:
    """An id that is the same in every registry of ours: made from what the schema is."""
    return str(UUID(bytes=schema.digest))


def told_rules(rules: dict[str, str], level_word: str) -> dict[str, Any]:
    """What is set for a scope; the level has another name when it is asked for than when it is set."""
    document: dict[str, Any] = {}
    if "compatibility" in rules:
        document[level_word] = rules["compatibility"]
    if "normalize" in rules:
        document["normalize"] = rules["normalize"] == "true"
    return document
