"""What buckets promise when the network and the store do not: lost answers, slow answers, wrong addresses and logins."""

import asyncio
import contextlib
import sys
from collections import Counter

import pytest
from tests.contract.objects.servers import SECRET_KEY, free_ports

from runnel.errors import AlreadyThere, NotThere, Overloaded, Refused, Unavailable, Uncertain
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.address import parse_address
from runnel.world.objects.bucket import open_bucket
from runnel.world.objects.bucket_tries import Policy
from runnel.world.objects.hedging import EARLIEST_S, LEARNED_AFTER, Hedging
from runnel.world.objects.open import check_store, open_store

pytestmark = pytest.mark.leaves("obstore keeps its connections open for the next request")

LOGIN = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "hush-hush"}
HASTY = Policy(tries_max=3, patience_s=5.0, answer_s=0.3, pause_s=0.001)


class Misbehaving:
    """An S3 server that knows conditional puts, reads and deletes, and that does to each request what a script says.

    The script maps a method to steps, one for each request: "ok", a status to answer without doing anything, "lost"
    (do it, then break the connection), "dropped" (break it before doing anything), "silent" (do it, answer nothing),
    "late" (do it, answer after half a second), "short" (break off in the middle of the body).
    """

    def __init__(self, **script):
        self.script = {method: list(steps) for method, steps in script.items()}
        self.objects = {}
        self.asked = Counter()
        self._serving = set()

    @contextlib.asynccontextmanager
    async def store(self, policy=HASTY):
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield open_bucket(parse_address(f"s3://bucket?endpoint={endpoint}"), Chance(1), LOGIN, policy)
        finally:
            server.close()
            for task in self._serving:
                task.cancel()
            await asyncio.gather(*self._serving)
            await asyncio.sleep(0.01)  # closed connections are seen by the loop

    async def _serve(self, reader, writer):
        self._serving.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._serve_one(reader, writer):
                pass
        writer.close()

    async def _serve_one(self, reader, writer):
        method, path, _ = (await reader.readuntil(b"\r\n")).decode().split()
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines if line)
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.asked[method] += 1
        steps = self.script.get(method, [])
        step = steps.pop(0) if steps else "ok"
        if step == "dropped":
            return False
        if isinstance(step, int):
            answer = self._answer(step, f"<Error><Code>Code{step}</Code></Error>".encode())
        else:
            answer = self._do(method, path, headers, body)
        if step == "late":
            await asyncio.sleep(0.5)
        if step == "silent":
            await asyncio.sleep(2)
        if step in {"lost", "silent"}:
            return False
        writer.write(answer[:-3] if step == "short" else answer)
        await writer.drain()
        return step != "short"

    def _do(self, method, path, headers, body):
        if method == "PUT":
            if path in self.objects:
                return self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
            assert headers["if-none-match"] == "*"
            self.objects[path] = body, headers["x-amz-meta-runnelput"]
            return self._answer(200, b"", etag='"x"')
        if path not in self.objects:
            return self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
        found, mark = self.objects[path]
        return self._answer(
            200, found, etag='"x"', last_modified="Wed, 18 Nov 2026 22:00:00 GMT", x_amz_meta_runnelput=mark
        )

    @staticmethod
    def _answer(status, body, **headers):
        lines = [f"HTTP/1.1 {status} Whatever", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode() + body


def put_with(*steps):
    """What becomes of a put, and the server that was asked."""
    server = Misbehaving(PUT=steps)

    async def story():
        async with server.store() as store:
            await store.put_new("name", b"0123456789")

    try:
        asyncio.run(story())
    except Exception as error:  # noqa: BLE001  # the test says which it wants
        return error, server
    return None, server


@pytest.mark.parametrize("trouble", [500, 503, 409, 429, "dropped", "lost", "silent"])
def test_a_put_gets_through_passing_trouble(trouble):
    error, server = put_with(trouble, "ok")
    assert error is None
    assert server.objects["/bucket/name"][0] == b"0123456789"
    assert server.asked["PUT"] == 2


@pytest.mark.parametrize("trouble", ["lost", "silent"])
def test_a_put_whose_answer_was_lost_knows_its_own_object(trouble):
    error, server = put_with(trouble)
    assert error is None
    assert (server.asked["PUT"], server.asked["GET"]) == (2, 1)


@pytest.mark.parametrize("trouble", ["dropped", 500])
def test_a_put_that_lost_the_race_while_it_was_unsure_says_so(trouble):
    server = Misbehaving(PUT=[trouble])

    async def story():
        async with server.store() as store:
            server.objects["/bucket/name"] = b"of another", "another mark"
            with pytest.raises(AlreadyThere):
                await store.put_new("name", b"0123456789")

    asyncio.run(story())


@pytest.mark.parametrize("trouble", [500, "dropped", "lost"])
def test_a_put_that_never_gets_an_answer_is_uncertain(trouble):
    error, server = put_with(*[trouble] * 3, *["dropped"] * 3)
    if trouble == "lost":
        # The second try already finds the name taken; only its answer is lost as well.
        assert server.objects
    assert isinstance(error, Uncertain)
    assert server.asked["PUT"] == 3


@pytest.mark.parametrize("trouble", [503, 429])
def test_a_store_that_asks_to_slow_down_has_certainly_done_nothing(trouble):
    error, server = put_with(*[trouble] * 9)
    assert isinstance(error, Overloaded)
    assert "slow down" in str(error)
    assert server.asked["PUT"] == 3


def test_trouble_that_does_not_pass_is_not_tried_again():
    error, server = put_with(400)
    assert isinstance(error, Refused)
    assert server.asked["PUT"] == 1


@pytest.mark.parametrize("trouble", [500, 503, "dropped", "lost", "silent", "short"])
def test_a_read_gets_through_passing_trouble(trouble):
    server = Misbehaving(GET=[trouble])

    async def story():
        async with server.store() as store:
            await store.put_new("name", b"0123456789")
            assert bytes(await store.read("name")) == b"0123456789"

    asyncio.run(story())
    assert server.asked["GET"] == 2


def test_a_read_that_always_breaks_off_is_unavailable_and_never_short():
    server = Misbehaving(GET=["short"] * 9)

    async def story():
        async with server.store() as store:
            await store.put_new("name", b"0123456789")
            with pytest.raises(Unavailable):
                await store.read("name")

    asyncio.run(story())
    assert server.asked["GET"] == 3


def test_a_late_read_is_overtaken_by_a_second_request():
    server = Misbehaving(GET=["ok"] * LEARNED_AFTER + ["late"])

    async def story():
        async with server.store(Policy(answer_s=5.0)) as store:
            await store.put_new("name", b"0123456789")
            for _ in range(LEARNED_AFTER):
                await store.read("name")
            assert bytes(await store.read("name")) == b"0123456789"

    asyncio.run(story())
    assert server.asked["GET"] == LEARNED_AFTER + 2


def test_hedging_waits_until_it_has_learned_and_keeps_its_budget():
    hedging = Hedging()
    for _ in range(LEARNED_AFTER - 1):
        hedging.saw(0.1)
    assert hedging.late_s is None
    hedging.saw(0.1)
    assert hedging.late_s == 0.1
    assert hedging.spend()
    granted = 0
    for _ in range(1000):
        hedging.saw(0.001)
        granted += hedging.spend()
    assert 45 <= granted <= 52
    assert hedging.late_s == EARLIEST_S


def test_an_endpoint_that_nobody_answers_gives_one_line_with_the_next_step():
    (port,) = free_ports(1)
    store = open_store(
        f"s3://bucket/some/prefix?endpoint=http://127.0.0.1:{port}", clock=SystemClock(), chance=Chance(), environ=LOGIN
    )
    with pytest.raises(Unavailable) as caught:
        asyncio.run(check_store(store))
    line = str(caught.value)
    assert f"s3://bucket/some/prefix at http://127.0.0.1:{port} cannot be reached" in line
    assert "is it running" in line
    assert "\n" not in line
    assert "hush" not in line


def test_wrong_credentials_give_one_line_with_the_next_step_and_no_secret(seaweedfs_server):
    for login in (
        {**seaweedfs_server.environ, "AWS_SECRET_ACCESS_KEY": "hush-wrong"},
        {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": SECRET_KEY},
    ):
        store = open_store(seaweedfs_server.url("x"), clock=SystemClock(), chance=Chance(), environ=login)
        with pytest.raises(Refused, match="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") as caught:
            asyncio.run(check_store(store))
        line = str(caught.value)
        assert seaweedfs_server.endpoint in line
        assert "hush" not in line
        assert "\n" not in line


def test_a_bucket_that_is_not_there_is_named(moto_server):
    store = open_store(
        moto_server.url("x", bucket="no-such-bucket"), clock=SystemClock(), chance=Chance(), environ=moto_server.environ
    )
    with pytest.raises(Refused, match=r"no such bucket: s3://no-such-bucket/x at .*make it"):
        asyncio.run(check_store(store))
    with pytest.raises(Refused, match="no such bucket") as caught:
        asyncio.run(store.read("a"))
    assert not isinstance(caught.value, NotThere)


def test_a_good_bucket_passes_the_check_and_nothing_is_left_of_it(moto_server):
    store = open_store(
        moto_server.url("checked") + "&latency=s3-express",
        clock=SystemClock(),
        chance=Chance(),
        environ=moto_server.environ,
    )

    async def story():
        await check_store(store)
        assert [facts async for facts in store.list("")] == []

    asyncio.run(story())


def test_a_server_that_sorts_in_its_own_way_is_found_out(seaweedfs_server):
    def opened(more):
        url = seaweedfs_server.url("checked") + more
        return open_store(url, clock=SystemClock(), chance=Chance(), environ=seaweedfs_server.environ)

    with pytest.raises(Refused, match="add unordered=true"):
        asyncio.run(check_store(opened("")))
    asyncio.run(check_store(opened("&unordered=true")))


def test_without_the_package_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(Refused, match=r"pip install 'runnel\[s3\]'"):
        open_store("s3://bucket", clock=SystemClock(), chance=Chance(), environ={})
