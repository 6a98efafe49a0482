"""Groups in the truth: who may enter what, and what is kept of it."""

import os
from pathlib import Path

import pytest
from tests.metadata.shapes import SHARDS, Book

from runnel.errors import Fenced, NotThere
from runnel.metadata.encoding import decode_entry, encode_entry
from runnel.metadata.groups import Committed
from runnel.metadata.state import ShardState
from runnel.metadata.updates import CommitOffsets, CommitOfMember, EnterGeneration, ExpireOffsets, TakeGroup
from runnel.metadata.updates.groups import LedByAnother

GOLDEN = Path(__file__).parents[1] / "golden" / "metadata"
TOPIC = b"t" * 16


def committed(book, group="g"):
    return {place: each.offset for place, each in book.state.groups[group].offsets.get(TOPIC, {}).items()}


def test_who_takes_a_group_over_fences_the_one_before():
    book = Book()
    book.one(EnterGeneration("g", "classic", 0, 1, b"me", b"members"))
    book.one(CommitOfMember("g", b"me", {TOPIC: {0: Committed(5)}}))
    book.one(TakeGroup("g", b"you"))
    group = book.state.groups["g"]
    assert (group.generation, group.members, group.owner) == (1, b"members", b"you")
    late = Committed(3)
    for update in (EnterGeneration("g", "classic", 1, 2, b"me", b""), CommitOfMember("g", b"me", {TOPIC: {0: late}})):
        with pytest.raises(LedByAnother):
            book.one(update)
    assert committed(book) == {0: 5}
    book.one(CommitOfMember("g", b"you", {TOPIC: {0: Committed(6), 1: Committed(1)}}))
    assert committed(book) == {0: 6, 1: 1}


def test_a_group_without_members_is_anybodys():
    book = Book()
    book.one(EnterGeneration("g", "classic", 0, 1, b"me", b"members"))
    book.one(EnterGeneration("g", "classic", 1, 2, b"me", b"", empty=True))
    book.one(EnterGeneration("g", "classic", 2, 3, b"you", b"members"))
    with pytest.raises(NotThere):
        book.one(TakeGroup("unheard of", b"me"))
    with pytest.raises(Fenced):
        book.one(CommitOfMember("unheard of", b"me", {}))
    book.one(CommitOffsets("simple", {TOPIC: {0: Committed(5)}}, 0))
    book.one(EnterGeneration("simple", "classic", 0, 1, b"me", b"members"))
    with pytest.raises(Fenced):
        book.one(CommitOffsets("simple", {TOPIC: {0: Committed(4)}}, 0))
    assert committed(book, "simple") == {0: 5}


def everything():
    book = Book(1)
    book.enter(
        EnterGeneration("g", "classic", 0, 1, b"o" * 16, b"mm"),
        TakeGroup("g", b"p" * 16),
        CommitOfMember("g", b"p" * 16, {TOPIC: {0: Committed(3, 1, "x", 4)}}),
    )
    book.enter(ExpireOffsets(7))
    return book


def test_offsets_expire_with_their_group_or_one_by_one():
    book = Book()
    for group in ("deserted", "busy"):
        book.enter(EnterGeneration(group, "classic", 0, 1, b"me", b"members"), at_ms=1)
        book.enter(CommitOfMember(group, b"me", {TOPIC: {0: Committed(5, at_ms=1)}}), at_ms=1)
    book.enter(EnterGeneration("deserted", "classic", 1, 2, b"me", b"", empty=True), at_ms=10)
    book.enter(CommitOffsets("simple", {TOPIC: {0: Committed(5, at_ms=5), 1: Committed(6, at_ms=20)}}), at_ms=20)
    assert book.one(ExpireOffsets(10)) == []
    assert committed(book, "simple") == {1: 6}
    assert committed(book, "deserted") == {0: 5}, "it counts from when the last member went"
    assert book.one(ExpireOffsets(11)) == ["deserted"]
    assert book.one(ExpireOffsets(21)) == ["simple"]
    assert committed(book, "busy") == {0: 5}


def test_every_update_keeps_its_bytes_forever():
    book = everything()
    state = ShardState(1, SHARDS)
    for number, entry in enumerate(book.entries):
        path = GOLDEN / f"groups-v1-shard1-{number}.bin"
        if os.environ.get("RUNNEL_GOLDEN") == "keep" and not path.exists():
            path.write_bytes(encode_entry(entry))
        assert path.read_bytes() == encode_entry(entry)
        assert decode_entry(path.read_bytes(), "golden") == entry
        state.apply(decode_entry(path.read_bytes(), "golden"), number + 1)
    assert state.groups == book.state.groups
