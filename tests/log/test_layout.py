"""Write-ahead objects: what is laid out is read back, and no change to an object goes unnoticed."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.codec.batches import check_batches
from runnel.codec.records import Record, build_batch, read_records
from runnel.errors import Corrupt
from runnel.log.builder import Sealed, lay_out
from runnel.log.layout import HEAD_BYTES, TAIL_BYTES, TAIL_GUESS
from runnel.log.reader import check_object, check_slice, footer_length, parse_footer

GOLDEN = Path(__file__).parent.parent / "golden" / "log"
NAME = "wal/018bcfe56800-00000000000000ff"


def sealed(stream, count=2, value=b"value", time=1000, **more):
    identity = {key: more[key] for key in ("producer", "epoch", "sequence") if key in more}
    body = build_batch([Record(b"key", value, (), time + i) for i in range(count)], **identity)
    return Sealed(stream, memoryview(body), count, time + count - 1, **more)


def joined(laid):
    data = b"".join(laid.buffers)
    assert len(data) == laid.size
    return data


def test_slices_lie_in_order_of_streams_and_batches_in_order_of_arrival():
    batches = [sealed(9, 1), sealed(2, 2), sealed(9, 3, time=500), sealed(5, 4)]
    footer = check_object(NAME, joined(lay_out(batches, writer=7)))
    assert [each.stream for each in footer.slices] == [2, 5, 9]
    assert [each.records for each in footer.slices] == [2, 4, 4]
    assert [each.batches for each in footer.slices] == [1, 1, 2]
    assert [each.stamp for each in footer.slices] == [1001, 1003, 1000]
    assert footer.slices[0].place == HEAD_BYTES
    assert footer.writer == 7
    assert [batch.records for batch in footer.batches_of(footer.slice_of(9))] == [1, 3]
    assert footer.slice_of(3) is None


def test_batches_without_identity_are_one_item_and_those_with_one_stand_alone():
    batches = [
        sealed(1, 2, time=9000),
        sealed(1, 3),
        sealed(1, 1, producer=5, epoch=0, sequence=0),
        sealed(1, 2),
        sealed(1, 1, flags=2),
        sealed(2, 1),
    ]
    laid = lay_out(batches)
    sizes = [len(batch.body) for batch in batches]
    starts = [HEAD_BYTES + sum(sizes[:i]) for i in range(6)]
    assert laid.items == [
        (1, 9001, -1, -1, -1, starts[0], sizes[0] + sizes[1], 5, 0),
        (1, 1000, 5, 0, 0, starts[2], sizes[2], 1, 0),
        (1, 1001, -1, -1, -1, starts[3], sizes[3], 2, 0),
        (1, 1000, -1, -1, -1, starts[4], sizes[4], 1, 2),
        (2, 1000, -1, -1, -1, starts[5], sizes[5], 1, 0),
    ]
    assert laid.item_of == [0, 0, 1, 2, 3, 4]
    assert laid.delta_of == [0, 2, 0, 0, 0, 0]


def test_an_append_of_nothing_is_an_item_but_no_part_of_the_object():
    nothing = Sealed(4, b"", 0, -1, flags=2, tag="close")
    laid = lay_out([sealed(4, 1), nothing, sealed(8, 1)])
    footer = check_object(NAME, joined(laid))
    assert [each.stream for each in footer.slices] == [4, 8]
    assert [item[0] for item in laid.items] == [4, 4, 8]
    assert laid.items[1][5:8] == (laid.items[2][5], 0, 0)
    empty = check_object(NAME, joined(lay_out([nothing])))
    assert empty.slices == ()
    assert empty.records == 0


streams = st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1))
arrivals = st.lists(st.tuples(streams, st.integers(1, 4), st.sampled_from([-1, 3]), st.integers(0, 5000)), min_size=1)


@given(what=arrivals)
@settings(max_examples=60)
def test_every_batch_is_found_again_by_its_item(what):
    batches = [
        sealed(stream, count, time=time, producer=producer, sequence=0, tag=index)
        for index, (stream, count, producer, time) in enumerate(what)
    ]
    laid = lay_out(batches)
    data = joined(laid)
    footer = check_object(NAME, data)
    assert sorted(batch.tag for batch in laid.batches) == list(range(len(what)))
    for (stream, stamp, producer, *_, place, length, records, _), index in zip(laid.items, range(10**6), strict=False):
        heads = check_batches(memoryview(data), place, place + length)
        mine = [i for i, item in enumerate(laid.item_of) if item == index]
        assert [head.records for head in heads] == [laid.batches[i].records for i in mine]
        assert [laid.batches[i].stream for i in mine] == [stream] * len(mine)
        assert max(head.max_timestamp for head in heads) == stamp
        assert sum(head.records for head in heads) == records
        assert {head.producer for head in heads} == {producer}
        deltas = [sum(laid.batches[j].records for j in mine[:i]) for i in range(len(mine))]
        assert [laid.delta_of[i] for i in mine] == deltas
    for stream in {each[0] for each in what}:
        order = [batch.tag for batch in laid.batches if batch.stream == stream]
        assert order == sorted(order)
    assert sum(each.length for each in footer.slices) == sum(len(batch.body) for batch in batches)


def test_bodies_are_handed_on_and_never_copied():
    batches = [sealed(stream) for stream in (3, 1, 2)]
    laid = lay_out(batches)
    assert [any(buffer is batch.body for buffer in laid.buffers) for batch in batches] == [True] * 3


def small_object():
    return joined(lay_out([sealed(1, 1), sealed(2, 2), sealed(2, 1, producer=4, epoch=0, sequence=0)], writer=3))


def test_no_flipped_bit_anywhere_goes_unnoticed():
    data = small_object()
    for at in range(len(data)):
        broken = bytearray(data)
        broken[at] ^= 1 << at % 8
        with pytest.raises(Corrupt, match=NAME):
            check_object(NAME, broken)


def test_an_object_cut_anywhere_or_grown_is_corrupt():
    data = small_object()
    for length in range(len(data)):
        with pytest.raises(Corrupt, match=NAME):
            check_object(NAME, data[:length])
    with pytest.raises(Corrupt, match=NAME):
        check_object(NAME, data + b"\0")
    with pytest.raises(Corrupt, match=NAME):
        check_object(NAME, b"\0" + data)


def test_an_object_of_another_size_than_it_says_is_told_so():
    data = small_object()
    with pytest.raises(Corrupt, match=f"has {len(data) + 1} bytes, its tail at byte .* says {len(data)}"):
        check_object(NAME, b"\0" + data)


def test_the_footer_is_read_from_the_end_alone():
    data = small_object()
    needed = footer_length(NAME, data[-TAIL_BYTES:], len(data))
    whole = check_object(NAME, data)
    assert parse_footer(NAME, data[-needed:], len(data)) == whole
    assert parse_footer(NAME, memoryview(data)[-needed - 10 :], len(data)) == whole


def test_one_slice_is_checked_alone():
    data = bytearray(small_object())
    footer = check_object(NAME, data)
    wanted = footer.slice_of(2)
    part = data[wanted.place : wanted.place + wanted.length]
    check_slice(footer, wanted, part)
    part[5] ^= 1
    with pytest.raises(Corrupt, match=f"stream 2 at byte {wanted.place}"):
        check_slice(footer, wanted, part)


def test_a_newer_format_asks_for_an_upgrade():
    import struct

    from crc32c import crc32c

    data = bytearray(small_object())
    tail = len(data) - TAIL_BYTES
    struct.pack_into("<H", data, tail + 16, 2)
    struct.pack_into("<I", data, tail + 20, crc32c(memoryview(data)[tail : tail + 20]))
    with pytest.raises(Corrupt, match="has format 2, this program knows 1: upgrade runnel"):
        check_object(NAME, data)


def resealed(data, place, code, value):
    """The object with another value in its footer, all checksums made to fit: what a broken writer could leave."""
    import struct

    from crc32c import crc32c

    out = bytearray(data)
    tail = len(out) - TAIL_BYTES
    footer = tail - struct.unpack_from("<I", out, tail + 8)[0]
    struct.pack_into(code, out, footer + place, value)
    struct.pack_into("<I", out, tail + 12, crc32c(memoryview(out)[footer:tail]))
    struct.pack_into("<I", out, tail + 20, crc32c(memoryview(out)[tail : tail + 20]))
    return out


# two slices, three batches: writer 8, counts 4 4, streams 8 8, stamps 8 8, places, lengths, records, checksums, batches
@pytest.mark.parametrize(
    ("place", "code", "value", "words"),
    [
        (8, "<I", 3, "3 slices and 3 batches in a footer"),
        (12, "<I", 2**32 - 1, "4294967295 batches in a footer"),
        (16, "<Q", 2, "contradicts itself at stream 2"),
        (48, "<I", 17, "contradicts itself at stream 1"),
        (56, "<I", 1, "contradicts itself at stream 1"),
        (64, "<I", 9, "contradicts itself at stream 1"),
        (72, "<I", 1, "fails the checksum of stream 1"),
        (80, "<I", 0, "contradicts itself at stream 1"),
        (80, "<I", 4, "contradicts itself at stream 1"),
        (88, "<I", 1, "contradicts itself at stream 1"),
        (104, "<I", 3, "contradicts itself at stream 2"),
    ],
)
def test_a_footer_that_lies_with_good_checksums_is_corrupt(place, code, value, words):
    with pytest.raises(Corrupt, match=words):
        check_object(NAME, resealed(small_object(), place, code, value))


def test_a_footer_that_moves_bytes_from_one_batch_to_another_is_corrupt():
    import struct

    data = small_object()
    lengths = struct.unpack_from("<3I", data, len(data) - TAIL_BYTES - 24)
    moved = resealed(resealed(data, 92, "<I", lengths[1] + 1), 96, "<I", lengths[2] - 1)
    with pytest.raises(Corrupt, match="other batches in stream 2"):
        check_object(NAME, moved)


@given(data=st.binary(max_size=300))
def test_garbage_is_corrupt_and_nothing_else(data):
    with pytest.raises(Corrupt):
        check_object(NAME, data)


def test_the_common_footer_fits_in_the_first_read():
    laid = lay_out([sealed(stream, 1) for stream in range(1400)])
    assert len(laid.buffers[-1]) <= TAIL_GUESS


# -- golden bytes ----------------------------------------------------------------------------------------------------


def golden_batches():
    return [
        sealed(2**62 + 5, 2, time=1_700_000_000_000),
        sealed(7, 1, b"first", producer=4000, epoch=1, sequence=10),
        sealed(7, 3, b"plain"),
        sealed(7, 1, b"joined", time=2000),
        sealed(1, 1, None),
    ]


def test_objects_of_version_1_are_read_forever():
    data = (GOLDEN / "version-1.bin").read_bytes()
    footer = check_object(NAME, data)
    assert (footer.version, footer.writer, footer.size) == (1, 3, len(data))
    assert [(each.stream, each.records, each.stamp, each.batches) for each in footer.slices] == [
        (1, 1, 1000, 1),
        (7, 5, 2000, 3),
        (2**62 + 5, 2, 1_700_000_000_001, 1),
    ]
    seven = footer.slice_of(7)
    run = data[seven.place : seven.place + seven.length]
    assert [record.value for record in read_records(run, first=0)] == [b"first", *[b"plain"] * 3, b"joined"]


def test_the_newest_version_is_written_as_ever():
    assert joined(lay_out(golden_batches(), writer=3)) == (GOLDEN / "version-1.bin").read_bytes()
