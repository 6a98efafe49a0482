"""What can be done with schemas: the acting part, over the engine's root shard.

Reading catches up with the ledger first, so that what one node was told is seen at every other; only an id that is
known here is answered at once, because it can never mean anything else. Registering judges what is applied here and
proposes it together with the revisions that it was judged by; when something has changed meanwhile the ledger refuses
it and it is judged again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from runnel.api.registry.asks import LATEST, NewSchema
from runnel.api.registry.trouble import (
    incompatible,
    invalid_schema,
    level_not_configured,
    mode_not_configured,
    not_permitted,
    schema_not_found,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_found,
    version_not_soft_deleted,
    version_soft_deleted,
)
from runnel.engine import Engine
from runnel.errors import Fenced, Refused, Unavailable
from runnel.metadata import schemas as kept
from runnel.metadata.schemas import GLOBAL_SCOPE, Reference, Registry, Version, split_subject
from runnel.metadata.updates import DeleteSchemas, RegisterSchema, SetSchemaRules
from runnel.model import ROOT
from runnel.schemas.kinds import Schema, complaints, read_schema
from runnel.schemas.levels import DEFAULT_LEVEL, compared_with, read_by_old, reads_old

T = TypeVar("T")

TRIES_MAX = 20
"""How often a registration is judged again because somebody else was quicker."""
READ_KEPT_MAX = 256
"""Schemas that are kept as they were read, so that they need not be read again to compare the next one with them."""
TEXT_BYTES_ON_THE_LOOP_MAX = 8 * 1024
"""Longer texts are read and compared in a thread of their own."""


class SchemaRegistry:
    """See the module."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._read: dict[tuple[str, int], Schema] = {}

    @property
    def cluster_id(self) -> str:
        return self._engine.cluster.id

    @property
    def known(self) -> Registry:
        """What is applied here."""
        return self._engine.root.registry

    async def fresh(self) -> Registry:
        """What is true now."""
        await self._engine.catch_up(ROOT)
        return self.known

    # --- registering

    async def register(self, subject: str, new: NewSchema, *, normalize: bool = False) -> tuple[kept.Schema, int]:
        """The schema and its version in a subject; it is there already, or it becomes the next one."""
        del normalize  # what means the same is the same here, always
        for _ in range(TRIES_MAX):
            registry = await self.fresh()
            self._check_may_register(registry, subject, new)
            references = self._pinned(registry, subject, new.references)
            schema = await self._read_new(registry, subject, new, references)
            digest = _digest(schema, references, new)
            there = self._find(registry, subject, digest, deleted=False)
            if there is not None and not new.id:
                return there[1], there[0].number
            if self._mode(registry, subject) != "IMPORT":
                messages = await self._complaints(registry, subject, schema)
                if messages:
                    raise incompatible(subject, messages)
            known = registry.subject(subject)
            update = RegisterSchema(
                subject,
                new.kind,
                schema.text,
                digest,
                references,
                new.extra,
                0 if known is None else known.revision,
                registry.revision,
                new.id,
                new.version,
            )
            try:
                schema_id, number = await self._engine.propose(ROOT, update)
            except Fenced:
                continue
            made = self.known.schema(schema_id, split_subject(subject)[0])
            assert made is not None, f"schema {schema_id} was registered and is not there"
            return made, number
        raise Unavailable(f"subject '{subject}' changes too fast: try again")

    def _check_may_register(self, registry: Registry, subject: str, new: NewSchema) -> None:
        mode = self._mode(registry, subject)
        where = f"Subject {subject} in context {split_subject(subject)[0]}"
        if mode.startswith("READONLY"):
            raise not_permitted(f"{where} is in read-only mode")
        if new.id and mode != "IMPORT":
            raise not_permitted(f"{where} is not in import mode")
        if not new.id and mode == "IMPORT":
            raise not_permitted(f"{where} is not in read-write mode")

    @staticmethod
    def _pinned(registry: Registry, subject: str, references: Sequence[Reference]) -> list[Reference]:
        """References with their versions; `latest` becomes the number that it is now."""
        context = split_subject(subject)[0]
        pinned = []
        for reference in references:
            if reference.version == LATEST:
                full = kept.join_subject(*split_subject(reference.subject, context))
                known = registry.subject(full)
                live = known.live() if known is not None else []
                if not live:
                    raise invalid_schema(f"no schema reference found for subject '{reference.subject}' and version -1")
                pinned.append(Reference(reference.name, reference.subject, live[-1].number))
            else:
                pinned.append(reference)
        return pinned

    async def _read_new(
        self, registry: Registry, subject: str, new: NewSchema, references: Sequence[Reference]
    ) -> Schema:
        texts = registry.referred(split_subject(subject)[0], references)
        size = len(new.text) + sum(map(len, texts.values()))
        return await self._in_its_place(size, lambda: read_schema(new.kind, new.text, texts))

    @staticmethod
    async def _in_its_place(size: int, work: Callable[[], T]) -> T:
        if size <= TEXT_BYTES_ON_THE_LOOP_MAX:
            return work()
        return await asyncio.get_running_loop().run_in_executor(None, work)

    def _find(
        self, registry: Registry, subject: str, digest: bytes, *, deleted: bool
    ) -> tuple[Version, kept.Schema] | None:
        context, _ = split_subject(subject)
        known = registry.subject(subject)
        for version in reversed(known.versions if known is not None else []):
            schema = registry.context(context).schemas[version.id]
            if schema.digest == digest and (deleted or not version.deleted):
                return version, schema
        return None

    # --- comparing

    async def _complaints(
        self, registry: Registry, subject: str, new: Schema, against: Sequence[Version] | None = None
    ) -> list[str]:
        """Why a schema cannot follow the versions of a subject, by the level that holds there."""
        level = registry.setting(subject, "compatibility") or DEFAULT_LEVEL
        known = registry.subject(subject)
        if against is None:
            against = compared_with(level, known.live() if known is not None else [])
        elif level == "NONE":
            return []
        context = split_subject(subject)[0]
        olds = [(version.number, self.read(registry, context, version.id)) for version in against]
        size = len(new.text) * max(1, len(olds)) + sum(len(old.text) for _, old in olds)
        return await self._in_its_place(size, lambda: _compare(new, olds, level))

    async def test(self, subject: str, new: NewSchema, version: int | None) -> list[str]:
        """What registering would complain of; with a version, as if that were the only one."""
        registry = await self.fresh()
        against: list[Version] | None = None
        if version is not None:
            known = registry.subject(subject)
            live = known.live() if known is not None else []
            if version == LATEST:
                against = live[-1:]
            else:
                if known is None or not live:
                    raise subject_not_found(subject)
                against = [one for one in live if one.number == version]
                if not against:
                    raise version_not_found(version)
        references = self._pinned(registry, subject, new.references)
        schema = await self._read_new(registry, subject, new, references)
        return await self._complaints(registry, subject, schema, against)

    def read(self, registry: Registry, context: str, schema_id: int) -> Schema:
        """A registered schema, read."""
        known = self._read.get((context, schema_id))
        row = registry.context(context).schemas[schema_id]
        if known is None or known.text != row.text:
            known = read_schema(row.kind, row.text, registry.referred(context, row.references))
            while len(self._read) >= READ_KEPT_MAX:
                del self._read[next(iter(self._read))]
            self._read[context, schema_id] = known
        return known

    # --- looking up

    async def by_id(self, schema_id: int, subject: str | None = None) -> tuple[str, kept.Schema]:
        """The context and the schema of an id."""
        found = _by_id(self.known, schema_id, subject) or _by_id(await self.fresh(), schema_id, subject)
        if found is None:
            raise schema_not_found(schema_id)
        return found

    async def version(self, subject: str, number: int, *, deleted: bool = False) -> tuple[Version, kept.Schema]:
        registry = await self.fresh()
        known = registry.subject(subject)
        versions = [] if known is None else known.versions if deleted else known.live()
        if not versions:
            raise subject_not_found(subject)
        version = versions[-1] if number == LATEST else next((one for one in versions if one.number == number), None)
        if version is None:
            raise version_not_found(number)
        return version, registry.context(split_subject(subject)[0]).schemas[version.id]

    async def lookup(self, subject: str, new: NewSchema, *, deleted: bool = False) -> tuple[Version, kept.Schema]:
        """Under which version a subject has a schema."""
        registry = await self.fresh()
        known = registry.subject(subject)
        if known is None or not (known.versions if deleted else known.live()):
            raise subject_not_found(subject)
        references = self._pinned(registry, subject, new.references)
        schema = await self._read_new(registry, subject, new, references)
        found = self._find(registry, subject, _digest(schema, references, new), deleted=deleted)
        if found is None and not new.extra:
            found = self._find_plain(registry, subject, schema, references, deleted=deleted)
        if found is None:
            raise schema_not_found()
        return found

    def _find_plain(
        self, registry: Registry, subject: str, schema: Schema, references: list[Reference], *, deleted: bool
    ) -> tuple[Version, kept.Schema] | None:
        """A client that sends no metadata means the schema whatever metadata it was given."""
        context, _ = split_subject(subject)
        known = registry.subject(subject)
        for version in reversed(known.versions if known is not None else []):
            row = registry.context(context).schemas[version.id]
            if row.extra and (deleted or not version.deleted) and row.references == references:
                other = self.read(registry, context, row.id)
                if (other.kind, other.meaning) == (schema.kind, schema.meaning):
                    return version, row
        return None

    # --- deleting

    async def delete_version(self, subject: str, number: int, *, permanent: bool) -> int:
        for _ in range(TRIES_MAX):
            registry = await self.fresh()
            self._check_may_change(registry, subject)
            known = registry.subject(subject)
            if known is None:
                raise subject_not_found(subject)
            candidates = known.versions if permanent else known.live() or known.versions
            version = candidates[-1] if number == LATEST else known.version(number)
            if version is None:
                raise version_not_found(number)
            if permanent and not version.deleted:
                raise version_not_soft_deleted(subject, version.number)
            if version.deleted and not permanent:
                raise version_soft_deleted(subject, version.number)
            if await self._delete(subject, [version.number], permanent, known.revision):
                return version.number
        raise Unavailable(f"subject '{subject}' changes too fast: try again")

    async def delete_subject(self, subject: str, *, permanent: bool) -> list[int]:
        for _ in range(TRIES_MAX):
            registry = await self.fresh()
            self._check_may_change(registry, subject)
            known = registry.subject(subject)
            if known is None:
                raise subject_not_found(subject)
            live = known.live()
            if permanent and live:
                raise subject_not_soft_deleted(subject)
            if not permanent and not live:
                raise subject_soft_deleted(subject)
            numbers = [version.number for version in (known.versions if permanent else live)]
            if await self._delete(subject, numbers, permanent, known.revision):
                if subject in self.known.settings:
                    await self._engine.propose(ROOT, SetSchemaRules(subject, {}, list(self.known.settings[subject])))
                return numbers
        raise Unavailable(f"subject '{subject}' changes too fast: try again")

    async def _delete(self, subject: str, numbers: list[int], permanent: bool, revision: int) -> bool:
        try:
            await self._engine.propose(ROOT, DeleteSchemas(subject, numbers, permanent, revision))
        except Fenced:
            return False
        return True

    def _check_may_change(self, registry: Registry, subject: str) -> None:
        if self._mode(registry, subject).startswith("READONLY"):
            raise not_permitted(f"Subject {subject} in context {split_subject(subject)[0]} is in read-only mode")

    # --- settings

    @staticmethod
    def _mode(registry: Registry, scope: str) -> str:
        return registry.setting(scope, "mode") or "READWRITE"

    async def rules(self, scope: str, *, inherit: bool) -> dict[str, str]:
        """What is set for a scope; with `inherit`, what holds there."""
        registry = await self.fresh()
        own = {word: value for word, value in registry.settings.get(scope, {}).items() if word != "mode"}
        if inherit or scope == GLOBAL_SCOPE:
            for word, default in (("compatibility", DEFAULT_LEVEL), ("normalize", None)):
                held = registry.setting(scope, word) or default
                if held is not None:
                    own[word] = held
        elif not own:
            raise level_not_configured(scope)
        return own

    async def set_rules(self, scope: str, rules: dict[str, str]) -> None:
        registry = await self.fresh()
        if self._mode(registry, scope).startswith("READONLY"):
            raise not_permitted(f"Subject {scope or 'null'} is in read-only mode")
        await self._engine.propose(ROOT, SetSchemaRules(scope, rules))

    async def drop_rules(self, scope: str) -> dict[str, str]:
        """Forget what is set for a scope; what it was."""
        before = await self.rules(scope, inherit=False)
        await self._engine.propose(ROOT, SetSchemaRules(scope, {}, ["compatibility", "normalize"]))
        return before

    async def mode(self, scope: str, *, inherit: bool) -> str:
        registry = await self.fresh()
        if inherit or scope == GLOBAL_SCOPE:
            return self._mode(registry, scope)
        own = registry.settings.get(scope, {}).get("mode")
        if own is None:
            raise mode_not_configured(scope)
        return own

    async def set_mode(self, scope: str, mode: str, *, force: bool) -> None:
        empty = mode == "IMPORT" and not force and await self.mode(scope, inherit=True) != "IMPORT"
        try:
            await self._engine.propose(ROOT, SetSchemaRules(scope, {"mode": mode}, empty=empty))
        except Refused:
            raise not_permitted("Cannot import since found existing subjects") from None

    async def drop_mode(self, scope: str) -> str:
        before = await self.mode(scope, inherit=False)
        await self._engine.propose(ROOT, SetSchemaRules(scope, {}, ["mode"]))
        return before


def _by_id(registry: Registry, schema_id: int, subject: str | None) -> tuple[str, kept.Schema] | None:
    context, name = split_subject(subject or "")
    found = registry.schema(schema_id, context)
    if name and found is not None and not any(place == name for place, _ in registry.places(context, schema_id)):
        found = None  # a subject that is named has to have it
    if found is not None:
        return context, found
    if name and not (subject or "").startswith(":."):
        for other in registry.contexts:
            schema = registry.schema(schema_id, other)
            if schema is not None and any(place == name for place, _ in registry.places(other, schema_id)):
                return other, schema
        found = registry.schema(schema_id, context)
    return None if found is None else (context, found)


def _digest(schema: Schema, references: Sequence[Reference], new: NewSchema) -> bytes:
    named = [f"{each.name}\0{each.subject}\0{each.version}" for each in references]
    return schema.digest(*named, *(f"{word}={value}" for word, value in sorted(new.extra.items())))


def _compare(new: Schema, olds: Sequence[tuple[int, Schema]], level: str) -> list[str]:
    said: list[str] = []
    for number, old in olds:
        mine: list[str] = []
        if reads_old(level):
            mine += complaints(new, old)
        if read_by_old(level):
            mine += [_other_way_round(message) for message in complaints(old, new)]
        if mine:
            said += [*mine, f"{{oldSchemaVersion: {number}}}"]
    return [*said, f"{{compatibility: '{level}'}}"] if said else []


def _other_way_round(message: str) -> str:
    """Where the old schema is the reader, the words change places."""
    return message.replace("new schema", "\0").replace("old schema", "new schema").replace("\0", "old schema")
