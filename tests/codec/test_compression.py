"""Folding and unfolding: round trips, every shape of snappy, and bounds on what comes out."""

import gzip

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.codec.compression import Compression, TooLarge, compress, decompress
from runnel.errors import Refused

FOLDERS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]


@given(data=st.binary(max_size=2000), times=st.sampled_from([1, 100]), how=st.sampled_from(Compression))
@settings(max_examples=100)
def test_what_was_folded_unfolds_again(data, times, how):
    data *= times
    assert bytes(decompress(compress(data, how), how)) == data


@pytest.mark.parametrize("how", Compression)
def test_the_bound_is_exact(how):
    data = bytes(range(256)) * 1000
    folded = compress(data, how)
    assert bytes(decompress(folded, how, largest=len(data))) == data
    with pytest.raises(TooLarge):
        decompress(folded, how, largest=len(data) - 1)


@pytest.mark.parametrize("how", FOLDERS)
def test_well_folded_bytes_need_more_than_the_first_guess_and_get_it(how):
    data = bytes(3_000_000)
    folded = compress(data, how)
    assert len(folded) < len(data) / 4
    assert bytes(decompress(folded, how)) == data


@pytest.mark.parametrize("how", FOLDERS)
def test_cut_bytes_are_refused_or_shorter_but_never_wrong(how):
    data = bytes(range(256)) * 300
    folded = compress(data, how)
    refused = 0
    for length in range(0, len(folded), max(1, len(folded) // 200)):
        try:
            part = bytes(decompress(folded[:length], how))
        except Refused:
            refused += 1
        else:
            assert data.startswith(part)  # a cut between two blocks of snappy cannot be seen
    assert refused


@pytest.mark.parametrize("how", FOLDERS)
def test_garbage_is_refused(how):
    for garbage in (b"", b"\xff" * 30, b"hello, I am not folded", b"\x82SNAPPY\x00", b"\x82SNAPPY\x00" + b"\xff" * 30):
        with pytest.raises(Refused):
            decompress(garbage, how)


def test_raw_snappy_is_read_too():
    data = b"raw" * 1000
    assert decompress(bytes(cramjam.snappy.compress_raw(data)), Compression.SNAPPY) == data
    assert decompress(bytes(cramjam.snappy.compress_raw(b"")), Compression.SNAPPY) == b""


def test_a_snappy_block_that_claims_gigabytes_is_refused_without_making_room():
    with pytest.raises(TooLarge):
        decompress(b"\xff\xff\xff\x7f" + b"x" * 10, Compression.SNAPPY)


@pytest.mark.parametrize("claim", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\x09"])
def test_a_xerial_block_length_that_lies_is_refused(claim):
    head = compress(b"", Compression.SNAPPY)
    with pytest.raises(Refused, match="claims"):
        decompress(head + claim + b"12345678", Compression.SNAPPY)


def test_several_gzip_members_are_one_text():
    assert decompress(gzip.compress(b"one ") + gzip.compress(b"two"), Compression.GZIP) == b"one two"


@pytest.mark.parametrize("how", [Compression.LZ4, Compression.ZSTD])
def test_several_frames_are_one_text(how):
    assert bytes(decompress(compress(b"one ", how) + compress(b"two", how), how)) == b"one two"


def test_views_are_taken_without_copies_of_the_callers():
    folded = memoryview(bytearray(b"??" + compress(b"text" * 100, Compression.ZSTD)))[2:]
    assert bytes(decompress(folded, Compression.ZSTD)) == b"text" * 100
