"""How far a stream goes with one trigger."""

from hypothesis import given
from hypothesis import strategies as st

from runnel.lake.triggers import Progress

ends = st.dictionaries(st.integers(0, 5), st.integers(0, 1000), min_size=1, max_size=6)


def one_byte_each(wanted):
    return sum(end - start for start, end in wanted.values())


@given(ends, st.integers(1, 500))
def test_triggers_add_up_to_all_and_none_takes_too_much(ends, most):
    bounds = {partition: (0, end) for partition, end in ends.items()}
    progress = Progress(offsets_max=most)
    progress.came_to(dict.fromkeys(ends, 0))
    at = dict.fromkeys(ends, 0)
    while at != ends:
        goal = progress.goal(bounds, one_byte_each)
        taken = sum(goal[partition] - at[partition] for partition in at)
        assert 0 < taken <= most
        assert taken == min(most, sum(ends.values()) - sum(at.values()))
        assert all(at[partition] <= goal[partition] <= ends[partition] for partition in at)
        progress.came_to(goal)
        at = goal


@given(ends, st.integers(1, 500))
def test_bytes_are_a_bound_as_well(ends, most):
    bounds = {partition: (0, end) for partition, end in ends.items()}
    progress = Progress(bytes_max=most)
    progress.came_to(dict.fromkeys(ends, 0))
    goal = progress.goal(bounds, one_byte_each)
    assert sum(goal.values()) <= max(most, 1)
    assert sum(goal.values()) == min(most, sum(ends.values()))


def test_without_limits_all_is_taken():
    progress = Progress()
    progress.came_to({0: 3, 1: 5})
    assert progress.goal({0: (0, 10), 1: (7, 9), 2: (0, 4)}, one_byte_each) == {0: 10, 1: 9, 2: 4}


def test_every_partition_gets_its_share():
    progress = Progress(offsets_max=100)
    progress.came_to({0: 0, 1: 0})
    assert progress.goal({0: (0, 900), 1: (0, 100)}, one_byte_each) == {0: 90, 1: 10}
