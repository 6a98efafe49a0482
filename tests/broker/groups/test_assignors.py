"""Assignors of the new protocol: everything is read once, by those who want it, evenly, and nothing moves for nothing."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from runnel.broker.groups.assignors import ASSIGNORS, by_range, uniform

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
counts = st.dictionaries(st.sampled_from([A, B, C]), st.integers(0, 12))
members = st.sampled_from([f"m{number}" for number in range(6)])
wishes = st.dictionaries(members, st.frozensets(st.sampled_from([A, B, C])), max_size=6)


def known(wishes, counts):
    return {member: topics & counts.keys() for member, topics in wishes.items()}


def once(assignment, wishes, counts):
    """Every partition that somebody wants is read by exactly one who wants it."""
    read = Counter(part for parts in assignment.values() for part in parts)
    wanted = set().union(*wishes.values()) if wishes else set()
    assert read == Counter((topic, index) for topic in wanted for index in range(counts[topic]))
    assert all(topic in wishes[member] for member, parts in assignment.items() for topic, _ in parts)


@given(wishes, counts, st.sampled_from(sorted(ASSIGNORS)))
def test_everything_is_read_once_by_someone_who_wants_it(wishes, counts, name):
    wishes = known(wishes, counts)
    once(ASSIGNORS[name](wishes, counts, {}), wishes, counts)


@given(st.sets(members, min_size=1), counts, st.sets(members), st.randoms(use_true_random=False))
def test_uniform_is_even_and_moves_no_more_than_it_must(names, counts, later, luck):
    before = uniform({name: frozenset(counts) for name in names}, counts, {})
    names = names | later if luck.random() < 0.5 else (names - later or names)
    wishes = {name: frozenset(counts) for name in names}
    after = uniform(wishes, counts, before)
    once(after, wishes, counts)
    sizes = [len(parts) for parts in after.values()]
    assert max(sizes) - min(sizes) <= 1
    total = sum(counts.values())
    kept = sum(len(after[name] & before.get(name, frozenset())) for name in names)
    most = sorted((len(before.get(name, ())) for name in names), reverse=True)
    least, more = divmod(total, len(names))
    assert kept == sum(min(size, least + (place < more)) for place, size in enumerate(most))
    assert uniform(wishes, counts, after) == after


@given(wishes, counts, wishes)
def test_uniform_with_different_wishes_cannot_be_made_more_even_by_moving_one(wishes, counts, former):
    wishes, former = known(wishes, counts), known(former, counts)
    after = uniform(wishes, counts, uniform(former, counts, {}))
    once(after, wishes, counts)
    for parts in after.values():
        for topic, _ in parts:
            for taker, topics in wishes.items():
                assert topic not in topics or len(after[taker]) + 1 >= len(parts)
    assert uniform(wishes, counts, after) == after


def test_range_gives_runs_and_the_same_partitions_of_topics_that_are_alike():
    wishes = {"one": {A, B}, "two": {A, B}, "three": {A}}
    got = by_range(wishes, {A: 7, B: 4}, {})
    assert sorted(got["one"]) == [(A, 0), (A, 1), (A, 2), (B, 0), (B, 1)]
    assert sorted(got["three"]) == [(A, 3), (A, 4)]
    assert sorted(got["two"]) == [(A, 5), (A, 6), (B, 2), (B, 3)]
    alike = by_range({"one": {A, B}, "two": {A, B}}, {A: 5, B: 5}, {})
    assert all(
        {index for topic, index in parts if topic == A} == {index for topic, index in parts if topic == B}
        for parts in alike.values()
    )
