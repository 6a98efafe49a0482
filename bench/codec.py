"""How long the Kafka codec takes for the messages of the hot path: `python bench/codec.py [--seconds 0.5]`, JSON out.

Microseconds of processor time per message, the best of several rounds: what the code costs, not what the machine's
other tenants do. `per_part` divides by the partitions in the message.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable
from typing import Any

from runnel.codec.framing import cut, read_request_header
from runnel.codec.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from runnel.codec.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from runnel.codec.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from runnel.codec.wire import decode_request, encode_request, encode_response

ROUNDS = 5
TOPIC_ID = bytes(range(16))


def produce(partitions: int, size: int) -> ProduceRequest:
    data = [PartitionProduceData(index=at, records=bytes(size)) for at in range(partitions)]
    return ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(name="orders", topic_id=TOPIC_ID, partition_data=data)]
    )


def produced(partitions: int) -> ProduceResponse:
    done = [PartitionProduceResponse(index=at, base_offset=at, log_start_offset=0) for at in range(partitions)]
    return ProduceResponse(responses=[TopicProduceResponse(name="orders", topic_id=TOPIC_ID, partition_responses=done)])


def fetch(partitions: int) -> FetchRequest:
    wanted = [FetchPartition(partition=at, fetch_offset=at, partition_max_bytes=1 << 20) for at in range(partitions)]
    return FetchRequest(
        max_wait_ms=500, min_bytes=1, topics=[FetchTopic(topic="orders", topic_id=TOPIC_ID, partitions=wanted)]
    )


def fetched(partitions: int, size: int) -> FetchResponse:
    records = memoryview(bytes(size))
    found = [
        PartitionData(
            partition_index=at, high_watermark=9, last_stable_offset=9, aborted_transactions=None, records=records
        )
        for at in range(partitions)
    ]
    return FetchResponse(responses=[FetchableTopicResponse(topic="orders", topic_id=TOPIC_ID, partitions=found)])


def metadata(partitions: int) -> MetadataResponse:
    nodes = [1]
    topic = MetadataResponseTopic(
        name="orders",
        topic_id=TOPIC_ID,
        partitions=[
            MetadataResponsePartition(
                partition_index=at, leader_id=1, leader_epoch=0, replica_nodes=nodes, isr_nodes=nodes
            )
            for at in range(partitions)
        ],
    )
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=9092)], cluster_id="runnel", topics=[topic]
    )


def receiving(api_key: int, version: int, request: Any) -> Callable[[], object]:
    """What a connection does with bytes in its arena: cut, header, message."""
    arena = memoryview(bytearray(b"".join(encode_request(api_key, version, 1, "producer-1", request))))

    def receive() -> object:
        frames, _, _ = cut(arena, 0, len(arena), 1 << 27)
        begin, end = frames[0]
        frame = arena[begin:end]
        header = read_request_header(frame)
        return decode_request(header.api_key, header.api_version, frame, header.body_at)

    return receive


def sending(api_key: int, version: int, response: Any) -> Callable[[], object]:
    return lambda: encode_response(api_key, version, 1, response)


def microseconds(work: Callable[[], object], seconds: float) -> float:
    work()
    calls, took = 1, 0.0
    while took < seconds / ROUNDS / 2:
        calls *= 2
        took = _seconds(work, calls)
    return min(_seconds(work, calls) for _ in range(ROUNDS)) / calls * 1e6


def _seconds(work: Callable[[], object], calls: int) -> float:
    began = time.process_time()
    for _ in range(calls):
        work()
    return time.process_time() - began


def cases() -> dict[str, tuple[Callable[[], object], int]]:
    found = {}
    for version in (7, 9, 10, 11, 12, 13):
        found[f"receive produce v{version}, 1 x 16 KB"] = (receiving(0, version, produce(1, 16_384)), 1)
        found[f"receive produce v{version}, 64 x 200 B"] = (receiving(0, version, produce(64, 200)), 64)
    for version in (9, 12, 13):
        found[f"send produced v{version}, 1"] = (sending(0, version, produced(1)), 1)
        found[f"send produced v{version}, 64"] = (sending(0, version, produced(64)), 64)
    for version in (11, 12, 17):
        found[f"receive fetch v{version}, 1"] = (receiving(1, version, fetch(1)), 1)
        found[f"receive fetch v{version}, 64"] = (receiving(1, version, fetch(64)), 64)
        found[f"send fetched v{version}, 1 x 1 MB"] = (sending(1, version, fetched(1, 1 << 20)), 1)
        found[f"send fetched v{version}, 64 x 200 B"] = (sending(1, version, fetched(64, 200)), 64)
        found[f"send fetched v{version}, 64 x 16 KB"] = (sending(1, version, fetched(64, 16_384)), 64)
    for version in (8, 12, 13):
        found[f"send metadata v{version}, 1000"] = (sending(3, version, metadata(1000)), 1000)
    found["build and send metadata v12, 1000"] = (lambda: encode_response(3, 12, 1, metadata(1000)), 1000)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each case")
    told = parser.parse_args()
    results = {}
    for name, (work, parts) in cases().items():
        each = microseconds(work, told.seconds)
        results[name] = {"microseconds": round(each, 2), "per_part": round(each / parts, 3)}
    print(json.dumps({"bench": "codec", "python": platform.python_version(), "results": results}, indent=1))


if __name__ == "__main__":
    main()
