"""The state machine as a whole: entries apply once, replicas agree, checkpoints lose nothing."""

import hashlib

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.golden import GOLDEN, assert_kept, keep
from tests.metadata.shapes import GUARDED, NAMED, SHARDS, Book, Guard, commit, item

from runnel.errors import AlreadyThere, Corrupt, Fenced, NotThere, Refused
from runnel.metadata.checkpoint import VERSION, checkpoint_name, decode_checkpoint, encode_checkpoint, position_of
from runnel.metadata.encoding import NewerVersion, decode_entry, encode_entry
from runnel.metadata.entry import Entry
from runnel.metadata.groups import Committed
from runnel.metadata.invariants import broken
from runnel.metadata.nodes import Node
from runnel.metadata.state import ENTRIES_REMEMBERED, EntryStale, ShardState
from runnel.metadata.stream import Traits
from runnel.metadata.updates import (
    AddPartitions,
    AlterTopic,
    CommitOffsets,
    CreateStreams,
    CreateTopic,
    DeleteGroups,
    DeleteOffsets,
    DeleteStreams,
    DeleteTopic,
    DrawNumbers,
    EnterGeneration,
    EnterHorizon,
    ExpireProducers,
    ForgetTopic,
    Found,
    OpenStream,
    RegisterNode,
    RemoveNode,
    RenewLease,
    SetSettings,
    TruncateStreams,
)


def test_an_entry_is_applied_once_however_often_the_ledger_holds_it():
    book = Book()
    book.enter(CreateStreams([0]))
    first = book.enter(commit(item(0, 3)), entry_id=b"x" * 16)
    again = book.enter(commit(item(0, 3)), entry_id=b"x" * 16)
    assert first.results[0].firsts == [0]
    assert again.results is None
    assert book.state.streams[0].end == 3


def test_an_entry_from_too_far_back_is_stale():
    book = Book()
    for _ in range(ENTRIES_REMEMBERED + 1):
        book.enter()
    assert len(book.state.remembered) == ENTRIES_REMEMBERED
    (refusal,) = book.enter(CreateStreams([0]), after=0).results
    assert isinstance(refusal, EntryStale)
    assert not book.state.streams


def test_a_repetition_is_known_for_as_long_as_it_could_be_accepted():
    book = Book()
    book.enter(CreateStreams([0]))
    book.enter(commit(item(0)), entry_id=b"x" * 16, after=1)
    for _ in range(ENTRIES_REMEMBERED - 2):
        book.enter()
    assert book.enter(commit(item(0)), entry_id=b"x" * 16, after=1).results is None
    refused = book.enter(commit(item(0)), entry_id=b"x" * 16, after=1).results
    assert refused is None or isinstance(refused[0], EntryStale)
    assert book.state.streams[0].end == 1


def test_one_refused_update_does_not_keep_the_others_back():
    book = Book()
    results = book.enter(CreateStreams([1]), CreateStreams([0])).results
    assert isinstance(results[0], Refused)
    assert 0 in book.state.streams


class TestTopics:
    def test_a_topic_comes_changes_and_goes(self):
        book = Book(0)
        book.one(CreateTopic("orders", b"a" * 16, [0, 1], {"retention.ms": "5"}))
        with pytest.raises(AlreadyThere):
            book.one(CreateTopic("orders", b"b" * 16, [2]))
        book.one(AddPartitions("orders", b"a" * 16, 2, [2]))
        with pytest.raises(Fenced):
            book.one(AddPartitions("orders", b"a" * 16, 2, [3]))
        topic = book.one(AlterTopic("orders", b"a" * 16, {"x": "1"}, ["retention.ms"]))
        assert (topic.streams, topic.settings) == ([0, 1, 2], {"x": "1"})
        book.one(DeleteTopic("orders", b"a" * 16))
        with pytest.raises(NotThere):
            book.one(DeleteTopic("orders", b"a" * 16))
        assert book.state.leaving[b"a" * 16].streams == [0, 1, 2]
        book.one(ForgetTopic(b"a" * 16))
        assert not book.state.leaving
        assert broken(book.state) == []

    def test_an_old_identity_cannot_touch_a_new_topic_of_the_same_name(self):
        book = Book(0)
        book.one(CreateTopic("orders", b"a" * 16, [0]))
        book.one(DeleteTopic("orders", b"a" * 16))
        book.one(CreateTopic("orders", b"b" * 16, [1]))
        with pytest.raises(NotThere):
            book.one(DeleteTopic("orders", b"a" * 16))


class TestNodes:
    def test_a_lease_can_only_be_taken_from_whoever_was_seen(self):
        book = Book(0)
        book.one(RegisterNode(Node(1, b"a" * 16, {"kafka": "h:1"})), at_ms=10)
        with pytest.raises(Fenced):
            book.one(RegisterNode(Node(1, b"b" * 16, {})))
        book.one(RenewLease(1, b"a" * 16), at_ms=20)
        with pytest.raises(Fenced):
            book.one(RemoveNode(1, b"a" * 16, renewals=0))
        book.one(RemoveNode(1, b"a" * 16, renewals=1))
        with pytest.raises(Fenced):
            book.one(RenewLease(1, b"a" * 16))

    def test_numbers_are_drawn_once(self):
        book = Book(0)
        assert [book.one(DrawNumbers("stream", 10)), book.one(DrawNumbers("stream", 5))] == [0, 10]
        assert book.one(DrawNumbers("producer", 1)) == 0


class TestGroups:
    def test_a_generation_fences_commits_of_those_left_behind(self):
        book = Book()
        commits = {b"t" * 16: {0: Committed(5)}}
        book.one(CommitOffsets("g", commits))
        book.one(EnterGeneration("g", "classic", 0, 1, b"me", b"members"))
        with pytest.raises(Fenced):
            book.one(EnterGeneration("g", "classic", 0, 1, b"you", b""))
        with pytest.raises(Fenced):
            book.one(CommitOffsets("g", commits, generation=0))
        book.one(CommitOffsets("g", {b"t" * 16: {1: Committed(7, 3, "note")}}, generation=1))
        assert {p: c.offset for p, c in book.state.groups["g"].offsets[b"t" * 16].items()} == {0: 5, 1: 7}
        book.one(DeleteOffsets("g", {b"t" * 16: [0]}))
        assert list(book.state.groups["g"].offsets[b"t" * 16]) == [1]

    def test_a_group_with_members_is_not_deleted(self):
        book = Book()
        book.one(EnterGeneration("g", "classic", 0, 1, b"me", b"members"))
        assert book.one(DeleteGroups({"g": 1})) == []
        book.one(EnterGeneration("g", "classic", 1, 2, b"me", b"", empty=True))
        assert book.one(DeleteGroups({"g": 2})) == ["g"]


def test_silent_producers_are_forgotten():
    book = Book()
    book.enter(CreateStreams([0]))
    book.enter(commit(item(0, producer=1, epoch=0, sequence=0)), at_ms=100)
    book.enter(commit(item(0, producer=2, epoch=0, sequence=0), name="b"), at_ms=200)
    assert book.one(ExpireProducers(150)) == 1
    assert list(book.state.streams[0].producers) == [2]


def everything() -> list[Book]:
    """A book for the root and one for a data shard that know a bit of everything."""
    root = Book(0)
    root.enter(Found("cluster", SHARDS), DrawNumbers("stream", 7))
    root.enter(
        CreateTopic("orders", b"a" * 16, [0, 1], {"retention.ms": "5"}), AddPartitions("orders", b"a" * 16, 2, [2])
    )
    root.enter(
        CreateTopic("gone", b"b" * 16, [3]), DeleteTopic("gone", b"b" * 16), AlterTopic("orders", b"a" * 16, {"k": "v"})
    )
    root.enter(ForgetTopic(b"c" * 16), SetSettings({"a": "b"}, ["c"]))
    root.enter(
        RegisterNode(Node(1, b"i" * 16, {"kafka": "h:1"}, "zone-a")), RegisterNode(Node(2, b"j" * 16, {})), at_ms=9
    )
    root.enter(RenewLease(1, b"i" * 16, True), RemoveNode(2, b"j" * 16, 0), at_ms=12)
    data = Book(1)
    data.enter(CreateStreams([0, 4, 8]), OpenStream(Traits("http/one", "text/plain", 5, 60, None, 5, "s1")))
    data.enter(commit(item(0, 3, stamp=50), item(4, 2, place=100, producer=9, epoch=1, sequence=0)), at_ms=77)
    data.enter(
        commit(
            item(data.state.names["http/one"], producer=0, epoch=2**40, sequence=0, flags=NAMED | GUARDED),
            name="wal/two",
            stamp=2,
            names=["writer"],
            guards={0: Guard(True, "s2", 0)},
        )
    )
    data.enter(TruncateStreams({0: 2}), DeleteStreams([8]), EnterHorizon(2), ExpireProducers(1))
    data.enter(
        EnterGeneration("g", "classic", 0, 1, b"o" * 16, b"mm"),
        CommitOffsets("g", {b"t" * 16: {0: Committed(3, 1, "x", 4)}}, 1),
    )
    data.enter(DeleteOffsets("g", {b"t" * 16: [5]}), DeleteGroups({"h": 1}))
    return [root, data]


def test_every_update_keeps_its_bytes_forever():
    for book in everything():
        for number, entry in enumerate(book.entries):
            assert_kept(f"entry-v1-shard{book.state.shard}-{number}", entry)


def test_golden_entries_and_checkpoints_still_lead_to_the_same_state():
    for book in everything():
        assert broken(book.state) == []
        state = ShardState(book.state.shard, SHARDS)
        for number in range(len(book.entries)):
            data = (GOLDEN / f"entry-v1-shard{state.shard}-{number}.bin").read_bytes()
            state.apply(decode_entry(data, "golden"), number + 1)
        newest = GOLDEN / f"checkpoint-v{VERSION}-shard{state.shard}.bin"
        keep(newest, encode_checkpoint(state))
        assert encode_checkpoint(state) == newest.read_bytes()
        for version in range(1, VERSION + 1):
            path = GOLDEN / f"checkpoint-v{version}-shard{state.shard}.bin"
            assert encode_checkpoint(decode_checkpoint(path.read_bytes(), "golden")) == newest.read_bytes()


def test_a_flipped_bit_or_a_cut_is_found_in_entries_and_checkpoints():
    book = everything()[1]
    for decode, data in (
        (decode_entry, encode_entry(book.entries[1])),
        (decode_checkpoint, encode_checkpoint(book.state)),
    ):
        for at in (*range(16), *range(16, len(data), 7)):
            damaged = bytearray(data)
            damaged[at] ^= 16
            if decode is decode_entry and at == 3:
                continue  # the reserved byte
            with pytest.raises(Corrupt, match="the thing"):
                decode(bytes(damaged), "the thing")
        for length in range(0, len(data), 11):
            with pytest.raises(Corrupt, match="the thing"):
                decode(data[:length], "the thing")


def test_an_entry_of_a_newer_version_asks_for_an_upgrade():
    data = bytearray(encode_entry(Entry(b"x" * 16, 0, 0, [])))
    data[2] = 2
    with pytest.raises(Corrupt, match="fails its checksum"):
        decode_entry(bytes(data), "entry 5 of shard 1")  # its checksum is that of version 1
    data[4:8] = b"\1\2\3\4"
    with pytest.raises(NewerVersion, match="upgrade runnel"):
        decode_entry(bytes(data), "entry 5 of shard 1")


def test_a_checkpoint_of_a_newer_version_asks_for_an_upgrade_and_a_damaged_version_does_not():
    data = bytearray(encode_checkpoint(everything()[1].state))
    for version in range(VERSION + 2):
        if version != VERSION:
            data[8] = version
            with pytest.raises(Corrupt, match="fails its checksum"):
                decode_checkpoint(bytes(data), "it")
    data[12:16] = crc32c(data[16:], crc32c(data[:12])).to_bytes(4, "little")
    with pytest.raises(NewerVersion, match=f"it has format {VERSION + 1}, this program knows {VERSION}: upgrade"):
        decode_checkpoint(bytes(data), "it")


def test_an_unknown_update_asks_for_an_upgrade_too():
    import msgspec

    class FromTheFuture(msgspec.Struct, array_like=True, tag="from-the-future"):
        fact: int

    with pytest.raises(NewerVersion, match="upgrade runnel"):
        decode_entry(encode_entry(Entry(b"x" * 16, 0, 0, [FromTheFuture(1)])), "entry 5 of shard 1")


def test_names_of_checkpoints_sort_by_position():
    names = [checkpoint_name(3, position, 0xFFFF - position) for position in (1, 20, 300)]
    assert names == sorted(names)
    assert [position_of(name) for name in names] == [1, 20, 300]
    with pytest.raises(Corrupt):
        position_of("checkpoints/00003/nonsense")


updates = st.one_of(
    st.builds(
        lambda rows, name: commit(
            *(
                item(*row[:2], producer=row[2], epoch=row[3], sequence=row[4], place=100 * i)
                for i, row in enumerate(sorted(rows))
            ),
            name=f"wal/{name}",
            stamp=name,
        ),
        st.lists(
            st.tuples(
                st.sampled_from([0, 4, 8, 12]),
                st.integers(1, 5),
                st.sampled_from([-1, 7]),
                st.integers(0, 2),
                st.integers(0, 9),
            ),
            min_size=1,
            max_size=6,
        ),
        st.integers(0, 30),
    ),
    st.builds(lambda stream, start: TruncateStreams({stream: start}), st.sampled_from([0, 4]), st.integers(0, 30)),
    st.builds(DeleteStreams, st.lists(st.sampled_from([0, 4, 8]), max_size=1)),
    st.builds(CreateStreams, st.lists(st.sampled_from([0, 4, 8, 12]), max_size=2)),
    st.builds(EnterHorizon, st.integers(0, 20)),
    st.builds(ExpireProducers, st.integers(0, 50)),
)


@given(st.lists(updates, max_size=40), st.integers(0, 40))
def test_whatever_happens_the_invariants_hold_and_replicas_agree(history, cut):
    book = Book()
    book.enter(CreateStreams([0, 4]))
    restored = None
    for number, update in enumerate(history):
        if number == cut:
            restored = decode_checkpoint(encode_checkpoint(book.state), "checkpoint")
        book.enter(update, at_ms=number)
        if restored is not None:
            restored.apply(book.entries[-1], book.state.position)
        assert broken(book.state) == []
    replica = ShardState(1, SHARDS)
    for position, entry in enumerate(book.entries, 1):
        replica.apply(decode_entry(encode_entry(entry), "entry"), position)
    assert encode_checkpoint(replica) == encode_checkpoint(book.state)
    if restored is not None:
        assert facts(restored) == facts(book.state)


def facts(state):
    """Everything but the choice of slots, which a restored state may make differently."""
    streams = {
        stream.id: (
            stream.start,
            stream.end,
            stream.size,
            [
                (extent.first, extent.end, extent.place, state.objects.names[extent.slot])
                for extent in stream.extents or ()
            ],
            {key: (p.epoch, p.last, list(p.recent)) for key, p in (stream.producers or {}).items()},
        )
        for stream in state.streams.values()
    }
    return hashlib.sha256(
        repr((state.position, state.horizon, streams, sorted(state.objects.slot_of))).encode()
    ).hexdigest()
