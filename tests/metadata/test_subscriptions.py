"""Subscriptions come, wake, are claimed and acknowledged; what comes from an old wake counts for nothing."""

import os
from pathlib import Path

import pytest
from tests.metadata.shapes import SHARDS, Book

from runnel.errors import AlreadyThere, Fenced, NotThere, Refused
from runnel.metadata.checkpoint import decode_checkpoint, encode_checkpoint
from runnel.metadata.encoding import decode_entry, encode_entry
from runnel.metadata.state import ShardState
from runnel.metadata.subscriptions import Link, Subscription, Wanted
from runnel.metadata.updates import (
    AckSubscription,
    ClaimSubscription,
    DropSubscription,
    LapseSubscription,
    LinkStreams,
    PutSubscription,
    WakeSubscription,
)
from runnel.metadata.updates.subscriptions import AlreadyClaimed

GOLDEN = Path(__file__).parents[1] / "golden" / "metadata"
WANTED = Wanted("pull-wake", "events/*", ["one"], None, "wakes", 1000, "for a test")


def subscribed():
    book = Book()
    book.one(PutSubscription(Subscription("s", WANTED, 5, {"one": Link(3, explicit=True)})))
    return book, book.state.subscriptions["s"]


def test_of_two_that_wake_it_at_once_one_is_refused():
    book, subscription = subscribed()
    assert book.one(WakeSubscription("s", 0, "w1", {"one": 4, "events/a": 2}, ["events/a"])) == 1
    with pytest.raises(Fenced):
        book.one(WakeSubscription("s", 0, "w2", {"one": 4}))
    with pytest.raises(Fenced):
        book.one(WakeSubscription("s", 1, "w2", {"one": 4}))
    assert (subscription.wake, subscription.generation) == ("w1", 1)
    assert subscription.links["events/a"] == Link(-1, by_pattern=True)


def test_one_worker_has_a_wake_and_his_words_end_with_it():
    book, subscription = subscribed()
    book.one(WakeSubscription("s", 0, "w1", {"one": 9}))
    book.one(ClaimSubscription("s", 1, "w1", "ann", 1000))
    with pytest.raises(AlreadyClaimed, match="ann"):
        book.one(ClaimSubscription("s", 1, "w1", "bob", 1000))
    with pytest.raises(Refused, match="beyond 2"):
        book.one(AckSubscription("s", 1, "w1", {"one": 2}, done=False, lease_until_ms=2000))
    with pytest.raises(Refused, match="no stream"):
        book.one(AckSubscription("s", 1, "w1", {"one": 5, "two": 1}, done=False, lease_until_ms=2000))
    assert subscription.links["one"].acked == 3
    book.one(AckSubscription("s", 1, "w1", {"one": 5}, done=False, lease_until_ms=2000))
    assert (subscription.links["one"].acked, subscription.holder, subscription.lease_until_ms) == (5, "ann", 2000)
    book.one(AckSubscription("s", 1, "w1", {"one": 9}, done=True, lease_until_ms=3000))
    assert (subscription.wake, subscription.holder, subscription.lease_until_ms) == ("", "", 0)
    for late in (AckSubscription("s", 1, "w1", {}, True, 1), ClaimSubscription("s", 1, "w1", "bob", 1)):
        with pytest.raises(Fenced):
            book.one(late)
    book.one(WakeSubscription("s", 1, "w2", {"one": 10}))
    with pytest.raises(Fenced):
        book.one(AckSubscription("s", 1, "w1", {"one": 10}, done=True, lease_until_ms=1))


def test_a_lease_lapses_only_when_its_time_is_over():
    book, subscription = subscribed()
    book.one(WakeSubscription("s", 0, "w1", {}, lease_until_ms=1000))
    assert not book.one(LapseSubscription("s", 1, "w1"), at_ms=999)
    assert book.one(LapseSubscription("s", 1, "w1"), at_ms=1000)
    assert not subscription.wake
    with pytest.raises(Fenced):
        book.one(LapseSubscription("s", 1, "w1"), at_ms=1000)


def test_streams_are_named_and_forgotten():
    book, subscription = subscribed()
    book.one(WakeSubscription("s", 0, "w1", {}, ["events/a"]))
    book.one(LinkStreams("s", {"two": 7, "events/a": 7}))
    assert subscription.links["events/a"] == Link(-1, explicit=True, by_pattern=True)
    book.one(LinkStreams("s", {}, ["two", "events/a", "never"]))
    assert list(subscription.links) == ["one", "events/a"]
    with pytest.raises(AlreadyThere):
        book.one(PutSubscription(subscription))
    assert book.one(DropSubscription("s"))
    assert not book.one(DropSubscription("s"))
    with pytest.raises(NotThere):
        book.one(LinkStreams("s", {"two": 7}))


def test_these_updates_keep_their_bytes_forever():
    book, _ = subscribed()
    book.enter(LinkStreams("s", {"two": 1}, ["three"]), WakeSubscription("s", 0, "w1", {"one": 4}, ["events/a"], 50))
    book.enter(ClaimSubscription("s", 1, "w1", "ann", 60), LapseSubscription("s", 1, "w1"), at_ms=2)
    book.enter(AckSubscription("s", 1, "w1", {"one": 4}, True, 70), DropSubscription("t"))
    state = ShardState(book.state.shard, SHARDS)
    for number, entry in enumerate(book.entries):
        path = GOLDEN / f"subscriptions-v1-{number}.bin"
        if os.environ.get("RUNNEL_GOLDEN") == "keep" and not path.exists():
            path.write_bytes(encode_entry(entry))
        assert path.read_bytes() == encode_entry(entry)
        assert decode_entry(path.read_bytes(), "golden") == entry
        state.apply(decode_entry(path.read_bytes(), "golden"), number + 1)
    assert decode_checkpoint(encode_checkpoint(state), "here").subscriptions == book.state.subscriptions
