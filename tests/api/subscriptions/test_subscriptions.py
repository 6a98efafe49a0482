"""Subscriptions over HTTP: made, woken, worked on, from any node."""

import asyncio
import json
import re
from base64 import urlsafe_b64decode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from runnel.api.subscriptions import desk as desks
from runnel.api.subscriptions.asks import UrlRejected, check_url
from runnel.api.subscriptions.patterns import fits

ROOT = "/v1/stream/__ds"
JSON = {"content_type": "application/json"}


def at(record):
    return f"{record:016d}_0000000000000000"


async def ask(node, method, path, document=None, token=None):
    headers = {**JSON, **({"authorization": f"Bearer {token}"} if token else {})}
    status, _, body = await node(method, f"{ROOT}/{path}", json.dumps(document or {}).encode(), **headers)
    return status, json.loads(body) if body else None


async def until(node, path, true):
    async with asyncio.timeout(10):
        while not true(found := await ask(node, "GET", path)):  # noqa: ASYNC110  it asks another process, in truth
            await asyncio.sleep(0.01)
    return found[1]


def webhook(hook, **more):
    return {"type": "webhook", "webhook": {"url": hook.url}, "lease_ttl_ms": 1000, **more}


def test_a_webhook_is_told_what_is_new_signed_and_its_word_counts_on_any_node(hooked, run):
    async def story():
        async with hooked(2) as (hook, one, other):
            assert (await ask(other, "PUT", "subscriptions/s", webhook(hook, pattern="events/**")))[0] == 201
            assert (await ask(one, "PUT", "subscriptions/s", webhook(hook, pattern="events/**")))[0] == 200
            assert (await ask(one, "PUT", "subscriptions/s", webhook(hook, pattern="other/*")))[0] == 409
            await other("PUT", "/v1/stream/events/a/b", b"[1,2]", **JSON)
            notice, headers, body = await asyncio.wait_for(hook.told.get(), 10)
            (stream,) = notice["streams"]
            assert (stream["path"], stream["tail_offset"], stream["has_pending"]) == ("events/a/b", at(2), True)
            assert notice["callback_url"] == f"http://cluster{ROOT}/subscriptions/s/callback"
            keys = (await ask(other, "GET", "jwks.json"))[1]["keys"]
            assert keys == (await ask(one, "GET", "jwks.json"))[1]["keys"]
            t, kid, mark = re.fullmatch(r"t=(\d+),kid=([^,]+),ed25519=(.+)", headers["webhook-signature"]).groups()
            assert kid == keys[0]["kid"]
            key = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(keys[0]["x"] + "="))
            key.verify(urlsafe_b64decode(mark + "=="), f"{t}.".encode() + body)
            word = {key: notice[key] for key in ("wake_id", "generation")}
            word |= {"acks": [{"stream": "events/a/b", "offset": at(2)}], "done": True}
            path, token = "subscriptions/s/callback", notice["callback_token"]
            assert (await ask(other, "POST", path, word, "x" + token))[1]["error"]["code"] == "TOKEN_INVALID"
            assert await ask(other, "POST", path, word, token) == (200, {"ok": True, "next_wake": False})
            assert (await ask(one, "POST", path, word, token))[1]["error"]["code"] == "FENCED"
            await one("POST", "/v1/stream/events/a/b", b"3", **JSON)
            assert (await hook.wake())["generation"] == 2

    run(story())


def test_a_webhook_that_fails_is_called_again_and_one_that_says_done_has_acknowledged(hooked, run, monkeypatch):
    monkeypatch.setattr(desks, "RETRY_SECONDS", 0.05)

    async def story():
        async with hooked() as (hook, node):
            hook.answers = [(500, {}), (503, {}), (200, {"done": True})]
            await node("PUT", "/v1/stream/a", b"[1]", **JSON)
            await ask(node, "PUT", "subscriptions/s", webhook(hook, streams=["a"]))
            assert (await ask(node, "GET", "subscriptions/s"))[1]["streams"][0]["acked_offset"] == at(1)
            await node("POST", "/v1/stream/a", b"2", **JSON)
            notices = [await hook.wake() for _ in range(3)]
            assert {notice["generation"] for notice in notices} == {1}
            found = await until(node, "subscriptions/s", lambda found: found[1]["streams"][0]["acked_offset"] == at(2))
            assert found["status"] == "active"

    run(story())


def test_a_wake_nobody_finished_lapses_and_the_next_one_has_the_next_generation(hooked, run):
    async def story():
        async with hooked(2) as (hook, one, other):
            await ask(one, "PUT", "subscriptions/s", webhook(hook, pattern="*"))
            await one("PUT", "/v1/stream/a", b"[1]", **JSON)
            assert (await hook.wake())["generation"] == 1
            one.stop_waking()  # as if it had died: the other finds the lapsed lease
            assert (await hook.wake())["generation"] == 2
            assert (await ask(other, "DELETE", "subscriptions/s"))[0] == 204
            assert (await ask(one, "GET", "subscriptions/s"))[0] == 404

    run(story())


def test_workers_pull_one_at_a_time(hooked, run):
    async def story():
        async with hooked(2) as (_, one, other):
            await one("PUT", "/v1/stream/wakes", **JSON)
            wanted = {"type": "pull-wake", "wake_stream": "wakes", "pattern": "jobs/*"}
            assert (await ask(one, "PUT", "subscriptions/s", wanted))[0] == 201
            claim = "subscriptions/s/claim"
            status, found = await ask(other, "POST", claim, {"worker": "ann"})
            assert (status, found["error"]["code"]) == (409, "NO_PENDING_WORK")
            await other("PUT", "/v1/stream/jobs/a", b"[1]", **JSON)
            async with asyncio.timeout(10):
                while not (events := json.loads((await other("GET", "/v1/stream/wakes"))[2])):  # noqa: ASYNC110  as above
                    await asyncio.sleep(0.01)
            assert (events[0]["type"], events[0]["subscription_id"], events[0]["stream"]) == ("wake", "s", "jobs/a")
            both = await asyncio.gather(
                *(ask(node, "POST", claim, {"worker": name}) for node, name in ((one, "ann"), (other, "bob")))
            )
            (status, claimed), (refused, why) = sorted(both, key=lambda answer: answer[0])
            assert (status, refused, why["error"]["code"]) == (200, 409, "ALREADY_CLAIMED")
            word = {"wake_id": claimed["wake_id"], "generation": claimed["generation"]}
            for offset, code in ((at(5), "INVALID_OFFSET"), ("-1", "INVALID_OFFSET"), (7, "INVALID_REQUEST")):
                acks = {**word, "acks": [{"stream": "jobs/a", "offset": offset}]}
                found = (await ask(other, "POST", "subscriptions/s/ack", acks, claimed["token"]))[1]
                assert found["error"]["code"] == code
            await one("POST", "/v1/stream/jobs/a", b"2", **JSON)
            acks = {**word, "acks": [{"stream": "jobs/a", "offset": at(1)}], "done": True}
            found = await ask(other, "POST", "subscriptions/s/ack", acks, claimed["token"])
            assert found == (200, {"ok": True, "next_wake": True})
            status, claimed = await ask(one, "POST", claim, {"worker": "bob"})
            assert (status, claimed["generation"]) == (200, 2)
            word = {"wake_id": claimed["wake_id"], "generation": 2}
            assert (await ask(one, "POST", "subscriptions/s/release", word, claimed["token"]))[0] == 204

    run(story())


def test_streams_are_named_and_a_bad_ask_is_told_what_is_wrong(hooked, run):
    async def story():
        async with hooked() as (hook, node):
            assert (await ask(node, "PUT", "subscriptions/s", webhook(hook, streams=["manual/a"])))[0] == 201
            assert (await ask(node, "POST", "subscriptions/s/streams", {"streams": ["manual/b"]}))[0] == 204
            assert (await ask(node, "DELETE", "subscriptions/s/streams/manual%2Fa"))[0] == 204
            streams = (await ask(node, "GET", "subscriptions/s"))[1]["streams"]
            assert [(each["path"], each["link_type"]) for each in streams] == [("manual/b", "explicit")]
            for wanted in (
                {},
                {"type": "webhook", "pattern": "a"},
                {"type": "pull-wake", "pattern": "a"},
                webhook(hook),
                webhook(hook, pattern="a", lease_ttl_ms=999),
                webhook(hook, pattern="a", lease_ttl_ms=True),
                webhook(hook, streams="a"),
                webhook(hook, streams=[1]),
            ):
                status, found = await ask(node, "PUT", "subscriptions/t", wanted)
                assert (status, found["error"]["code"]) == (400, "INVALID_REQUEST"), wanted
            status, _, body = await node("PUT", f"{ROOT}/subscriptions/t", b"{", **JSON)
            assert (status, json.loads(body)["error"]["code"]) == (400, "INVALID_REQUEST")
            assert (await ask(node, "POST", "subscriptions/none/claim", {"worker": "x"}))[0] == 404
            assert node.server.mishaps == 0

    run(story())


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/", "http://example.com/", "https://10.0.0.1/", "https://localhost/", "https://a.localhost/",
        "https://169.254.169.254/latest", "https://[::1]/", "https://[::ffff:10.0.0.1]/", "https://user@example.com/",
        "ftp://example.com/", "https://", "https://example.com:99999/", "https://exa mple.com/", "https://a\r\nb/",
        "http://127.0.0.1.example.com/", "https://100.64.0.1/",
    ],
)  # fmt: skip
def test_a_webhook_may_not_lead_inside(url):
    with pytest.raises(UrlRejected):
        check_url(url, local=True)


def test_a_webhook_on_this_machine_is_a_matter_of_settings():
    check_url("http://127.0.0.1:80/", local=True)
    check_url("http://localhost/", local=True)
    check_url("https://example.com/x?y", local=False)
    with pytest.raises(UrlRejected):
        check_url("http://127.0.0.1/", local=False)


@given(st.lists(st.sampled_from(["a", "b", "*", "**"]), max_size=5), st.lists(st.sampled_from("ab"), max_size=5))
def test_patterns_fit_what_the_same_regular_expression_fits(pattern, path):
    pieces = {"*": "[ab]/", "**": "([ab]/)*"}
    expected = re.fullmatch("".join(pieces.get(part, f"{part}/") for part in pattern), "".join(f"{p}/" for p in path))
    assert fits("/".join(pattern), "/".join(path)) == bool(expected)


def test_a_star_can_be_meant():
    assert fits("a/%2A", "a/*")
    assert not fits("a/%2A", "a/b")
