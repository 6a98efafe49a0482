"""What a plan promises: every offset once, borders where extents end, bounds kept, everyone moved."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from runnel.table.files.facts import Slice
from runnel.table.plan import Backlog, Bounds, is_due, plan

TABLES = (b"a", b"b", b"c")


def backlog(table, partition, first, lengths, records=7, waiting_ms=0):
    slices = []
    for number, length in enumerate(lengths):
        slices.append(Slice(f"wal/{number}", 16, length, first, first + records))
        first += records
    return Backlog(table, partition, 100 * partition + TABLES.index(table), tuple(slices), 0, waiting_ms)


lengths = st.lists(st.integers(1, 400), min_size=0, max_size=40)
backlogs = st.lists(
    st.tuples(st.sampled_from(TABLES), st.integers(0, 5), st.integers(0, 1000), lengths, st.integers(0, 50)),
    max_size=12,
    unique_by=lambda each: each[:2],
).map(lambda all_: [backlog(*each[:4], waiting_ms=each[4]) for each in all_])
bounds = st.builds(
    Bounds,
    task_bytes=st.integers(1, 1000),
    task_slices=st.integers(1, 30),
    round_bytes=st.integers(1, 20_000),
    age_ms_max=st.integers(0, 60),
)


@given(backlogs, bounds)
def test_ranges_are_the_front_of_each_backlog_once_and_without_holes(given_, limits):
    taken = {}
    for task in plan(given_, limits):
        for each in task.ranges:
            taken.setdefault((task.table, each.partition), []).append(each)
    by_key = {(each.table, each.partition): each for each in given_}
    for key, ranges in taken.items():
        slices = [one for each in sorted(ranges, key=lambda each: each.first) for one in each.slices]
        assert slices == list(by_key[key].slices[: len(slices)])


@given(backlogs, bounds)
def test_a_table_that_is_due_moves_in_every_partition_and_others_wait(given_, limits):
    moved = {(task.table, each.partition) for task in plan(given_, limits) for each in task.ranges}
    for table in TABLES:
        mine = [each for each in given_ if each.table == table and each.slices]
        due = bool(mine) and is_due(mine, limits)
        assert {key for key in moved if key[0] == table} == {(table, each.partition) for each in mine if due}


@given(backlogs, bounds)
def test_a_task_keeps_its_bounds_unless_one_slice_alone_is_larger(given_, limits):
    for task in plan(given_, limits):
        slices = [one for each in task.ranges for one in each.slices]
        assert len(slices) <= limits.task_slices or len(slices) == len(task.ranges) == 1
        assert task.bytes <= limits.task_bytes or len(slices) == 1


@given(backlogs, bounds)
def test_a_round_is_as_large_as_it_may_be_and_hardly_larger(given_, limits):
    size = sum(task.bytes for task in plan(given_, limits))
    due = [
        each
        for table in TABLES
        if (mine := [one for one in given_ if one.table == table and one.slices]) and is_due(mine, limits)
        for each in mine
    ]
    wanted = sum(each.bytes for each in due)
    assert size <= limits.round_bytes + sum(max(one.length for one in each.slices) for each in due)
    if wanted <= limits.round_bytes:
        assert size == wanted


@given(backlogs, bounds)
def test_small_partitions_share_tasks(given_, limits):
    tasks = plan(given_, limits)
    for table in TABLES:
        mine = [task for task in tasks if task.table == table]
        for left, right in pairwise(mine):
            both = left.bytes + right.bytes
            slices = sum(len(each.slices) for task in (left, right) for each in task.ranges)
            alone = max(left.bytes, right.bytes) >= limits.task_bytes
            alone = alone or any(
                len(each.slices) >= limits.task_slices for task in (left, right) for each in task.ranges
            )
            same = bool({each.partition for each in left.ranges} & {each.partition for each in right.ranges})
            assert both > limits.task_bytes or slices > limits.task_slices or alone or same


def test_tables_have_equal_parts_of_a_round_that_is_too_small_for_all():
    large, small = backlog(b"a", 0, 0, [100] * 100), backlog(b"b", 0, 0, [100] * 3)
    tasks = plan([large, small], Bounds(task_bytes=10_000, round_bytes=1000))
    assert {task.table: task.bytes for task in tasks} == {b"a": 700, b"b": 300}


def test_a_backlog_is_cut_into_pieces_of_about_one_size():
    tasks = plan([backlog(b"a", 0, 0, [10] * 25)], Bounds(task_bytes=100))
    assert sorted(task.bytes for task in tasks) == [80, 80, 90]


def test_nothing_to_do_is_no_task():
    assert plan([backlog(b"a", 0, 0, [])], Bounds()) == []
