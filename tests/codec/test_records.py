"""The inside of batches: round trips, other people's batches, and liars."""

import contextlib
import struct
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.codec.batches import check_batches, check_produced
from runnel.codec.compression import Compression, TooLarge, compress
from runnel.codec.records import Record, build_batch, first_at_or_after, read_records
from runnel.codec.varints import decode_varint, encode_varint
from runnel.errors import Refused

maybe_bytes = st.none() | st.binary(max_size=300)
records = st.builds(
    Record,
    maybe_bytes,
    maybe_bytes,
    st.lists(st.tuples(st.text(max_size=10), maybe_bytes), max_size=3).map(tuple),
    st.integers(-1, 2**50),
)


@given(what=st.lists(records, min_size=1, max_size=20), how=st.sampled_from(Compression))
@settings(max_examples=100)
def test_records_come_back_as_they_went_in(what, how):
    batch = build_batch(what, compression=how, base_offset=1000)
    head = check_produced(memoryview(batch), 0, len(batch))
    assert head.records == len(what)
    assert head.max_timestamp == max(record.timestamp for record in what)
    assert list(read_records(batch)) == [record._replace(offset=1000 + i) for i, record in enumerate(what)]


@pytest.mark.parametrize("how", Compression)
def test_the_same_records_give_the_same_bytes(how):
    what = [Record(b"k", b"v" * 100, (("h", b"1"),), 5)] * 10
    assert build_batch(what, compression=how) == build_batch(what, compression=how)


def test_control_batches_are_passed_over_unless_asked_for():
    run = build_batch([Record(b"a", b"1")]) + build_batch([Record(b"\0\0\0\1", b"\0" * 6)], control=True, producer=1)
    assert [record.key for record in read_records(run, first=5)] == [b"a"]
    assert [record.offset for record in read_records(run, first=5, with_control=True)] == [5, 6]
    assert [r.offset for r in read_records(run + build_batch([Record(b"b", b"2")]), first=5)] == [5, 7]


def test_the_first_record_at_or_after_a_time_is_found():
    batch = memoryview(build_batch([Record(None, b"", (), time) for time in (10, 5, 20, 15)]))
    (head,) = check_batches(batch, 0, len(batch))
    assert first_at_or_after(batch, head, 100, 0).offset == 100
    assert first_at_or_after(batch, head, 100, 11).offset == 102
    assert first_at_or_after(batch, head, 100, 21) is None


def sealed(body, count, attributes=0):
    rest = struct.pack(">hiqqqhii", attributes, count - 1, 0, 0, -1, -1, -1, count) + body
    return struct.pack(">qiibI", 0, 9 + len(rest), -1, 2, crc32c(rest)) + rest


GOOD = build_batch([Record(b"key", b"value", (("name", b"content"),), 3)])[61:]


def test_a_body_cut_anywhere_is_refused():
    for length in range(7, len(GOOD)):
        with pytest.raises(Refused):
            list(read_records(sealed(GOOD[:length], 1)))


@pytest.mark.parametrize(
    ("body", "count", "words"),
    [
        (GOOD, 2, "says it has|cut off"),
        (GOOD, 1000, "1000 records in"),
        (GOOD + b"\0", 1, "1 bytes follow"),
        (encode_varint(-5) + GOOD[1:], 1, "says it has -5 bytes"),
        (encode_varint(6) + b"\0\0\0\1\1\x7f", 1, "-64 headers"),
        (encode_varint(6) + b"\0\0\0\1\1\x02", 1, "1 headers in 0 bytes"),
        (encode_varint(7) + b"\0\0\0\1\1\0\0", 1, "leaves 1 bytes"),
        (encode_varint(8) + b"\0\0\0\1\1\2\1\1", 1, "without a name"),
        (encode_varint(9) + b"\0\0\0\1\1\2\2\xff\1", 1, "not UTF-8"),
        (encode_varint(6) + b"\0\0\0\3\1\0", 1, "say they are -2 long"),
    ],
)
def test_liars_in_the_body_are_found_out(body, count, words):
    with pytest.raises(Refused, match=words):
        list(read_records(sealed(body, count)))


@given(body=st.binary(max_size=100), count=st.integers(1, 5), codec=st.integers(0, 7))
@settings(max_examples=300)
def test_garbage_in_a_sealed_body_is_refused_or_read_and_nothing_else(body, count, codec):
    with contextlib.suppress(Refused):
        assert len(list(read_records(sealed(body, count, codec)))) == count


@pytest.mark.parametrize("how", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_small_batch_that_would_unfold_to_gigabytes_is_refused_before_it_does(how):
    bomb = sealed(compress(bytes(8 << 20), how), 1, how)
    with pytest.raises(TooLarge, match="more than 1048576 bytes"):
        list(read_records(bomb, unfolded_bytes_max=1 << 20))


@given(number=st.integers(-(2**63), 2**63 - 1))
def test_numbers_of_64_bits_come_back(number):
    encoded = encode_varint(number)
    assert decode_varint(encoded, 0, len(encoded), bits=64) == (number, len(encoded))


@pytest.mark.parametrize("number", [-(2**31), -1, 0, 63, 64, -64, -65, 2**31 - 1])
def test_numbers_of_32_bits_come_back_and_larger_ones_are_refused(number):
    encoded = encode_varint(number)
    assert decode_varint(b"?" + encoded + b"?", 1, len(encoded) + 1) == (number, len(encoded) + 1)
    for too_large in (2**31, -(2**31) - 1, 2**62):
        with pytest.raises(Refused, match="32 bits"):
            decode_varint(encode_varint(too_large), 0, 20)


def test_a_number_that_never_ends_or_is_cut_off_is_refused():
    with pytest.raises(Refused, match="longer than"):
        decode_varint(b"\xff" * 20, 0, 20, bits=64)
    for length in range(5):
        with pytest.raises(Refused, match="cut off"):
            decode_varint(b"\xff" * 20, 0, length)


def test_our_batches_are_read_by_other_peoples_readers():
    from aiokafka.record.memory_records import MemoryRecords

    what = [Record(b"k", b"v" * 50, (("h", b"1"), ("n", None)), 1000 + i) for i in range(5)] + [Record(None, None)]
    for how in Compression:
        ours = MemoryRecords(build_batch(what, compression=how, base_offset=7))
        batch = ours.next_batch()
        assert batch.validate_crc()
        assert [(r.key, r.value, tuple(r.headers), r.timestamp, r.offset) for r in batch] == [
            (r.key, r.value, r.headers, r.timestamp, 7 + i) for i, r in enumerate(what)
        ]
        assert not ours.has_next()


def test_other_peoples_batches_are_read_by_ours():
    from aiokafka.record.default_records import DefaultRecordBatchBuilder

    for codec in Compression:
        builder = DefaultRecordBatchBuilder(2, codec, 0, 9, 3, 17, 1 << 20)
        for i in range(6):
            builder.append(i, 500 + i, b"key", b"value" * i, [("header", b"x"), ("none", None)])
        batch = bytes(builder.build())
        head = check_produced(memoryview(batch), 0, len(batch))
        assert (head.producer, head.epoch, head.sequence, head.compression) == (9, 3, 17, codec)
        assert list(read_records(batch)) == [
            Record(b"key", b"value" * i, (("header", b"x"), ("none", None)), 500 + i, i) for i in range(6)
        ]


GOLDEN = Path(__file__).parent.parent / "golden" / "batches"
GOLDEN_RECORDS = [
    Record(b"key", b"value", (("header", b"content"), ("nothing", None)), 1_700_000_000_000),
    Record(None, b"no key", (), 1_700_000_000_001),
    Record(b"tombstone", None, (), 1_699_999_999_999),
    Record(b"long", b"abc" * 100, (), 1_700_000_000_002),
]


@pytest.mark.parametrize("how", Compression)
def test_batches_of_all_times_are_read_forever(how):
    batch = (GOLDEN / f"{how.name.lower()}.bin").read_bytes()
    head = check_produced(memoryview(batch), 0, len(batch))
    assert (head.producer, head.epoch, head.sequence, head.compression) == (4000, 1, 10, how)
    assert list(read_records(batch, first=20)) == [r._replace(offset=20 + i) for i, r in enumerate(GOLDEN_RECORDS)]


def test_uncompressed_batches_are_written_as_ever():
    batch = build_batch(GOLDEN_RECORDS, producer=4000, epoch=1, sequence=10)
    assert batch == (GOLDEN / "none.bin").read_bytes()
