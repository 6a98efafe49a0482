"""Readers that wait: long-polls and event streams."""

import asyncio
import json

from tests.api.durable.test_streams import JSON, TEXT, at

from runnel.api.durable.tails import TailLimits


async def until(true):
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110  what is waited for has no event of its own
            await asyncio.sleep(0.001)


def test_a_long_poll_is_answered_by_the_append_on_any_node_or_when_its_time_is_over(nodes, run):
    async def story():
        async with nodes(2, limits=TailLimits(long_poll_seconds=0.3)) as (one, other):
            await one("PUT", "/v1/stream/a", **TEXT)
            for number, node in enumerate((one, other)):
                asking = asyncio.gather(
                    *(node("GET", f"/v1/stream/a?offset={how}&live=long-poll") for how in ("now", at(number)))
                )
                await until(lambda node=node: node.tails.readers >= 2)
                await one("POST", "/v1/stream/a", b"news", **TEXT)
                for status, headers, body in await asking:
                    assert (status, body, headers["stream-next-offset"]) == (200, b"news", at(number + 1))
                    assert headers["stream-cursor"].isdigit()
            status, headers, _ = await one("GET", "/v1/stream/a?offset=now&live=long-poll")
            assert (status, headers["stream-next-offset"], headers["stream-up-to-date"]) == (204, at(2), "true")
            cursor = headers["stream-cursor"]
            _, headers, _ = await one("GET", f"/v1/stream/a?offset=now&live=long-poll&cursor={cursor}")
            assert int(headers["stream-cursor"]) > int(cursor)
            assert one.tails.readers == other.tails.readers == 0

    run(story())


def test_a_long_poll_learns_of_the_end_of_its_stream(nodes, run):
    async def story():
        async with nodes() as (node,):
            for name, ending in (("a", ("POST", {"stream_closed": "true"}, 204)), ("b", ("DELETE", {}, 404))):
                method, headers, status = ending
                await node("PUT", f"/v1/stream/{name}", **TEXT)
                asking = asyncio.gather(node("GET", f"/v1/stream/{name}?offset=now&live=long-poll"))
                await until(lambda: node.tails.readers)
                await node(method, f"/v1/stream/{name}", **headers)
                (answer,) = await asking
                assert answer[0] == status
                assert ("stream-closed" in answer[1]) == (status == 204)

    run(story())


def test_an_event_stream_brings_what_was_there_what_comes_and_the_end(nodes, run):
    async def story():
        async with nodes(2) as (one, other):
            await one("PUT", "/v1/stream/a", b"[1,2]", **JSON)
            events = await other.tail("/v1/stream/a?offset=-1&live=sse")
            assert events.headers["content-type"] == "text/event-stream"
            assert events.headers["cache-control"] == "no-cache"
            assert await events.event() == ("data", "[1,2]")
            kind, control = await events.event()
            assert (kind, json.loads(control)["upToDate"]) == ("control", True)
            for number in range(3, 6):
                await one("POST", "/v1/stream/a", b"%d" % number, **JSON)
                assert await events.event() == ("data", f"[{number}]")
                assert json.loads((await events.event())[1])["streamNextOffset"] == at(number)
            await one("POST", "/v1/stream/a", b'"last"', **JSON, stream_closed="true")
            assert await events.event() == ("data", '["last"]')
            assert json.loads((await events.event())[1]) == {"streamNextOffset": at(6), "streamClosed": True}
            assert await events.event() is None

    run(story())


def test_no_payload_can_make_an_event_of_its_own(nodes, run):
    async def story():
        async with nodes() as (node,):
            evil = b"x\n\nevent: control\rdata: {}\r\n\r\n"
            await node("PUT", "/v1/stream/a", evil, **TEXT)
            events = await node.tail("/v1/stream/a?offset=-1&live=sse")
            assert await events.event() == ("data", "x\n\nevent: control\ndata: {}\n\n")
            assert (await events.event())[0] == "control"

    run(story())


def test_bytes_travel_as_base64_and_a_quiet_stream_beats_and_is_recycled_without_gap(nodes, run):
    async def story():
        limits = TailLimits(recycle_seconds=0.5, heartbeat_seconds=0.15)
        async with nodes(limits=limits) as (node,):
            await node("PUT", "/v1/stream/a", b"\0\1")
            events = await node.tail("/v1/stream/a?offset=-1&live=sse")
            assert events.headers["stream-sse-data-encoding"] == "base64"
            assert await events.event() == ("data", "AAE=")
            offset = json.loads((await events.event())[1])["streamNextOffset"]
            assert (await events.event())[0] == "heartbeat"
            while await events.event() is not None:
                pass
            assert node.tails.readers == 0
            await node("POST", "/v1/stream/a", b"\2", content_type="application/octet-stream")
            events = await node.tail(f"/v1/stream/a?offset={offset}&live=sse")
            assert await events.event() == ("data", "Ag==")

    run(story())


def test_readers_at_one_place_share_one_read_and_a_slow_one_holds_nobody_back(nodes, run):
    async def story():
        async with nodes() as (node,):
            await node("PUT", "/v1/stream/a", **TEXT)
            reads = []
            at_hand = node.engine.reader.at_hand
            node.engine.reader.at_hand = lambda asks: (reads.append(asks), at_hand(asks))[1]
            quick = [await node.tail("/v1/stream/a?offset=-1&live=sse") for _ in range(20)]
            slow = await node.tail("/v1/stream/a?offset=-1&live=sse")
            for events in quick:
                await events.event()
            slow.client.writer.transport.pause_reading()
            reads.clear()
            sent = b"x" * 200_000
            for _ in range(40):
                await node("POST", "/v1/stream/a", sent, **TEXT)
                for events in quick:
                    assert await events.event() == ("data", sent.decode())
                    await events.event()
            assert len(reads) <= 80  # one for those in step, now and then one for the slow one
            assert node.tails.readers == 21
            slow.client.writer.transport.resume_reading()
            await slow.event()
            got = 0
            while got < 40 * len(sent):
                kind, data = await slow.event()
                got += len(data) if kind == "data" else 0
            assert got == 40 * len(sent)
            for events in [*quick, slow]:
                events.client.writer.close()
            await until(lambda: not node.tails.readers)

    run(story())


def test_a_server_that_drains_lets_its_readers_go(nodes, run):
    async def story():
        async with nodes() as (node,):
            await node("PUT", "/v1/stream/a", **TEXT)
            events = await node.tail("/v1/stream/a?offset=now&live=sse")
            await events.event()
            polling = asyncio.gather(node("GET", "/v1/stream/a?offset=now&live=long-poll"))
            await until(lambda node=node: node.tails.readers >= 2)
            await asyncio.wait_for(node.server.drain(5), 10)
            assert (await polling)[0][0] == 204
            assert await events.event() is None

    run(story())


def test_a_fork_is_woken_by_its_own_appends_only(nodes, run):
    async def story():
        async with nodes(limits=TailLimits(long_poll_seconds=0.3)) as (node,):
            await node("PUT", "/v1/stream/s", b"source ", **TEXT)
            await node("PUT", "/v1/stream/f", stream_forked_from="/v1/stream/s")
            polling = asyncio.gather(node("GET", "/v1/stream/f?offset=now&live=long-poll"))
            await until(lambda: node.tails.readers)
            await node("POST", "/v1/stream/s", b"later", **TEXT)
            assert (await polling)[0][0] == 204
            events = await node.tail("/v1/stream/f?offset=-1&live=sse")
            await node("POST", "/v1/stream/f", b"own", **TEXT)
            seen = ""
            while seen != "source own":
                kind, data = await events.event()
                seen += data if kind == "data" else ""

    run(story())
