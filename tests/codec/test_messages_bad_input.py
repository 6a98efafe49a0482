"""What bytes from outside may not do: loop, take memory on a claim, or raise anything but `BadMessage`."""

import random  # noqa: TID251 - every use brings its seed
import runpy
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.codec.apis import APIS
from runnel.codec.messages.create_topics import CreateTopicsRequest
from runnel.codec.messages.fetch import FetchResponse
from runnel.codec.messages.list_groups import ListGroupsRequest
from runnel.codec.messages.metadata import MetadataRequest
from runnel.codec.messages.produce import ProduceRequest
from runnel.codec.messages.sync_group import SyncGroupRequest
from runnel.codec.primitives import BadMessage, uvarint
from runnel.codec.wire import decode_bare, encode_bare
from runnel.errors import Refused

FUZZ = runpy.run_path(str(Path(__file__).parent.parent / "fuzz" / "codec_fuzz.py"))
KINDS = [kind for api in APIS.values() for kind in (api.request(), api.response())]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_message_cut_anywhere_is_refused(kind):
    for version in range(kind.version_first, kind.version_last + 1):
        message = FUZZ["filled"](kind, version, version >= kind.flexible_from, random.Random(version))
        whole = encode_bare(message, version)
        for size in range(len(whole)):
            with pytest.raises(BadMessage):
                decode_bare(kind, version, whole[:size])
        assert encode_bare(decode_bare(kind, version, whole), version) == whole
        assert decode_bare(kind, version, whole + b"tail") == decode_bare(kind, version, whole)


def test_bent_messages_are_refused_or_understood():
    done = FUZZ["fuzz"](seed=7, seconds=20, rounds=1500)
    assert done["rounds"] > 0


@given(st.sampled_from(KINDS), st.data())
def test_noise_is_refused_or_understood(kind, data):
    version = data.draw(st.integers(kind.version_first, kind.version_last))
    with suppress(BadMessage):
        decode_bare(kind, version, data.draw(st.binary(max_size=60)))


CLAIMS = [
    (MetadataRequest, 1, b"\x7f\xff\xff\xff"),
    (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f"),
    (CreateTopicsRequest, 2, b"\x7f\xff\xff\xff"),
    (ListGroupsRequest, 4, b"\xff\xff\xff\xff\x07"),
    (SyncGroupRequest, 0, b"\x7f\xff"),
    (ProduceRequest, 9, b"\x00\xff\xff\0\0\0\0" + b"\x02\x02t\x02" + b"\0\0\0\0" + uvarint((1 << 31) - 1)),
    (FetchResponse, 4, b"\0\0\0\0" + b"\x7f\xff\xff\xff"),
]


@pytest.mark.parametrize(("kind", "version", "data"), CLAIMS, ids=lambda value: getattr(value, "__name__", None))
def test_a_claimed_size_costs_nothing_before_it_is_checked(kind, version, data):
    decode_bare(kind, version, encode_bare(kind(), version))
    tracemalloc.start()
    try:
        with pytest.raises(BadMessage, match=r"claimed|past the end"):
            decode_bare(kind, version, data + bytes(20))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_tagged_fields_are_skipped_known_or_refused():
    plain = encode_bare(FetchResponse(), 16)
    assert plain.endswith(b"\x00")

    def with_tagged(section):
        return decode_bare(FetchResponse, 16, plain[:-1] + section)

    assert with_tagged(b"\x01\x63\x03abc") == FetchResponse()  # a tag from the future
    assert with_tagged(b"\x01\x00\x01\x01") == FetchResponse()  # ours, and empty
    for lie in (
        b"\x01",
        b"\x01\x63",
        b"\x01\x63\x04abc",  # longer than the frame
        b"\x01\x00\x02\x01\x00",  # longer than what it holds
        b"\x01\x00\x00",  # shorter than what it holds
        b"\x05\x63\x00",  # fewer than claimed
        b"\xff\xff\xff\xff\x0f",
    ):
        with pytest.raises(BadMessage):
            with_tagged(lie)


@pytest.mark.parametrize("text", [b"\xff", b"\xc3", b"\xed\xa0\x80"])
def test_a_name_that_is_no_text_is_refused(text):
    with pytest.raises(BadMessage, match="SyncGroupRequest v0"):
        decode_bare(SyncGroupRequest, 0, b"\0" + bytes([len(text)]) + text + bytes(20))


def test_a_null_where_none_may_be_is_refused():
    with pytest.raises(BadMessage, match="group_id is null"):
        decode_bare(SyncGroupRequest, 0, b"\xff\xff" + bytes(20))
    with pytest.raises(Refused, match="topics is null"):
        decode_bare(MetadataRequest, 0, b"\xff\xff\xff\xff")
    assert decode_bare(MetadataRequest, 1, b"\xff\xff\xff\xff").topics is None
