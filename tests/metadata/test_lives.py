"""Streams with names are used, expire, are removed, and are held by their forks."""

import pytest
from tests.metadata.golden import assert_kept
from tests.metadata.shapes import GUARDED, SHARDS, Book, Guard, commit, item

from runnel.errors import NotThere, Refused
from runnel.metadata.checkpoint import decode_checkpoint, encode_checkpoint
from runnel.metadata.encoding import decode_entry, encode_entry
from runnel.metadata.invariants import broken
from runnel.metadata.producers import Verdict
from runnel.metadata.state import ShardState
from runnel.metadata.stream import Fork, Traits
from runnel.metadata.updates import HoldSource, OpenStream, ReleaseSource, RemoveStream, TouchStream

BORN = (1 << 62) + 400


def source(book, name="b/source", records=5, **traits):
    stream = book.one(OpenStream(Traits(name, **traits)))
    if records:
        book.enter(commit(item(stream, records), name=f"wal/{name}"))
    return stream


def test_a_stream_is_made_by_the_append_that_brings_its_first_records():
    book = Book()
    guard = Guard(open=Traits("b/one", "text/plain"))
    stream = BORN - BORN % SHARDS
    (result,) = book.enter(commit(item(stream, 2, flags=GUARDED), guards={0: guard})).results
    assert result.firsts == [0]
    assert book.state.names == {"b/one": stream}
    assert book.state.streams[stream].end == 2
    (again,) = book.enter(commit(item(stream + 4, 2, flags=GUARDED), guards={0: guard}, name="wal/2")).results
    assert again.notes[0].verdict is Verdict.NAME_TAKEN
    assert stream + 4 not in book.state.streams
    assert broken(book.state) == []


def test_an_append_to_a_stream_that_is_gone_does_not_make_it():
    book = Book()
    (result,) = book.enter(commit(item(4, 2, flags=GUARDED), guards={0: Guard(sequence="a")})).results
    assert result.notes[0].verdict is Verdict.STREAM_UNKNOWN


def test_use_pushes_the_end_of_a_life_back_and_a_moment_does_not_move():
    book = Book()
    sliding = source(book, ttl_s=100, born_ms=1_000)
    fixed = source(book, "b/fixed", 0, expires_ms=5_000)
    assert book.state.streams[sliding].traits.deadline_ms() == 1_000 + 100_000 + 5_000
    book.one(TouchStream(sliding), at_ms=50_000)
    book.one(TouchStream(sliding), at_ms=40_000)
    book.one(TouchStream(fixed), at_ms=4_000)
    assert book.one(RemoveStream(sliding, expired=True), at_ms=150_000) is None
    book.enter(commit(item(sliding), name="wal/later"), at_ms=60_000)
    assert book.one(RemoveStream(sliding, expired=True), at_ms=160_000) is None
    assert book.one(RemoveStream(sliding, expired=True), at_ms=165_000).gone
    assert book.one(RemoveStream(fixed, expired=True), at_ms=4_999) is None
    assert book.one(RemoveStream(fixed, expired=True), at_ms=5_000).gone
    assert book.state.names == {}
    with pytest.raises(NotThere):
        book.one(RemoveStream(fixed))


class TestForks:
    def test_a_source_that_is_held_only_leaves_and_goes_with_its_last_fork(self):
        book = Book()
        stream = source(book)
        assert book.one(HoldSource(stream, b"a", "b/fork", 3)) == 0
        book.one(HoldSource(stream, b"b", "b/other", 5))
        book.one(HoldSource(stream, b"b", "b/other", 5))
        assert not book.one(RemoveStream(stream)).gone
        assert book.state.names == {"b/source": stream}
        with pytest.raises(Refused, match="deleted"):
            book.one(HoldSource(stream, b"c", "b/third", 1))
        with pytest.raises(NotThere):
            book.one(RemoveStream(stream))
        (result,) = book.enter(commit(item(stream), name="wal/late")).results
        assert result.notes[0].verdict is Verdict.STREAM_CLOSED
        assert book.one(ReleaseSource(stream, b"a")) is None
        assert book.one(ReleaseSource(stream, b"a")) is None
        assert book.one(ReleaseSource(stream, b"b")).gone
        assert book.one(ReleaseSource(stream, b"b")) is None
        assert not book.state.names
        assert not book.state.streams

    def test_a_fork_begins_where_it_left_its_source_and_names_it_when_it_goes(self):
        book = Book()
        fork = Fork(source(book), 3, b"token", source_name="b/source")
        stream = book.one(OpenStream(Traits("b/fork", fork=fork)))
        assert (book.state.streams[stream].start, book.state.streams[stream].end) == (0, 3)
        assert broken(book.state) == []
        book.enter(commit(item(stream, 2), name="wal/own"))
        assert book.state.streams[stream].end == 5
        assert broken(book.state) == []
        assert book.one(RemoveStream(stream)).fork == fork

    def test_no_fork_reaches_beyond_its_source(self):
        book = Book()
        stream = source(book)
        with pytest.raises(Refused, match="0 to 5, not 6"):
            book.one(HoldSource(stream, b"a", "b/fork", 6))
        with pytest.raises(NotThere):
            book.one(HoldSource(stream + SHARDS, b"a", "b/fork", 0))


def lives() -> Book:
    book = Book()
    stream = source(book, ttl_s=5, born_ms=9)
    book.enter(HoldSource(stream, b"token", "b/fork", 2), at_ms=70)
    fork = Fork(stream, 2, b"token", "b/source", "0000000000000002_0000000000000000", 0, 0)
    made = Guard(open=Traits("b/fork", "text/plain", 71, fork=fork), close=True)
    book.enter(commit(item(BORN - BORN % SHARDS, 1, flags=GUARDED), guards={0: made}, name="wal/made"))
    book.enter(TouchStream(stream), RemoveStream(stream), ReleaseSource(stream, b"other"), at_ms=80)
    return book


def test_these_updates_keep_their_bytes_forever():
    book = lives()
    state = ShardState(book.state.shard, SHARDS)
    for number, entry in enumerate(book.entries):
        assert_kept(f"lives-v1-{number}", entry)
        state.apply(decode_entry(encode_entry(entry), "golden"), number + 1)
    assert broken(state) == []
    assert encode_checkpoint(state) == encode_checkpoint(book.state)
    restored = decode_checkpoint(encode_checkpoint(state), "checkpoint")
    assert restored.streams[restored.names["b/source"]].traits == state.streams[state.names["b/source"]].traits
    assert broken(restored) == []
