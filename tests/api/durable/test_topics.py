"""Partitions of topics, watched over HTTP."""

import asyncio
import json

from runnel.codec.records import Record
from runnel.model import StreamId


async def produce(node, stream, *values, **more):
    await node.engine.append_records(StreamId(stream), [Record(b"k", value, timestamp=7, **more) for value in values])


def test_a_partition_is_read_as_json_and_raw_from_any_place(nodes, run):
    async def story():
        async with nodes(2) as (one, other):
            topic = await one.engine.topics.create("orders", 2)
            await produce(one, topic.streams[1], b"one", b"\xff", None, headers=[("h", b"x")])
            status, headers, body = await other("GET", "/v1/topic/orders/1")
            assert (status, headers["stream-next-offset"], headers["stream-up-to-date"]) == (200, "3", "true")
            first, second, third = json.loads(body)
            assert first == {"offset": 0, "timestamp": 7, "key": "k", "value": "one", "headers": [["h", "x"]]}
            assert (second["value"], third["value"]) == ({"base64": "/w=="}, None)
            assert [each["offset"] for each in json.loads((await other("GET", "/v1/topic/orders/1?offset=2"))[2])] == [
                2
            ]
            assert (await other("GET", "/v1/topic/orders/1?format=raw"))[2] == b"one\xff"
            assert (await other("GET", "/v1/topic/orders/0"))[2] == b"[]"
            assert (await other("GET", "/v1/topic/orders/1?offset=now"))[2] == b"[]"

    run(story())


def test_an_event_stream_has_offsets_as_ids_and_resumes_by_them(nodes, run):
    async def story():
        async with nodes() as (node,):
            topic = await node.engine.topics.create("orders")
            await produce(node, topic.streams[0], b"a\nid: 9", b"b")

            async def lines(path, **headers):
                client = await node.connect()
                more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
                client.send(f"GET {path} HTTP/1.1\r\nHost: x\r\n{more}\r\n".encode())
                await client.head()
                got = b""
                while b"event: tail" not in got or not got.endswith(b"\n\n"):
                    size = int(await client.reader.readline(), 16)
                    got += await client.reader.readexactly(size)
                    await client.reader.readline()
                client.writer.close()
                return [event.split("\n") for event in got.decode().strip().split("\n\n")]

            first, second, tail = await lines("/v1/topic/orders/0?offset=-1&live=sse")
            assert first[0] == "id: 0"
            assert json.loads(first[1].removeprefix("data:"))["value"] == "a\nid: 9"
            assert second[0] == "id: 1"
            assert tail == ["event: tail", "id: 1", 'data:{"next":2}']
            raw = await lines("/v1/topic/orders/0?offset=-1&live=sse&format=raw")
            assert raw[:2] == [["id: 0", "data:a", "data:id: 9"], ["id: 1", "data:b"]]
            resumed = await lines("/v1/topic/orders/0?offset=now&live=sse", last_event_id="0")
            assert [event[0] for event in resumed] == ["id: 1", "event: tail"]

    run(story())


def test_a_long_poll_waits_for_what_kafka_produces_and_streams_are_topics_here_too(nodes, run):
    async def story():
        async with nodes() as (node,):
            topic = await node.engine.topics.create("orders")
            polling = asyncio.gather(node("GET", "/v1/topic/orders/0?offset=0&live=long-poll"))
            await asyncio.sleep(0.02)
            await produce(node, topic.streams[0], b"news")
            ((status, _, body),) = await polling
            assert (status, json.loads(body)[0]["value"]) == (200, "news")
            await node("PUT", "/v1/stream/a/b", b"[1]", content_type="application/json", stream_closed="true")
            status, headers, body = await node("GET", "/v1/topic/v1-stream.a..2Fb/0?format=raw")
            assert (status, body, headers["stream-closed"]) == (200, b"1", "true")
            assert (await node("GET", "/v1/topic/v1-stream.a..2Fb/0?offset=1&live=long-poll"))[0] == 204

    run(story())


def test_what_is_not_there_or_no_offset_is_refused(nodes, run):
    async def story():
        async with nodes() as (node,):
            await node.engine.topics.create("orders")
            for path, status in [
                ("/v1/topic/none/0", 404),
                ("/v1/topic/orders/1", 404),
                ("/v1/topic/orders/x", 404),
                ("/v1/topic/orders/0?offset=x", 400),
                ("/v1/topic/orders/0?offset=1", 400),
                ("/v1/topic/orders/0?format=xml", 400),
                ("/v1/topic/orders/0?live=never", 400),
            ]:
                answer = await node("GET", path)
                assert answer[0] == status, (path, answer)
                assert answer[1]["access-control-allow-origin"] == "*"
            assert (await node("POST", "/v1/topic/orders/0", b"x"))[0] == 405
            assert (await node("HEAD", "/v1/topic/orders/0?offset=now&live=sse"))[0] == 200
            assert node.tails.readers == 0
            assert node.server.mishaps == 0

    run(story())
