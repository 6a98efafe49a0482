"""The truth about schemas: ids, versions, what refers to what, what holds; and their bytes."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.shapes import SHARDS, Book

from runnel.errors import Fenced, NotThere, Refused
from runnel.metadata.checkpoint import decode_checkpoint, encode_checkpoint
from runnel.metadata.encoding import decode_entry, encode_entry
from runnel.metadata.schemas import (
    TOTAL_BYTES_MAX,
    IdTaken,
    Reference,
    Referenced,
    ReferenceMissing,
    RegistryFull,
    join_subject,
    scope_of,
    split_subject,
)
from runnel.metadata.state import ShardState
from runnel.metadata.updates import DeleteSchemas, RegisterSchema, SetSchemaRules

GOLDEN = Path(__file__).parents[1] / "golden" / "metadata"


def revision(book, subject):
    known = book.state.registry.subject(subject)
    return 0 if known is None else known.revision


def register(book, subject, text, *, references=(), extra=None, **more):
    """Register with the revisions as they are."""
    update = RegisterSchema(
        subject,
        "AVRO",
        text,
        text.encode().ljust(16, b"\0")[:16],
        list(references),
        extra or {},
        more.pop("subject_revision", revision(book, subject)),
        more.pop("registry_revision", book.state.registry.revision),
        **more,
    )
    return book.one(update)


def delete(book, subject, numbers, *, permanent=False):
    return book.one(DeleteSchemas(subject, numbers, permanent, revision(book, subject)))


class TestRegistering:
    def test_ids_and_versions_count_up(self):
        book = Book(0)
        assert register(book, "a", "one") == (1, 1)
        assert register(book, "a", "two") == (2, 2)
        assert register(book, "b", "two") == (2, 1)
        assert register(book, "a", "one") == (1, 1)

    def test_what_was_judged_by_what_is_no_longer_so_is_fenced(self):
        book = Book(0)
        register(book, "a", "one")
        with pytest.raises(Fenced, match="'a' has changed"):
            register(book, "a", "two", subject_revision=0)
        book.one(SetSchemaRules("", {"compatibility": "FULL"}))
        with pytest.raises(Fenced, match="settings"):
            register(book, "a", "two", registry_revision=0)

    def test_a_subject_that_came_again_is_not_taken_for_the_one_before(self):
        book = Book(0)
        register(book, "a", "one")
        before = revision(book, "a")
        delete(book, "a", [1])
        delete(book, "a", [1], permanent=True)
        register(book, "a", "two")
        assert revision(book, "a") > before

    def test_an_id_that_is_brought_along_is_kept_and_counted_from(self):
        book = Book(0)
        assert register(book, "a", "one", id=9, number=4) == (9, 4)
        assert register(book, "a", "one", id=9, number=4) == (9, 4)
        assert register(book, "a", "two") == (10, 5)
        with pytest.raises(IdTaken):
            register(book, "a", "three", id=9)
        with pytest.raises(IdTaken):
            register(book, "a", "three", id=11, number=4)
        with pytest.raises(Refused):
            register(book, "a", "three", id=2**31)

    def test_all_schemas_together_have_a_bound(self):
        book = Book(0)
        book.state.registry.bytes = TOTAL_BYTES_MAX - 2
        with pytest.raises(RegistryFull):
            register(book, "a", "long")


class TestDeleting:
    def test_a_schema_goes_with_its_last_version(self):
        book = Book(0)
        register(book, "a", "one")
        register(book, "b", "one")
        for subject in "ab":
            delete(book, subject, [1])
            assert book.state.registry.schema(1) is not None
            delete(book, subject, [1], permanent=True)
        assert book.state.registry.schema(1) is None
        assert book.state.registry.bytes == 0
        assert register(book, "a", "one") == (2, 1)

    def test_what_is_referred_to_stays(self):
        book = Book(0)
        register(book, "a", "one")
        with pytest.raises(ReferenceMissing):
            register(book, "b", "two", references=[Reference("A", "a", 2)])
        register(book, "b", "two", references=[Reference("A", "a", 1)])
        with pytest.raises(Referenced):
            delete(book, "a", [1])
        delete(book, "b", [1])
        delete(book, "a", [1])
        with pytest.raises(Referenced):
            delete(book, "a", [1], permanent=True)
        with pytest.raises(ReferenceMissing):
            register(book, "b", "two", references=[Reference("A", "a", 1)])

    def test_what_is_not_there_cannot_be_deleted(self):
        book = Book(0)
        with pytest.raises(NotThere):
            delete(book, "a", [1])
        register(book, "a", "one")
        with pytest.raises(NotThere):
            delete(book, "a", [2])
        with pytest.raises(Refused, match="not deleted before"):
            delete(book, "a", [1], permanent=True)


def test_a_scope_has_to_be_empty_where_that_is_asked_for():
    book = Book(0)
    register(book, ":.c:a", "one")
    for scope in ("", ":.c:", ":.c:a"):
        with pytest.raises(Refused):
            book.one(SetSchemaRules(scope, {"mode": "IMPORT"}, empty=True))
    book.one(SetSchemaRules("a", {"mode": "IMPORT"}, empty=True))
    assert book.state.registry.setting("a", "mode") == "IMPORT"
    assert book.state.registry.setting(":.c:a", "mode") is None


@given(st.text("ab.:", max_size=8), st.text("ab.:/", max_size=8))
def test_subjects_are_split_as_they_were_joined(context, name):
    context = "." + context.replace(":", "")
    full = join_subject(context, name)
    if context != "." or not name.startswith(":."):
        assert split_subject(full) == (context, name)
    assert split_subject(f":{context}:") == (context, "")
    assert scope_of(context) in ("", f":{context}:")


def book() -> Book:
    """Every update of this family."""
    root = Book(0)
    register(root, "a", "one")
    register(root, ":.c:b", "two", extra={"metadata": "{}"})
    register(root, "a", "three", references=[Reference("One", "a", 1)], id=7, number=3)
    root.one(SetSchemaRules("", {"compatibility": "FULL", "mode": "READONLY"}, ["normalize"]))
    register(root, "d", "two")
    delete(root, "d", [1])
    delete(root, "d", [1], permanent=True)
    delete(root, "a", [3])
    return root


def test_updates_and_states_with_schemas_keep_their_bytes_forever():
    root = book()
    state = ShardState(0, SHARDS)
    for number, entry in enumerate(root.entries):
        path = GOLDEN / f"schemas-v1-shard0-{number}.bin"
        if os.environ.get("RUNNEL_GOLDEN") == "keep" and not path.exists():
            path.write_bytes(encode_entry(entry))
        assert path.read_bytes() == encode_entry(entry)
        assert decode_entry(path.read_bytes(), "golden") == entry
        state.apply(decode_entry(path.read_bytes(), "golden"), number + 1)
    checkpoint = GOLDEN / "schemas-v5-checkpoint.bin"
    if os.environ.get("RUNNEL_GOLDEN") == "keep" and not checkpoint.exists():
        checkpoint.write_bytes(encode_checkpoint(state))
    restored = decode_checkpoint(checkpoint.read_bytes(), "golden")
    assert msgspec.to_builtins(restored.registry) == msgspec.to_builtins(root.state.registry)
    assert restored.registry.changes > 0
