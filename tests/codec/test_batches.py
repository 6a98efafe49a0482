"""Sealed batches: what is taken in, what is refused and how it is called, and what is patched at reading."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.codec.batches import (
    APPEND_TIME,
    CONTROL,
    TRANSACTIONAL,
    BadBatch,
    Fault,
    check_batches,
    check_produced,
    patch_offsets,
    read_head,
    seek_offset,
    seek_time,
    set_append_time,
)
from runnel.codec.compression import Compression
from runnel.codec.records import Record, build_batch, read_records
from runnel.errors import Corrupt


def batch_of(count=3, value=b"value", time=1000, **more):
    return build_batch([Record(b"key", value, (), time + i) for i in range(count)], **more)


def resealed(batch, **fields):
    """The batch with other fields in its head and a checksum that fits."""
    places = {
        "length": (">i", 8),
        "magic": (">b", 16),
        "attributes": (">h", 21),
        "last_offset_delta": (">i", 23),
        "producer": (">q", 43),
        "sequence": (">i", 53),
        "records": (">i", 57),
    }
    out = bytearray(batch)
    for name, value in fields.items():
        code, at = places[name]
        struct.pack_into(code, out, at, value)
    struct.pack_into(">I", out, 17, crc32c(memoryview(out)[21:]))
    return bytes(out)


def fault_of(data, **more):
    with pytest.raises(BadBatch) as caught:
        check_produced(memoryview(data), 0, len(data), **more)
    return caught.value.fault


def test_a_good_batch_tells_its_head_wherever_it_lies_in_the_buffer():
    batch = batch_of(4, producer=7, epoch=2, sequence=40, compression=Compression.ZSTD)
    view = memoryview(b"before" + batch + b"after")
    head = check_produced(view, 6, 6 + len(batch))
    assert (head.records, head.last_offset_delta, head.producer, head.epoch, head.sequence) == (4, 3, 7, 2, 40)
    assert (head.base_timestamp, head.max_timestamp, head.compression) == (1000, 1003, Compression.ZSTD)
    assert head.size == len(batch)
    assert head.is_idempotent
    assert not head.is_transactional


def test_no_single_flipped_bit_under_the_checksum_gets_in():
    batch = batch_of(1)
    for bit in range(17 * 8, len(batch) * 8):
        flipped = bytearray(batch)
        flipped[bit // 8] ^= 1 << bit % 8
        assert fault_of(flipped) is Fault.CHECKSUM


def test_a_batch_cut_anywhere_is_told_to_be_cut():
    batch = batch_of(2)
    for length in range(1, len(batch)):
        assert fault_of(batch[:length]) is Fault.CUT


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_message_formats_are_refused_by_name(magic):
    batch = bytearray(batch_of())
    batch[16] = magic
    with pytest.raises(BadBatch, match=f"message format v{magic}") as caught:
        check_produced(memoryview(batch), 0, len(batch))
    assert caught.value.fault is Fault.OLD_FORMAT


def test_exactly_one_batch_is_taken_per_partition():
    batch = batch_of()
    assert fault_of(batch + batch) is Fault.NOT_ONE
    assert fault_of(batch + b"tail") is Fault.NOT_ONE
    assert fault_of(b"") is Fault.NOT_ONE


@pytest.mark.parametrize("length", [-(2**31), -12, -1, 0, 48, 2**31 - 1])
def test_lengths_that_lead_elsewhere_are_refused_before_they_are_used(length):
    batch = bytearray(batch_of())
    struct.pack_into(">i", batch, 8, length)
    assert fault_of(batch) is Fault.CUT


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"records": 0}, "0 records"),
        ({"records": -1}, "-1 records"),
        ({"records": 4}, "4 records ends at offset delta 2, not 3"),
        ({"last_offset_delta": 3}, "3 records ends at offset delta 3, not 2"),
        ({"records": 2**31 - 1, "last_offset_delta": 2**31 - 2}, "do not fit"),
        ({"attributes": CONTROL}, "control batches"),
        ({"attributes": 5}, "compression 5"),
        ({"attributes": TRANSACTIONAL}, "no producer id"),
        ({"producer": 5, "sequence": -1}, "sequence -1"),
    ],
)
def test_heads_that_contradict_themselves_are_refused(fields, words):
    batch = resealed(batch_of(3), **fields)
    with pytest.raises(BadBatch, match=words) as caught:
        check_produced(memoryview(batch), 0, len(batch))
    assert caught.value.fault is Fault.INCONSISTENT


def test_a_producer_may_not_claim_append_time():
    assert fault_of(resealed(batch_of(), attributes=APPEND_TIME)) is Fault.TIMESTAMP_TYPE


def test_a_batch_over_the_topics_bound_is_too_large_and_one_at_the_bound_is_not():
    batch = batch_of()
    assert fault_of(batch, largest=len(batch) - 1) is Fault.TOO_LARGE
    assert check_produced(memoryview(batch), 0, len(batch), largest=len(batch)).records == 3


def test_many_batches_side_by_side_are_walked_and_the_broken_one_is_named():
    batches = [batch_of(i) for i in range(1, 6)]
    run = b"".join(batches)
    assert [head.records for head in check_batches(memoryview(run), 0, len(run))] == [1, 2, 3, 4, 5]
    assert check_batches(memoryview(run), 0, 0) == []
    broken = bytearray(run)
    third = len(batches[0]) + len(batches[1])
    broken[third + 70] ^= 1
    with pytest.raises(BadBatch, match=f"byte {third} has checksum") as caught:
        check_batches(memoryview(broken), 0, len(run))
    assert caught.value.fault is Fault.CHECKSUM


def test_stored_runs_may_hold_control_batches_append_time_and_gaps():
    run = resealed(batch_of(), attributes=CONTROL | APPEND_TIME, last_offset_delta=9)
    (head,) = check_batches(memoryview(run), 0, len(run))
    assert head.is_control
    assert head.is_append_time
    assert head.next_offset == 10


def test_stored_batches_cannot_hold_more_records_than_offsets():
    run = resealed(batch_of(3), last_offset_delta=1)
    with pytest.raises(BadBatch, match="3 records ends at offset delta 1"):
        check_batches(memoryview(run), 0, len(run))


@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=6), first=st.integers(0, 2**60))
@settings(max_examples=50)
def test_patched_offsets_follow_on_and_checksums_still_hold(counts, first):
    run = bytearray(b"".join(batch_of(count) for count in counts))
    assert patch_offsets(memoryview(run), first, leader_epoch=9) == first + sum(counts)
    heads = check_batches(memoryview(run), 0, len(run))
    assert [record.offset for record in read_records(run)] == list(range(first, first + sum(counts)))
    assert {head.leader_epoch for head in heads} == {9}


def test_offsets_are_patched_inside_a_part_of_a_buffer_only():
    batch = batch_of(2)
    buffer = bytearray(batch * 3)
    assert patch_offsets(memoryview(buffer), 100, start=len(batch), end=2 * len(batch)) == 102
    assert buffer[: len(batch)] == batch
    assert buffer[2 * len(batch) :] == batch
    assert read_head(memoryview(buffer), len(batch)).leader_epoch == -1


def test_a_stored_run_that_is_cut_is_corrupt_and_never_read_over_its_end():
    run = bytearray(batch_of(2) + batch_of(3))
    for length in range(len(run)):
        if length in {0, len(batch_of(2))}:
            continue
        for walk in (
            patch_offsets,
            lambda view, first: seek_offset(view, first, 99),
            lambda v, f: seek_time(v, f, 9999),
        ):
            with pytest.raises(Corrupt):
                walk(memoryview(run)[:length], 0)


def test_a_zero_length_batch_does_not_make_a_walk_stand_still():
    run = bytearray(batch_of())
    struct.pack_into(">i", run, 8, -12)
    with pytest.raises(Corrupt, match="no batch at byte 0"):
        patch_offsets(memoryview(run), 0)


def test_an_offset_is_found_in_the_batch_that_holds_it():
    batches = [batch_of(2), batch_of(3), batch_of(1)]
    view = memoryview(b"".join(batches))
    places = [0, len(batches[0]), len(batches[0]) + len(batches[1]), len(view)]
    wanted = {10: (places[0], 10), 11: (places[0], 10), 12: (places[1], 12), 14: (places[1], 12), 15: (places[2], 15)}
    assert {offset: seek_offset(view, 10, offset) for offset in wanted} == wanted
    assert seek_offset(view, 10, 16) == (places[3], 16)


def test_a_time_is_found_in_the_first_batch_that_reaches_it():
    batches = [batch_of(2, time=1000), batch_of(2, time=500), batch_of(2, time=2000)]
    view = memoryview(b"".join(batches))
    assert seek_time(view, 7, 0) == (0, 7)
    assert seek_time(view, 7, 1001) == (0, 7)
    assert seek_time(view, 7, 1002) == (len(batches[0]) + len(batches[1]), 11)
    assert seek_time(view, 7, 2002) is None


def test_append_time_replaces_the_producers_and_the_batch_is_sealed_again():
    buffer = bytearray(b"??" + batch_of(3))
    head = set_append_time(memoryview(buffer), 2, 77_777)
    assert head.is_append_time
    assert head.max_timestamp == 77_777
    assert check_batches(memoryview(buffer), 2, len(buffer)) == [head]
    assert {record.timestamp for record in read_records(buffer[2:])} == {77_777}


@given(data=st.binary(max_size=200))
@settings(max_examples=200)
def test_garbage_is_refused_and_nothing_else(data):
    with pytest.raises(BadBatch):
        check_produced(memoryview(data), 0, len(data))
    if data:
        with pytest.raises(BadBatch):
            check_batches(memoryview(data), 0, len(data))
