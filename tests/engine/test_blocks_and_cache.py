"""Recycled blocks and the cache that lives on them."""

from hypothesis import given
from hypothesis import strategies as st

from runnel.world.blocks import SMALLEST, BlockPool, rounded_up
from runnel.world.objects.cache import ObjectCache


@given(st.integers(SMALLEST, 1 << 30))
def test_a_block_is_large_enough_and_wastes_an_eighth_at_most(size):
    rounded = rounded_up(size)
    assert size <= rounded <= size + size / 8 + 1
    assert rounded_up(rounded) == rounded


def test_a_block_that_was_given_back_is_used_again_within_the_bound():
    pool = BlockPool(free_bytes_max=200_000)
    block, other = pool.take(100_000), pool.take(100_000)
    third = pool.take(100_000)
    for each in (block, other, third):
        pool.give(each)
    assert pool.free_bytes <= 200_000
    assert pool.take(100_001) in (block, other)


def test_a_small_block_is_not_kept():
    pool = BlockPool(free_bytes_max=1 << 20)
    pool.give(pool.take(100))
    assert not pool.free_bytes


def test_the_cache_throws_out_what_was_not_used_for_longest():
    cache = ObjectCache(30, BlockPool(0))
    for name in "abc":
        cache.put_part(name, 0, name.encode() * 10)
    assert cache.get("a", 0, 10) == b"a" * 10
    cache.put_part("d", 0, b"d" * 10)
    assert cache.get("b", 0, 10) is None
    assert cache.get("a", 0, 5) == b"a" * 5
    assert cache.size == 30


def test_a_whole_object_answers_for_all_its_parts_and_its_block_is_recycled():
    pool = BlockPool(1 << 20)
    cache = ObjectCache(100_000, pool)
    block = pool.take(70_000)
    block[10:15] = b"hello"
    cache.put_block("a", block, 70_000)
    assert bytes(cache.get("a", 10, 5)) == b"hello"
    cache.put_block("b", pool.take(70_000), 70_000)
    assert cache.get("a", 10, 5) is None
    assert pool.take(70_000) is block


def test_what_is_larger_than_the_cache_is_not_kept():
    pool = BlockPool(1 << 20)
    cache = ObjectCache(1000, pool)
    cache.put_block("a", pool.take(70_000), 70_000)
    assert not len(cache)
    assert pool.free_bytes >= 70_000
