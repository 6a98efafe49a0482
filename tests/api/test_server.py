"""The HTTP server as a client sees it: answers, order, bounds, and no story of its insides, whatever is sent."""

import asyncio
import gzip
import json
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st

from runnel.api.server import Answer, HttpServer, Limits, Request, Response, asynchronous
from runnel.errors import Overloaded, Refused
from runnel.world.clock import SystemClock
from runnel.world.tasks import Tasks
from runnel.world.telemetry.metrics import Metrics


@pytest.fixture(params=["asyncio", "uvloop"])
def run(run: Any, request: Any) -> Any:
    """Every story on both loops: they differ in when they write and when they call back."""
    factory = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop
    return lambda work: run(work, loop_factory=factory)


async def until(happened: Any) -> None:
    while not happened():  # noqa: ASYNC110  what is waited for is the server's state, not an event of ours
        await asyncio.sleep(0.0005)


def echo(request: Request, respond: Answer) -> None:
    respond(Response(200, {"content-type": "text/plain", "x-method": request.method}, request.body or b"nothing"))


def test_many_requests_share_one_connection(run: Any, serving: Any) -> None:
    async def story() -> None:
        async with serving(echo) as (server, connect):
            client = await connect()
            for body in (b"one", b"two", b"three"):
                status, headers, answer = await client.ask("POST /x HTTP/1.1", body)
                assert (status, answer) == (200, body)
                assert headers["x-content-type-options"] == "nosniff"
                assert headers["date"].endswith("GMT")
            assert server.requests == 3
            assert server.connections == 1

    run(story())


def test_answers_leave_in_the_order_of_the_requests_whatever_the_order_of_answering(run: Any, serving: Any) -> None:
    waiting: list[tuple[Request, Answer]] = []

    async def story() -> None:
        async with serving(lambda request, respond: waiting.append((request, respond))) as (_, connect):
            client = await connect()
            client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(4)))
            await until(lambda: len(waiting) == 4)
            for index in (2, 0, 3, 1):
                request, respond = waiting[index]
                respond(Response(200, {}, request.raw_path.encode()))
            assert [(await client.answer())[2] for _ in range(4)] == [b"/0", b"/1", b"/2", b"/3"]

    run(story())


def test_a_stream_behind_an_open_answer_waits_its_turn(run: Any, serving: Any) -> None:
    waiting: list[Answer] = []

    async def story() -> None:
        async with serving(lambda _, respond: waiting.append(respond)) as (_, connect):
            client = await connect()
            client.send(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: len(waiting) == 2)
            first, second = waiting
            second.begin(200, {"content-type": "text/event-stream"})
            assert second.write(b"early ")
            first(Response(200, {}, b"first"))
            second.write(b"late")
            second.end()
            assert (await client.answer())[2] == b"first"
            status, headers, body = await client.answer()
            assert (status, body) == (200, b"early late")
            assert "content-length" not in headers

    run(story())


def test_bytes_may_come_one_at_a_time(run: Any, serving: Any) -> None:
    async def story() -> None:
        async with serving(echo) as (_, connect):
            client = await connect()
            message = b"POST /x?y=1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;e=1\r\nde\r\n0\r\n\r\n"
            for byte in message:
                client.send(bytes([byte]))
                await asyncio.sleep(0)
            assert (await client.answer())[2] == b"abcde"

    run(story())


def test_a_trailer_does_not_become_a_header_of_the_next_request(run: Any, serving: Any) -> None:
    seen: list[dict[str, str]] = []

    def handle(request: Request, respond: Answer) -> None:
        seen.append(request.headers)
        respond(Response(204))

    async def story() -> None:
        async with serving(handle) as (_, connect):
            client = await connect()
            client.send(
                b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Admin: yes\r\n\r\n"
            )
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await client.answer()
            await client.answer()
            assert all("x-admin" not in headers for headers in seen)

    run(story())


def test_head_has_the_length_but_not_the_body(run: Any, serving: Any) -> None:
    async def story() -> None:
        async with serving(echo) as (_, connect):
            client = await connect()
            status, headers, _ = await client.ask("HEAD /x HTTP/1.1", head_only=True)
            assert (status, headers["content-length"]) == (200, "7")
            assert (await client.ask("GET /x HTTP/1.1"))[2] == b"nothing"

    run(story())


def test_an_answer_without_body_has_no_length(run: Any, serving: Any) -> None:
    async def story() -> None:
        async with serving(lambda _, respond: respond(Response(204))) as (_, connect):
            status, headers, _ = await (await connect()).ask("POST /x HTTP/1.1", b"abc")
            assert status == 204
            assert "content-length" not in headers

    run(story())


@pytest.mark.parametrize(
    ("offer", "packed"),
    [
        ("gzip", True),
        ("br, gzip;q=0.5", True),
        ("*", True),
        ("gzip;q=0", False),
        ("*, gzip;q=0.0", False),
        ("br", False),
    ],
)
def test_long_text_is_packed_for_those_who_can_unpack(run: Any, serving: Any, offer: str, packed: bool) -> None:
    text = b"a long story, " * 200

    async def story() -> None:
        async with serving(lambda _, respond: respond(Response(200, {"content-type": "text/plain"}, text))) as (
            _,
            connect,
        ):
            _, headers, body = await (await connect()).ask(f"GET /x HTTP/1.1\r\nAccept-Encoding: {offer}")
            assert ("content-encoding" in headers) == packed
            assert headers["vary"] == "accept-encoding"
            assert (gzip.decompress(body) if packed else body) == text

    run(story())


def test_http_1_0_closes_unless_it_asks_to_stay(run: Any, serving: Any) -> None:
    async def story() -> None:
        async with serving(echo) as (_, connect):
            client = await connect()
            client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert (await client.answer())[1]["connection"] == "keep-alive"
            client.send(b"GET / HTTP/1.0\r\n\r\n")
            assert (await client.answer())[2] == b"nothing"
            assert await client.closed()

    run(story())


def test_a_stream_to_http_1_0_ends_with_the_connection(run: Any, serving: Any) -> None:
    def handle(_: Request, respond: Answer) -> None:
        respond.begin()
        respond.write(b"a")
        respond.write(b"b")
        respond.end()

    async def story() -> None:
        async with serving(handle) as (_, connect):
            client = await connect()
            client.send(b"GET / HTTP/1.0\r\n\r\n")
            assert (await client.answer())[2] == b"ab"

    run(story())


def test_an_offer_to_upgrade_is_not_taken_up(run: Any, serving: Any) -> None:
    async def story() -> None:
        async with serving(echo) as (_, connect):
            client = await connect()
            offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA"
            assert (await client.ask(f"POST / HTTP/1.1\r\n{offer}", b"body"))[2] == b"body"
            assert (await client.ask(f"GET / HTTP/1.1\r\n{offer}"))[2] == b"nothing"
            assert (await client.ask("GET / HTTP/1.1"))[2] == b"nothing"

    run(story())


def test_a_client_that_expects_to_be_asked_is_asked(run: Any, serving: Any) -> None:
    async def story() -> None:
        async with serving(echo) as (_, connect):
            client = await connect()
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
            assert (await client.head())[0] == 100
            client.send(b"body")
            assert (await client.answer())[2] == b"body"

    run(story())


@pytest.mark.parametrize(
    "message",
    [
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\na",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nBad Header: 1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: b\x00c\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_malformed_input_is_a_400_and_the_end(run: Any, serving: Any, message: bytes) -> None:
    async def story() -> None:
        async with serving(echo) as (server, connect):
            client = await connect()
            client.send(message)
            status, headers, body = await client.answer()
            assert status == 400
            assert headers["connection"] == "close"
            assert headers["content-type"] == "application/problem+json"
            assert headers["x-content-type-options"] == "nosniff"
            assert json.loads(body)["status"] == 400
            assert await client.closed()
            assert server.mishaps == 0
            assert server.inflight_body_bytes == 0

    run(story())


def test_what_came_before_malformed_input_is_still_answered_first(run: Any, serving: Any) -> None:
    waiting: list[Answer] = []

    async def story() -> None:
        async with serving(lambda _, respond: waiting.append(respond)) as (_, connect):
            client = await connect()
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n\x00\x00rubbish\r\n\r\n")
            await until(lambda: waiting)
            waiting[0](Response(200, {}, b"good"))
            assert (await client.answer())[2] == b"good"
            assert (await client.answer())[0] == 400
            assert await client.closed()

    run(story())


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 40000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001, 413),
        (b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001, 413),
    ],
)
def test_what_is_too_long_is_refused_by_its_own_status(run: Any, serving: Any, message: bytes, status: int) -> None:
    async def story() -> None:
        async with serving(echo, limits=Limits(body_bytes_max=1000)) as (server, connect):
            client = await connect()
            client.send(message)
            assert (await client.answer())[0] == status
            assert await client.closed()
            assert server.inflight_body_bytes == 0

    run(story())


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nHost: x\r\nA: ", b"GET /"])
def test_a_head_without_end_is_cut_off(run: Any, serving: Any, start: bytes) -> None:
    async def story() -> None:
        async with serving(echo) as (_, connect):
            client = await connect()
            client.send(start)
            for _ in range(100):
                client.send(b"x" * 1000)
                await asyncio.sleep(0)
            assert (await client.answer())[0] in {414, 431}

    run(story())


def test_a_trailer_without_end_is_cut_off(run: Any, serving: Any) -> None:
    async def story() -> None:
        async with serving(echo) as (_, connect):
            client = await connect()
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: ")
            for _ in range(100):
                client.send(b"x" * 1000)
                await asyncio.sleep(0)
            assert (await client.answer())[0] == 431

    run(story())


def test_a_route_may_have_a_smaller_bound_for_bodies(run: Any, serving: Any) -> None:
    async def story() -> None:
        limit = lambda method, target: 10 if target.startswith(b"/small") else None  # noqa: E731
        async with serving(echo, body_limit=limit) as (_, connect):
            assert (await (await connect()).ask("POST /small HTTP/1.1", b"x" * 11))[0] == 413
            assert (await (await connect()).ask("POST /other HTTP/1.1", b"x" * 11))[0] == 200

    run(story())


def test_too_many_body_bytes_in_work_are_told_to_come_back_and_the_connection_lives(run: Any, serving: Any) -> None:
    waiting: list[Answer] = []

    async def story() -> None:
        limits = Limits(inflight_body_bytes_max=1000)
        async with serving(lambda _, respond: waiting.append(respond), limits=limits) as (server, connect):
            first, second = await connect(), await connect()
            first.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 800\r\n\r\n" + b"x" * 800)
            await until(lambda: waiting)
            assert server.inflight_body_bytes == 800
            for framing in (
                b"Content-Length: 300\r\n\r\n" + b"y" * 300,
                b"Transfer-Encoding: chunked\r\n\r\n12c\r\n" + b"y" * 300 + b"\r\n0\r\n\r\n",
            ):
                second.send(b"POST / HTTP/1.1\r\nHost: x\r\n" + framing)
                status, headers, _ = await second.answer()
                assert (status, headers["retry-after"]) == (503, "1")
            waiting[0](Response(204))
            await first.answer()
            assert server.inflight_body_bytes == 0
            second.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 300\r\n\r\n" + b"y" * 300)
            await until(lambda: len(waiting) == 2)
            waiting[1](Response(204))
            assert (await second.answer())[0] == 204
            assert server.inflight_body_bytes == 0

    run(story())


def test_a_client_that_leaves_gives_its_bytes_back(run: Any, serving: Any) -> None:
    waiting: list[Answer] = []
    gone: list[str] = []

    def handle(_: Request, respond: Answer) -> None:
        waiting.append(respond)
        respond.when_gone = lambda: gone.append("gone")

    async def story() -> None:
        async with serving(handle) as (server, connect):
            client = await connect()
            client.send(
                b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabcdePOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"
            )
            await until(lambda: server.inflight_body_bytes == 8)
            client.writer.close()
            await until(lambda: not server.connections)
            assert server.inflight_body_bytes == 0
            assert gone == ["gone"]
            assert waiting[0].gone
            waiting[0](Response(204))  # nobody hears it, and nothing breaks

    run(story())


def test_one_connection_too_many_is_told_so(run: Any, serving: Any) -> None:
    async def story() -> None:
        async with serving(echo, limits=Limits(connections_max=1)) as (_, connect):
            first = await connect()
            assert (await first.ask("GET / HTTP/1.1"))[0] == 200
            second = await connect()
            assert (await second.answer())[0] == 503
            assert await second.closed()
            assert (await first.ask("GET / HTTP/1.1"))[0] == 200

    run(story())


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", None),
        (b"GET / HTTP/1.1\r\nHos", 408),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc", 408),
    ],
)
def test_whoever_dawdles_is_let_go(run: Any, serving: Any, quick: Any, sent: bytes, status: int | None) -> None:
    async def story() -> None:
        limits = quick(idle_seconds=0.05, head_seconds=0.05, body_seconds=0.05)
        async with serving(echo, limits=limits) as (server, connect):
            client = await connect()
            client.send(sent)
            if status is not None:
                assert (await client.answer())[0] == status
            assert await client.closed()
            client.writer.close()
            await until(lambda: not server.connections)
            assert server.inflight_body_bytes == 0

    run(story())


def test_a_refused_client_that_goes_on_sending_is_cut(run: Any, serving: Any, quick: Any) -> None:
    async def story() -> None:
        async with serving(echo, limits=quick(linger_seconds=0.1)) as (server, connect):
            client = await connect()
            client.send(b"rubbish\r\n\r\n")
            assert (await client.answer())[0] == 400
            client.send(b"more")
            await until(lambda: not server.connections)

    run(story())


def test_waiting_for_an_answer_is_never_too_long(run: Any, serving: Any, quick: Any) -> None:
    waiting: list[Answer] = []

    async def story() -> None:
        limits = quick(idle_seconds=0.03, head_seconds=0.03, body_seconds=0.03)
        async with serving(lambda _, respond: waiting.append(respond), limits=limits) as (_, connect):
            client = await connect()
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await asyncio.sleep(0.2)
            waiting[0](Response(200, {}, b"at last"))
            assert (await client.answer())[2] == b"at last"

    run(story())


def test_a_client_that_sends_and_never_reads_is_held_up(run: Any, serving: Any) -> None:
    async def story() -> None:
        big = b"x" * 100_000
        async with serving(lambda _, respond: respond(Response(200, {}, big))) as (server, connect):
            client = await connect()
            client.writer.transport.pause_reading()
            for _ in range(2000):
                client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
                await asyncio.sleep(0)
                if client.writer.transport.get_write_buffer_size() > 20_000:
                    break
            served = server.requests
            assert served < 20_000  # one received piece may hold many requests, but the next is not read
            client.writer.transport.abort()

    run(story())


def test_a_slow_reader_of_a_stream_is_told_of_and_then_dropped(run: Any, serving: Any) -> None:
    said: list[bool] = []
    streams: list[Answer] = []

    def handle(_: Request, respond: Answer) -> None:
        respond.begin(200)
        streams.append(respond)

    async def story() -> None:
        limits = Limits(stream_buffer_bytes_max=1 << 20)
        async with serving(handle, limits=limits) as (server, connect):
            client = await connect()
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await client.head()
            client.writer.transport.pause_reading()
            while not streams[0].gone:
                said.append(streams[0].write(b"x" * 65536))
                await asyncio.sleep(0)
            assert said[0] is True
            assert False in said
            assert len(said) < 500
            assert server.connections == 0

    run(story())


def test_a_writer_that_waits_is_called_when_there_is_room(run: Any, serving: Any) -> None:
    total = 8 << 20

    def handle(_: Request, respond: Answer) -> None:
        sent = 0

        def go_on() -> None:
            nonlocal sent
            while sent < total:
                sent += 65536
                if not respond.write(b"x" * 65536):
                    return
            if not respond.whole:
                respond.end()

        respond.begin(200)
        respond.when_writable = go_on
        go_on()

    async def story() -> None:
        async with serving(handle, limits=Limits(stream_buffer_bytes_max=1 << 20)) as (_, connect):
            _, _, body = await (await connect()).ask("GET / HTTP/1.1")
            assert len(body) == total

    run(story())


def test_half_a_close_still_gets_its_answer(run: Any, serving: Any) -> None:
    waiting: list[Answer] = []

    async def story() -> None:
        async with serving(lambda _, respond: waiting.append(respond)) as (_, connect):
            client = await connect()
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            client.writer.write_eof()
            await asyncio.sleep(0.05)
            waiting[0](Response(200, {}, b"here"))
            assert (await client.answer())[2] == b"here"
            assert await client.closed()

    run(story())


@pytest.mark.parametrize(
    ("error", "status"), [(Refused("no"), 400), (Overloaded("full"), 503), (ZeroDivisionError("secret"), 500)]
)
def test_an_error_of_a_handler_is_a_problem_without_a_story(
    run: Any, serving: Any, caplog: Any, error: Exception, status: int
) -> None:
    def handle(_: Request, __: Answer) -> None:
        raise error

    async def deferred(_: Request) -> Response:
        raise error

    async def story() -> None:
        deaths: list[Any] = []
        tasks = Tasks(lambda name, error: deaths.append((name, error)))
        for each in (handle, asynchronous(deferred, tasks), deferred):
            async with serving(each, tasks=tasks) as (_, connect):
                client = await connect()
                got, _, body = await client.ask("GET / HTTP/1.1")
                assert got == status
                assert b"secret" not in body
                assert b"Traceback" not in body
                assert (await client.ask("GET / HTTP/1.1"))[0] == status
        assert not deaths

    run(story())


def test_a_header_with_a_line_break_never_leaves_the_house(run: Any, serving: Any, caplog: Any) -> None:
    async def story() -> None:
        async with serving(lambda _, respond: respond(Response(200, {"x": "a\r\nset-cookie: b"}))) as (server, connect):
            client = await connect()
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"set-cookie" not in await client.reader.read()
            assert server.mishaps == 1

    run(story())


def test_a_coroutine_is_cancelled_when_its_client_leaves(run: Any, serving: Any) -> None:
    async def forever(_: Request) -> Response:
        await asyncio.Event().wait()
        return Response()

    async def story() -> None:
        tasks = Tasks(lambda *_: None)
        async with serving(asynchronous(forever, tasks)) as (_, connect):
            client = await connect()
            client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: len(tasks) == 1)
            client.writer.close()
            await until(lambda: not len(tasks))

    run(story())


def test_drain_finishes_what_is_in_work_and_takes_no_more(run: Any) -> None:
    waiting: list[Answer] = []
    told: list[str] = []

    def handle(_: Request, respond: Answer) -> None:
        waiting.append(respond)
        respond.when_draining = lambda: told.append("draining")

    async def story() -> None:
        server = HttpServer(handle, clock=SystemClock())
        host, port = await server.start("127.0.0.1", 0)
        idle_reader, idle_writer = await asyncio.open_connection(host, port)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: waiting and server.connections == 2)
        draining = asyncio.get_running_loop().create_task(server.drain(5))
        assert await idle_reader.read() == b""
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(host, port)
        assert told == ["draining"]
        assert not draining.done()
        waiting[0](Response(200, {}, b"done"))
        assert (await reader.read()).endswith(b"done")
        writer.close()
        idle_writer.close()
        await draining
        assert server.connections == 0

    run(story())


def test_drain_cuts_what_does_not_end(run: Any) -> None:
    async def story() -> None:
        server = HttpServer(lambda _, respond: respond.begin(), clock=SystemClock())
        host, port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await server.drain(0.05)
        assert server.connections == 0
        assert b"0\r\n\r\n" not in await reader.read()  # a broken stream does not look complete
        writer.close()

    run(story())


class Pipe(asyncio.Transport):
    """A transport without a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.over = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def set_write_buffer_limits(self, high: Any = None, low: Any = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.over = True

    def is_closing(self) -> bool:
        return self.over

    def close(self) -> None:
        self.over = True

    abort = close

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


MESSAGES = st.sampled_from(
    [
        b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody",
        b"POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
        b"HEAD /d HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PUT /e HTTP/1.1\r\nHost: x\r\nUpgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nhi",
    ]
)


def feed(pieces: list[bytes]) -> tuple[bytes, HttpServer]:
    async def story() -> tuple[bytes, HttpServer]:
        server = HttpServer(echo, clock=SystemClock())
        connection, pipe = server.protocol(), Pipe()
        connection.connection_made(pipe)
        for piece in pieces:
            connection.data_received(piece)
        connection.connection_lost(None)
        await server.drain(0)
        return pipe.written, server

    return asyncio.run(story())


@settings(max_examples=60)
@given(st.lists(MESSAGES, min_size=1, max_size=4), st.data())
def test_where_bytes_are_split_changes_nothing(messages: list[bytes], data: Any) -> None:
    whole = b"".join(messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    got, _ = feed(pieces)
    expected, _ = feed([whole])
    strip = lambda text: [line for line in text.split(b"\r\n") if not line.startswith(b"date:")]  # noqa: E731
    assert strip(got) == strip(expected)
    assert got.count(b"HTTP/1.1 200") == len(messages)


@settings(max_examples=150)
@given(MESSAGES, st.data())
def test_no_bytes_bring_out_a_story_or_leave_anything_behind(message: bytes, data: Any) -> None:
    at = data.draw(st.integers(0, len(message) - 1))
    rubbish = data.draw(st.binary(max_size=8))
    got, server = feed([message[:at] + rubbish + message[at + data.draw(st.integers(0, 8)) :]])
    assert server.mishaps == 0
    assert server.inflight_body_bytes == 0
    assert server.connections == 0
    assert b"Traceback" not in got
    assert got.count(b"HTTP/1.1 5") == 0


def test_a_scrape_tells_of_connections_and_requests(serving, quick, run):
    async def story():
        metrics = Metrics()
        async with serving(lambda _, respond: respond(Response(204)), limits=quick(), metrics=metrics) as (_, connect):
            client = await connect()
            for _ in range(3):
                await client.ask("GET / HTTP/1.1")
            assert "runnel_http_connections 1\n" in metrics.render()
            async with asyncio.timeout(5):
                while "runnel_http_requests_total 3\n" not in metrics.render():  # noqa: ASYNC110  a timer of the server brings it
                    await asyncio.sleep(0.01)
            assert "runnel_http_mishaps_total 0\n" in metrics.render()

    run(story())
