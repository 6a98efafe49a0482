"""The truth about tables: Parquet takes the place of write-ahead objects, commits follow each other, one plans."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.golden import assert_kept
from tests.metadata.shapes import SHARDS, Book, commit, item

from runnel.errors import Fenced, NotThere, Refused
from runnel.metadata.checkpoint import decode_checkpoint, encode_checkpoint
from runnel.metadata.encoding import decode_entry, encode_entry
from runnel.metadata.invariants import broken
from runnel.metadata.objects import FileKind
from runnel.metadata.state import ShardState
from runnel.metadata.tables import COMMITS_KEPT, Step, TableCommit
from runnel.metadata.updates import (
    BeginCommit,
    CreateStreams,
    CreateTopic,
    DeleteStreams,
    DeleteTopic,
    EnterHorizon,
    ForgetTable,
    MarkCommit,
    NoteTable,
    OpenTable,
    RenewPlanning,
    ReplaceExtents,
    TakePlanning,
    TruncateStreams,
)
from runnel.metadata.updates.extents import RUN, Replacement
from runnel.read.plan import plan_read, plan_time

REPLACED, ALREADY, GONE, OTHER = Replacement


def replace(*runs, files=("t/one.parquet",), over=(), stamp=None):
    return ReplaceExtents(list(files), b"".join(RUN.pack(*run) for run in runs), list(over), stamp)


def ten_objects(stream=0):
    """A stream with ten extents of five records, in objects of their own."""
    book = Book()
    book.enter(CreateStreams([0, 4]))
    for number in range(10):
        book.enter(
            commit(item(stream, 5, stamp=100 - number if number % 2 else number), name=f"wal/{number}", stamp=number)
        )
    return book


class TestReplacing:
    def test_a_file_takes_the_place_of_the_objects_that_held_its_offsets(self):
        book = ten_objects()
        assert book.one(replace((0, 10, 40, 0, 3))) == [REPLACED]
        extents = list(book.state.streams[0].extents)
        assert [(each.first, each.end) for each in extents] == [(0, 5), (5, 10), (10, 40), (40, 45), (45, 50)]
        assert (extents[2].place, extents[2].length) == (3, 600)
        assert extents[2].stamp == 97
        assert sorted(book.state.objects.slot_of) == ["t/one.parquet", "wal/0", "wal/1", "wal/8", "wal/9"]
        assert book.state.streams[0].size == 1000
        assert broken(book.state) == []

    def test_readers_see_what_kind_of_object_holds_a_part(self):
        book = ten_objects()
        book.one(replace((0, 5, 45, 0, 0)))
        kinds = [(part.name, part.kind) for part in plan_read(book.state, 0, 0, 10**6).parts]
        assert kinds == [
            ("wal/0", FileKind.WAL),
            ("t/one.parquet", FileKind.PARQUET),
        ]  # what it holds is looked up first
        known = plan_read(book.state, 0, 0, 10**6, chunks_of=lambda part: [part])
        kinds = [(part.name, part.kind) for part in known.parts]
        assert kinds == [("wal/0", FileKind.WAL), ("t/one.parquet", FileKind.PARQUET), ("wal/9", FileKind.WAL)]
        assert [part.kind for part in plan_time(book.state, 0, 50)] == [FileKind.PARQUET, FileKind.WAL]

    def test_a_repetition_changes_nothing(self):
        book = ten_objects()
        update = replace((0, 0, 50, 0, 0))
        assert book.one(update) == [REPLACED]
        before = encode_checkpoint(book.state)
        assert book.one(update) == [ALREADY]
        book.state.position -= 1
        book.state.remembered.popitem()
        assert encode_checkpoint(book.state) == before

    def test_one_file_may_hold_runs_of_many_streams(self):
        book = ten_objects()
        book.enter(commit(item(4, 7), name="wal/x", stamp=99))
        assert book.one(replace((0, 0, 50, 0, 0), (4, 0, 7, 0, 1))) == [REPLACED, REPLACED]
        assert list(book.state.objects.slot_of) == ["t/one.parquet"]
        assert broken(book.state) == []

    def test_other_borders_are_left_alone(self):
        book = ten_objects()
        runs = [(0, 1, 10, 0, 0), (0, 0, 9, 0, 0), (0, 40, 55, 0, 0), (0, 50, 55, 0, 0), (0, 60, 70, 0, 0)]
        before = book.state.streams[0].extents.pack()
        assert book.one(replace(*runs)) == [OTHER] * 5
        assert book.state.streams[0].extents.pack() == before

    def test_a_parquet_file_is_replaced_only_by_name(self):
        book = ten_objects()
        book.one(replace((0, 0, 25, 0, 0), (0, 25, 50, 0, 9)))
        assert book.one(replace((0, 0, 50, 0, 0), files=["t/two.parquet"])) == [OTHER]
        assert book.one(replace((0, 0, 50, 0, 0), files=["t/two.parquet"], over=["t/one.parquet"])) == [REPLACED]
        assert list(book.state.objects.slot_of) == ["t/two.parquet"]

    def test_what_was_truncated_meanwhile_stays_away(self):
        book = ten_objects()
        book.enter(TruncateStreams({0: 12}))
        assert book.one(replace((0, 0, 10, 0, 0), (0, 10, 30, 0, 1))) == [GONE, REPLACED]
        book.enter(TruncateStreams({0: 37}))
        assert book.one(replace((0, 30, 50, 0, 2), files=["t/two.parquet"])) == [REPLACED]
        extents = book.state.streams[0].extents
        assert (extents.floor, list(extents.ends), book.state.streams[0].start) == (35, [50], 37)
        assert broken(book.state) == []

    def test_a_deleted_stream_stays_deleted(self):
        book = ten_objects()
        book.enter(DeleteStreams([0]))
        assert book.one(replace((0, 0, 50, 0, 0))) == [GONE]
        assert not len(book.state.objects)

    def test_files_that_a_sweep_may_have_taken_are_refused(self):
        book = ten_objects()
        book.enter(EnterHorizon(1000))
        with pytest.raises(Fenced):
            book.one(replace((0, 0, 50, 0, 0), stamp=999))
        assert book.one(replace((0, 0, 50, 0, 0), stamp=1000)) == [REPLACED]

    def test_nonsense_is_refused(self):
        book = ten_objects()
        for update in (replace((0, 5, 5, 0, 0)), replace((0, 0, 5, 1, 0)), ReplaceExtents(["t/x"], b"short")):
            with pytest.raises(Refused):
                book.one(update)


def planned() -> Book:
    """A root with a planner in epoch 1 and a table that has not begun."""
    root = Book(0)
    root.one(CreateTopic("orders", b"a" * 16, [0, 1]))
    root.one(TakePlanning("me", 0, 0, 5000))
    root.one(OpenTable(1, b"a" * 16, "orders", "tables/orders", {0: 0, 1: 0}))
    return root


def table_commit(number, ends, **more):
    return TableCommit(number, f"tables/orders/{number}", ends, 7, files=1, rows=10, **more)


class TestTables:
    def test_commits_follow_each_other(self):
        root = planned()
        root.one(BeginCommit(1, b"a" * 16, table_commit(1, {0: 10}), {0: 0}), at_ms=5)
        with pytest.raises(Fenced, match="in the middle of commit 1"):
            root.one(BeginCommit(1, b"a" * 16, table_commit(2, {0: 20}), {0: 10}))
        table = root.state.tables[b"a" * 16]
        assert (table.ends, table.rows, table.pending.at_ms) == ({0: 10, 1: 0}, 10, 5)
        root.one(MarkCommit(1, b"a" * 16, 1, Step.SWAPPED))
        root.one(MarkCommit(1, b"a" * 16, 1, Step.SWAPPED))
        root.one(MarkCommit(1, b"a" * 16, 1, Step.ICEBERG | Step.DELTA, finished=True))
        root.one(MarkCommit(1, b"a" * 16, 1, Step.DELTA, finished=True))
        assert table.pending is None
        assert [(each.number, each.steps) for each in table.recent] == [(1, 7)]
        with pytest.raises(Fenced, match="does not follow"):
            root.one(BeginCommit(1, b"a" * 16, table_commit(1, {0: 20}), {0: 10}))
        with pytest.raises(Fenced, match="up to 10"):
            root.one(BeginCommit(1, b"a" * 16, table_commit(2, {0: 20}), {0: 9}))
        with pytest.raises(Refused):
            root.one(BeginCommit(1, b"a" * 16, table_commit(2, {0: 20}), {0: 21}))
        root.one(BeginCommit(1, b"a" * 16, table_commit(2, {0: 20, 1: 5}), {0: 12, 1: 0}))
        assert table.ends == {0: 20, 1: 5}

    def test_a_planner_of_an_older_epoch_is_fenced(self):
        root = planned()
        root.one(RenewPlanning(1))
        with pytest.raises(Fenced):
            root.one(TakePlanning("you", 1, 0, 5000))
        assert root.one(TakePlanning("you", 1, 1, 5000)) == 2
        table = b"a" * 16
        for update in (
            RenewPlanning(1),
            OpenTable(1, table, "orders", "x"),
            BeginCommit(1, table, table_commit(1, {0: 10}), {0: 0}),
            MarkCommit(1, table, 0, 1),
            NoteTable(1, table, "trouble"),
            ForgetTable(1, table),
        ):
            with pytest.raises(Fenced, match="you plans tables in epoch 2, not 1"):
                root.one(update)

    def test_files_older_than_a_sweep_allows_are_refused(self):
        root = planned()
        root.one(EnterHorizon(8))
        with pytest.raises(Fenced, match="write them again"):
            root.one(BeginCommit(1, b"a" * 16, table_commit(1, {0: 10}), {0: 0}))

    def test_a_table_outlives_its_topic_until_it_is_forgotten(self):
        root = planned()
        with pytest.raises(Refused):
            root.one(ForgetTable(1, b"a" * 16))
        root.one(DeleteTopic("orders", b"a" * 16))
        with pytest.raises(NotThere):
            root.one(OpenTable(1, b"b" * 16, "other", "x"))
        root.one(ForgetTable(1, b"a" * 16))
        assert not root.state.tables
        with pytest.raises(NotThere):
            root.one(NoteTable(1, b"a" * 16, "trouble"))

    def test_only_the_last_commits_are_remembered(self):
        root = planned()
        for number in range(1, COMMITS_KEPT + 5):
            root.one(BeginCommit(1, b"a" * 16, table_commit(number, {0: number}), {0: number - 1}))
            root.one(MarkCommit(1, b"a" * 16, number, 7, finished=True))
        assert [each.number for each in root.state.tables[b"a" * 16].recent] == list(range(5, COMMITS_KEPT + 5))


def books() -> list[Book]:
    """Every update of this family, once."""
    root = planned()
    root.one(NoteTable(1, b"a" * 16, "the catalog is away", {"iceberg": "uuid"}, {1: 0}))
    root.one(BeginCommit(1, b"a" * 16, table_commit(1, {0: 10}, bytes=5, source_bytes=9), {0: 0}), at_ms=5)
    root.enter(MarkCommit(1, b"a" * 16, 1, 3), RenewPlanning(1), at_ms=6)
    root.enter(MarkCommit(1, b"a" * 16, 1, 4, True), ForgetTable(1, b"z" * 16))
    root.one(BeginCommit(1, b"a" * 16, table_commit(2, {0: 12}), {0: 10}), at_ms=7)
    data = ten_objects()
    data.one(replace((0, 10, 40, 0, 3), files=["t/one.parquet"], over=["t/zero.parquet"], stamp=5))
    return [root, data]


def test_updates_and_states_with_tables_keep_their_bytes_forever():
    for book in books():
        assert broken(book.state) == []
        state = ShardState(book.state.shard, SHARDS)
        for number, entry in enumerate(book.entries):
            assert_kept(f"tables-v1-shard{state.shard}-{number}", entry)
            state.apply(decode_entry(encode_entry(entry), "golden"), number + 1)
        assert encode_checkpoint(state) == encode_checkpoint(book.state)
        restored = decode_checkpoint(encode_checkpoint(state), "checkpoint")
        assert restored.objects.kinds == state.objects.kinds
        assert msgspec.to_builtins(restored.tables) == msgspec.to_builtins(state.tables)
        assert restored.planner == state.planner


steps = st.one_of(
    st.builds(
        lambda records, name: commit(item(0, records), name=f"wal/{name}"), st.integers(1, 4), st.integers(0, 99)
    ),
    st.builds(lambda start: TruncateStreams({0: start}), st.integers(0, 40)),
    st.builds(
        lambda first, length, file, over: replace(
            (0, first, first + length, 0, 0), files=[f"t/{file}"], over=[f"t/{over}"]
        ),
        st.integers(0, 40),
        st.integers(1, 20),
        st.integers(0, 2),
        st.integers(0, 2),
    ),
)


@given(st.lists(steps, max_size=60), st.integers(0, 60))
def test_whatever_is_replaced_offsets_and_references_hold(history, cut):
    book = Book()
    book.enter(CreateStreams([0]))
    restored = None
    for number, update in enumerate(history):
        if number == cut:
            restored = decode_checkpoint(encode_checkpoint(book.state), "checkpoint")
        stream = book.state.streams[0]
        before = (stream.start, stream.end, stream.size)
        book.enter(update)
        if restored is not None:
            restored.apply(book.entries[-1], book.state.position)
        assert broken(book.state) == []
        if isinstance(update, ReplaceExtents):
            assert (stream.start, stream.end, stream.size) == before
    if restored is not None:
        named = lambda state: {  # noqa: E731
            name: (state.objects.kinds[slot], state.objects.references[slot])
            for name, slot in state.objects.slot_of.items()
        }
        assert named(restored) == named(book.state)
