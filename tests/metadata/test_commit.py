"""What a commit decides: offsets, repetitions, fences, extents."""

import pytest
from tests.metadata.shapes import GUARDED, NAMED, Book, Guard, commit, item

from runnel.metadata.invariants import broken
from runnel.metadata.producers import Verdict
from runnel.metadata.stream import Traits
from runnel.metadata.updates import CreateStreams, EnterHorizon, OpenStream, TruncateStreams
from runnel.metadata.updates.commit import HorizonPassed


@pytest.fixture
def book():
    book = Book()
    book.enter(CreateStreams([0, 4, 8]))
    yield book
    assert broken(book.state) == []


def verdicts(result):
    return {index: note.verdict for index, note in result.notes.items()}


def test_offsets_are_dense_and_follow_the_order_of_the_ledger(book):
    assert book.one(commit(item(0, 3), item(4, 2, place=100))).firsts == [0, 0]
    assert book.one(commit(item(0, 5), name="wal/two")).firsts == [3]
    assert book.state.streams[0].end == 8


def test_adjacent_items_of_a_stream_become_one_extent(book):
    book.one(commit(item(0, 1, length=10), item(0, 2, place=10, length=20, stamp=7), item(4, 1, place=30)))
    (extent,) = book.state.streams[0].extents
    assert (extent.first, extent.end, extent.place, extent.length, extent.stamp) == (0, 3, 0, 30, 7)
    assert list(book.state.objects.references) == [2]


def test_a_refused_item_splits_the_extent_around_it(book):
    book.one(commit(item(0, 1, producer=9, epoch=0, sequence=0), name="wal/a"))
    result = book.one(
        commit(
            item(0, 1, length=10),
            item(0, 1, place=10, length=10, producer=9, epoch=0, sequence=0),
            item(0, 1, place=20, length=10),
            name="wal/b",
        )
    )
    assert result.firsts == [1, 0, 2]
    assert verdicts(result) == {1: Verdict.DUPLICATE}
    assert [(extent.first, extent.end, extent.place) for extent in book.state.streams[0].extents] == [
        (0, 1, 0),
        (1, 2, 0),
        (2, 3, 20),
    ]


def test_an_object_whose_items_are_all_refused_is_not_referred_to(book):
    result = book.one(commit(item(12)))
    assert verdicts(result) == {0: Verdict.STREAM_UNKNOWN}
    assert "wal/one" not in book.state.objects


class TestNumberedProducers:
    def test_a_retry_gets_its_first_offset_from_any_later_object(self, book):
        book.one(commit(item(0, 5)))
        assert book.one(commit(item(0, 3, producer=7, epoch=0, sequence=0), name="b")).firsts == [5]
        book.one(commit(item(0, 2, producer=7, epoch=0, sequence=3), name="c"))
        result = book.one(commit(item(0, 3, producer=7, epoch=0, sequence=0), name="d"))
        assert (result.firsts, verdicts(result)) == ([5], {0: Verdict.DUPLICATE})
        assert book.state.streams[0].end == 10

    def test_a_gap_is_refused_and_filled_later(self, book):
        book.one(commit(item(0, 3, producer=7, epoch=0, sequence=0)))
        gap = book.one(commit(item(0, 1, producer=7, epoch=0, sequence=5), name="b"))
        assert verdicts(gap) == {0: Verdict.OUT_OF_ORDER}
        assert book.one(commit(item(0, 2, producer=7, epoch=0, sequence=3), name="c")).firsts == [3]
        assert book.one(commit(item(0, 1, producer=7, epoch=0, sequence=5), name="d")).firsts == [5]

    def test_an_unknown_producer_begins_at_zero(self, book):
        assert verdicts(book.one(commit(item(0, producer=7, epoch=0, sequence=4)))) == {0: Verdict.PRODUCER_UNKNOWN}

    def test_epochs_fence(self, book):
        book.one(commit(item(0, producer=7, epoch=2, sequence=0)))
        assert verdicts(book.one(commit(item(0, producer=7, epoch=1, sequence=1)))) == {0: Verdict.EPOCH_STALE}
        assert verdicts(book.one(commit(item(0, producer=7, epoch=3, sequence=1)))) == {0: Verdict.OUT_OF_ORDER}
        assert book.one(commit(item(0, producer=7, epoch=3, sequence=0), name="c")).firsts == [1]

    def test_sequences_wrap_as_kafka_wraps_them(self, book):
        book.one(commit(item(0, 2**31 - 2, producer=7, epoch=0, sequence=0)))
        assert book.one(commit(item(0, 4, producer=7, epoch=0, sequence=2**31 - 2), name="b")).firsts == [2**31 - 2]
        assert book.state.streams[0].producers[7].last == 1
        assert book.one(commit(item(0, 1, producer=7, epoch=0, sequence=2), name="c")).notes == {}

    def test_a_repetition_older_than_five_batches_is_known_but_not_where_it_lies(self, book):
        for sequence in range(7):
            book.one(commit(item(0, producer=7, epoch=0, sequence=sequence), name=f"wal/{sequence}"))
        assert verdicts(book.one(commit(item(0, producer=7, epoch=0, sequence=0)))) == {0: Verdict.DUPLICATE_FORGOTTEN}
        result = book.one(commit(item(0, producer=7, epoch=0, sequence=2)))
        assert (result.firsts, verdicts(result)) == ([2], {0: Verdict.DUPLICATE})

    def test_producers_are_judged_stream_by_stream(self, book):
        book.one(commit(item(0, producer=7, epoch=0, sequence=0), item(4, producer=7, epoch=0, sequence=0)))
        assert book.state.streams[0].end == book.state.streams[4].end == 1


class TestNamedProducers:
    @pytest.fixture
    def stream(self, book):
        return book.one(OpenStream(Traits("orders")))

    def append(self, book, stream, epoch, sequence, guard=None, records=1):
        flags = NAMED | (GUARDED if guard else 0)
        guards = {0: guard} if guard else {}
        return book.one(
            commit(
                item(stream, records, producer=0, epoch=epoch, sequence=sequence, flags=flags, length=10 * records),
                name=f"wal/{len(book.entries)}",
                names=["writer"],
                guards=guards,
            )
        )

    def test_sequences_count_requests_and_duplicates_tell_the_highest(self, book, stream):
        assert self.append(book, stream, 0, 0, records=3).firsts == [0]
        assert self.append(book, stream, 0, 1).firsts == [3]
        result = self.append(book, stream, 0, 0)
        assert result.firsts == [0]
        assert result.notes[0].verdict is Verdict.DUPLICATE
        assert result.notes[0].facts["last"] == 1

    def test_first_contact_and_new_epochs_begin_at_zero(self, book, stream):
        assert verdicts(self.append(book, stream, 0, 1)) == {0: Verdict.OUT_OF_ORDER}
        self.append(book, stream, 4, 0)
        assert verdicts(self.append(book, stream, 3, 0)) == {0: Verdict.EPOCH_STALE}
        assert verdicts(self.append(book, stream, 5, 1)) == {0: Verdict.EPOCH_MUST_BEGIN_AT_ZERO}
        assert verdicts(self.append(book, stream, 5, 0)) == {}

    def test_a_closed_stream_refuses_all_but_the_repetition_that_closed_it(self, book, stream):
        assert self.append(book, stream, 0, 0, Guard(close=True)).notes == {}
        assert verdicts(self.append(book, stream, 0, 0, Guard(close=True))) == {0: Verdict.DUPLICATE}
        assert verdicts(self.append(book, stream, 0, 1)) == {0: Verdict.STREAM_CLOSED}
        assert verdicts(book.one(commit(item(stream)))) == {0: Verdict.STREAM_CLOSED}

    def test_closing_twice_without_a_producer_is_one_closing(self, book, stream):
        closing = commit(item(stream, 0, length=0, flags=GUARDED), guards={0: Guard(close=True)})
        applied = book.enter(closing)
        assert applied.touched == {stream}
        assert verdicts(book.one(closing)) == {0: Verdict.DUPLICATE}

    def test_stream_sequences_grow_byte_by_byte(self, book, stream):
        for sequence, verdict in (("2", {}), ("10", {0: Verdict.SEQUENCE_REGRESSED}), ("3", {})):
            guarded = commit(item(stream, flags=GUARDED), guards={0: Guard(sequence=sequence)})
            assert verdicts(book.one(guarded)) == verdict

    def test_an_append_can_insist_on_its_offset(self, book, stream):
        guarded = commit(item(stream, 2, flags=GUARDED), guards={0: Guard(next_offset=0)})
        assert book.one(guarded).firsts == [0]
        assert book.one(guarded).notes[0].facts["end"] == 2


def test_an_object_older_than_the_horizon_is_refused(book):
    book.one(EnterHorizon(100))
    with pytest.raises(HorizonPassed):
        book.one(commit(item(0), stamp=99))
    assert book.one(commit(item(0), stamp=100)).firsts == [0]


def test_truncation_lets_go_of_objects_and_keeps_offsets(book):
    for number in range(3):
        book.one(commit(item(0, 10), name=f"wal/{number}"))
    assert book.one(TruncateStreams({0: 15})) == {0: 15}
    stream = book.state.streams[0]
    assert (stream.start, stream.end, stream.extents.floor) == (15, 30, 10)
    assert set(book.state.objects.slot_of) == {"wal/1", "wal/2"}
    book.one(TruncateStreams({0: 30}))
    assert not len(book.state.objects)
    assert book.one(commit(item(0, 1), name="wal/3")).firsts == [30]
