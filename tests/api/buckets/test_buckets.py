"""Streams in buckets over HTTP: buckets, the protocol at their addresses, and what stands around it."""

import asyncio
import base64
import email
import json
import struct

import pytest

from runnel.api.durable.tails import TailLimits

JSON = {"content_type": "application/json"}
TEXT = {"content_type": "text/plain"}
EXTENSIONS = "stream-extensions"
RECORDS, AFFINITY = "json-record-coordinates-v1", "path-affinity-v1"


def document(answer):
    return json.loads(answer[2])


def status(answer):
    return answer[0]


class TestBuckets:
    def test_a_bucket_is_made_described_and_deleted_when_it_is_empty(self, door):
        async def story(ask):
            assert status(await ask("PUT", "/demo")) == 409
            assert status(await ask("PUT", "/no")) == 400
            assert status(await ask("PUT", "/none/a")) == 404
            assert status(await ask("PUT", "/demo/a", **TEXT)) == 201
            assert document(await ask("GET", "/demo"))["streams"] == 1
            assert status(await ask("DELETE", "/demo")) == 409
            assert status(await ask("DELETE", "/demo/a")) == 204
            assert status(await ask("DELETE", "/demo")) == 204
            assert status(await ask("GET", "/demo")) == 404
            assert status(await ask("DELETE", "/demo")) == 404
            assert status(await ask("PUT", "/demo/a")) == 404

        door(story)

    def test_what_leads_elsewhere_and_the_protocols_own_bucket_are_no_buckets(self, door):
        async def story(ask):
            assert status(await ask("PUT", "/healthz")) == 405
            assert status(await ask("PUT", "/healthz/a")) == 400
            assert status(await ask("PUT", "/v1-stream/a")) == 404

        door(story)

    def test_streams_are_listed_in_pages(self, door):
        async def story(ask):
            for name in ("b", "a", "user-2", "user-1"):
                await ask("PUT", f"/demo/{name}", b"x", **TEXT)
            await ask("POST", "/demo/a", stream_closed="true")
            page = document(await ask("GET", "/demo/streams?limit=3"))
            assert [each["stream_id"] for each in page["streams"]] == ["a", "b", "user-1"]
            assert (page["has_more"], page["next_cursor"], page["stream_count"]) == (True, "user-1", 4)
            assert page["streams"][0]["status"] == "Closed"
            assert page["streams"][1]["tail_offset"] == 1
            rest = document(await ask("GET", "/demo/streams?limit=3&after=user-1"))
            assert [each["stream_id"] for each in rest["streams"]] == ["user-2"]
            assert (rest["has_more"], rest["next_cursor"]) == (False, None)
            users = document(await ask("GET", "/demo/streams?prefix=user-"))
            assert users["stream_count"] == 2
            for query in ("limit=0", "limit=1001", "limit=x", "limit=1&limit=2"):
                assert status(await ask("GET", f"/demo/streams?{query}")) == 400
            assert status(await ask("GET", "/none/streams")) == 404
            assert status(await ask("PUT", "/demo/streams")) == 405

        door(story)

    def test_usage_limits_and_purge(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", b"[1,2,3]", **JSON)
            usage = document(await ask("GET", "/__ursula/usage"))
            assert usage["buckets"]["demo"]["stream_count"] == 1
            assert usage["buckets"]["demo"]["committed_records"] == 3
            assert usage["buckets"]["demo"]["committed_write_units"] == 1
            assert status(await ask("PUT", "/__ursula/quota/demo", b'{"max_streams":1}')) == 204
            assert status(await ask("PUT", "/demo/b")) == 429
            assert status(await ask("PUT", "/demo/a", **JSON)) == 200
            assert status(await ask("PUT", "/__ursula/quota/demo", b'{"max_retained_bytes":1}')) == 204
            await ask("GET", "/demo")
            assert status(await ask("POST", "/demo/a", b"4", **JSON)) == 429
            for wrong in (b'{"max_streams":-1}', b'{"most":1}', b"[]", b"x"):
                assert status(await ask("PUT", "/__ursula/quota/demo", wrong)) == 400
            assert status(await ask("PUT", "/__ursula/quota/none", b"{}")) == 404
            assert status(await ask("PUT", "/__ursula/quota/demo")) == 204
            assert status(await ask("POST", "/demo/a", b"4", **JSON)) == 204
            await ask("PUT", "/demo/key/b")
            purged = document(await ask("DELETE", "/__ursula/purge/demo"))
            assert purged["removed_streams"] == 2
            assert document(await ask("DELETE", "/__ursula/purge/demo"))["removed_streams"] == 0
            after = document(await ask("GET", "/__ursula/usage"))["buckets"]["demo"]
            assert (after["stream_count"], after["retained_bytes"], after["committed_records"]) == (0, 0, 4)
            assert status(await ask("DELETE", "/demo")) == 204

        door(story)


class TestStreams:
    def test_the_protocol_works_here_as_it_does_there(self, door):
        async def story(ask, other):
            made = await ask("PUT", "/demo/a", b"one", **TEXT)
            assert made[1]["location"].endswith("/demo/a")
            assert status(await other("POST", "/demo/a", b"two", **TEXT)) == 204
            assert (await ask("GET", "/demo/a"))[2] == b"onetwo"
            assert status(await ask("POST", "/demo/a", b"x", **JSON)) == 409
            assert status(await ask("POST", "/demo/a", b"x", **TEXT, stream_closed="true")) == 204
            head = await other("HEAD", "/demo/a")
            assert head[1]["stream-closed"] == "true"
            assert EXTENSIONS not in head[1]
            fork = {"stream_forked_from": "/demo/a", **TEXT}
            assert status(await other("PUT", "/demo/key/fork", **fork)) == 201
            assert (await ask("GET", "/demo/key/fork"))[2] == b"onetwox"
            assert status(await ask("PUT", "/demo/f", stream_forked_from="/elsewhere")) == 400
            assert status(await ask("OPTIONS", "/demo/a")) == 204

        door(story, count=2)

    def test_streams_of_one_affinity_key_live_in_one_shard_and_say_so(self, door):
        async def story(ask):
            for name in ("journal", "queue", "third"):
                assert (await ask("PUT", f"/demo/run-42/{name}", **JSON))[1][EXTENSIONS] == f"{RECORDS}, {AFFINITY}"
            streams = [ask.service.known(f"demo/run-42/{name}").id for name in ("journal", "queue", "third")]
            assert len({stream % 4 for stream in streams}) == 1
            assert (await ask("GET", "/demo/run-42/none"))[1][EXTENSIONS] == AFFINITY
            assert status(await ask("PUT", "/demo/run-42/attrs", b"{}", **JSON)) == 404

        door(story)

    def test_attributes_are_part_of_what_was_wanted_and_can_be_replaced_even_at_the_end(self, door):
        async def story(ask):
            wanted = {"stream_attrs": '{"title":"t","more":1}'}
            assert status(await ask("PUT", "/demo/a", **wanted)) == 201
            assert status(await ask("PUT", "/demo/a", **wanted)) == 200
            assert status(await ask("PUT", "/demo/a")) == 409
            assert status(await ask("PUT", "/demo/b", stream_attrs="no")) == 400
            assert document(await ask("GET", "/demo/a/attrs")) == {"title": "t"}
            await ask("POST", "/demo/a", stream_closed="true")
            assert status(await ask("PUT", "/demo/a/attrs", b'{"metadata":{"n":1}}', **JSON)) == 204
            assert document(await ask("GET", "/demo/a/attrs")) == {"metadata": {"n": 1}}
            assert status(await ask("PUT", "/demo/a/attrs", b"{}", **JSON)) == 204
            assert document(await ask("GET", "/demo/a/attrs")) == {}
            assert status(await ask("PUT", "/demo/a/attrs", b"{}")) == 400
            assert status(await ask("GET", "/demo/none/attrs")) == 404

        door(story)

    def test_a_read_of_so_many_bytes_has_whole_records_and_json_comes_as_lines_if_wanted(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", **TEXT)
            for body in (b"aaaa", b"bbbb", b"cccc"):
                await ask("POST", "/demo/a", body, **TEXT)
            answer = await ask("GET", "/demo/a?max_bytes=9")
            assert answer[2] == b"aaaabbbb"
            assert "stream-up-to-date" not in answer[1]
            rest = await ask("GET", f"/demo/a?max_bytes=1&offset={answer[1]['stream-next-offset']}")
            assert rest[2] == b"cccc"
            assert rest[1]["stream-up-to-date"] == "true"
            assert status(await ask("GET", "/demo/a?max_bytes=0")) == 400
            assert status(await ask("GET", "/demo/a?max_bytes=1&offset=9999999999999999_0000000000000000")) == 400
            await ask("PUT", "/demo/j", b'[1,{"a":\n2}]', **JSON)
            lines = await ask("GET", "/demo/j", accept="application/x-ndjson")
            assert (lines[1]["content-type"], lines[2]) == ("application/x-ndjson", b'1\n{"a": 2}\n')

        door(story)


class TestRecords:
    def test_appends_say_which_records_they_made_and_repetitions_say_the_same(self, door):
        async def story(ask):
            made = await ask("PUT", "/demo/a", b"[0,1]", **JSON)
            assert (made[1]["stream-record-start"], made[1]["stream-record-next"]) == ("0", "2")
            again = await ask("PUT", "/demo/a", b"[0,1]", **JSON)
            assert (again[1]["stream-record-start"], again[1]["stream-record-next"]) == ("2", "2")
            producer = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}
            first = await ask("POST", "/demo/a", b"[2,3,4]", **JSON, **producer)
            await ask("POST", "/demo/a", b"5", **JSON)
            repeated = await ask("POST", "/demo/a", b"[2,3,4]", **JSON, **producer)
            for answer in (first, repeated):
                assert (answer[1]["stream-record-start"], answer[1]["stream-record-next"]) == ("2", "5")
                assert answer[1][EXTENSIONS] == RECORDS
            head = await ask("HEAD", "/demo/a")
            assert (head[1]["stream-record-first"], head[1]["stream-record-next"]) == ("0", "6")

        door(story)

    def test_an_append_can_name_the_record_that_it_expects_to_make(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", b"[0,1]", **JSON)
            assert status(await ask("POST", "/demo/a", b"2", **JSON, stream_record_match="2")) == 204
            late = await ask("POST", "/demo/a", b"2", **JSON, stream_record_match="2")
            assert (status(late), late[1]["stream-record-next"]) == (412, "3")
            await ask("PUT", "/demo/t", **TEXT)
            assert status(await ask("POST", "/demo/t", b"2", **TEXT, stream_record_match="0")) == 400

        door(story)

    def test_records_are_read_by_their_numbers(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", b'[0,1,{"n":2},3,4]', **JSON)
            some = await ask("GET", "/demo/a?record=1&max_records=2")
            assert some[2] == b'1\n{"n":2}\n'
            assert some[1]["content-type"] == "application/x-ndjson"
            facts = [some[1][f"stream-record-{word}"] for word in ("first", "start", "next")]
            assert facts == ["0", "1", "3"]
            assert "stream-up-to-date" not in some[1]
            assert (await ask("GET", f"/demo/a?offset={some[1]['stream-next-offset']}"))[2] == b"[3,4]"
            tail = await ask("GET", "/demo/a?tail_records=2&record_view=envelope")
            assert [json.loads(line) for line in tail[2].splitlines()] == [
                {"record": 3, "value": 3},
                {"record": 4, "value": 4},
            ]
            assert tail[1]["stream-up-to-date"] == "true"
            now = await ask("GET", "/demo/a?record=now")
            assert (now[2], now[1]["stream-record-next"]) == (b"", "5")
            assert status(await ask("GET", "/demo/a?record=6")) == 400
            assert status(await ask("GET", "/demo/a?record=1&offset=-1")) == 400
            await ask("PUT", "/demo/t", **TEXT)
            assert status(await ask("GET", "/demo/t?record=0")) == 400

        door(story)

    def test_a_long_poll_waits_for_a_record(self, door):
        async def story(ask, other):
            await ask("PUT", "/demo/a", **JSON)
            waiting = ask("GET", "/demo/a?record=0&live=long-poll")

            async def later():
                await asyncio.sleep(0.05)
                await other("POST", "/demo/a", b"[7,8]", **JSON)

            found, _ = await asyncio.gather(waiting, later())
            assert found[2] == b"7\n8\n"
            empty = await ask("GET", "/demo/a?record=now&live=long-poll&timeout_ms=50")
            assert (status(empty), empty[1]["stream-record-next"]) == (204, "2")
            assert status(await ask("GET", "/demo/a?record=now&live=long-poll&timeout_ms=0")) == 400

        door(story, count=2)

    def test_an_event_stream_counts_in_records_to_the_end(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", b"[0,1]", **JSON)
            events = await ask.tail("/demo/a?record=1&live=sse")
            assert events.headers[EXTENSIONS] == RECORDS
            assert await events.event() == ("data", "[1]")
            control = json.loads((await events.event())[1])
            assert (control["streamFirstRecord"], control["streamNextRecord"], control["upToDate"]) == (0, 2, True)
            await ask("POST", "/demo/a", b"[2,3]", **JSON, stream_closed="true")
            assert await events.event() == ("data", "[2,3]")
            control = json.loads((await events.event())[1])
            assert (control["streamNextRecord"], control["streamClosed"]) == (4, True)
            assert await events.event() is None

        door(story)

    def test_envelopes_come_one_by_one_and_a_long_stream_of_events_is_sent_back(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", b"[0,1]", **JSON)
            events = await ask.tail("/demo/a?tail_records=5&live=sse&record_view=envelope")
            assert events.headers["stream-data-content-type"] == "application/vnd.durable-stream-record+json"
            assert await events.event() == ("data", '{"record":0,"value":0}')
            assert await events.event() == ("data", '{"record":1,"value":1}')
            assert (await events.event())[0] == "control"
            assert (await events.event())[0] == "heartbeat"
            while (event := await events.event()) is not None:
                assert event[0] == "heartbeat"

        door(story, limits=TailLimits(recycle_seconds=0.4, heartbeat_seconds=0.1))


def framed(*payloads):
    return b"".join(struct.pack(">I", len(payload)) + payload for payload in payloads)


class TestBatches:
    def test_frames_are_appends_of_their_own(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", **JSON)
            told = document(await ask("POST", "/demo/a/append-batch", framed(b"[1,2]", b"{", b"3"), **JSON))
            assert [each["status"] for each in told] == [204, 400, 204]
            assert [each.get("stream_record_next") for each in told] == [2, None, 3]
            assert told[1]["error_code"] == "bad_request"
            assert (await ask("GET", "/demo/a"))[2] == b"[1,2,3]"

        door(story)

    def test_a_short_answer_if_all_went_well_and_that_is_preferred(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", **TEXT)
            body = framed(*[b"x"] * 512)
            answer = await ask("POST", "/demo/a/append-batch", body, **TEXT, prefer="return=minimal")
            assert status(answer) == 204
            assert (await ask("GET", "/demo/a"))[2] == b"x" * 512
            await ask("POST", "/demo/a", stream_closed="true")
            told = document(await ask("POST", "/demo/a/append-batch", framed(b"x"), **TEXT, prefer="return=minimal"))
            assert (told[0]["status"], told[0]["stream_closed"]) == (409, True)

        door(story)

    @pytest.mark.parametrize("body", [b"", b"\0\0\0\0", b"\0\0\0\5x", b"\0\0", framed(*[b"x"] * 513)])
    def test_broken_framing_fails_the_whole(self, door, body):
        async def story(ask):
            await ask("PUT", "/demo/a", **TEXT)
            assert status(await ask("POST", "/demo/a/append-batch", body, **TEXT)) == 400
            assert (await ask("GET", "/demo/a"))[2] == b""

        door(story)

    def test_what_is_meant_for_one_append_is_refused(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", **TEXT)
            body = framed(b"x")
            assert status(await ask("POST", "/demo/a/append-batch", body, **TEXT, stream_seq="1")) == 400
            assert status(await ask("POST", "/demo/a/append-batch", body)) == 400
            assert status(await ask("POST", "/demo/none/append-batch", body, **TEXT)) == 404

        door(story)


def operation(stream, payload, **more):
    encoded = base64.b64encode(payload).decode()
    return {"stream": stream, "content_type": "application/json", "payload_base64": encoded, **more}


def transaction(*operations):
    return json.dumps({"operations": operations}).encode()


class TestTransactions:
    async def prepare(self, ask):
        for name in ("journal", "queue"):
            await ask("PUT", f"/demo/run/{name}", **JSON)

    def test_all_happens(self, door):
        async def story(ask, other):
            await self.prepare(ask)
            body = transaction(operation("journal", b"[1,2]", record_match=0), operation("queue", b"3"))
            answer = await other("POST", "/demo/run/$transaction", body)
            assert status(answer) == 200
            assert answer[1][EXTENSIONS] == f"{AFFINITY}, group-append-transaction-v1"
            assert [each["stream_record_next"] for each in document(answer)] == [2, 1]
            assert (await ask("GET", "/demo/run/journal"))[2] == b"[1,2]"

        door(story, count=2)

    @pytest.mark.parametrize(
        ("spoiler", "expected"),
        [
            (operation("queue", b"3", record_match=5), 412),
            (operation("none", b"3"), 404),
            (operation("queue", b"{"), 400),
            ({**operation("queue", b"3"), "content_type": "text/plain"}, 409),
            (operation("closed", b"3"), 409),
            (operation("queue", b"3", producer={"producer_id": "p", "producer_epoch": 0, "producer_seq": 3}), 409),
            (operation("a/b", b"3"), 400),
        ],
    )
    def test_nothing_happens_when_one_cannot(self, door, spoiler, expected):
        async def story(ask):
            await self.prepare(ask)
            await ask("PUT", "/demo/run/closed", **JSON, stream_closed="true")
            answer = await ask("POST", "/demo/run/$transaction", transaction(operation("journal", b"1"), spoiler))
            assert status(answer) == expected
            assert (await ask("GET", "/demo/run/journal"))[2] == b"[]"

        door(story)

    def test_a_repetition_is_told_the_first_outcome(self, door):
        async def story(ask):
            await self.prepare(ask)
            by = {"producer": {"producer_id": "p", "producer_epoch": 0, "producer_seq": 0}}
            body = transaction(operation("journal", b"1", **by), operation("queue", b"[2,3]", **by))
            first = await ask("POST", "/demo/run/$transaction", body)
            again = await ask("POST", "/demo/run/$transaction", body)
            for answer in (first, again):
                assert [each["stream_record_next"] for each in document(answer)] == [1, 2]
            part = transaction(operation("journal", b"1", **by), operation("queue", b"4"))
            assert status(await ask("POST", "/demo/run/$transaction", part)) == 409
            assert (await ask("GET", "/demo/run/queue"))[2] == b"[2,3]"

        door(story)


class TestSnapshots:
    def test_a_snapshot_is_published_found_and_stays(self, door):
        async def story(ask, other):
            await ask("PUT", "/demo/a", b"[0,1,2,3]", **JSON)
            assert status(await ask("GET", "/demo/a/snapshot")) == 404
            offset = (await ask("GET", "/demo/a?record=0&max_records=2"))[1]["stream-next-offset"]
            made = await ask("PUT", f"/demo/a/snapshot/{offset}", b"sum:1", **TEXT)
            assert (status(made), made[1]["stream-snapshot-offset"]) == (204, offset)
            digest = made[1]["stream-snapshot-digest"]
            again = await other("PUT", f"/demo/a/snapshot/{offset}", b"sum:1", **TEXT)
            assert (status(again), again[1]["stream-snapshot-digest"]) == (204, digest)
            assert status(await ask("PUT", f"/demo/a/snapshot/{offset}", b"other", **TEXT)) == 409
            found = await other("GET", "/demo/a/snapshot")
            assert (status(found), found[1]["location"]) == (307, f"/demo/a/snapshot/{offset}")
            body = await other("GET", found[1]["location"])
            assert (body[1]["content-type"], body[2]) == ("text/plain", b"sum:1")
            assert (body[1]["stream-up-to-date"], body[1]["stream-next-offset"]) == ("false", offset)
            assert (await ask("HEAD", "/demo/a"))[1]["stream-snapshot-digest"] == digest
            assert status(await ask("DELETE", f"/demo/a/snapshot/{offset}")) == 409
            newer = await ask("PUT", "/demo/a/snapshot?record=4", b"sum:6", **TEXT, stream_snapshot_match=digest)
            assert status(newer) == 204
            assert status(await ask("GET", f"/demo/a/snapshot/{offset}")) == 404
            assert status(await ask("DELETE", f"/demo/a/snapshot/{offset}")) == 404

        door(story, count=2)

    def test_what_cannot_be_a_snapshot_is_refused(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", b"[0,1]", **JSON)
            for where, expected in (
                ("/9", 400), ("/0000000000000001_0000000000000003", 400), ("?record=3", 409), ("", 400),
                ("?record=x", 400), ("/0000000000000001_0000000000000000?record=1", 400),
            ):  # fmt: skip
                assert status(await ask("PUT", f"/demo/a/snapshot{where}", b"s")) == expected, where
            answer = await ask("PUT", "/demo/a/snapshot?record=1", b"s", stream_snapshot_match="wrong")
            assert status(answer) == 409
            assert status(await ask("PUT", "/demo/none/snapshot?record=1", b"s")) == 404

        door(story)

    def test_records_go_explicitly_and_only_behind_a_snapshot(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", b"[0,1,2,3]", **JSON)
            assert status(await ask("PUT", "/demo/a/retention?record=1")) == 409
            await ask("PUT", "/demo/a/snapshot?record=2", b"s", **TEXT)
            assert (await ask("GET", "/demo/a"))[2] == b"[0,1,2,3]"
            assert status(await ask("PUT", "/demo/a/retention?record=3")) == 409
            assert status(await ask("PUT", "/demo/a/retention/0000000000000002_0000000000000000")) == 204
            gone = await ask("GET", "/demo/a?record=1")
            assert status(gone) == 410
            assert status(await ask("GET", "/demo/a?offset=0000000000000000_0000000000000000")) == 410
            assert (await ask("GET", "/demo/a?record=2"))[2] == b"2\n3\n"
            assert (await ask("HEAD", "/demo/a"))[1]["stream-record-first"] == "2"
            assert status(await ask("PUT", "/demo/a/retention?record=1")) == 409
            assert status(await ask("PUT", "/demo/a/snapshot?record=1", b"s")) in {409, 410}

        door(story)

    def test_bootstrap_is_the_snapshot_and_every_record_after_it(self, door):
        async def story(ask):
            await ask("PUT", "/demo/a", b'[{"n":0},1,2]', **JSON)
            bare = parts(await ask("GET", "/demo/a/bootstrap"))
            assert bare == [
                ("application/octet-stream", ""),
                *[("application/json", each) for each in ('{"n":0}', "1", "2")],
            ]
            await ask("PUT", "/demo/a/snapshot?record=2", b"sum", **TEXT)
            answer = await ask("GET", "/demo/a/bootstrap")
            assert parts(answer) == [("text/plain", "sum"), ("application/json", "2")]
            assert answer[1]["stream-up-to-date"] == "true"
            assert answer[1]["stream-record-next"] == "3"
            tail = await ask("GET", f"/demo/a?offset={answer[1]['stream-next-offset']}")
            assert tail[2] == b"[]"
            assert status(await ask("GET", "/demo/a/bootstrap?live=sse")) == 400
            assert status(await ask("GET", "/demo/none/bootstrap")) == 404

        door(story)


def parts(answer):
    message = email.message_from_bytes(b"Content-Type: " + answer[1]["content-type"].encode() + b"\r\n\r\n" + answer[2])
    return [(part.get_content_type(), part.get_payload()) for part in message.get_payload()]
