"""Schemas come and go, and what holds for them is set. In the root shard.

Whether a schema may become the next version of its subject is judged before it is proposed, by code that reads schemas;
here it is only made sure that what was judged is still so. So applying stays simple, and the same in every release.
"""

from typing import TYPE_CHECKING

import msgspec

from runnel.errors import Fenced, NotThere, Refused
from runnel.metadata.schemas import (
    GLOBAL_SCOPE,
    ID_MAX,
    TEXT_BYTES_MAX,
    TOTAL_BYTES_MAX,
    Context,
    IdTaken,
    Reference,
    Referenced,
    ReferenceMissing,
    RegistryFull,
    Schema,
    Subject,
    Version,
    split_subject,
)

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class RegisterSchema(msgspec.Struct, array_like=True, frozen=True, tag="register-schema"):
    """A subject gets a version. Answers the (id, version); those that it has already if it is the same schema.

    An `id` and a `number` are given where schemas are brought from elsewhere; 0 draws the next.
    """

    subject: str
    kind: str
    text: str
    digest: bytes
    references: list[Reference]
    extra: dict[str, str]
    subject_revision: int
    registry_revision: int
    id: int = 0
    number: int = 0

    def check(self, state: "ShardState") -> None:
        registry = state.registry
        context, name = split_subject(self.subject)
        known = registry.context(context)
        subject = known.subjects.get(name)
        if (0 if subject is None else subject.revision) != self.subject_revision:
            raise Fenced(f"subject '{self.subject}' has changed")
        if registry.revision != self.registry_revision:
            raise Fenced("the settings of schemas have changed")
        for reference in self.references:
            other_context, other = split_subject(reference.subject, context)
            found = registry.context(other_context).subjects.get(other)
            version = None if found is None else found.version(reference.version)
            if version is None or version.deleted:
                raise ReferenceMissing(
                    f"no schema reference found for subject '{reference.subject}' and version {reference.version}"
                )
        if self.id:
            self._check_id(known, subject)
        new = len(self.text) + sum(map(len, self.extra.values()))
        if new > TEXT_BYTES_MAX:
            raise Refused(f"a schema may have {TEXT_BYTES_MAX} bytes, not {new}")
        if registry.bytes + new > TOTAL_BYTES_MAX and known.by_digest(self.digest) is None:
            raise RegistryFull(f"all schemas together may have {TOTAL_BYTES_MAX} bytes: delete some permanently")

    def _check_id(self, known: Context, subject: Subject | None) -> None:
        if not 0 < self.id <= ID_MAX:
            raise Refused(f"schema ids go from 1 to {ID_MAX}, not {self.id}")
        there = known.schemas.get(self.id)
        if there is not None and there.digest != self.digest:
            raise IdTaken(f"id {self.id} stands for another schema")
        version = None if subject is None or not self.number else subject.version(self.number)
        if version is not None and version.id != self.id:
            raise IdTaken(f"version {self.number} of subject '{self.subject}' has id {version.id}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> tuple[int, int]:
        registry = state.registry
        context_name, name = split_subject(self.subject)
        context = registry.contexts.setdefault(context_name, Context(0, {}, {}))
        schema = context.schemas.get(self.id) if self.id else context.by_digest(self.digest)
        if schema is None:
            context.last_id = max(context.last_id, self.id) if self.id else context.last_id + 1
            schema = Schema(
                self.id or context.last_id, self.kind, self.text, self.digest, list(self.references), dict(self.extra)
            )
            context.schemas[schema.id] = schema
            registry.bytes += schema.size
        subject = context.subjects.setdefault(name, Subject([]))
        for version in subject.versions:
            if version.id == schema.id and not version.deleted and self.number in {0, version.number}:
                return schema.id, version.number
        number = self.number or subject.numbers + 1
        kept = [version for version in subject.versions if version.number != number]
        subject.versions = sorted([*kept, Version(number, schema.id)], key=lambda version: version.number)
        subject.numbers = max(subject.numbers, number)
        registry.changed(subject)
        return schema.id, number


class DeleteSchemas(msgspec.Struct, array_like=True, frozen=True, tag="delete-schemas"):
    """Versions of a subject are hidden, or, `permanent`, those that are hidden are removed. Answers their numbers."""

    subject: str
    numbers: list[int]
    permanent: bool
    subject_revision: int

    def check(self, state: "ShardState") -> None:
        subject = state.registry.subject(self.subject)
        if subject is None:
            raise NotThere(f"subject '{self.subject}' does not exist")
        if subject.revision != self.subject_revision:
            raise Fenced(f"subject '{self.subject}' has changed")
        for number in self.numbers:
            version = subject.version(number)
            if version is None:
                raise NotThere(f"subject '{self.subject}' has no version {number}")
            if self.permanent and not version.deleted:
                raise Refused(f"version {number} of subject '{self.subject}' was not deleted before")
            if state.registry.referrers(self.subject, number, deleted=self.permanent):
                raise Referenced(f"one or more references exist to version {number} of subject '{self.subject}'")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> list[int]:
        registry = state.registry
        context_name, name = split_subject(self.subject)
        context = registry.contexts[context_name]
        subject = context.subjects[name]
        registry.changed(subject)
        if not self.permanent:
            subject.versions = [
                Version(version.number, version.id, True) if version.number in self.numbers else version
                for version in subject.versions
            ]
            return sorted(self.numbers)
        gone = [version for version in subject.versions if version.number in self.numbers]
        subject.versions = [version for version in subject.versions if version.number not in self.numbers]
        if not subject.versions:
            del context.subjects[name]
            registry.settings.pop(self.subject, None)
        for version in gone:
            if version.id in context.schemas and next(registry.places(context_name, version.id), None) is None:
                registry.bytes -= context.schemas.pop(version.id).size
        return sorted(self.numbers)


class SetSchemaRules(msgspec.Struct, array_like=True, frozen=True, tag="set-schema-rules"):
    """What holds for a scope of schemas: compatibility, mode and such. Answers what was set there before."""

    scope: str
    put: dict[str, str]
    drop: list[str] = []
    empty: bool = False
    """Only as long as the scope has no schema."""

    def check(self, state: "ShardState") -> None:
        if not self.empty:
            return
        context_name, name = split_subject(self.scope)
        registry = state.registry
        contexts = registry.contexts.values() if self.scope == GLOBAL_SCOPE else [registry.context(context_name)]
        for context in contexts:
            if any(subject.live() for other, subject in context.subjects.items() if name in {"", other}):
                raise Refused("there are schemas already")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> dict[str, str]:
        registry = state.registry
        before = registry.settings.get(self.scope, {})
        now = {key: value for key, value in before.items() if key not in self.drop} | self.put
        if now != before:
            registry.revision += 1
        if now:
            registry.settings[self.scope] = now
        else:
            registry.settings.pop(self.scope, None)
        return before
