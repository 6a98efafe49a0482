"""The new protocol's state machine: every rule without a server, a client or a clock."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runnel.broker.groups.bounds import GroupBounds
from runnel.broker.groups.consumer import ConsumerGroup
from runnel.broker.groups.kept import decode_consumers, encode_kept
from runnel.broker.groups.member import Caller
from runnel.broker.groups.topics import BadPattern, TopicsSeen, compiled
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from runnel.codec.messages.offset_commit import OffsetCommitRequest
from runnel.metadata.topics import Topic

BY = Caller("client", "/127.0.0.1")


def topic(name, partitions):
    return Topic(name, name.encode().ljust(16, b"-"), list(range(partitions)))


def telling(parts):
    return [TopicPartitions(topic_id=each, partitions=[index]) for each, index in sorted(parts)]


def told(response):
    if response.assignment is None:
        return None
    return frozenset(
        (each.topic_id, index) for each in response.assignment.topic_partitions for index in each.partitions
    )


class Member:
    """A client of the new protocol that does as it is told."""

    def __init__(self, story, name, *, topics=("orders",), pattern=None, instance=None, assignor=None, rebalance=60):
        self.story, self.name, self.instance = story, name, instance
        self.topics, self.pattern, self.assignor, self.rebalance = topics, pattern, assignor, rebalance
        self.epoch, self.owned = 0, frozenset()

    def ask(self, *, full=False, **more):
        first = self.epoch == 0
        facts = {
            "group_id": "g",
            "member_id": self.name,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
            "topic_partitions": telling(self.owned),
        }
        if first or full:
            facts |= {
                "rebalance_timeout_ms": self.rebalance * 1000,
                "subscribed_topic_names": None if self.topics is None else list(self.topics),
                "subscribed_topic_regex": self.pattern,
                "server_assignor": self.assignor,
            }
        return ConsumerGroupHeartbeatRequest(**(facts | more))

    def beat(self, *, hears=True, **more):
        """A heartbeat; the response. It does at once what it is told."""
        response = self.story.send(self.ask(**more))
        if response.error_code == 0 and hears:
            self.epoch = response.member_epoch
            parts = told(response)
            self.owned = self.owned if parts is None else parts
        return response

    def leave(self, epoch=-1):
        response = self.story.send(
            ConsumerGroupHeartbeatRequest(
                group_id="g", member_id=self.name, member_epoch=epoch, instance_id=self.instance, topic_partitions=None
            )
        )
        self.epoch, self.owned = 0, frozenset()
        return response


class Story:
    def __init__(self, bounds=None, **partitions):
        self.group = ConsumerGroup("g", bounds or GroupBounds())
        self.at = 100.0
        self.topics = {}
        self.version = 0
        self.have(**(partitions or {"orders": 4}))

    def have(self, **partitions):
        self.topics |= {name: topic(name, count) for name, count in partitions.items()}
        self.version += 1

    def send(self, ask, version=1):
        seen = TopicsSeen(self.version, self.topics)
        self.group.heartbeat("to", ask, version=version, by=BY, fresh="made-here", topics=seen, at=self.at)
        ((_, response),) = self.group.answers
        self.group.answers = []
        return response

    def member(self, name, **more):
        member = Member(self, name, **more)
        response = member.beat()
        assert response.error_code == 0, response
        return member

    def settle(self, *members):
        for _ in range(6):
            for member in members:
                assert member.beat().error_code == 0
        assert self.group.state == "Stable"

    def later(self, seconds):
        end = self.at + seconds
        while self.group.due <= end:
            self.at = max(self.at, self.group.due)
            self.group.tick(self.at)
        self.at = end

    def take_over(self):
        kept = decode_consumers(encode_kept(self.group.kept()), "g")
        self.group = ConsumerGroup.restored("g", self.group.bounds, self.group.generation, kept, self.at)


@pytest.fixture
def story():
    return Story()


def test_one_member_gets_everything_at_once(story):
    member = story.member("a")
    assert len(member.owned) == 4
    assert (member.epoch, story.group.state) == (1, "Stable")
    assert story.group.dirty, "what a member is told is entered first"
    story.group.dirty = False
    response = member.beat()
    assert (response.error_code, response.assignment, response.member_epoch) == (0, None, 1)
    assert not story.group.dirty, "a heartbeat that changes nothing is entered nowhere"
    assert told(member.beat(full=True)) == member.owned


def test_a_second_member_gets_its_share_only_when_the_first_has_given_it_up(story):
    first = story.member("a")
    second = story.member("b")
    assert (second.epoch, second.owned) == (2, frozenset())
    assert story.group.state == "Reconciling"
    had = first.owned
    response = first.beat(hears=False)
    assert len(told(response)) == 2
    assert response.member_epoch == 1, "it stays in its epoch until it has given up what it should"
    assert second.beat().assignment is None
    first.owned = told(response)
    assert first.beat().member_epoch == 2
    second.beat()
    assert second.owned == had - first.owned
    assert story.group.state == "Stable"


def test_one_that_does_not_give_up_in_time_is_out(story):
    first = story.member("a", rebalance=20)
    second = story.member("b")
    first.beat(hears=False)
    for _ in range(4):
        story.later(4.9)
        assert first.beat(hears=False).error_code == 0
        second.beat()
    story.later(0.5)
    assert first.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    second.beat()
    assert len(second.owned) == 4


def test_one_that_falls_silent_is_out_after_its_session(story):
    first, second = story.member("a"), story.member("b")
    story.settle(first, second)
    story.later(44)
    first.beat()
    story.later(2)
    assert list(story.group.members) == ["a"]
    story.settle(first)
    assert len(first.owned) == 4


def test_leaving_frees_partitions_at_once(story):
    first, second = story.member("a"), story.member("b")
    story.settle(first, second)
    response = second.leave()
    assert (response.error_code, response.member_epoch) == (0, -1)
    first.beat()
    assert len(first.owned) == 4
    first.leave()
    assert (story.group.state, story.group.is_idle) == ("Empty", True)
    assert second.leave().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_epochs_fence(story):
    member = story.member("a")
    for epoch in (2, 2**31 - 1):
        assert member.beat(member_epoch=epoch).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    other = story.member("b")
    story.settle(member, other)
    assert member.epoch == 2
    lost = member.beat(member_epoch=1)
    assert (lost.error_code, lost.member_epoch) == (0, 2), "the answer that told epoch 2 was lost"
    stolen = telling(other.owned)
    assert member.beat(member_epoch=1, topic_partitions=stolen).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert member.beat(member_epoch=1, topic_partitions=None).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert story.send(Member(story, "nobody").ask(member_epoch=1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    member.epoch, member.owned = 0, frozenset()
    assert member.beat().error_code == 0
    story.settle(member, other)
    assert len(member.owned) == 2


def test_a_group_that_was_never_there_is_not_found(story):
    assert Member(story, "a").leave().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert story.send(Member(story, "a").ask(member_epoch=3)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "", "member_epoch": 1}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ({"topic_partitions": [TopicPartitions(partitions=[1])]}, ErrorCode.INVALID_REQUEST),
        ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "mine"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "(a"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "(?=a)"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_regex": "a" * 1001}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"subscribed_topic_names": ["x" * 300_000, "y" * 800_000]}, ErrorCode.GROUP_MAX_SIZE_REACHED),
    ],
)
def test_what_makes_no_sense_is_refused_with_kafkas_words_and_leaves_nothing(story, more, code):
    response = story.send(Member(story, "a").ask(**more))
    assert response.error_code == code
    assert response.error_message
    assert story.group.is_idle
    assert not story.group.dirty


def test_version_0_makes_ids_for_those_who_have_none(story):
    response = story.send(Member(story, "").ask(), version=0)
    assert (response.error_code, response.member_id) == (0, "made-here")


def test_a_group_has_so_many_members_and_no_more():
    story = Story(GroupBounds(members_max=1))
    story.member("a")
    assert Member(story, "b").beat().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_topics_that_come_and_grow_are_given_out(story):
    member = story.member("a", topics=("orders", "later"))
    assert len(member.owned) == 4
    story.have(later=2)
    member.beat()
    assert len(member.owned) == 6
    story.have(orders=5)
    member.beat()
    assert (len(member.owned), member.epoch) == (7, 3)
    story.have(unrelated=1)
    member.beat()
    assert member.epoch == 3
    del story.topics["later"]
    story.have()
    member.beat()
    member.beat()
    assert (len(member.owned), story.group.state) == (5, "Stable")


def test_a_pattern_subscribes_to_what_it_matches_as_a_whole():
    story = Story(orders=1, orders_eu=2, my_orders=3)
    member = story.member("a", topics=None, pattern="orders.*")
    assert len(member.owned) == 3
    story.have(orders_us=1, stock=1)
    member.beat()
    assert len(member.owned) == 4
    both = story.member("b", topics=("stock",), pattern="my.*")
    story.settle(member, both)
    assert len(both.owned) == 4
    assert story.group.reads("orders_eu")
    assert not story.group.reads("xorders")


def test_a_pattern_cannot_keep_the_broker_busy():
    assert compiled("(a*)*b")("a" * 249) is None
    with pytest.raises(BadPattern):
        compiled("((((a{1,99}){1,99}){1,99}){1,99}){1,99}")


def test_a_changed_subscription_makes_a_new_target(story):
    story.have(stock=2)
    member = story.member("a")
    member.topics = ("stock",)
    member.beat(full=True)
    member.beat()
    assert {topic_id for topic_id, _ in member.owned} == {story.topics["stock"].id}
    assert member.epoch == 2


def test_most_votes_choose_the_assignor(story):
    first = story.member("a", assignor="range")
    assert story.group.assignor == "range"
    second = story.member("b", assignor="uniform")
    third = story.member("c", assignor="uniform")
    assert story.group.assignor == "uniform"
    story.settle(first, second, third)


class TestStaticMembers:
    def test_one_that_leaves_for_a_while_finds_its_partitions_again(self, story):
        first, second = story.member("a", instance="1"), story.member("b", instance="2")
        story.settle(first, second)
        had, generation = second.owned, story.group.generation
        assert second.leave(epoch=-2).error_code == 0
        first.beat()
        assert len(first.owned) == 2, "nobody else gets them meanwhile"
        again = story.member("c", instance="2")
        assert again.owned == had
        assert (story.group.generation, story.group.state) == (generation, "Stable")
        assert second.beat(member_epoch=2).error_code == ErrorCode.FENCED_INSTANCE_ID
        assert second.leave().error_code == ErrorCode.FENCED_INSTANCE_ID

    def test_one_that_stays_away_loses_them(self, story):
        first, second = story.member("a", instance="1"), story.member("b", instance="2")
        story.settle(first, second)
        second.leave(epoch=-2)
        story.later(40)
        first.beat()
        story.later(6)
        story.settle(first)
        assert len(first.owned) == 4

    def test_two_of_one_name_are_refused(self, story):
        story.member("a", instance="1")
        assert Member(story, "b", instance="1").beat().error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        assert Member(story, "b", instance="2").leave(-2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_commits_need_the_members_epoch(story):
    def commit(member, epoch, version=9):
        ask = OffsetCommitRequest(group_id="g", member_id=member, generation_id_or_member_epoch=epoch)
        return story.group.why_not_commit(ask, version=version, at=story.at)

    assert commit("", -1) is None
    story.member("a")
    assert commit("a", 1) is None
    assert commit("a", 0) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit("a", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert commit("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("a", 1, version=8) == ErrorCode.UNSUPPORTED_VERSION
    assert story.group.why_not_fetch(None, -1) is None
    assert story.group.why_not_fetch("a", 1) is None
    assert story.group.why_not_fetch("a", 7) == ErrorCode.STALE_MEMBER_EPOCH


def test_members_do_not_notice_another_coordinator(story):
    first, second = story.member("a"), story.member("b", instance="2")
    story.settle(first, second)
    owned, kept = (first.owned, second.owned), story.group.kept()
    story.take_over()
    assert story.group.kept() == kept
    story.settle(first, second)
    assert (first.owned, second.owned) == owned
    assert (first.epoch, second.epoch) == (2, 2)


class AnyStory(RuleBasedStateMachine):
    """Members come, go, fall silent, lose answers, and coordinators change: no partition is ever read by two at once."""

    def __init__(self):
        super().__init__()
        self.story = Story(orders=5, stock=3)
        self.here = {}

    names = st.sampled_from("abcde")

    @rule(name=names, topics=st.sampled_from([("orders",), ("stock",), ("orders", "stock")]))
    def come(self, name, topics):
        if name not in self.here:
            self.here[name] = Member(self.story, name, topics=topics)

    @rule(name=names, loses=st.booleans())
    def beat(self, name, loses):
        member = self.here.get(name)
        if member is None:
            return
        response = self.story.send(member.ask())
        if response.error_code:
            assert response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
            member.epoch, member.owned = 0, frozenset()
        elif loses:
            # Its next heartbeat says everything again, as clients do after a lost answer.
            pass
        else:
            member.epoch = response.member_epoch
            parts = told(response)
            member.owned = member.owned if parts is None else parts

    @rule(name=names)
    def leave(self, name):
        member = self.here.pop(name, None)
        if member is not None and member.epoch:
            assert member.leave().error_code in (0, ErrorCode.UNKNOWN_MEMBER_ID)

    @rule(partitions=st.integers(5, 9))
    def grow(self, partitions):
        if partitions > len(self.story.topics["orders"].streams):
            self.story.have(orders=partitions)

    @rule()
    def another_coordinator(self):
        self.story.take_over()

    @rule()
    def time_passes(self):
        self.story.later(20)
        for name, member in self.here.items():
            if name not in self.story.group.members:  # its session has ended: it has stopped reading by itself
                member.epoch, member.owned = 0, frozenset()

    @precondition(lambda self: self.here)
    @rule()
    def settles(self):
        for _ in range(8):
            for member in self.here.values():
                response = self.story.send(member.ask(full=True))
                if response.error_code:
                    member.epoch, member.owned = 0, frozenset()
                else:
                    member.epoch, member.owned = response.member_epoch, told(response)
        if set(self.here) == set(self.story.group.members):
            assert self.story.group.state == "Stable"
            wanted = {name for member in self.here.values() for name in member.topics}
            read = [part for member in self.here.values() for part in member.owned]
            assert len(read) == sum(len(self.story.topics[name].streams) for name in wanted)

    @invariant()
    def nothing_is_read_twice(self):
        read = [part for name, member in self.here.items() if name in self.story.group.members for part in member.owned]
        assert len(read) == len(set(read)), "two read the same partition"


TestAnyStory = AnyStory.TestCase
TestAnyStory.settings = settings(max_examples=40, stateful_step_count=40)
