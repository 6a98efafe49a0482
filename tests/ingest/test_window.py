"""The window: what it promises whatever happens, and how it treats the producers it knows."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runnel.ingest.window import Producer, Reason, Upload, Window, WindowBounds

BOUNDS = WindowBounds(bytes_max=10_000, age_max=0.2)


def closed_if_asked(window, at):
    reason = window.decide(at)
    return None if reason is None else window.close(reason, at)


def round_trip(window, producer, at, took=0.02, count=1):
    """One turn of requests, their early upload, their answers; the time after it."""
    for _ in range(count):
        window.arrived(producer, 100, at)
    upload = closed_if_asked(window, at)
    assert upload is not None, "the window did not close"
    window.flushed(upload, at + took)
    return at + took


def test_a_lone_producer_that_asks_and_waits_never_waits_for_the_window():
    window, producer = Window(BOUNDS), Producer()
    at = 0.0
    for _ in range(20):
        window.arrived(producer, 100, at)
        upload = closed_if_asked(window, at)
        assert upload is not None
        assert upload.reason is Reason.EARLY
        at += 0.02
        window.flushed(upload, at)
        at += 0.001


@pytest.mark.parametrize("spread", [0.0, 0.0004])
def test_a_pipelining_producer_soon_has_all_its_requests_in_one_upload(spread):
    window, producer = Window(BOUNDS), Producer()
    under_way: list[tuple[float, Upload]] = []
    arrivals = [spread * i for i in range(5)]
    sizes = []
    at = 0.0
    while len(sizes) < 12:
        times = [*arrivals, *(done for done, _ in under_way)]
        due = window.due()
        at = max(at, min([*times, due] if due is not None else times))
        while arrivals and arrivals[0] <= at:
            arrivals.pop(0)
            window.arrived(producer, 100, at)
        for done, upload in [each for each in under_way if each[0] <= at]:
            under_way.remove((done, upload))
            window.flushed(upload, at)
            arrivals += [at + 0.001 + spread * i for i in range(len(upload.senders))]
        upload = closed_if_asked(window, at)
        if upload is not None:
            assert upload.reason is Reason.EARLY
            sizes.append(len(upload.senders))
            under_way.append((at + 0.02, upload))
    assert sizes[-8:] == [5] * 8


def test_two_who_ask_and_wait_fall_into_step():
    window, one, two = Window(BOUNDS), Producer(), Producer()
    window.arrived(one, 100, 0.0)
    first = closed_if_asked(window, 0.0)
    window.arrived(two, 100, 0.01)
    assert window.decide(0.01) is None, "an early upload is under way; they gather meanwhile"
    window.flushed(first, 0.02)
    assert window.decide(0.02) is None, "the one who was answered will be back soon"
    window.arrived(one, 100, 0.021)
    upload = closed_if_asked(window, 0.021)
    assert upload.senders == [two, one]


def test_who_does_not_come_back_costs_one_patience_once():
    window, stays, leaves = Window(BOUNDS), Producer(), Producer()
    window.arrived(stays, 100, 0.0)
    window.arrived(leaves, 100, 0.0)
    window.flushed(closed_if_asked(window, 0.0), 0.02)
    window.arrived(stays, 100, 0.021)
    assert window.decide(0.021) is None
    assert window.due() == pytest.approx(0.03)
    upload = closed_if_asked(window, window.due())
    assert upload.reason is Reason.EARLY
    window.flushed(upload, 0.05)
    round_trip(window, stays, 0.051)


def test_a_producer_that_asks_for_less_than_before_is_learned_anew():
    window, producer = Window(BOUNDS), Producer()
    at = round_trip(window, producer, 0.0, count=5)
    assert producer.limit == 5
    window.arrived(producer, 100, at + 0.001)
    assert window.decide(at + 0.001) is None, "four more are expected"
    upload = closed_if_asked(window, window.due())
    assert producer.limit == 1
    window.flushed(upload, at + 0.03)
    at = round_trip(window, producer, at + 0.031)
    round_trip(window, producer, at + 0.001, count=5)
    assert producer.limit == 5


def test_a_slow_producer_holds_up_a_quick_one_once_at_most():
    window, quick, slow = Window(BOUNDS), Producer(), Producer()
    held = []
    at = 0.0
    for _ in range(5):
        window.arrived(slow, 100, at)
        for _ in range(10):
            window.arrived(quick, 100, at)
            upload = closed_if_asked(window, at)
            if upload is None:
                held.append(at)
                at = window.due()
                upload = closed_if_asked(window, at)
            window.flushed(upload, at + 0.02)
            at += 0.021
    assert len(held) == 1


def test_a_producer_is_awaited_for_as_long_as_it_is_quick():
    window, one, other = Window(BOUNDS), Producer(), Producer()

    def both(at):
        window.arrived(one, 100, at)
        window.arrived(other, 100, at)
        window.flushed(closed_if_asked(window, at), at + 0.02)
        return at + 0.02

    at = both(both(0.0) + 1.0)  # slow: a second after the answer
    window.arrived(one, 100, at + 0.001)
    upload = closed_if_asked(window, at + 0.001)
    assert upload is not None, "the other is slow and not awaited"
    window.arrived(other, 100, at + 0.002)
    window.flushed(upload, at + 0.021)
    window.arrived(one, 100, at + 0.022)
    window.flushed(closed_if_asked(window, at + 0.022), at + 0.042)
    at = both(both(at + 0.043) + 0.001)  # quick: a millisecond after the answer
    window.arrived(one, 100, at + 0.001)
    assert window.decide(at + 0.001) is None, "the other is quick again and awaited"


def test_a_connection_that_ends_is_not_waited_for():
    window, stays, ends = Window(BOUNDS), Producer(), Producer()
    window.arrived(stays, 100, 0.0)
    window.arrived(ends, 100, 0.0)
    window.flushed(closed_if_asked(window, 0.0), 0.02)
    window.gone(ends)
    round_trip(window, stays, 0.021)


def test_a_connection_that_ends_before_its_answer_leaves_no_trace():
    window, producer, ends = Window(BOUNDS), Producer(), Producer()
    window.arrived(ends, 100, 0.0)
    upload = closed_if_asked(window, 0.0)
    window.gone(ends)
    window.flushed(upload, 0.02)
    round_trip(window, producer, 0.021)


def test_where_nobody_waits_for_an_answer_the_window_gathers_until_it_is_old():
    window = Window(BOUNDS)
    window.arrived(None, 100, 1.0)
    assert window.decide(1.0) is None
    assert window.decide(1.199) is None
    assert window.due() == 1.2
    assert window.decide(1.2) is Reason.OLD


def test_a_full_window_says_so_at_once_even_while_uploads_are_under_way():
    window, producer = Window(BOUNDS), Producer()
    window.arrived(producer, 100, 0.0)
    assert closed_if_asked(window, 0.0) is not None
    assert window.arrived(producer, 9_999, 0.001) is None
    assert window.arrived(producer, 1, 0.001) is Reason.FULL


def test_early_uploads_can_be_switched_off():
    window = Window(WindowBounds(bytes_max=10_000, age_max=0.2, early_uploads_max=0))
    window.arrived(Producer(), 100, 0.0)
    assert window.decide(0.0) is None
    assert window.due() == 0.2


def test_a_failed_upload_frees_the_way_and_does_not_count_as_experience():
    window, producer = Window(BOUNDS), Producer()
    at = round_trip(window, producer, 0.0)
    patience = window.patience
    window.arrived(producer, 100, at)
    window.flushed(closed_if_asked(window, at), at + 30, failed=True)
    assert window.patience == patience
    round_trip(window, producer, at + 31)


def test_an_empty_window_has_nothing_to_upload_and_is_never_due():
    window = Window(BOUNDS)
    assert window.due() is None
    assert window.decide(1e9) is None
    with pytest.raises(AssertionError, match="nothing to upload"):
        window.close(Reason.DRAIN, 0.0)
    round_trip(window, Producer(), 0.0)
    assert window.due() is None
    assert window.decide(1e9) is None


class WindowMachine(RuleBasedStateMachine):
    """Anything may happen in any order; the driver below asks when the window says it is due, as a loop would."""

    PRODUCERS = 4

    def __init__(self):
        super().__init__()
        self.at = 0.0
        self.window = Window(BOUNDS)
        self.producers = [Producer() for _ in range(self.PRODUCERS)]
        self.gathered: list[tuple[float, int]] = []
        self.under_way: list[Upload] = []
        self.unanswered = dict.fromkeys(self.producers, 0)

    def close(self, reason):
        oldest = self.gathered[0][0]
        assert self.at - oldest <= BOUNDS.age_max + 1e-9, "a batch waited longer than the age"
        size = sum(each for _, each in self.gathered)
        assert size - self.gathered[-1][1] < BOUNDS.bytes_max, "the window held more than its size and one request"
        early = sum(upload.reason is Reason.EARLY for upload in self.under_way)
        assert reason is not Reason.EARLY or early < BOUNDS.early_uploads_max
        upload = self.window.close(reason, self.at)
        assert upload.size == size
        self.gathered = []
        self.under_way.append(upload)

    def ask(self):
        reason = self.window.decide(self.at)
        if reason is not None:
            self.close(reason)
            assert self.window.decide(self.at) is None

    def arrive(self, producer, size):
        self.gathered.append((self.at, size))
        if producer is not None:
            self.unanswered[producer] += 1
        reason = self.window.arrived(producer, size, self.at)
        if reason is not None:
            self.close(reason)

    @rule(which=st.integers(0, PRODUCERS), sizes=st.lists(st.integers(1, 4000), min_size=1, max_size=5))
    def requests_arrive_in_one_turn(self, which, sizes):
        for size in sizes:
            self.arrive(self.producers[which] if which < self.PRODUCERS else None, size)
        self.ask()

    @rule(seconds=st.floats(0, 0.5))
    def time_passes(self, seconds):
        until = self.at + seconds
        for _ in range(100):
            due = self.window.due()
            if due is None or due > until:
                break
            self.at = max(self.at, due)
            self.ask()
        else:
            pytest.fail("the window keeps being due and never closes")
        self.at = until

    @precondition(lambda self: self.under_way)
    @rule(which=st.integers(0, 10), failed=st.booleans())
    def an_upload_is_answered(self, which, failed):
        upload = self.under_way.pop(which % len(self.under_way))
        for producer in upload.senders:
            if producer in self.unanswered:
                self.unanswered[producer] -= 1
        self.window.flushed(upload, self.at, failed=failed)
        self.ask()

    @rule(which=st.integers(0, PRODUCERS - 1))
    def a_connection_ends_and_another_begins(self, which):
        self.window.gone(self.producers[which])
        del self.unanswered[self.producers[which]]
        self.producers[which] = Producer()
        self.unanswered[self.producers[which]] = 0
        self.ask()

    @invariant()
    def an_empty_window_is_never_due_and_a_gathering_one_always_is(self):
        due = self.window.due()
        assert (due is None) == (not self.gathered)
        assert due is None or due <= self.gathered[0][0] + BOUNDS.age_max

    @invariant()
    def requests_are_counted_right(self):
        assert all(producer.unanswered == count for producer, count in self.unanswered.items())
        assert all(producer.unanswered <= producer.limit for producer in self.producers)

    @invariant()
    def only_living_producers_that_could_send_are_awaited(self):
        for producer in self.window._awaited:
            assert producer in self.unanswered
            assert producer.unanswered < producer.limit


WindowMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestWindowMachine = WindowMachine.TestCase
