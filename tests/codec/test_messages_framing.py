"""Frames and headers: fed whole, in every split, with a tail, and with lies in them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.api_versions.v3.request import ApiVersionsRequest as TheirApiVersionsRequest
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from runnel.codec.apis import UnknownApi
from runnel.codec.framing import BadFrame, FrameReader, cut, read_request_header, read_response_header
from runnel.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from runnel.codec.messages.metadata import MetadataRequest
from runnel.codec.primitives import BadMessage, read_uvarint, rest_of_uvarint, uuid_of_text, uuid_text, uvarint
from runnel.codec.wire import decode_request, decode_response, encode_request, encode_response
from runnel.errors import Refused

frames = st.lists(st.binary(min_size=8, max_size=40), max_size=5)


def stream_of(bodies):
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


@given(frames, st.integers(1, 9))
def test_a_stream_gives_the_same_frames_in_pieces_of_any_size(bodies, step):
    stream = stream_of(bodies)
    reader = FrameReader(size_max=100)
    got = [frame for at in range(0, len(stream), step) for frame in reader.feed(stream[at : at + step])]
    assert got == bodies
    assert reader.unfinished == 0
    assert FrameReader(size_max=100).feed(stream) == bodies


@given(frames, st.binary(min_size=8, max_size=20), st.data())
def test_a_tail_waits_for_its_end(bodies, last, data):
    whole = stream_of([last])
    tail = whole[: data.draw(st.integers(1, len(whole) - 1))]
    reader = FrameReader(size_max=100)
    assert reader.feed(stream_of(bodies) + tail) == bodies
    assert reader.unfinished == len(tail)
    assert reader.feed(whole[len(tail) :]) == [last]


@given(frames, st.integers(0, 30))
def test_cutting_in_an_arena_stays_between_its_bounds(bodies, before):
    stream = stream_of(bodies)
    arena = bytes(before) + stream + b"\xff" * 10
    found, rest, wanted = cut(arena, before, before + len(stream), size_max=100)
    assert [arena[begin:end] for begin, end in found] == bodies
    assert rest == before + len(stream)
    assert wanted == 4


def test_an_unfinished_frame_says_how_many_bytes_it_wants():
    stream = stream_of([b"12345678", b"123456789"])
    assert cut(stream, 0, 15, size_max=100) == ([(4, 12)], 12, 4)
    assert cut(stream, 0, 16, size_max=100) == ([(4, 12)], 12, 13)
    assert cut(stream, 0, 25, size_max=100) == ([(4, 12), (16, 25)], 25, 4)


@pytest.mark.parametrize("size", [-1, -(1 << 31), 0, 7, 101, (1 << 31) - 1, 0x47455420])
def test_an_absurd_size_is_refused_from_its_four_bytes_alone(size):
    with pytest.raises(BadFrame, match=str(size)):
        FrameReader(size_max=100).feed(struct.pack(">i", size))


@given(
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.one_of(st.none(), st.text(max_size=20)),
    st.sampled_from([(0, HeaderV1), (3, HeaderV2)]),
)
def test_request_headers_are_those_of_kio(correlation_id, client_id, versioned):
    from io import BytesIO

    version, kind = versioned
    out = BytesIO()
    header = kind(
        request_api_key=i16(18),
        request_api_version=i16(version),
        correlation_id=i32(correlation_id),
        client_id=client_id,
    )
    entity_writer(kind)(out, header)
    theirs = out.getvalue()
    read = read_request_header(theirs + b"tail")
    assert (read.api_key, read.api_version, read.correlation_id) == (18, version, correlation_id)
    assert (read.client_id, read.body_at) == (client_id, len(theirs))
    (mine,) = encode_request(18, version, correlation_id, client_id, ApiVersionsRequest())
    assert bytes(mine[4 : 4 + len(theirs)]) == theirs
    assert struct.unpack(">i", mine[:4]) == (len(mine) - 4,)


def test_a_request_header_cut_anywhere_is_refused():
    (whole,) = encode_request(3, 9, 7, "client", MetadataRequest())
    frame = bytes(whole[4:])
    body_at = read_request_header(frame).body_at
    for size in range(body_at):
        with pytest.raises(BadMessage):
            read_request_header(frame[:size])


def test_a_client_id_that_is_no_text_is_refused():
    with pytest.raises(BadMessage, match="client id"):
        read_request_header(struct.pack(">hhih", 3, 1, 7, 2) + b"\xff\xfe")


def test_tagged_fields_of_a_header_are_stepped_over():
    (whole,) = encode_request(3, 9, 7, "c", MetadataRequest())
    frame = bytes(whole[4:])
    at = read_request_header(frame).body_at
    tagged = frame[: at - 1] + b"\x02" + b"\x00\x03abc" + b"\x81\x01\x00" + frame[at:]
    header = read_request_header(tagged)
    assert tagged[header.body_at :] == frame[at:]
    with pytest.raises(BadMessage):
        read_request_header(tagged[: at + 3])


def test_an_api_that_nobody_knows_is_refused():
    with pytest.raises(UnknownApi, match="key 4711"):
        read_request_header(struct.pack(">hhih", 4711, 0, 1, -1))
    with pytest.raises(UnknownApi, match="versions 0 to 13, not 14"):
        decode_request(3, 14, b"", 0)


def test_api_versions_from_the_future_can_be_answered():
    assert TheirApiVersionsRequest.__flexible__
    header = read_request_header(struct.pack(">hhih", 18, 99, 5, 1) + b"c\x00")
    assert (header.api_version, header.correlation_id, header.client_id) == (99, 5, "c")


@pytest.mark.parametrize("version", range(5))
def test_the_answer_to_api_versions_keeps_the_plain_header(version):
    (answer,) = encode_response(18, version, 5, ApiVersionsResponse(error_code=35))
    assert bytes(answer[4:10]) == struct.pack(">ih", 5, 35)
    assert decode_response(18, version, bytes(answer[4:])) == (5, ApiVersionsResponse(error_code=35))


def test_a_response_header_cut_anywhere_is_refused():
    assert read_response_header(b"\0\0\0\7\0", 1) == (7, 5)
    for size in range(5):
        with pytest.raises(BadMessage):
            read_response_header(b"\0\0\0\7\0"[:size], 1)


@given(st.integers(0, (1 << 32) - 1))
def test_varints_come_back(value):
    data = uvarint(value)
    assert read_uvarint(data + b"\xff", 0, len(data)) == (value, len(data))
    for size in range(len(data)):
        with pytest.raises(BadMessage):
            read_uvarint(data[:size], 0, size)


def test_a_varint_that_never_ends_is_refused():
    with pytest.raises(BadMessage, match="longer"):
        rest_of_uvarint(b"\xff" * 100, 1, 100, 255)


@given(st.binary(min_size=16, max_size=16))
def test_topic_ids_come_back_from_their_text(uuid):
    assert len(uuid_text(uuid)) == 22
    assert uuid_of_text(uuid_text(uuid)) == uuid


@pytest.mark.parametrize("text", ["", "abc", "!" * 22, "A" * 23, "A" * 20])
def test_a_text_that_is_no_topic_id_is_refused(text):
    with pytest.raises(Refused, match="topic id"):
        uuid_of_text(text)
