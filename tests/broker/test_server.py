"""The server itself: what is offered, what is refused, what order answers have, what ends a connection."""

import asyncio
import runpy
import struct
from pathlib import Path

import pytest
from tests.broker.raw import Hung
from tests.broker.test_produce import batch, produce

from runnel.codec.errors import ErrorCode
from runnel.codec.messages.api_versions import ApiVersionsRequest
from runnel.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from runnel.world.telemetry import capture

HELLO = ApiVersionsRequest(client_software_name="raw", client_software_version="1")


async def ended(client):
    with pytest.raises(Hung):
        await client.frame()


def test_what_has_a_handler_is_offered_and_the_versions_from_the_future_are_answered_in_the_oldest(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            for version in range(5):
                request = ApiVersionsRequest(client_software_name="raw", client_software_version="1")
                answer = await client.ask(request, version)
                assert answer.error_code == 0
                assert {18, 3, 22} <= {each.api_key for each in answer.api_keys}
            client.send_bytes(struct.pack(">ihhihB", 11, 18, 99, 7, -1, 0))
            frame = await client.frame()
            assert struct.unpack(">ih", frame[:6]) == (7, ErrorCode.UNSUPPORTED_VERSION)
            assert (await client.ask(ApiVersionsRequest(), 0)).error_code == 0

    run(story())


@pytest.mark.parametrize(
    "garbage",
    [
        struct.pack(">i", -1) + bytes(20),
        struct.pack(">i", 2**31 - 1) + bytes(20),
        struct.pack(">i", 3) + bytes(20),
        b"GET / HTTP/1.1\r\nhost: here\r\n\r\n",
        struct.pack(">ihhih", 10, 4242, 0, 1, -1),  # no such API
        struct.pack(">ihhih", 10, 7, 0, 1, -1),  # an API between brokers
        struct.pack(">ihhih", 10, 3, 99, 1, -1),  # no such version
        struct.pack(">ihhih", 10, 3, 9, 1, 500),  # a client id beyond the end
        struct.pack(">ihhihI", 14, 3, 1, 1, -1, 0x7FFFFFFF),  # two thousand million topics
    ],
)
def test_what_is_no_request_closes_the_connection_and_nothing_else(cluster, run, garbage):
    async def story():
        async with cluster.serve() as node, await node.client() as bystander:
            async with await node.client() as client:
                client.send_bytes(garbage)
                await ended(client)
            assert (await bystander.ask(MetadataRequest(topics=[]), 4)).brokers

    run(story())


def test_requests_may_come_in_pieces_and_in_heaps(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            frame = struct.pack(">ihhih", 10, 18, 0, 5, -1)
            for byte in frame:
                client.send_bytes(bytes([byte]))
                await asyncio.sleep(0)
            assert struct.unpack(">i", (await client.frame())[:4]) == (5,)
            client.send_bytes(frame * 500)
            for _ in range(500):
                assert struct.unpack(">i", (await client.frame())[:4]) == (5,)

    run(story())


def test_metadata_names_the_brokers_the_topics_and_their_leaders(cluster, run):
    async def story():
        async with cluster.serve(auto_create_topics=False) as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 3)
            for version in range(14):
                answer = await client.ask(MetadataRequest(topics=None if version else []), version)
                assert [(each.node_id, f"{each.host}:{each.port}") for each in answer.brokers] == [(0, node.address)]
                (told,) = answer.topics
                assert (told.name, told.error_code) == ("orders", 0)
                assert told.topic_id == (topic.id if version >= 10 else bytes(16))
                assert [each.partition_index for each in told.partitions] == [0, 1, 2]
                assert {each.leader_id for each in told.partitions} == {0}
            asked = [
                MetadataRequestTopic(topic_id=topic.id, name=None),
                MetadataRequestTopic(name="nothing"),
                MetadataRequestTopic(name="not/allowed"),
                MetadataRequestTopic(topic_id=b"0123456789abcdef", name=None),
            ]
            answer = await client.ask(MetadataRequest(topics=asked), 12)
            assert [each.error_code for each in answer.topics] == [
                0,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                ErrorCode.UNKNOWN_TOPIC_ID,
            ]
            assert answer.topics[0].name == "orders"

    run(story())


def test_a_topic_is_made_on_demand_where_the_cluster_and_the_client_allow_it(cluster, run):
    async def story():
        async with cluster.serve(topic_partitions=2) as node, await node.client() as client:
            wanted = [MetadataRequestTopic(name="orders")]
            answer = await client.ask(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), 8)
            assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            answer = await client.ask(MetadataRequest(topics=wanted), 8)
            assert (answer.topics[0].error_code, len(answer.topics[0].partitions)) == (0, 2)
            answer = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="a b")]), 8)
            assert answer.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    run(story())


def test_requests_bent_requests_and_garbage_break_nothing(run):
    fuzz = runpy.run_path(str(Path(__file__).parent.parent / "fuzz" / "kafka_fuzz.py"))
    done = run(fuzz["run"](7, 20.0, 400))
    assert done["answered"] > 100


def test_an_answer_that_cannot_be_encoded_closes_its_connection_and_nothing_else(cluster, run):
    def wrong(call):
        call.answer(MetadataResponse(topics=[MetadataResponseTopic(name=None)]))

    async def wrong_later(call):
        return MetadataResponse(topics=[MetadataResponseTopic(name=None)])

    async def story():
        async with cluster.serve() as node:
            for handler in (wrong, wrong_later):
                node.server._handlers[3] = handler
                with capture("error") as events:
                    async with await node.client() as client:
                        with pytest.raises(Hung):
                            await client.ask(MetadataRequest(topics=[]), 9)
                assert [event[2] for event in events] == ["request_failed"]
            async with await node.client() as client:
                assert (await client.ask(HELLO, 3)).api_keys

    run(story())


def test_a_topic_without_name_and_id_is_refused_in_every_version(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            for version in (10, 11, 12, 13):
                answer = await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), version)
                assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION]

    run(story())


def test_a_connection_that_waits_for_room_costs_nothing_meanwhile(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client, await node.client() as other:
            topic = await node.engine.topics.create("orders")
            turns = 0
            go_on = node.server._go_on

            def counted():
                nonlocal turns
                turns += 1
                go_on()

            node.server._go_on = counted
            ingest = node.engine.ingest
            ingest.inflight_bytes += 1 << 40
            client.send(produce(topic, batch(b"a")), 9)
            await asyncio.sleep(0.1)
            assert turns < 5
            ingest.inflight_bytes -= 1 << 40
            await other.ask(produce(topic, batch(b"b")), 9)
            assert (await client.receive()).responses[0].partition_responses[0].error_code == 0

    run(story())
