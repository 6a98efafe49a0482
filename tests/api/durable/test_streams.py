"""Durable streams over HTTP on the engine: made, appended to, read, closed, removed, from any node."""

import asyncio
import json

from runnel.codec.records import Record, read_records
from runnel.model import StreamId
from runnel.world.chance import Chance
from runnel.world.tasks import Tasks
from runnel.world.world import World

TEXT = {"content_type": "text/plain"}
JSON = {"content_type": "application/json"}
START = "0000000000000000_0000000000000000"


def at(record):
    return f"{record:016d}_0000000000000000"


def producer(seq, epoch=0, name="p"):
    return {"producer_id": name, "producer_epoch": epoch, "producer_seq": seq}


def test_a_stream_is_made_appended_to_and_read(nodes, run):
    async def story():
        async with nodes() as (node,):
            status, headers, _ = await node("PUT", "/v1/stream/a/b", b"one ", **TEXT)
            assert (status, headers["stream-next-offset"], headers["content-type"]) == (201, at(1), "text/plain")
            assert headers["location"] == "http://x/v1/stream/a/b"
            status, headers, _ = await node("POST", "/v1/stream/a/b", b"two", **TEXT)
            assert (status, headers["stream-next-offset"]) == (204, at(2))
            status, headers, body = await node("GET", "/v1/stream/a/b")
            assert (status, body, headers["stream-up-to-date"]) == (200, b"one two", "true")
            assert headers["access-control-allow-origin"] == "*"
            status, headers, body = await node("GET", f"/v1/stream/a/b?offset={at(1)}")
            assert (status, body, headers["stream-next-offset"]) == (200, b"two", at(2))
            tag = headers["etag"]
            assert (await node("GET", f"/v1/stream/a/b?offset={at(1)}", if_none_match=tag))[0] == 304
            status, headers, _ = await node("HEAD", "/v1/stream/a/b")
            assert (status, headers["stream-next-offset"], headers["cache-control"]) == (200, at(2), "no-store")

    run(story())


def test_making_a_stream_again_is_fine_only_if_it_is_wanted_as_it_is(nodes, run):
    async def story():
        async with nodes() as (node,):
            assert (await node("PUT", "/v1/stream/a", b"first", **TEXT))[0] == 201
            assert (await node("PUT", "/v1/stream/a", b"first", **TEXT))[0] == 200
            assert (await node("GET", "/v1/stream/a"))[2] == b"first"
            assert (await node("PUT", "/v1/stream/a", **JSON))[0] == 409
            assert (await node("PUT", "/v1/stream/a", stream_ttl=5, **TEXT))[0] == 409
            assert (await node("PUT", "/v1/stream/a", stream_closed="true", **TEXT))[0] == 409

    run(story())


def test_any_node_knows_at_once_what_another_acknowledged(nodes, run):
    async def story():
        async with nodes(2) as (one, other):
            await one("PUT", "/v1/stream/a", **JSON)
            for number in range(20):
                writer, reader = (one, other) if number % 2 else (other, one)
                assert (await writer("POST", "/v1/stream/a", b"%d" % number, **JSON))[0] == 204
                body = (await reader("GET", "/v1/stream/a"))[2]
                assert json.loads(body) == list(range(number + 1))
                assert (await reader("HEAD", "/v1/stream/a"))[1]["stream-next-offset"] == at(number + 1)
            assert (await one("DELETE", "/v1/stream/a"))[0] == 204
            assert (await other("GET", "/v1/stream/a"))[0] == 404
            assert (await other("POST", "/v1/stream/a", b"1", **JSON))[0] == 404
            assert (await other("PUT", "/v1/stream/a", **TEXT))[0] == 201
            assert (await one("GET", "/v1/stream/a"))[2] == b""

    run(story())


def test_one_name_is_given_once_however_many_ask_for_it(nodes, run):
    async def story():
        async with nodes(2) as (one, other):
            answers = await asyncio.gather(
                *(node("PUT", "/v1/stream/a", b"x", **TEXT) for node in (one, other) for _ in range(5))
            )
            assert sorted(status for status, _, _ in answers) == [200] * 9 + [201]
            assert (await one("GET", "/v1/stream/a"))[2] == b"x"

    run(story())


def test_a_producer_is_judged_alike_by_all_nodes(nodes, run):
    async def story():
        async with nodes(2) as (one, other):
            await one("PUT", "/v1/stream/a", **TEXT)
            status, headers, _ = await one("POST", "/v1/stream/a", b"a", **TEXT, **producer(0))
            assert (status, headers["producer-seq"], headers["stream-next-offset"]) == (200, "0", at(1))
            assert (await other("POST", "/v1/stream/a", b"b", **TEXT, **producer(1)))[0] == 200
            status, headers, _ = await one("POST", "/v1/stream/a", b"a", **TEXT, **producer(0))
            assert (status, headers["producer-seq"]) == (204, "1")
            status, headers, _ = await other("POST", "/v1/stream/a", b"z", **TEXT, **producer(5))
            assert (status, headers["producer-expected-seq"], headers["producer-received-seq"]) == (409, "2", "5")
            assert (await one("POST", "/v1/stream/a", b"c", **TEXT, **producer(0, epoch=3)))[0] == 200
            status, headers, _ = await other("POST", "/v1/stream/a", b"z", **TEXT, **producer(2))
            assert (status, headers["producer-epoch"]) == (403, "3")
            assert (await other("POST", "/v1/stream/a", b"z", **TEXT, **producer(1, epoch=4)))[0] == 400
            assert (await one("GET", "/v1/stream/a"))[2] == b"abc"

    run(story())


def test_the_same_request_sent_to_two_nodes_at_once_is_appended_once(nodes, run):
    async def story():
        async with nodes(2) as (one, other):
            await one("PUT", "/v1/stream/a", **TEXT)
            for seq in range(10):
                both = await asyncio.gather(
                    *(node("POST", "/v1/stream/a", b"%d" % seq, **TEXT, **producer(seq)) for node in (one, other))
                )
                assert sorted(status for status, _, _ in both) == [200, 204]
            assert (await one("GET", "/v1/stream/a"))[2] == b"0123456789"

    run(story())


def test_closed_means_closed_and_the_end_is_told(nodes, run):
    async def story():
        async with nodes(2) as (one, other):
            await one("PUT", "/v1/stream/a", b"x", **TEXT)
            status, headers, _ = await one("POST", "/v1/stream/a", b"y", **TEXT, **producer(0), stream_closed="TRUE")
            assert (status, headers["stream-closed"]) == (200, "true")
            status, headers, _ = await other("POST", "/v1/stream/a", b"z", **TEXT)
            assert (status, headers["stream-closed"], headers["stream-next-offset"]) == (409, "true", at(2))
            again = await other("POST", "/v1/stream/a", b"y", **TEXT, **producer(0), stream_closed="true")
            assert again[0] == 204
            assert (await other("POST", "/v1/stream/a", stream_closed="true"))[0] == 204
            _, headers, body = await other("GET", "/v1/stream/a")
            assert (body, headers["stream-closed"]) == (b"xy", "true")
            for how in ("now", at(2)):
                status, headers, _ = await one("GET", f"/v1/stream/a?offset={how}&live=long-poll")
                assert (status, headers["stream-closed"]) == (204, "true")

    run(story())


def test_a_sequence_of_the_stream_only_grows(nodes, run):
    async def story():
        async with nodes() as (node,):
            await node("PUT", "/v1/stream/a", **TEXT)
            assert (await node("POST", "/v1/stream/a", b"1", **TEXT, stream_seq="2"))[0] == 204
            assert (await node("POST", "/v1/stream/a", b"2", **TEXT, stream_seq="10"))[0] == 409
            assert (await node("POST", "/v1/stream/a", b"2", **TEXT, stream_seq="20"))[0] == 204
            assert (await node("GET", "/v1/stream/a"))[2] == b"12"

    run(story())


def test_json_messages_are_records_and_whatever_kafka_wrote_stays_an_array(nodes, run):
    async def story():
        async with nodes() as (node,):
            await node("PUT", "/v1/stream/a", b'[{"a": 1.0}, [2]]', **JSON)
            await node("POST", "/v1/stream/a", b' "three" ', **JSON)
            stream = StreamId(node.engine.named.known("v1-stream/a").id)
            read = await node.engine.read(stream, 0)
            assert [bytes(each.value) for each in read_records(read.data)] == [b'{"a": 1.0}', b"[2]", b'"three"']
            others = [b"plain", b"\xff", None, b'{"k":1}', b"1,2", b""]
            await node.engine.append_records(stream, [Record(b"key", value) for value in others])
            _, headers, body = await node("GET", f"/v1/stream/a?offset={at(3)}")
            assert json.loads(body) == ["plain", "\ufffd", None, {"k": 1}, "1,2", ""]
            assert headers["stream-next-offset"] == at(9)
            assert (await node("POST", "/v1/stream/a", b"[]", **JSON))[0] == 400
            assert (await node("POST", "/v1/stream/a", b"{", **JSON))[0] == 400

    run(story())


def test_a_big_stream_is_read_in_chunks_that_join_to_the_same_bytes(nodes, run):
    async def story():
        async with nodes() as (node,):
            written = b""
            await node("PUT", "/v1/stream/a")
            for number in range(24):
                part = bytes([number]) * 100_000
                written += part
                await node("POST", "/v1/stream/a", part, content_type="application/octet-stream")
            joined, offset, answers = b"", "-1", 0
            while True:
                _, headers, body = await node("GET", f"/v1/stream/a?offset={offset}")
                joined, offset, answers = joined + body, headers["stream-next-offset"], answers + 1
                assert len(body) <= node.service.chunks.bytes_max
                if "stream-up-to-date" in headers:
                    break
            assert answers == 3
            assert joined == written

    run(story())


def test_bad_requests_are_refused_with_the_browsers_headers(nodes, run):
    async def story():
        async with nodes() as (node,):
            await node("PUT", "/v1/stream/a", **TEXT)
            for method, path, body, headers, status in [
                ("GET", "/v1/stream/a?offset=", b"", {}, 400),
                ("GET", "/v1/stream/a?offset=1%0d%0a", b"", {}, 400),
                ("GET", "/v1/stream/a?offset=-1&offset=-1", b"", {}, 400),
                ("GET", f"/v1/stream/a?offset={at(5)}", b"", {}, 400),
                ("GET", f"/v1/stream/a?offset={START[:-1]}1", b"", {}, 400),
                ("GET", "/v1/stream/a?live=long-poll", b"", {}, 400),
                ("GET", "/v1/stream/a?offset=-1&live=twice", b"", {}, 400),
                ("GET", "/v1/stream/none", b"", {}, 404),
                ("GET", "/v1/stream/a//b", b"", {}, 400),
                ("GET", "/v1/stream/__ds/x", b"", {}, 400),
                ("HEAD", "/v1/stream/none", b"", {}, 404),
                ("POST", "/v1/stream/a", b"", {}, 400),
                ("POST", "/v1/stream/a", b"x", {}, 400),
                ("POST", "/v1/stream/a", b"x", JSON, 409),
                ("POST", "/v1/stream/a", b"x", {**TEXT, "producer_id": "p"}, 400),
                ("POST", "/v1/stream/none", b"x", TEXT, 404),
                ("PUT", "/v1/stream/new", b"", {"stream_ttl": "01"}, 400),
                ("PUT", "/v1/stream/new", b"", {"stream_forked_from": "/v1/stream/none"}, 404),
                ("PUT", "/v1/stream/new", b"", {"stream_forked_from": "http://y/other/none"}, 400),
                ("DELETE", "/v1/stream/none", b"", {}, 404),
            ]:
                answer = await node(method, path, body, **headers)
                assert answer[0] == status, (method, path, answer)
                assert answer[1]["access-control-allow-origin"] == "*", (method, path)
                assert answer[1]["x-content-type-options"] == "nosniff", (method, path)
            status, headers, _ = await node("OPTIONS", "/v1/stream/a")
            assert status == 204
            assert "if-none-match" in headers["access-control-allow-headers"]
            assert node.server.mishaps == 0

    run(story())


class TestLives:
    def test_a_life_slides_with_use_ends_everywhere_and_frees_the_name(self, nodes, skewed, run):
        async def story():
            world = World(clock=skewed, chance=Chance(), tasks=Tasks(lambda name, error: None))
            async with nodes(world=world) as (node,):
                await node("PUT", "/v1/stream/a", b"x", **TEXT, stream_ttl=100)
                await node("PUT", "/v1/stream/b", b"x", **TEXT, stream_expires_at="2020-01-01T00:00:00Z")
                assert (await node("HEAD", "/v1/stream/b"))[0] == 404
                for _ in range(3):
                    skewed.ahead_ms += 80_000
                    assert (await node("GET", "/v1/stream/a?offset=now"))[0] == 200
                skewed.ahead_ms += 80_000
                status, headers, _ = await node("HEAD", "/v1/stream/a")
                assert (status, headers["stream-ttl"]) == (200, "100")
                skewed.ahead_ms += 30_000
                assert (await node("GET", "/v1/stream/a"))[0] == 404
                assert (await node("POST", "/v1/stream/a", b"y", **TEXT))[0] == 404
                assert (await node("PUT", "/v1/stream/a", **JSON))[0] == 201
            await world.tasks.close()

        run(story())

    def test_upkeep_removes_what_nobody_asks_for(self, nodes, skewed, run):
        async def story():
            world = World(clock=skewed, chance=Chance(), tasks=Tasks(lambda name, error: None))
            async with nodes(world=world) as (node,):
                for number in range(10):
                    await node("PUT", f"/v1/stream/{number}", b"x", **TEXT, stream_ttl=100 if number % 2 else 1000)
                skewed.ahead_ms += 200_000
                assert await node.engine.named.mend() == 5
                assert await node.engine.named.mend() == 0
                assert [(await node("HEAD", f"/v1/stream/{number}"))[0] for number in range(4)] == [200, 404, 200, 404]
            await world.tasks.close()

        run(story())


class TestForks:
    def test_a_fork_reads_what_was_there_and_never_what_came_after(self, nodes, run):
        async def story():
            async with nodes(2) as (one, other):
                await one("PUT", "/v1/stream/s", b"[1, 2, 3]", **JSON)
                fork = {"stream_forked_from": "/v1/stream/s"}
                assert (await other("PUT", "/v1/stream/f", **fork, stream_fork_offset=at(2)))[0] == 201
                assert (await other("PUT", "/v1/stream/g", **fork))[0] == 201
                await one("POST", "/v1/stream/s", b"[4, 5]", **JSON)
                await one("POST", "/v1/stream/f", b'["own"]', **JSON)
                assert json.loads((await one("GET", "/v1/stream/f"))[2]) == [1, 2, "own"]
                assert json.loads((await one("GET", f"/v1/stream/f?offset={at(1)}"))[2]) == [2, "own"]
                assert json.loads((await other("GET", "/v1/stream/g"))[2]) == [1, 2, 3]
                assert json.loads((await other("GET", "/v1/stream/s"))[2]) == [1, 2, 3, 4, 5]
                stream = StreamId(one.engine.named.known("v1-stream/f").id)
                records = [bytes(record.value) async for record in one.engine.records(stream)]
                assert records == [b"1", b"2", b'"own"']  # the same for whoever reads batches

        run(story())

    def test_a_fork_may_cut_inside_an_append(self, nodes, run):
        async def story():
            async with nodes() as (node,):
                await node("PUT", "/v1/stream/s", b"hello", **TEXT)
                await node("POST", "/v1/stream/s", b" world", **TEXT)
                fork = {"stream_forked_from": "/v1/stream/s", "stream_fork_offset": at(1)}
                assert (await node("PUT", "/v1/stream/f", **fork, stream_fork_sub_offset=3))[0] == 201
                assert (await node("PUT", "/v1/stream/f", **fork, stream_fork_sub_offset=3))[0] == 200
                assert (await node("PUT", "/v1/stream/f", **fork, stream_fork_sub_offset=4))[0] == 409
                assert (await node("PUT", "/v1/stream/g", **fork, stream_fork_sub_offset=7))[0] == 400
                await node("POST", "/v1/stream/f", b"!", **TEXT)
                assert (await node("GET", "/v1/stream/f"))[2] == b"hello wo!"

        run(story())

    def test_a_source_stays_for_its_forks_and_goes_with_the_last_of_them(self, nodes, run):
        async def story():
            async with nodes(2) as (one, other):
                await one("PUT", "/v1/stream/s", b"source", **TEXT)
                await other("PUT", "/v1/stream/f", stream_forked_from="/v1/stream/s")
                await one("PUT", "/v1/stream/g", stream_forked_from="/v1/stream/f")
                assert (await other("DELETE", "/v1/stream/s"))[0] == 204
                assert (await other("DELETE", "/v1/stream/f"))[0] == 204
                for method in ("GET", "HEAD", "DELETE"):
                    assert (await one(method, "/v1/stream/s"))[0] == 410
                assert (await one("POST", "/v1/stream/s", b"x", **TEXT))[0] == 410
                assert (await one("PUT", "/v1/stream/s", **TEXT))[0] == 409
                assert (await one("PUT", "/v1/stream/h", stream_forked_from="/v1/stream/s"))[0] == 409
                assert (await other("GET", "/v1/stream/g"))[2] == b"source"
                assert (await other("DELETE", "/v1/stream/g"))[0] == 204
                for name in "sfg":
                    assert (await one("HEAD", f"/v1/stream/{name}"))[0] == 404
                for number in range(1, 5):
                    assert not one.engine.shards.follower(number).state.streams

        run(story())

    def test_a_hold_whose_fork_never_came_is_given_back(self, nodes, skewed, run):
        async def story():
            world = World(clock=skewed, chance=Chance(), tasks=Tasks(lambda name, error: None))
            async with nodes(world=world) as (node,):
                await node("PUT", "/v1/stream/s", b"source", **TEXT)
                await node("PUT", "/v1/stream/f", stream_forked_from="/v1/stream/s")
                named = node.engine.named
                source = named.known("v1-stream/s")
                from runnel.metadata.updates import HoldSource

                shard = node.engine.shard_of_name("v1-stream/s")
                await node.engine.propose(shard, HoldSource(source.id, b"lost", "v1-stream/never", 1))
                assert await named.mend() == 0
                skewed.ahead_ms += 3_600_000
                assert await named.mend() == 1
                assert list(source.traits.holds) == [named.known("v1-stream/f").traits.fork.token]
            await world.tasks.close()

        run(story())
