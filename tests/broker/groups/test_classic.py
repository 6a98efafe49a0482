"""The classic protocol's state machine: every rule without a server, a client or a clock."""

import math

import pytest

from runnel.broker.groups.bounds import GroupBounds
from runnel.broker.groups.classic import ClassicGroup, Phase
from runnel.broker.groups.kept import decode_classic, encode_kept
from runnel.broker.groups.member import Caller
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.heartbeat import HeartbeatRequest
from runnel.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from runnel.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from runnel.codec.messages.offset_commit import OffsetCommitRequest
from runnel.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

BY = Caller("client", "/127.0.0.1")
AT_ONCE = GroupBounds(initial_delay_ms=0)


class Story:
    """A group and a time: what is asked, what is answered, and to whom."""

    def __init__(self, bounds=AT_ONCE, group=None):
        self.group = group or ClassicGroup("g", bounds)
        self.at = 100.0
        self.count = 0
        self.told = {}

    def hear(self):
        """Answers that have come since; each request is answered once."""
        for to, response in self.group.answers:
            assert to not in self.told, f"{to} is answered twice"
            self.told[to] = response
        self.group.answers = []
        return self.told

    def _to(self, word):
        self.count += 1
        return f"{word}-{self.count}"

    def join(
        self,
        member_id="",
        *,
        instance=None,
        protocols=("range",),
        version=3,
        session=10,
        rebalance=60,
        kind="consumer",
        metadata=b"m",
    ):
        to = self._to("join")
        ask = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=session * 1000,
            rebalance_timeout_ms=rebalance * 1000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
        )
        self.group.join(to, ask, version=version, by=BY, fresh=f"member-{self.count}", at=self.at)
        self.hear()
        return to

    def sync(self, member_id, assignments=None, *, instance=None, generation=None, name="range"):
        to = self._to("sync")
        ask = SyncGroupRequest(
            group_id="g",
            generation_id=self.group.generation if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer",
            protocol_name=name,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=what)
                for each, what in (assignments or {}).items()
            ],
        )
        self.group.sync(to, ask, at=self.at)
        self.hear()
        return to

    def beat(self, member_id, *, instance=None, generation=None):
        to = self._to("beat")
        generation = self.group.generation if generation is None else generation
        ask = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id, group_instance_id=instance)
        self.group.heartbeat(to, ask, at=self.at)
        return self.hear()[to].error_code

    def leave(self, *members, version=5):
        to = self._to("leave")
        if version < 3:
            ask = LeaveGroupRequest(group_id="g", member_id=members[0])
        else:
            ask = LeaveGroupRequest(
                group_id="g",
                members=[MemberIdentity(member_id=each, group_instance_id=instance) for each, instance in members],
            )
        self.group.leave(to, ask, version=version, at=self.at)
        told = self.hear()[to]
        return told.error_code if version < 3 else [each.error_code for each in told.members]

    def commit(self, member_id="", generation=-1, instance=None):
        ask = OffsetCommitRequest(
            group_id="g",
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
        )
        return self.group.why_not_commit(ask, version=9, at=self.at)

    def later(self, seconds):
        """Let time pass, ringing whenever the group wants it."""
        end = self.at + seconds
        while self.group.due <= end:
            self.at = max(self.at, self.group.due)
            self.group.tick(self.at)
            self.hear()
        self.at = end

    def stable(self, count=2, **more):
        """So many members with assignments; their ids."""
        asked = [self.join(**more)]
        ids = [self.told[asked[0]].member_id]
        for _ in range(count - 1):
            asked.append(self.join(**more))
            for to in [self.join(each, **more) for each in ids]:
                assert self.told[to].error_code == 0
            ids.append(self.told[asked[-1]].member_id)
        leader = self.group.leader
        for each in ids:
            if each != leader:
                self.sync(each)
        self.sync(leader, {each: each.encode() for each in ids})
        assert self.group.phase is Phase.STABLE
        return ids


@pytest.fixture
def story():
    return Story()


def test_one_member_leads_itself(story):
    told = story.told[story.join()]
    assert (told.error_code, told.generation_id, told.leader) == (0, 1, told.member_id)
    assert [each.member_id for each in told.members] == [told.member_id]
    assert story.group.dirty, "a generation is entered before anyone hears of it"
    synced = story.told[story.sync(told.member_id, {told.member_id: b"all of it"})]
    assert (synced.error_code, synced.assignment) == (0, b"all of it")
    assert story.beat(told.member_id) == 0


def test_the_first_generation_waits_for_more_to_come_but_not_for_ever():
    story = Story(GroupBounds(initial_delay_ms=3000))
    first = story.join(rebalance=7)
    story.later(2.9)
    second = story.join(rebalance=7)
    assert not story.told
    story.later(0.2)
    assert not story.told, "somebody came: wait once more"
    third = story.join(rebalance=7)
    story.later(2.9)
    story.join(rebalance=7)
    story.later(1.1)
    assert {first, second, third} <= story.told.keys(), "patience ends with the rebalance timeout"
    assert story.group.generation == 1
    assert len(story.group.members) == 4


def test_a_second_member_sends_the_first_back_to_join_and_followers_wait_for_the_leader(story):
    (first,) = story.stable(1)
    asked = story.join()
    assert asked not in story.told
    assert story.beat(first) == ErrorCode.REBALANCE_IN_PROGRESS
    again = story.join(first)
    second = story.told[asked]
    assert (second.generation_id, second.leader, second.members) == (2, first, [])
    assert len(story.told[again].members) == 2
    follower = story.sync(second.member_id)
    assert follower not in story.told
    story.sync(first, {first: b"1", second.member_id: b"2"})
    assert story.told[follower].assignment == b"2"


def test_who_does_not_come_back_in_time_is_out(story):
    first, second = story.stable(2, rebalance=20, session=10)
    third = story.join(rebalance=20)
    story.join(first, rebalance=20)
    for _ in range(4):
        assert third not in story.told
        story.later(4.5)
        assert story.beat(second) == ErrorCode.REBALANCE_IN_PROGRESS
    story.later(2.1)
    assert story.told[third].generation_id == 3
    assert second not in story.group.members
    assert story.beat(second) == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_falls_silent_is_out_after_its_session_and_the_others_rebalance(story):
    first, second = story.stable(2, session=10)
    story.later(9)
    assert story.beat(first) == 0
    story.later(1.1)
    assert story.beat(first) == ErrorCode.REBALANCE_IN_PROGRESS
    assert list(story.group.members) == [first]
    assert story.commit(second, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_for_the_others_needs_no_heartbeats(story):
    (first,) = story.stable(1, session=10, rebalance=100)
    waits = story.join(session=10, rebalance=100)
    for _ in range(8):
        story.later(8)
        story.beat(first)
    assert waits not in story.told
    story.join(first)
    assert story.told[waits].error_code == 0


def test_a_leader_that_never_assigns_is_out_and_another_leads(story):
    first = story.told[story.join(rebalance=30)].member_id
    asked = story.join(rebalance=30)
    story.join(first, rebalance=30)
    second = story.told[asked].member_id
    waits = story.sync(second)
    for _ in range(6):
        story.later(5.5)
        if waits not in story.told:
            assert story.beat(first) == 0, "it says that it is alive"
    assert story.told[waits].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert story.told[story.join(second)].leader == second


def test_a_modern_newcomer_learns_its_id_first_and_an_unused_id_is_forgotten(story):
    refused = story.told[story.join(version=9, session=10)]
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert story.told[story.join(refused.member_id, version=9)].error_code == 0
    unused = story.told[story.join(version=9, session=10)].member_id
    story.later(10.1)
    assert story.told[story.join(unused, version=9)].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_those_that_have_just_learned_their_ids(story):
    (first,) = story.stable(1)
    learned = story.told[story.join(version=9)].member_id
    third = story.join()
    again = story.join(first)
    assert again not in story.told
    story.join(learned, version=9)
    assert {again, third} <= story.told.keys()
    assert len(story.group.members) == 3


def test_a_protocol_that_all_speak_wins_by_votes_and_strangers_are_refused(story):
    first = story.told[story.join(protocols=("sticky", "range"))].member_id
    assert story.group.protocol == "sticky"
    assert story.told[story.join(protocols=("mine",))].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert story.told[story.join(kind="connect")].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert story.told[story.join(kind="")].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert story.told[story.join(protocols=())].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    asked = story.join(protocols=("range",))
    story.join(first, protocols=("sticky", "range"))
    assert story.told[asked].protocol_name == "range"
    assert story.told[story.sync(first, {}, name="sticky")].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_follower_that_joins_again_unchanged_is_told_what_is_and_a_leader_makes_all_join(story):
    first, second = story.stable(2)
    assert story.told[story.join(second)].generation_id == 2
    assert story.group.phase is Phase.STABLE
    assert story.join(second, metadata=b"other topics") not in story.told
    assert story.group.phase is Phase.PREPARING
    story.join(first)
    assert story.group.generation == 3


def test_stale_generations_and_strangers_are_refused_with_kafkas_words(story):
    (first,) = story.stable(1)
    for generation in (-1, 0, 2, 2**31 - 1):
        assert story.beat(first, generation=generation) == ErrorCode.ILLEGAL_GENERATION
        assert story.told[story.sync(first, generation=generation)].error_code == ErrorCode.ILLEGAL_GENERATION
        assert story.commit(first, generation) == ErrorCode.ILLEGAL_GENERATION
    for stranger in ("", "nobody"):
        assert story.beat(stranger) == ErrorCode.UNKNOWN_MEMBER_ID
        assert story.told[story.sync(stranger)].error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert story.commit(stranger, 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert story.leave((stranger, None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert story.told[story.join("nobody")].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert story.commit() == ErrorCode.UNKNOWN_MEMBER_ID, "without a member id only while there are no members"
    assert story.commit(first, 1) is None


def test_leaving_is_heard_at_once_and_the_last_one_out_leaves_an_empty_group(story):
    first, second = story.stable(2)
    assert story.leave(first, version=2) == 0
    assert story.group.phase is Phase.PREPARING
    assert story.leave((second, None), ("nobody", None)) == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert (story.group.phase, story.group.generation) == (Phase.EMPTY, 3)
    assert story.group.is_idle
    assert story.group.due == math.inf
    assert story.commit() is None
    assert story.group.protocol_type == "consumer"


def test_commits_are_taken_while_others_join_and_refused_while_the_leader_assigns(story):
    (first,) = story.stable(1)
    asked = story.join()
    assert story.commit(first, 1) is None
    story.join(first)
    assert story.commit(first, 1) == ErrorCode.ILLEGAL_GENERATION
    assert story.commit(first, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    story.sync(first, {})
    assert story.commit(first, 2) is None
    assert story.commit(story.told[asked].member_id, 2) is None


class TestStaticMembers:
    def pair(self, story):
        """Two static members with assignments."""
        first = story.told[story.join(instance="a", version=9)].member_id
        asked = story.join(instance="b", version=9)
        story.join(first, instance="a", version=9)
        second = story.told[asked].member_id
        story.sync(second, instance="b")
        story.sync(first, {first: b"1", second: b"2"}, instance="a")
        story.group.dirty = False
        return first, second

    def test_one_that_comes_back_takes_its_place_and_fences_the_old_one(self, story):
        first, second = self.pair(story)
        told = story.told[story.join(instance="b", version=9)]
        assert (told.error_code, told.generation_id, told.leader, told.members) == (0, 2, first, [])
        assert told.member_id != second
        assert story.group.dirty, "the new id must outlive the coordinator"
        assert story.told[story.sync(told.member_id, instance="b")].assignment == b"2"
        assert story.beat(second, instance="b") == ErrorCode.FENCED_INSTANCE_ID
        assert story.commit(second, 2, instance="b") == ErrorCode.FENCED_INSTANCE_ID
        assert story.told[story.join(second, instance="b")].error_code == ErrorCode.FENCED_INSTANCE_ID
        assert story.told[story.sync(second, instance="b")].error_code == ErrorCode.FENCED_INSTANCE_ID
        assert story.leave((second, "b")) == [ErrorCode.FENCED_INSTANCE_ID]
        assert story.beat(first, instance="a") == 0

    def test_a_leader_that_comes_back_is_told_to_leave_assignments_as_they_are(self, story):
        self.pair(story)
        modern = story.told[story.join(instance="a", version=9)]
        assert (modern.leader, modern.skip_assignment, len(modern.members)) == (modern.member_id, True, 2)
        older = story.told[story.join(instance="a", version=8)]
        assert (older.leader, older.skip_assignment, older.members) == (modern.member_id, False, [])
        assert older.member_id != modern.member_id
        assert story.group.leader == older.member_id
        assert (story.group.phase, story.group.generation) == (Phase.STABLE, 2)

    def test_one_that_comes_back_with_other_protocols_makes_all_join_only_if_another_wins(self, story):
        first, second = self.pair(story)
        asked = story.join(instance="b", protocols=("range", "sticky"), version=9)
        assert story.told[asked].generation_id == 2
        story.join(first, instance="a", protocols=("sticky", "range"), version=9)
        assert story.group.phase is Phase.PREPARING, "the leader joins again"
        waits = story.join(instance="b", protocols=("sticky",), version=9)
        assert (story.told[waits].generation_id, story.told[waits].protocol_name) == (3, "sticky")
        assert story.group.phase is Phase.COMPLETING
        back = story.join(instance="b", protocols=("sticky",), version=9)
        assert back not in story.told, "it comes while the leader assigns: all join once more"
        assert second not in story.group.members

    def test_one_that_waits_is_fenced_by_one_that_comes(self, story):
        (dynamic,) = story.stable(1)
        waits = story.join(instance="a", version=9)
        newer = story.join(instance="a", version=9)
        assert story.told[waits].error_code == ErrorCode.FENCED_INSTANCE_ID
        story.join(dynamic)
        assert story.told[newer].error_code == 0
        assert len(story.group.members) == 2

    def test_their_place_is_kept_until_the_session_ends_and_they_leave_by_name(self, story):
        first, second = self.pair(story)
        third = story.join(session=30, rebalance=20)
        story.join(first, instance="a", session=10, rebalance=20)
        story.later(9.9)
        assert story.beat(second, instance="b") == ErrorCode.REBALANCE_IN_PROGRESS
        story.later(9)
        assert second in story.group.members
        assert third not in story.told
        story.later(1.1)
        assert story.told[third].generation_id == 3
        assert story.leave(("", "a"), ("", "nobody"), ("nobody", "a")) == [
            0, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID,
        ]  # fmt: skip


def test_a_group_has_so_many_members_and_no_more():
    story = Story(GroupBounds(initial_delay_ms=0, members_max=2))
    story.stable(2)
    for version in (3, 9):
        assert story.told[story.join(version=version)].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert story.group.phase is Phase.STABLE
    full = Story(GroupBounds(initial_delay_ms=0, members_max=1))
    assert full.told[full.join(version=9)].error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert full.told[full.join(version=9)].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_what_members_bring_along_and_hand_out_has_a_largest_size():
    story = Story(GroupBounds(initial_delay_ms=0, metadata_bytes_max=100, assignment_bytes_max=10))
    assert story.told[story.join(metadata=b"x" * 200)].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    first = story.told[story.join(metadata=b"x" * 50)].member_id
    assert story.told[story.join(metadata=b"x" * 60)].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert story.told[story.sync(first, {first: b"x" * 11})].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert story.told[story.sync(first, {first: b"x" * 10})].error_code == 0


class TestTakeover:
    def taken(self, story):
        kept = decode_classic(encode_kept(story.group.kept()), "g")
        other = Story(group=ClassicGroup.restored("g", AT_ONCE, story.group.generation, kept, story.at))
        other.at = story.at
        return other

    def test_members_with_assignments_do_not_notice(self, story):
        first, second = story.stable(2)
        other = self.taken(story)
        assert other.beat(first) == other.beat(second) == 0
        assert other.told[other.sync(second)].assignment == second.encode()
        assert other.group.leader == first
        assert not other.group.dirty
        other.later(9.9)
        other.beat(first)
        other.later(0.2)
        assert list(other.group.members) == [first], "sessions begin anew with the new coordinator"

    def test_members_without_join_again_and_their_generation_is_never_used_twice(self, story):
        first = story.told[story.join()].member_id
        asked = story.join()
        story.join(first)
        second = story.told[asked].member_id
        assert (story.group.generation, story.group.phase) == (2, Phase.COMPLETING)
        other = self.taken(story)
        assert other.beat(first) == ErrorCode.REBALANCE_IN_PROGRESS
        assert other.told[other.sync(first, {first: b"1"}, generation=2)].error_code == ErrorCode.REBALANCE_IN_PROGRESS
        tell = other.join(first)
        other.join(second)
        assert other.told[tell].generation_id == 3

    def test_static_members_keep_their_names(self, story):
        told = story.told[story.join(instance="a", version=9)]
        story.sync(told.member_id, {told.member_id: b"1"}, instance="a")
        other = self.taken(story)
        assert other.beat("old", instance="a") == ErrorCode.FENCED_INSTANCE_ID
        assert other.told[other.join(instance="a", version=9)].generation_id == 1
