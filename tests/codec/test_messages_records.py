"""Record data goes through without being copied, and large answers leave as they are."""

import pytest

from runnel.codec.encoding import SCATTER_FROM
from runnel.codec.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from runnel.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from runnel.codec.wire import decode_request, decode_response, encode_bare, encode_response


def answer(*records):
    partitions = [PartitionData(partition_index=at, records=each) for at, each in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", topic_id=b"i" * 16, partitions=partitions)])


@pytest.mark.parametrize("version", range(14))
def test_produced_records_are_views_into_the_frame(version):
    told = ProduceRequest(
        topic_data=[
            TopicProduceData(
                name="t",
                topic_id=b"i" * 16,
                partition_data=[PartitionProduceData(records=b"a" * 300), PartitionProduceData(records=None)],
            )
        ]
    )
    arena = bytearray(encode_bare(told, version))
    request = decode_request(0, version, memoryview(arena), 0)
    first, second = request.topic_data[0].partition_data
    assert second.records is None
    assert first.records == b"a" * 300
    assert first.records.obj is arena
    arena[arena.index(b"a")] = ord("b")
    assert first.records[0] == ord("b")


@pytest.mark.parametrize("version", range(4, 19))
@pytest.mark.parametrize("size", [0, 126, 127, 128, SCATTER_FROM - 1, SCATTER_FROM, 1_000_000])
def test_a_fetch_answer_is_the_same_bytes_however_its_records_are_given(version, size):
    data = bytes(size)
    cut = size // 3
    whole = answer(data, b"", data)
    pieces = answer([data[:cut], memoryview(data)[cut:]], [], bytearray(data))
    buffers = encode_response(1, version, 7, pieces)
    frame = b"".join(buffers)
    assert frame == b"".join(encode_response(1, version, 7, whole))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, read = decode_response(1, version, frame[4:])
    assert correlation_id == 7
    assert [bytes(each.records) for each in read.responses[0].partitions] == [data, b"", data]


def test_large_records_leave_uncopied_and_small_ones_join_what_is_around_them():
    large = memoryview(bytes(SCATTER_FROM))
    buffers = encode_response(1, 12, 7, answer(b"small", large, [b"small", large], b"small"))
    assert [each is large for each in buffers] == [False, True, False, False, True, False]
    assert len(encode_response(1, 12, 7, answer(b"small", b"small"))) == 1
