"""Messages whose bytes were put together by hand from the protocol's description, one comment per field."""

from pathlib import Path

import pytest

from runnel.codec.framing import read_request_header
from runnel.codec.messages.api_versions import ApiVersionsRequest
from runnel.codec.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData
from runnel.codec.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from runnel.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from runnel.codec.wire import decode_request, decode_response, encode_request, encode_response

GOLDEN = Path(__file__).parent.parent / "golden" / "codec"


def golden(name):
    lines = (GOLDEN / f"{name}.hex").read_text().splitlines()
    return bytes.fromhex("".join(line.split("#")[0] for line in lines))


PRODUCED = ProduceRequest(
    acks=-1,
    timeout_ms=1500,
    topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=3, records=b"abc")])],
)
REQUESTS = [
    ("api_versions_request_v3", 1, "c", ApiVersionsRequest(client_software_name="kcat", client_software_version="1.7")),
    ("produce_request_v9", 5, None, PRODUCED),
    ("produce_request_v7", 5, None, PRODUCED),
]
RESPONSES = [
    (
        "fetch_response_v12",
        9,
        FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic="t",
                    partitions=[
                        PartitionData(
                            error_code=6,
                            aborted_transactions=None,
                            records=b"",
                            current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=7),
                        )
                    ],
                )
            ]
        ),
    ),
    (
        "join_group_response_v5",
        2,
        JoinGroupResponse(
            generation_id=1,
            protocol_name="range",
            leader="m",
            member_id="m",
            members=[JoinGroupResponseMember(member_id="m", group_instance_id="i")],
        ),
    ),
]


@pytest.mark.parametrize(
    ("name", "correlation_id", "client_id", "request_"), REQUESTS, ids=lambda value: str(value)[:24]
)
def test_requests_are_the_bytes_written_by_hand(name, correlation_id, client_id, request_):
    data = golden(name)
    header = read_request_header(data[4:])
    assert name.endswith(f"_v{header.api_version}")
    assert (header.correlation_id, header.client_id) == (correlation_id, client_id)
    assert decode_request(header.api_key, header.api_version, data[4:], header.body_at) == request_
    sent = encode_request(header.api_key, header.api_version, correlation_id, client_id, request_)
    assert b"".join(sent) == data


@pytest.mark.parametrize(("name", "correlation_id", "response"), RESPONSES, ids=lambda value: str(value)[:24])
def test_responses_are_the_bytes_written_by_hand(name, correlation_id, response):
    data = golden(name)
    version = int(name.rsplit("_v", 1)[1])
    assert b"".join(encode_response(response.api_key, version, correlation_id, response)) == data
    assert decode_response(response.api_key, version, data[4:]) == (correlation_id, response)
