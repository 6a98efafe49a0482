"""What holds scenarios on a lake against their promises: each checker catches the bug that is planted for it."""

import re

import pytest

from runnel.metadata.comparing import differences, digest
from runnel.metadata.entry import Entry
from runnel.metadata.state import ShardState
from runnel.metadata.updates import CreateStreams, DrawNumbers
from runnel.simulated import engine_planted
from runnel.simulated.promises import Book, hold_against
from runnel.world.simulation.harness import simulate
from runnel.world.simulation.scenario import scenario_named

SEEDS_MAX = 60


@pytest.mark.parametrize("name", engine_planted.FOUND_BY)
def test_a_planted_bug_is_found(name):
    outcomes = (simulate(scenario_named(name), seed) for seed in range(1, SEEDS_MAX + 1))
    found = next((outcome.violation for outcome in outcomes if not outcome.passed), None)
    assert found is not None, f"{SEEDS_MAX} seeds passed"
    assert re.search(engine_planted.FOUND_BY[name], found)


def test_every_planted_scenario_says_how_it_is_found():
    made = {name.replace("_", "-") for name in vars(engine_planted) if name.startswith("planted_")}
    assert made == set(engine_planted.FOUND_BY)


# ---- the book ------------------------------------------------------------------------------------------------------


@pytest.fixture
def book():
    book = Book()
    book.send([b"a0", b"a1", b"a2"], writer="a", stream=7, number=0)
    book.send([b"b0"], writer="b", stream=7, number=0)
    book.told(7, 1, [b"a0", b"a1"])
    return book


GOOD = [(0, b"b0"), (1, b"a0"), (2, b"a1"), (3, b"a2")]


def test_a_stream_as_promised_is_accepted(book):
    hold_against(book, 7, 0, 4, GOOD)


@pytest.mark.parametrize(
    ("start", "contents", "says"),
    [
        (0, [GOOD[0]], "acknowledged and is lost"),
        (0, [GOOD[0], (1, b"a1"), (2, b"a0")], "was b'a0' and is b'a1'"),
        (0, [GOOD[0], GOOD[1], GOOD[3]], "holes or doubles"),
        (0, [*GOOD, (3, b"a2")], "holes or doubles"),
        (0, [*GOOD, (4, b"a2")], "comes after its record"),
        (0, [*GOOD, (4, b"x")], "nobody sent"),
        (1, GOOD[1:], "nobody asked for that"),
    ],
)
def test_a_stream_that_is_not_as_promised_is_refused(book, start, contents, says):
    with pytest.raises(AssertionError, match=says):
        hold_against(book, 7, start, contents[-1][0] + 1, contents)


def test_two_answers_for_one_offset_or_one_record_are_refused(book):
    with pytest.raises(AssertionError, match="was b'a0' and is b'b0'"):
        book.told(7, 1, [b"b0"])
    with pytest.raises(AssertionError, match="was given offset 1 and, when it was sent again, 5"):
        book.told(7, 5, [b"a0"])


def test_a_read_must_find_what_was_acknowledged_before_it(book):
    assert book.saw(7, 1, GOOD[1:3], floor=book.promised(7)) == 3
    assert book.saw(7, 3, [], floor=book.promised(7)) == 3
    with pytest.raises(AssertionError, match="found nothing"):
        book.saw(7, 2, [], floor=book.promised(7))
    with pytest.raises(AssertionError, match="jumped from 0 to 1"):
        book.saw(7, 0, GOOD[1:], floor=0)
    with pytest.raises(AssertionError, match="nobody sent"):
        book.saw(7, 3, [(3, b"x")], floor=0)
    with pytest.raises(AssertionError, match="was sent to stream 7 and is in 8"):
        book.saw(8, 0, [(0, b"a0")], floor=0)


# ---- replicas ------------------------------------------------------------------------------------------------------


def test_equal_states_have_equal_digests_and_a_difference_is_named():
    states = [ShardState(0, 1), ShardState(0, 1)]
    for state in states:
        state.apply(Entry(b"1" * 16, 0, 5, [DrawNumbers("stream", 3)]), 1)
    assert digest(states[0]) == digest(states[1])
    assert differences(*states) == []
    states[1].counters["stream"] += 1
    assert digest(states[0]) != digest(states[1])
    assert differences(*states) == ["counters: [('stream', 3)] here, [('stream', 4)] there"]


def test_a_difference_inside_a_stream_is_noticed():
    states = [ShardState(1, 1), ShardState(1, 1)]
    for state in states:
        state.apply(Entry(b"1" * 16, 0, 5, [CreateStreams([3])]), 1)
    states[0].streams[3].producer(9, 0, 1).accept(0, 0, 0, 5)
    assert digest(states[0]) != digest(states[1])
