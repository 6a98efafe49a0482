"""The protocol's pure pieces, with the traps that the published tests and the field are known for."""

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.api.messages import Request
from runnel.api.streams import answers, asks, caching, content_types, frames, json_mode, names, offsets, sse
from runnel.api.streams.answers import Appended, Described, Range
from runnel.api.streams.asks import ForkAsk, Live, ProducerAsk
from runnel.api.streams.offsets import Place
from runnel.errors import Refused
from runnel.metadata.producers import Verdict
from runnel.world.chance import Chance


def request(method: str = "GET", query: str = "", body: bytes = b"", **headers: str) -> Request:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Request(method, "/v1/stream/x", query, named, body)


# --- offsets ---------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, offsets.OFFSET_MAX), st.integers(0, offsets.OFFSET_MAX)), min_size=2))
def test_tokens_sort_as_places_do_and_lead_back_to_them(places: list[tuple[int, int]]) -> None:
    tokens = [offsets.mint(*place) for place in places]
    assert sorted(tokens) == [offsets.mint(*place) for place in sorted(places)]
    assert [offsets.parse(token) for token in tokens] == places
    assert not any(set(token) & set(",&=?/") for token in tokens)


def test_the_beginning_is_spelled_as_the_reference_spells_it() -> None:
    assert offsets.mint(0) == "0000000000000000_0000000000000000"
    assert offsets.parse("00000000000000000042") == Place(42)


@pytest.mark.parametrize(
    "token",
    [
        "", " ", "5", "05", "-2", "--1", "NOW", "Now", "-1 ", "now\n", "0_0", "+000000000000000_0000000000000000",
        "0000000000000000_0000000000000000\n", "0000000000000000_0000000000000000 ", "0000000000000000,0000000000000000",
        "../0000000000000000_0000000000000000", "0000000000000000_000000000000000\x00", "99999999999999999999",
        "\u0660" * 16 + "_0000000000000000", "0000000000000000_0000000000000000_0000000000000000", "0x10", "1e3",
    ],
)  # fmt: skip
def test_no_other_token_is_an_offset(token: str) -> None:
    with pytest.raises(Refused):
        offsets.parse_wanted(token)


@given(st.text())
def test_no_text_breaks_the_parser(token: str) -> None:
    try:
        place = offsets.parse_wanted(token)
    except Refused:
        return
    assert (
        place is None or place == offsets.BEGINNING or token.startswith(offsets.mint(*place)[:16]) or len(token) == 20
    )


def test_nothing_and_minus_one_are_the_beginning_and_now_is_the_tail() -> None:
    assert offsets.parse_wanted(None) == offsets.parse_wanted("-1") == Place(0)
    assert offsets.parse_wanted("now") is None


# --- content types ---------------------------------------------------------------------------------------------------


def test_content_types_are_compared_without_case_and_parameters() -> None:
    assert content_types.same_type("application/json; charset=utf-8", "Application/JSON")
    assert not content_types.same_type("text/plain", "text/html")
    assert content_types.is_json("application/json;charset=utf-8")
    assert not content_types.is_json("application/jsonl")
    assert content_types.is_text("TEXT/csv")
    assert not content_types.is_text("application/xml")


@pytest.mark.parametrize(
    "text", [None, "", " ", "nonsense", "/", "a/", "a/b\x00", "a/b; \xe9", "a" * 300 + "/b", "a/b c"]
)
def test_what_is_no_content_type_becomes_the_default(text: str | None) -> None:
    assert content_types.created_type(text) == "application/octet-stream"


def test_a_content_type_stays_as_it_was_sent() -> None:
    assert content_types.created_type("Text/Plain; Charset=UTF-8") == "Text/Plain; Charset=UTF-8"


# --- JSON ------------------------------------------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(VALUES, max_size=5), st.sampled_from([None, 0, 2]), st.booleans())
def test_an_array_is_opened_one_level_and_no_further(values: list[Any], indent: int | None, ascii_only: bool) -> None:
    body = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    messages = json_mode.split(body)
    assert [json.loads(bytes(message)) for message in messages] == values
    assert json.loads(json_mode.join(messages)) == values


@given(VALUES.filter(lambda value: not isinstance(value, list)))
def test_any_other_value_is_one_message(value: Any) -> None:
    body = json.dumps(value).encode()
    assert json_mode.split(b" \n" + body + b"\t ") == [body]


def test_messages_keep_the_bytes_that_were_sent() -> None:
    body = b'[ {"a" : 1.0,\n "a":2} , "\\u00e9" , 12345678901234567890123 ]'
    assert json_mode.split(body) == [b'{"a" : 1.0,\n "a":2}', b'"\\u00e9"', b"12345678901234567890123"]
    assert json_mode.one_line(b'{"a" : 1.0,\r\n "a":2}') == b'{"a" : 1.0,   "a":2}'


def test_half_a_surrogate_pair_is_json_as_javascript_writes_it() -> None:
    body = b'[1, "\\ud800", {"a": ["\\udc00"]} ,2]'
    assert json_mode.split(body) == [b"1", b'"\\ud800"', b'{"a": ["\\udc00"]}', b"2"]
    assert json_mode.split(b' "\\ud800" ') == [b'"\\ud800"']


def test_an_empty_array_has_no_messages() -> None:
    assert json_mode.split(b" [ ] ") == []
    assert json_mode.join([]) == b"[]"


@pytest.mark.parametrize(
    "body",
    [
        b"", b" ", b"nul", b"[1,]", b"[1 2]", b"1 2", b"[1]x", b"[", b"]", b'{"a":1,}', b"{1:2}", b"['a']", b"[01]", b"NaN",
        b"[Infinity]", b"-", b"[1.]", b"[.5]", b"[+1]", b'"\x01"', b'"\xff"', b'{"a":"\xed\xa0\x80"}', b'"\\x"', b'["\\u12"]',
        b"\xef\xbb\xbf[1]", b'["\\ud800"', b'["\\ud800",]', b'["\\ud800"]]', b'["\\ud800" 1]', b'["\\ud800", NaN]', b"[" * 100_000,
        b"[1]\x00", b'"\\ud800" "\\ud800"',
    ],
)  # fmt: skip
def test_what_is_not_json_is_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        json_mode.split(body)


@given(st.binary(max_size=40))
def test_no_bytes_break_the_splitter(body: bytes) -> None:
    try:
        messages = json_mode.split(body)
    except Refused:
        with pytest.raises(ValueError):
            json.loads(body.decode(), parse_constant=int)
        return
    whole = json.loads(body)
    assert [json.loads(bytes(message)) for message in messages] == (whole if isinstance(whole, list) else [whole])


# --- asks ------------------------------------------------------------------------------------------------------------


def test_a_plain_put_makes_an_open_stream_of_bytes() -> None:
    ask = asks.create_ask(request("PUT"))
    assert (ask.content_type, ask.closed, ask.fork, ask.ttl_seconds) == ("application/octet-stream", False, None, None)


@pytest.mark.parametrize("text", ["", "-1", "+1", "01", "1.5", "1e3", " 1", "1 ", "0x10", "abc", "9" * 18, "\uff19"])
def test_a_ttl_is_a_plain_decimal(text: str) -> None:
    with pytest.raises(Refused):
        asks.create_ask(request("PUT", stream_ttl=text))


@pytest.mark.parametrize("text", ["0", "1", "3600", "10000000000"])
def test_a_plain_decimal_is_a_ttl(text: str) -> None:
    assert asks.create_ask(request("PUT", stream_ttl=text)).ttl_seconds == int(text)


def test_a_ttl_and_an_expiry_exclude_each_other() -> None:
    with pytest.raises(Refused):
        asks.create_ask(request("PUT", stream_ttl="1", stream_expires_at="2030-01-01T00:00:00Z"))


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-18T22:00:00.123Z", 1795039200123),
        ("2026-11-18T23:00:00+01:00", 1795039200000),
        ("2026-11-18t22:00:00z", 1795039200000),
    ],
)
def test_an_expiry_is_a_moment(text: str, at_ms: int) -> None:
    assert asks.create_ask(request("PUT", stream_expires_at=text)).expires_ms == at_ms
    assert asks.moment_ms("again", asks.moment_text(at_ms)) == at_ms


@pytest.mark.parametrize(
    "text",
    ["", "soon", "2026-11-18", "2026-11-18T22:00:00", "2026-13-18T22:00:00Z", "1795039200", "2026-11-18T25:00:00Z"],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        asks.create_ask(request("PUT", stream_expires_at=text))


@pytest.mark.parametrize(
    ("text", "closed"), [("true", True), ("TRUE", True), ("True", True), ("1", False), ("", False), ("false", False)]
)
def test_only_the_word_true_closes(text: str, closed: bool) -> None:
    assert asks.create_ask(request("PUT", stream_closed=text)).closed is closed


@pytest.mark.parametrize("missing", ["producer_id", "producer_epoch", "producer_seq"])
def test_producer_headers_come_all_or_none(missing: str) -> None:
    headers = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}
    del headers[missing]
    with pytest.raises(Refused):
        asks.append_ask(request("POST", body=b"x", content_type="text/plain", **headers))


@pytest.mark.parametrize(
    ("name", "epoch", "seq"),
    [
        ("", "0", "0"),
        ("p" * 300, "0", "0"),
        ("p", "-1", "0"),
        ("p", "0", "1.5"),
        ("p", "1e3", "0"),
        ("p", "0", "9007199254740992"),
        ("p", "", "0"),
        ("p", "1abc", "0"),
    ],
)
def test_malformed_producer_headers_are_refused(name: str, epoch: str, seq: str) -> None:
    with pytest.raises(Refused):
        asks.append_ask(
            request("POST", body=b"x", content_type="a/b", producer_id=name, producer_epoch=epoch, producer_seq=seq)
        )


def test_a_producer_may_count_as_far_as_javascript_can() -> None:
    ask = asks.append_ask(
        request(
            "POST", body=b"x", content_type="a/b", producer_id="p", producer_epoch="3", producer_seq="9007199254740991"
        )
    )
    assert ask.producer == ProducerAsk("p", 3, 2**53 - 1)


def test_an_append_needs_bytes_or_a_close_and_bytes_need_a_type() -> None:
    with pytest.raises(Refused):
        asks.append_ask(request("POST", content_type="text/plain"))
    with pytest.raises(Refused):
        asks.append_ask(request("POST", body=b"x"))
    assert asks.append_ask(request("POST", stream_closed="true")).close
    assert asks.append_ask(request("POST", stream_closed="true", content_type="wrong/type")).body == b""


def test_a_fork_names_its_source_and_a_sub_offset_needs_an_offset() -> None:
    token = offsets.mint(3)
    ask = asks.create_ask(
        request("PUT", stream_forked_from="/v1/stream/a", stream_fork_offset=token, stream_fork_sub_offset="2")
    )
    assert ask.fork == ForkAsk(source="/v1/stream/a", offset=Place(3), sub_offset=2, offset_text=token)
    assert ask.content_type is None
    tail = asks.create_ask(request("PUT", stream_forked_from="/v1/stream/a", stream_fork_sub_offset="0"))
    assert tail.fork == ForkAsk(source="/v1/stream/a", offset=None, sub_offset=0)
    for headers in (
        {"stream_fork_sub_offset": "0"},
        {"stream_fork_offset": token},
        {"stream_forked_from": ""},
        {"stream_forked_from": "/v1/stream/a", "stream_fork_sub_offset": "1"},
        {"stream_forked_from": "/v1/stream/a", "stream_fork_offset": "5"},
        {"stream_forked_from": "/v1/stream/a", "stream_fork_offset": token, "stream_fork_sub_offset": "05"},
        {"stream_forked_from": "/v1/stream/a", "stream_fork_offset": token, "stream_fork_sub_offset": ""},
    ):
        with pytest.raises(Refused):
            asks.create_ask(request("PUT", **headers))


def test_a_live_read_needs_an_offset_and_gives_one_only_once() -> None:
    for query in (
        "live=sse",
        "live=long-poll",
        "offset=",
        "offset=-1&offset=-1",
        "offset=-1&live=never",
        "offset=-1&live=",
    ):
        with pytest.raises(Refused):
            asks.read_ask(request(query=query))
    ask = asks.read_ask(request(query="offset=now&live=sse&cursor=17&whatever=1"))
    assert (ask.place, ask.live, ask.cursor) == (None, Live.SSE, "17")
    assert asks.read_ask(request()).place == Place(0)


# --- events ----------------------------------------------------------------------------------------------------------


def read_events(stream: bytes) -> list[tuple[str, str]]:
    """An event-stream reader, after the letter of the WHATWG text."""
    events, kind, data = [], "", []
    text = stream.decode().replace("\r\n", "\n").replace("\r", "\n")
    for line in text.split("\n"):
        if not line:
            if data:
                events.append((kind, "\n".join(data)))
            kind, data = "", []
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
    return events


@given(st.text())
def test_text_comes_out_of_an_event_as_it_went_in_but_for_the_kind_of_line_break(text: str) -> None:
    event = sse.data_event(text.encode("utf-8", "replace"), binary=False)
    expected = text.encode("utf-8", "replace").decode().replace("\r\n", "\n").replace("\r", "\n")
    assert read_events(event) == [("data", expected)]


def test_a_payload_cannot_begin_an_event_of_its_own() -> None:
    for line_break in ("\n", "\r", "\r\n", "\n\n", "\r\r"):
        payload = f"a{line_break}event: control{line_break}data: {{}}{line_break}{line_break}"
        assert [kind for kind, _ in read_events(sse.data_event(payload.encode(), binary=False))] == ["data"]


def test_lines_follow_the_colon_without_a_space_unless_they_begin_with_one() -> None:
    assert sse.data_event(b"line1\nline2", binary=False) == b"event: data\ndata:line1\ndata:line2\n\n"
    assert sse.data_event(b" x\n y", binary=False) == b"event: data\ndata:  x\ndata:  y\n\n"
    assert sse.data_event(b"", binary=False) == b"event: data\ndata:\n\n"


@given(st.binary())
def test_bytes_travel_as_base64(payload: bytes) -> None:
    ((kind, data),) = read_events(sse.data_event(payload, binary=True))
    assert kind == "data"
    assert base64.b64decode(data, validate=True) == payload


def test_bytes_that_are_no_text_do_not_break_a_text_stream() -> None:
    assert read_events(sse.data_event(b"a\xff\nb", binary=False)) == [("data", "a\ufffd\nb")]


def test_a_control_event_says_where_the_reader_is() -> None:
    ((kind, data),) = read_events(sse.control_event("7", cursor="12", up_to_date=True, closed=False))
    assert (kind, json.loads(data)) == ("control", {"streamNextOffset": "7", "streamCursor": "12", "upToDate": True})
    ((_, data),) = read_events(sse.control_event("7", cursor="12", up_to_date=True, closed=True))
    assert json.loads(data) == {"streamNextOffset": "7", "streamClosed": True}


# --- caching ---------------------------------------------------------------------------------------------------------


def test_an_etag_changes_when_a_stream_closes_without_new_data() -> None:
    assert caching.etag(7, "-1", "x", closed=False) != caching.etag(7, "-1", "x", closed=True)
    assert caching.etag(7, "-1", "x", closed=False) != caching.etag(8, "-1", "x", closed=False)


@pytest.mark.parametrize(
    ("header", "same"),
    [(None, False), ('"a"', True), ('W/"a"', True), ('"b", "a"', True), ("*", True), ('"b"', False), ("a", False)],
)
def test_if_none_match_is_a_list(header: str | None, same: bool) -> None:
    assert caching.matches(header, '"a"') is same


@given(st.integers(0, 10**13), st.one_of(st.none(), st.integers(0, 10**14).map(str), st.text(max_size=30)))
def test_a_cursor_never_comes_back(now_ms: int, given_cursor: str | None) -> None:
    answer = caching.next_cursor(now_ms, given_cursor, Chance(1))
    assert answer.isascii()
    assert answer.isdigit()
    if given_cursor is not None and given_cursor.isascii() and given_cursor.isdigit() and len(given_cursor) <= 15:
        assert int(answer) > int(given_cursor)
    assert int(answer) >= (now_ms - caching.CURSOR_EPOCH_MS) // 20_000


def test_all_readers_of_one_interval_share_a_cursor() -> None:
    at = caching.CURSOR_EPOCH_MS + 20_000 * 100
    assert {caching.next_cursor(at + ms, "99", Chance()) for ms in (0, 1, 19_999)} == {"100"}


# --- answers ---------------------------------------------------------------------------------------------------------


def append(**headers: str) -> asks.AppendAsk:
    return asks.append_ask(request("POST", body=b"x", content_type="text/plain", **headers))


PRODUCER = {"producer_id": "p", "producer_epoch": "2", "producer_seq": "5"}


def test_a_new_append_is_204_and_a_producers_is_200() -> None:
    assert answers.append_answer(append(), Appended(verdict=Verdict.ACCEPTED, next_offset=9)).status == 204
    answer = answers.append_answer(append(**PRODUCER), Appended(verdict=Verdict.ACCEPTED, next_offset=9))
    assert answer.status == 200
    assert (answer.headers["producer-epoch"], answer.headers["producer-seq"]) == ("2", "5")
    assert answer.headers["stream-next-offset"] == offsets.mint(9)


def test_a_duplicate_tells_the_highest_accepted_sequence() -> None:
    answer = answers.append_answer(
        append(**PRODUCER), Appended(verdict=Verdict.DUPLICATE, next_offset=9, epoch=2, last=8)
    )
    assert (answer.status, answer.headers["producer-seq"]) == (204, "8")


@pytest.mark.parametrize(
    ("verdict", "status", "headers"),
    [
        (Verdict.STREAM_UNKNOWN, 404, {}),
        (Verdict.STREAM_CLOSED, 409, {"stream-closed": "true", "stream-next-offset": offsets.mint(9)}),
        (Verdict.EPOCH_STALE, 403, {"producer-epoch": "4"}),
        (Verdict.EPOCH_MUST_BEGIN_AT_ZERO, 400, {}),
        (Verdict.OUT_OF_ORDER, 409, {"producer-expected-seq": "4", "producer-received-seq": "5"}),
        (Verdict.SEQUENCE_REGRESSED, 409, {}),
        (Verdict.MATCH_FAILED, 412, {"stream-record-next": "9"}),
        (Verdict.OFFSET_UNEXPECTED, 412, {"stream-record-next": "9"}),
    ],
)
def test_every_refusal_has_its_status_and_headers(verdict: Verdict, status: int, headers: dict[str, str]) -> None:
    outcome = Appended(verdict=verdict, next_offset=9, epoch=4, last=3)
    answer = answers.append_answer(append(**PRODUCER), outcome)
    assert answer.status == status
    assert headers.items() <= dict(answer.headers).items()
    assert answer.headers["access-control-allow-origin"] == "*"


def test_there_is_an_answer_to_every_verdict() -> None:
    for verdict in Verdict:
        assert answers.append_answer(append(**PRODUCER), Appended(verdict=verdict, epoch=1)).status < 500


def test_a_stranger_is_told_to_begin_at_zero() -> None:
    answer = answers.append_answer(append(**PRODUCER), Appended(verdict=Verdict.OUT_OF_ORDER))
    assert answer.headers["producer-expected-seq"] == "0"


def found(**more: Any) -> Range:
    facts = {
        "stream": 7,
        "start": "-1",
        "next_offset": 3,
        "content_type": "text/plain",
        "up_to_date": True,
        "closed": False,
    }
    return Range(**{**facts, **more})


def test_closed_is_said_only_where_the_end_is_reached() -> None:
    assert "stream-closed" not in answers.read_answer(found(), b"x", cursor=None, if_none_match=None).headers
    partial = answers.read_answer(found(closed=True, up_to_date=False), b"x", cursor=None, if_none_match=None)
    assert "stream-closed" not in partial.headers
    assert "stream-up-to-date" not in partial.headers
    whole = answers.read_answer(found(closed=True), b"x", cursor=None, if_none_match=None)
    assert whole.headers["stream-closed"] == whole.headers["stream-up-to-date"] == "true"
    assert whole.headers["etag"] != partial.headers["etag"]


def test_a_known_range_is_304_and_the_tail_has_no_etag() -> None:
    tag = answers.read_answer(found(), b"x", cursor=None, if_none_match=None).headers["etag"]
    again = answers.read_answer(found(), b"x", cursor=None, if_none_match=tag)
    assert (again.status, again.body) == (304, b"")
    now = answers.read_answer(found(), b"", cursor=None, if_none_match="*", etag=False)
    assert (now.status, now.headers["cache-control"]) == (200, "no-store")
    assert "etag" not in now.headers


def test_a_wait_without_news_is_204_with_a_cursor() -> None:
    answer = answers.nothing_new_answer(found(), cursor="12")
    assert (answer.status, answer.headers["stream-cursor"], answer.headers["stream-up-to-date"]) == (204, "12", "true")


def test_head_tells_the_configured_window_and_may_not_be_stored() -> None:
    stream = Described(stream=7, next_offset=3, content_type="a/b", closed=True, ttl_seconds=60)
    answer = answers.described_answer(stream)
    assert (answer.headers["stream-ttl"], answer.headers["stream-closed"], answer.headers["cache-control"]) == (
        "60",
        "true",
        "no-store",
    )
    expiring = answers.described_answer(
        Described(stream=7, next_offset=3, content_type="a/b", closed=False, expires_ms=0)
    )
    assert expiring.headers["stream-expires-at"] == "1970-01-01T00:00:00.000Z"


def test_creating_is_201_with_a_location_and_again_200_without() -> None:
    stream = Described(stream=7, next_offset=0, content_type="Text/Plain", closed=False)
    new = answers.created_answer(stream, new=True, location="/v1/stream/x")
    assert (new.status, new.headers["location"], new.headers["content-type"]) == (201, "/v1/stream/x", "Text/Plain")
    again = answers.created_answer(stream, new=False, location="/v1/stream/x")
    assert again.status == 200
    assert "location" not in again.headers


# --- names and frames ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "a//b", "/a", "a/", "streams", "__ds/subscriptions/x", "a\nb", "x" * 2000])
def test_some_paths_name_no_stream(path: str) -> None:
    with pytest.raises(Refused):
        names.stream_name(path)


def test_buckets_and_paths_never_meet() -> None:
    assert names.stream_name("a/b") == "v1-stream/a/b"
    assert names.stream_name("orders", names.bucket_name("shop")) == "shop/orders"
    for bucket in ("abc", "Shop", "a" * 65, "shop/x", "sh op", "shop\n"):
        with pytest.raises(Refused):
            names.bucket_name(bucket)


def test_a_fork_may_name_its_source_by_path_or_whole_address() -> None:
    assert names.fork_source("/v1/stream/a/b", "/v1/stream/") == "a/b"
    assert names.fork_source("http://host:1/v1/stream/a", "/v1/stream/") == "a"
    for header in ("a", "/v1/stream/", "/other/a", "http://host"):
        with pytest.raises(Refused):
            names.fork_source(header, "/v1/stream/")


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=10))
def test_frames_come_apart_as_they_were_put_together(payloads: list[bytes]) -> None:
    body = b"".join(len(payload).to_bytes(4) + payload for payload in payloads)
    assert frames.frames(body) == payloads
    with pytest.raises(Refused):
        frames.frames(body[:-1])


@pytest.mark.parametrize("body", [b"", b"\0\0\0", b"\0\0\0\0", b"\xff\xff\xff\xffabc", (b"\0\0\0\1x") * 513])
def test_malformed_frames_are_refused(body: bytes) -> None:
    with pytest.raises(Refused):
        frames.frames(body)
