"""Buckets, what is published beside a stream, and commits that happen whole or not at all."""

import pytest
from tests.metadata.golden import assert_kept
from tests.metadata.shapes import GUARDED, NAMED, SHARDS, Book, Guard, commit, item

from runnel.errors import AlreadyThere, Fenced, NotThere, Refused
from runnel.metadata.buckets import BUCKETS_MAX, placement_of
from runnel.metadata.checkpoint import decode_checkpoint, encode_checkpoint
from runnel.metadata.encoding import decode_entry, encode_entry
from runnel.metadata.invariants import broken
from runnel.metadata.producers import Verdict
from runnel.metadata.state import ShardState
from runnel.metadata.stream import Snapshot, Traits
from runnel.metadata.updates import (
    CommitObject,
    DeleteStreams,
    EnterHorizon,
    ForgetBucket,
    LeaveBucket,
    LimitBucket,
    MakeBucket,
    OpenStream,
    PublishSnapshot,
    RetainStream,
    SealBucket,
    SetAttributes,
    UnsealBucket,
)
from runnel.metadata.updates.commit import HorizonPassed
from runnel.metadata.updates.snapshots import Conflict, OffsetGone


@pytest.fixture
def book():
    book = Book()
    yield book
    assert broken(book.state) == []
    assert broken(decode_checkpoint(encode_checkpoint(book.state), "itself")) == []


def snapshot(offset, name="wal/s", digest="d"):
    return Snapshot(offset, name, 4, "text/plain", digest)


class TestBuckets:
    def test_a_bucket_is_made_once_and_left_before_it_is_forgotten(self):
        root = Book(0)
        root.one(MakeBucket("demo"))
        with pytest.raises(AlreadyThere):
            root.one(MakeBucket("demo"))
        with pytest.raises(Refused):
            root.one(ForgetBucket("demo"))
        root.one(LeaveBucket("demo"))
        root.one(ForgetBucket("demo"))
        with pytest.raises(NotThere):
            root.one(LeaveBucket("demo"))

    def test_making_a_bucket_that_is_leaving_takes_its_deletion_back(self):
        root = Book(0)
        root.one(MakeBucket("demo"))
        root.one(LimitBucket("demo", 5, None))
        root.one(LeaveBucket("demo"))
        root.one(MakeBucket("demo"))
        assert not root.state.buckets["demo"].leaving
        assert root.state.buckets["demo"].streams_max == 5

    def test_there_is_a_largest_number_of_buckets(self):
        root = Book(0)
        for number in range(BUCKETS_MAX):
            root.state.buckets[f"b{number}"] = None
        with pytest.raises(Refused, match="buckets"):
            root.one(MakeBucket("onemore"))

    def test_a_bucket_with_streams_is_not_sealed_and_a_sealed_one_gets_none(self, book):
        stream = book.one(OpenStream(Traits("demo/a")))
        with pytest.raises(Refused, match="not empty"):
            book.one(SealBucket("demo"))
        book.one(SealBucket("dem"))
        book.one(DeleteStreams([stream]))
        book.one(SealBucket("demo"))
        with pytest.raises(NotThere):
            book.one(OpenStream(Traits("demo/a")))
        opened = item(9, flags=GUARDED)
        assert book.one(commit(opened, guards={0: Guard(open=Traits("demo/b"))})).notes[0].verdict is (
            Verdict.STREAM_UNKNOWN
        )
        book.one(UnsealBucket("demo"))
        book.one(OpenStream(Traits("demo/a")))

    def test_three_parts_of_a_name_are_placed_by_two(self):
        assert placement_of("demo/run/queue") == placement_of("demo/run/journal") == "demo/run"
        assert placement_of("demo/run") == "demo/run"
        assert placement_of("v1-stream/a/b") == "v1-stream/a/b"


class TestSnapshots:
    @pytest.fixture
    def stream(self, book):
        stream = book.one(OpenStream(Traits("demo/a")))
        book.one(commit(item(stream, 10)))
        return stream

    def test_the_newest_snapshot_is_referred_to_and_the_older_one_let_go(self, book, stream):
        assert book.one(PublishSnapshot(stream, snapshot(4), 1)) is True
        assert "wal/s" in book.state.objects
        assert book.one(PublishSnapshot(stream, snapshot(6, "wal/t", "e"), 1, "d")) is True
        assert "wal/s" not in book.state.objects
        book.one(DeleteStreams([stream]))
        assert len(book.state.objects) == 0

    def test_the_same_again_is_no_news_and_refers_to_nothing_new(self, book, stream):
        book.one(PublishSnapshot(stream, snapshot(4), 1))
        assert book.one(PublishSnapshot(stream, snapshot(4, "wal/again"), 1, "other")) is False
        assert "wal/again" not in book.state.objects

    @pytest.mark.parametrize(
        ("offset", "digest", "match", "kind"),
        [
            (4, "other", None, AlreadyThere),
            (3, "e", None, Conflict),
            (11, "e", None, Conflict),
            (6, "e", "wrong", Conflict),
        ],
    )
    def test_what_stands_in_the_way_is_said(self, book, stream, offset, digest, match, kind):
        book.one(PublishSnapshot(stream, snapshot(4), 1))
        with pytest.raises(kind):
            book.one(PublishSnapshot(stream, snapshot(offset, "wal/u", digest), 1, match))
        assert "wal/u" not in book.state.objects

    def test_records_go_only_where_a_snapshot_stands_for_them(self, book, stream):
        with pytest.raises(Conflict, match="there is none"):
            book.one(RetainStream(stream, 3))
        book.one(PublishSnapshot(stream, snapshot(4), 1))
        with pytest.raises(Conflict, match="newest is at record 4"):
            book.one(RetainStream(stream, 5))
        assert book.one(RetainStream(stream, 4)) == 4
        with pytest.raises(Conflict, match="never moves back"):
            book.one(RetainStream(stream, 3))
        with pytest.raises(Fenced):
            book.one(PublishSnapshot(stream, snapshot(3, "wal/u", "u"), 1))

    def test_a_snapshot_before_the_first_record_is_gone(self, book, stream):
        book.state.streams[stream].start = 5
        with pytest.raises(OffsetGone):
            book.one(PublishSnapshot(stream, snapshot(3), 1))

    def test_a_body_that_a_sweep_may_have_taken_is_not_published(self, book, stream):
        book.one(EnterHorizon(100))
        with pytest.raises(HorizonPassed):
            book.one(PublishSnapshot(stream, snapshot(4), 99))

    def test_attributes_belong_to_streams_with_names(self, book, stream):
        book.one(SetAttributes(stream, b"{}"))
        with pytest.raises(NotThere):
            book.one(SetAttributes(77, b"{}"))


def together(*items, names=(), guards=None, name="wal/one"):
    return CommitObject(name, 1, b"".join(items), list(names), guards or {}, True)


class TestTogether:
    @pytest.fixture
    def pair(self, book):
        return book.one(OpenStream(Traits("demo/k/a"))), book.one(OpenStream(Traits("demo/k/b")))

    def ends(self, book):
        return [stream.end for stream in book.state.streams.values()]

    def test_all_items_are_appended(self, book, pair):
        result = book.one(together(item(pair[0], 2), item(pair[1], 1, place=100)))
        assert (result.firsts, result.notes) == ([0, 0], {})

    @pytest.mark.parametrize(
        "spoiler",
        [
            lambda a, b: (item(b, flags=GUARDED), Guard(next_offset=7), Verdict.OFFSET_UNEXPECTED),
            lambda a, b: (item(999), None, Verdict.STREAM_UNKNOWN),
            lambda a, b: (item(b, producer=0, epoch=0, sequence=4, flags=NAMED), None, Verdict.OUT_OF_ORDER),
        ],
    )
    def test_one_refusal_leaves_every_stream_as_it_was(self, book, pair, spoiler):
        bad, guard, verdict = spoiler(*pair)
        before = encode_checkpoint(book.state)
        first = item(pair[0], producer=0, epoch=0, sequence=0, flags=NAMED | GUARDED)
        result = book.one(
            together(
                first, bad, names=["p"], guards={0: Guard(close=True, sequence="a"), **({1: guard} if guard else {})}
            )
        )
        assert result.firsts == [-1, -1]
        assert {index: note.verdict for index, note in result.notes.items()} == {
            0: Verdict.OTHERS_REFUSED,
            1: verdict,
        }
        after = decode_checkpoint(encode_checkpoint(book.state), "after")
        was = decode_checkpoint(before, "before")
        assert [(s.id, s.end, s.closed, s.producers) for s in after.streams.values()] == [
            (s.id, s.end, s.closed, s.producers) for s in was.streams.values()
        ]
        assert len(book.state.objects) == 0

    def test_items_of_one_stream_see_each_other(self, book, pair):
        guards = {0: Guard(next_offset=0), 1: Guard(next_offset=2, close=True)}
        one, two = item(pair[0], 2, flags=GUARDED), item(pair[0], 1, place=100, flags=GUARDED)
        assert book.one(together(one, two, guards=guards)).firsts == [0, 2]
        assert book.state.streams[pair[0]].closed

    def test_a_repetition_of_the_whole_is_a_repetition(self, book, pair):
        items = [item(stream, producer=0, epoch=0, sequence=0, flags=NAMED) for stream in pair]
        book.one(together(*items, names=["p"]))
        again = book.one(together(*items, names=["p"], name="wal/two"))
        assert again.firsts == [0, 0]
        assert {note.verdict for note in again.notes.values()} == {Verdict.DUPLICATE}

    def test_a_repetition_of_a_part_is_refused(self, book, pair):
        named = item(pair[0], producer=0, epoch=0, sequence=0, flags=NAMED)
        book.one(together(named, item(pair[1], place=100), names=["p"]))
        again = book.one(together(named, item(pair[1], place=100), names=["p"], name="wal/two"))
        assert again.firsts == [-1, -1]
        assert self.ends(book) == [1, 1]


def everything():
    root, data = Book(0), Book()
    root.enter(MakeBucket("demo"), MakeBucket("gone"), LimitBucket("demo", 3, 1 << 30))
    root.enter(LeaveBucket("gone"), ForgetBucket("gone"))
    stream = data.one(OpenStream(Traits("demo/a", attributes=b'{"title":"t"}')))
    data.enter(commit(item(stream, 4)), PublishSnapshot(stream, snapshot(2), 1, None), RetainStream(stream, 1))
    data.enter(SetAttributes(stream, b""), SealBucket("gone"), SealBucket("demo2"), UnsealBucket("demo2"))
    data.enter(together(item(stream, 1), name="wal/two"))
    return [root, data]


def test_every_update_keeps_its_bytes_forever():
    for book in everything():
        assert broken(book.state) == []
        again = ShardState(book.state.shard, SHARDS)
        for number, entry in enumerate(book.entries):
            assert_kept(f"buckets-v1-shard{book.state.shard}-{number}", entry)
            again.apply(decode_entry(encode_entry(entry), "golden"), number + 1)
        assert encode_checkpoint(again) == encode_checkpoint(book.state)
