"""From paths to the registry, as Confluent's REST API has them.

Each path is there twice: as it is, and behind `/contexts/{context}`, where subjects that name no context belong to that
one. Answers have Confluent's content type unless a client asks for plain JSON alone.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from runnel.api.answer import Answer
from runnel.api.messages import Request, Response
from runnel.api.registry.answers import guid, told, told_rules, told_version
from runnel.api.registry.asks import (
    body_of,
    context_in,
    id_in,
    mode_of,
    new_schema,
    page,
    rules_of,
    scope_in,
    subject_in,
    switch,
    version_in,
)
from runnel.api.registry.openapi import openapi
from runnel.api.registry.registry import SchemaRegistry
from runnel.api.registry.trouble import as_response, schema_not_found, subject_not_found, trouble_of
from runnel.api.routes import Found, Routes
from runnel.errors import RunnelError
from runnel.metadata import schemas as kept
from runnel.metadata.schemas import DEFAULT_CONTEXT, Registry, Version, join_subject, scope_of, split_subject
from runnel.schemas.kinds import KINDS
from runnel.version import __version__
from runnel.world.tasks import Tasks
from runnel.world.telemetry.log import get_log

log = get_log("registry")

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
Handler = Callable[[Request, Found], Awaitable[Any]]


def add_registry(routes: Routes, registry: SchemaRegistry, tasks: Tasks) -> None:
    """Add all of its routes."""
    table = Paths(registry).table()
    document = json.dumps(openapi([(method, pattern, told) for method, pattern, _, told in table])).encode()

    def describe(_request: Request, respond: Answer, _: Found) -> None:
        respond(Response(200, {"content-type": "application/json"}, document))

    routes.add("GET", "/schemas/openapi.json", describe)
    for method, pattern, handler, _ in table:
        handle = _answering(handler, tasks)
        routes.add(method, pattern, handle)
        if not pattern.startswith(("/contexts", "/v1")):
            routes.add(method, f"/contexts/{{context}}{pattern}", handle)


def _answering(handler: Handler, tasks: Tasks) -> Callable[[Request, Answer, Found], None]:
    async def work(request: Request, respond: Answer, found: Found) -> None:
        content_type = _content_type(request)
        try:
            document = await handler(request, found)
            text = document if isinstance(document, _Raw) else json.dumps(document)
            response = Response(200, {"content-type": content_type, "cache-control": "no-store"}, text.encode())
        except RunnelError as error:
            response = as_response(trouble_of(error), content_type)
        except Exception as error:  # noqa: BLE001  whatever it was, the client gets an answer and the server lives on
            log.crash("request_failed", error, method=request.method, path=request.raw_path)
            response = as_response(trouble_of(error), content_type)
        respond(response)

    def handle(request: Request, respond: Answer, found: Found) -> None:
        task = tasks.spawn(work(request, respond, found), name=f"schemas {request.method} {request.raw_path[:80]}")
        respond.when_gone = task.cancel  # type: ignore[assignment]  # its result says nothing here

    return handle


class _Raw(str):
    """A schema's own text as the whole answer."""

    __slots__ = ()


def _content_type(request: Request) -> str:
    accepted = request.headers.get("accept", "").lower()
    return "application/json" if "json" in accepted and "schemaregistry" not in accepted else CONTENT_TYPE


class Paths:
    """One method per path; `table` says which."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self.registry = registry

    def table(self) -> list[tuple[str, str, Handler, str]]:
        subject, version = "/subjects/{subject}", "/subjects/{subject}/versions/{version}"
        schema = "/schemas/ids/{id}"
        test = "/compatibility/subjects/{subject}/versions"
        return [
            ("GET", "/subjects", self.subjects, "Names of subjects"),
            ("POST", subject, self.look_up, "Under which version a subject has this schema"),
            ("DELETE", subject, self.delete_subject, "Hide a subject, or remove a hidden one for good"),
            ("GET", f"{subject}/versions", self.versions, "The versions of a subject"),
            ("POST", f"{subject}/versions", self.register, "Register a schema as the next version of a subject"),
            ("GET", version, self.version, "One version of a subject"),
            ("DELETE", version, self.delete_version, "Hide a version, or remove a hidden one for good"),
            ("GET", f"{version}/schema", self.version_text, "The text of a version's schema, alone"),
            ("GET", f"{version}/referencedby", self.referenced_by, "The ids of schemas that refer to a version"),
            ("GET", f"{subject}/metadata", self.latest_with_metadata, "The newest version that has this metadata"),
            ("GET", "/schemas", self.schemas, "All schemas with their subjects and versions"),
            ("GET", "/schemas/types", self.types, "The kinds of schema"),
            ("GET", schema, self.by_id, "What an id stands for"),
            ("GET", f"{schema}/schema", self.id_text, "The text of an id's schema, alone"),
            ("GET", f"{schema}/subjects", self.id_subjects, "The subjects that have an id"),
            ("GET", f"{schema}/versions", self.id_versions, "The subjects and versions that have an id"),
            ("GET", "/schemas/guids/{guid}", self.by_guid, "What a global id stands for"),
            ("GET", "/schemas/guids/{guid}/ids", self.guid_ids, "The ids of a global id, by context"),
            ("POST", test, self.test, "Whether a schema could become the next version"),
            ("POST", f"{test}/{{version}}", self.test, "Whether a schema could become the next version"),
            ("GET", "/config", self.global_rules, "What holds for everyone"),
            ("PUT", "/config", self.set_rules, "Set compatibility"),
            ("DELETE", "/config", self.drop_rules, "Forget what is set"),
            ("GET", "/config/{subject}", self.rules, "What is set for a subject or a context"),
            ("PUT", "/config/{subject}", self.set_rules, "Set compatibility"),
            ("DELETE", "/config/{subject}", self.drop_rules, "Forget what is set"),
            ("GET", "/mode", self.global_mode, "The mode that holds for everyone"),
            ("PUT", "/mode", self.set_mode, "Set a mode"),
            ("DELETE", "/mode", self.drop_mode, "Forget a mode"),
            ("GET", "/mode/{subject}", self.mode, "The mode of a subject or a context"),
            ("PUT", "/mode/{subject}", self.set_mode, "Set a mode"),
            ("DELETE", "/mode/{subject}", self.drop_mode, "Forget a mode"),
            ("GET", "/contexts", self.contexts, "Names of contexts"),
            ("GET", "/v1/metadata/id", self.server_id, "The cluster's id"),
            ("GET", "/v1/metadata/version", self.server_version, "The program's version"),
        ]

    # --- subjects and versions

    async def subjects(self, request: Request, found: Found) -> Any:
        known = await self.registry.fresh()
        deleted, only = switch(request, "deleted"), switch(request, "deletedOnly") or switch(request, "deleted_only")
        names = [
            name
            for name, subject in _subjects(known, found, request.ask("subjectPrefix"))
            if (any(version.deleted for version in subject.versions) and not subject.live() if only else False)
            or (not only and (subject.live() or (deleted and subject.versions)))
        ]
        return page(request, sorted(names))

    async def register(self, request: Request, found: Found) -> Any:
        new = new_schema(body_of(request))
        schema, number = await self.registry.register(subject_in(found), new, normalize=switch(request, "normalize"))
        return {"id": schema.id, "version": number, "guid": guid(schema)}

    async def look_up(self, request: Request, found: Found) -> Any:
        subject, new = subject_in(found), new_schema(body_of(request))
        version, schema = await self.registry.lookup(subject, new, deleted=switch(request, "deleted"))
        return told_version(subject, version, schema, self._text(request, subject, schema))

    async def versions(self, request: Request, found: Found) -> Any:
        subject = subject_in(found)
        known = (await self.registry.fresh()).subject(subject)
        every, only = switch(request, "deleted"), switch(request, "deletedOnly")
        versions = [
            version.number
            for version in (known.versions if known is not None else [])
            if (version.deleted if only else every or not version.deleted)
        ]
        if not versions:
            raise subject_not_found(subject)
        return page(request, versions)

    async def version(self, request: Request, found: Found) -> Any:
        subject, number = subject_in(found), version_in(found)
        version, schema = await self.registry.version(subject, number, deleted=switch(request, "deleted"))
        return told_version(subject, version, schema, self._text(request, subject, schema))

    async def version_text(self, request: Request, found: Found) -> Any:
        subject, number = subject_in(found), version_in(found)
        _, schema = await self.registry.version(subject, number, deleted=switch(request, "deleted"))
        return _Raw(self._text(request, subject, schema))

    async def latest_with_metadata(self, request: Request, found: Found) -> Any:
        """The newest version whose metadata has what `key` and `value` name."""
        subject = subject_in(found)
        known = await self.registry.fresh()
        wanted = dict(
            zip(
                [value for key, value in request.query if key == "key"],
                [value for key, value in request.query if key == "value"],
                strict=False,
            )
        )
        one = known.subject(subject)
        versions = [] if one is None else one.versions if switch(request, "deleted") else one.live()
        for version in reversed(versions):
            schema = known.context(split_subject(subject)[0]).schemas[version.id]
            properties = json.loads(schema.extra.get("metadata", "{}")).get("properties") or {}
            if all(properties.get(key) == value for key, value in wanted.items()):
                return told_version(subject, version, schema, self._text(request, subject, schema))
        raise subject_not_found(subject)

    async def referenced_by(self, request: Request, found: Found) -> Any:
        subject, number = subject_in(found), version_in(found)
        version, _ = await self.registry.version(subject, number, deleted=True)
        known = self.registry.known
        return page(request, known.referrers(subject, version.number, deleted=switch(request, "deleted")))

    async def delete_version(self, request: Request, found: Found) -> Any:
        subject, number = subject_in(found), version_in(found)
        return await self.registry.delete_version(subject, number, permanent=switch(request, "permanent"))

    async def delete_subject(self, request: Request, found: Found) -> Any:
        return await self.registry.delete_subject(subject_in(found), permanent=switch(request, "permanent"))

    # --- schemas

    async def schemas(self, request: Request, found: Found) -> Any:
        known = await self.registry.fresh()
        deleted, latest = switch(request, "deleted"), switch(request, "latestOnly")
        rows: list[tuple[str, Version]] = []
        for name, subject in sorted(_subjects(known, found, request.ask("subjectPrefix"))):
            versions = subject.versions if deleted else subject.live()
            rows += [(name, version) for version in (versions[-1:] if latest else versions)]
        return [
            told_version(name, version, known.context(split_subject(name)[0]).schemas[version.id])
            for name, version in page(request, rows)
        ]

    async def types(self, request: Request, found: Found) -> Any:
        del request, found
        return [*KINDS]

    async def _by_id(self, request: Request, found: Found) -> tuple[str, kept.Schema]:
        subject = request.ask("subject")
        context = context_in(found)
        if context is not None:
            subject = join_subject(*split_subject(subject or "", context)) if subject else scope_of(context)
        return await self.registry.by_id(id_in(found), subject)

    async def by_id(self, request: Request, found: Found) -> Any:
        context, schema = await self._by_id(request, found)
        document = told(schema, self._text(request, join_subject(context, "any"), schema))
        if switch(request, "fetchMaxId"):
            document["maxId"] = self.registry.known.context(context).last_id
        return document

    async def id_text(self, request: Request, found: Found) -> Any:
        context, schema = await self._by_id(request, found)
        return _Raw(self._text(request, join_subject(context, "any"), schema))

    async def id_subjects(self, request: Request, found: Found) -> Any:
        await self.registry.fresh()
        context, schema = await self._by_id(request, found)
        return page(request, list(dict.fromkeys(name for name, _ in self._places(request, context, schema.id))))

    async def id_versions(self, request: Request, found: Found) -> Any:
        await self.registry.fresh()
        context, schema = await self._by_id(request, found)
        rows = self._places(request, context, schema.id)
        return [{"subject": name, "version": version.number} for name, version in page(request, rows)]

    def _places(self, request: Request, context: str, schema_id: int) -> list[tuple[str, Version]]:
        deleted = switch(request, "deleted")
        return sorted(
            (join_subject(context, name), version)
            for name, version in self.registry.known.places(context, schema_id)
            if deleted or not version.deleted
        )

    async def by_guid(self, request: Request, found: Found) -> Any:
        for context, schema in await self._of_guid(found):
            return told(schema, self._text(request, join_subject(context, "any"), schema))
        raise schema_not_found(found["guid"][:80])

    async def guid_ids(self, request: Request, found: Found) -> Any:
        del request
        return [{"context": context, "id": schema.id} for context, schema in await self._of_guid(found)]

    async def _of_guid(self, found: Found) -> list[tuple[str, kept.Schema]]:
        known = await self.registry.fresh()
        return [
            (name, schema)
            for name, context in known.contexts.items()
            for schema in context.schemas.values()
            if guid(schema) == found["guid"].lower()
        ]

    def _text(self, request: Request, subject: str, schema: kept.Schema) -> str:
        """A schema's text, or for Protobuf its descriptor, if the client asks for `format=serialized`."""
        if schema.kind == "PROTOBUF" and request.ask("format") == "serialized":
            from runnel.schemas.protobuf import descriptor_of  # noqa: PLC0415  only those who ask for it pay for protoxy

            return descriptor_of(
                schema.text, self.registry.known.referred(split_subject(subject)[0], schema.references)
            )
        return schema.text

    async def test(self, request: Request, found: Found) -> Any:
        """Whether a schema could be registered, and with `verbose` why not."""
        subject, new = subject_in(found), new_schema(body_of(request))
        version = version_in(found) if "version" in found else None
        messages = await self.registry.test(subject, new, version)
        document: dict[str, Any] = {"is_compatible": not messages}
        if switch(request, "verbose"):
            document["messages"] = messages
        return document

    # --- what holds

    async def global_rules(self, request: Request, found: Found) -> Any:
        del request
        return told_rules(await self.registry.rules(_scope(found), inherit=True), "compatibilityLevel")

    async def rules(self, request: Request, found: Found) -> Any:
        inherit = switch(request, "defaultToGlobal")
        return told_rules(await self.registry.rules(scope_in(found), inherit=inherit), "compatibilityLevel")

    async def set_rules(self, request: Request, found: Found) -> Any:
        rules = rules_of(body_of(request))
        await self.registry.set_rules(_scope(found), rules)
        return told_rules(rules, "compatibility")

    async def drop_rules(self, request: Request, found: Found) -> Any:
        del request
        return told_rules(await self.registry.drop_rules(_scope(found)), "compatibilityLevel")

    async def global_mode(self, request: Request, found: Found) -> Any:
        del request
        return {"mode": await self.registry.mode(_scope(found), inherit=True)}

    async def mode(self, request: Request, found: Found) -> Any:
        inherit = switch(request, "defaultToGlobal")
        return {"mode": await self.registry.mode(scope_in(found), inherit=inherit)}

    async def set_mode(self, request: Request, found: Found) -> Any:
        mode = mode_of(body_of(request))
        await self.registry.set_mode(_scope(found), mode, force=switch(request, "force"))
        return {"mode": mode}

    async def drop_mode(self, request: Request, found: Found) -> Any:
        del request
        return {"mode": await self.registry.drop_mode(_scope(found))}

    # --- the registry itself

    async def contexts(self, request: Request, found: Found) -> Any:
        del found
        known = await self.registry.fresh()
        return page(request, sorted({DEFAULT_CONTEXT, *known.contexts}))

    async def server_id(self, request: Request, found: Found) -> Any:
        del request, found
        cluster = self.registry.cluster_id
        return {"scope": {"path": [], "clusters": {"kafka-cluster": cluster, "schema-registry-cluster": cluster}}}

    async def server_version(self, request: Request, found: Found) -> Any:
        del request, found
        return {"version": f"runnel {__version__}", "commitId": ""}


def _scope(found: Found) -> str:
    if "subject" in found:
        return scope_in(found)
    context = context_in(found)
    return scope_of(context) if context is not None else kept.GLOBAL_SCOPE


def _subjects(known: Registry, found: Found, prefix: str | None) -> list[tuple[str, kept.Subject]]:
    """Subjects by their full names; a prefix may name a context, `:*:` means all of them."""
    only = context_in(found)
    start = prefix or ""
    if start.startswith(":*:"):
        start = start.removeprefix(":*:")
    elif start.startswith(":."):
        only, start = split_subject(start)
    return [
        (join_subject(context, name), subject)
        for context, each in known.contexts.items()
        if only is None or context == only
        for name, subject in each.subjects.items()
        if name.startswith(start)
    ]
