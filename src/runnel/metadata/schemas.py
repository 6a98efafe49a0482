"""What the root shard keeps of schemas: the texts by their ids, the versions of each subject, settings of them.

A *context* is a world of its own: ids and subjects of one mean nothing in another. The context that nobody names is
called `.`; a subject of another is written `:.name:subject`. In a context one schema (its kind, its meaning and what it
refers to, all in its digest) has one id, under how many subjects it may be registered.

A version that is *deleted* is hidden: what was written by it can still be read. It goes for good when it is deleted a
second time, permanently; its schema goes when no subject has it any more. Ids are never given twice.

Settings belong to a *scope*: the whole registry (an empty word), a context (`:.name:`) or a subject. `revision` of a
subject is another after each of its changes, that of the registry after each change of settings: who has judged a new
version names both, and is refused if anything has changed meanwhile.
"""

from collections.abc import Iterator, Sequence

import msgspec

from runnel.errors import Refused

DEFAULT_CONTEXT = "."
GLOBAL_SCOPE = ""
TEXT_BYTES_MAX = 1 << 20
"""Of one schema. It travels in a ledger entry and lives in the memory of every node."""
TOTAL_BYTES_MAX = 64 << 20
"""Of all schemas of a cluster together."""
REFERENCES_MAX = 200
"""Schemas that one schema needs, directly or not."""
ID_MAX = 2**31 - 1


class Referenced(Refused):
    """Other schemas need it."""


class RegistryFull(Refused):
    """All schemas together are as large as they may be."""


class ReferenceMissing(Refused):
    """A schema refers to a version that does not exist."""


class IdTaken(Refused):
    """The id that was asked for stands for something else."""


class Reference(msgspec.Struct, array_like=True, frozen=True):
    """A schema needs another, which it calls by `name`."""

    name: str
    subject: str
    version: int


class Schema(msgspec.Struct, array_like=True, frozen=True):
    """What an id stands for. New fields go last."""

    id: int
    kind: str
    text: str
    digest: bytes
    """16 bytes: the same for all that is the same schema."""
    references: list[Reference] = []
    extra: dict[str, str] = {}
    """`metadata` and `ruleSet` as the client gave them, JSON."""

    @property
    def size(self) -> int:
        return len(self.text) + sum(map(len, self.extra.values()))


class Version(msgspec.Struct, array_like=True, frozen=True):
    number: int
    id: int
    deleted: bool = False


class Subject(msgspec.Struct, array_like=True):
    """Versions stand in the order of their numbers."""

    versions: list[Version] = []
    revision: int = 0
    numbers: int = 0
    """The highest number that was ever given."""

    def version(self, number: int) -> Version | None:
        return next((version for version in self.versions if version.number == number), None)

    def live(self) -> list[Version]:
        return [version for version in self.versions if not version.deleted]


class Context(msgspec.Struct, array_like=True):
    last_id: int = 0
    schemas: dict[int, Schema] = {}
    subjects: dict[str, Subject] = {}

    def by_digest(self, digest: bytes) -> Schema | None:
        return next((schema for schema in self.schemas.values() if schema.digest == digest), None)


class Registry(msgspec.Struct, array_like=True):
    """All of it. Subjects have their names within their context."""

    contexts: dict[str, Context] = {}
    settings: dict[str, dict[str, str]] = {}
    """By scope: what was set there."""
    revision: int = 0
    bytes: int = 0
    changes: int = 0
    """Counts the changes of all subjects, so that no subject ever has one revision twice."""

    def changed(self, subject: Subject) -> None:
        self.changes += 1
        subject.revision = self.changes

    def context(self, name: str) -> Context:
        """A context, empty if nobody has used it; only looked at."""
        return self.contexts.get(name) or Context()

    def subject(self, full_name: str) -> Subject | None:
        context, subject = split_subject(full_name)
        return self.context(context).subjects.get(subject)

    def schema(self, schema_id: int, context: str = DEFAULT_CONTEXT) -> Schema | None:
        return self.context(context).schemas.get(schema_id)

    def version(self, full_name: str, number: int) -> tuple[Version, Schema] | None:
        context, name = split_subject(full_name)
        subject = self.context(context).subjects.get(name)
        version = None if subject is None else subject.version(number)
        return None if version is None else (version, self.context(context).schemas[version.id])

    def places(self, context: str, schema_id: int) -> Iterator[tuple[str, Version]]:
        """The (subject, version) pairs that a schema has."""
        for name, subject in self.context(context).subjects.items():
            for version in subject.versions:
                if version.id == schema_id:
                    yield name, version

    def referrers(self, full_name: str, number: int, *, deleted: bool = False) -> list[int]:
        """The ids of schemas in the same context that refer to a version and are themselves in use."""
        context, name = split_subject(full_name)
        return [
            schema.id
            for schema in self.context(context).schemas.values()
            if any(
                each.version == number and split_subject(each.subject, context) == (context, name)
                for each in schema.references
            )
            and any(deleted or not version.deleted for _, version in self.places(context, schema.id))
        ]

    def referred(self, context: str, references: Sequence[Reference]) -> dict[str, str]:
        """The texts that a schema needs, by the names they are called, each after those it needs itself."""
        gathered: dict[str, str] = {}

        def gather(wanted: Sequence[Reference], within: str, above: tuple[str, ...]) -> None:
            for each in wanted:
                if each.name in gathered:
                    continue
                if each.name in above or len(gathered) + len(above) >= REFERENCES_MAX:
                    raise ReferenceMissing(f"references lead in a circle, or to more than {REFERENCES_MAX} schemas")
                place, name = split_subject(each.subject, within)
                found = self.version(join_subject(place, name), each.version)
                if found is None:
                    raise ReferenceMissing(
                        f"no schema reference found for subject '{each.subject}' and version {each.version}"
                    )
                gather(found[1].references, place, (*above, each.name))
                gathered[each.name] = found[1].text

        gather(references, context, ())
        return gathered

    def setting(self, scope: str, key: str) -> str | None:
        """What holds for a scope: its own word, else its context's, else everyone's."""
        context, name = split_subject(scope)
        nested = [scope]
        if name:
            nested.append(scope_of(context))
        for place in (*nested, GLOBAL_SCOPE):
            known = self.settings.get(place, {}).get(key)
            if known is not None:
                return known
        return None


def split_subject(full_name: str, within: str = DEFAULT_CONTEXT) -> tuple[str, str]:
    """The context and the name of a subject; one without a context belongs to `within`."""
    if full_name.startswith(":."):
        context, separator, name = full_name[1:].partition(":")
        if separator:
            return context, name
        return context, ""
    return within, full_name


def join_subject(context: str, name: str) -> str:
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def scope_of(context: str) -> str:
    """The scope of a whole context; that of the one without a name is the whole registry's."""
    return GLOBAL_SCOPE if context == DEFAULT_CONTEXT else f":{context}:"
