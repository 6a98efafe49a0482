import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.errors import Refused
from runnel.ui.cli.kafka.formats import (
    FORMATS,
    Reading,
    Writing,
    header_of,
    line_of,
    packed,
    separator_of,
    unwrapped,
    wrapped,
)


class Message:
    """What librdkafka hands over, as far as it is printed."""

    def __init__(self, key=None, value=None, headers=None, timestamp=(1, 1_700_000_000_123), place=("t", 2, 9)):
        self.facts = key, value, headers, timestamp, place

    def key(self):
        return self.facts[0]

    def value(self):
        return self.facts[1]

    def headers(self):
        return self.facts[2]

    def timestamp(self):
        return self.facts[3]

    def topic(self):
        return self.facts[4][0]

    def partition(self):
        return self.facts[4][1]

    def offset(self):
        return self.facts[4][2]


@given(
    key=st.none() | st.binary(),
    value=st.none() | st.binary(),
    headers=st.lists(st.tuples(st.text(), st.none() | st.binary()), max_size=3),
    form=st.sampled_from(["text", "hex", "base64"]),
)
def test_what_is_printed_as_json_is_read_back_to_the_byte(key, value, headers, form):
    line = Writing(format=form, key_format=form).object(Message(key, value, headers))
    record = Reading(format=form, key_format=form).object(line)
    assert (record.key, record.value, list(record.headers)) == (key, value, headers)
    assert record.partition == 2
    assert record.timestamp == 1_700_000_000_123
    assert line.count(b"\n") == 1


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_a_json_value_is_put_in_and_taken_out_as_it_is(value):
    content = json.dumps(value).encode()
    assert wrapped(content, "json") == value
    if value is not None:
        assert json.loads(unwrapped(value, "json", "value")) == value


@given(st.binary(), st.sampled_from(["text", "hex", "base64"]))
def test_a_line_holds_any_bytes_in_a_format_made_for_them(content, form):
    assert packed(line_of(content, form, b"null"), form, "value") == content


@pytest.mark.parametrize("form", FORMATS)
def test_no_value_is_told_from_an_empty_one(form):
    assert wrapped(None, form) is None
    assert unwrapped(None, form, "value") is None
    assert line_of(None, form, b"NONE") == b"NONE"
    if form != "json":
        assert wrapped(b"", form) == ""
        assert unwrapped("", form, "value") == b""


def test_a_line_is_split_at_the_first_separator():
    reading = Reading(key_separator=b"::", null=b"-", headers=(("h", b"1"),))
    record = reading.record(b"a::b::c")
    assert (record.key, record.value, record.headers) == (b"a", b"b::c", (("h", b"1"),))
    assert (reading.record(b"-::-").key, reading.record(b"-::-").value) == (None, None)
    assert (reading.record(b"::").key, reading.record(b"::").value) == (b"", b"")
    with pytest.raises(Refused, match="no key separator '::' in it"):
        reading.record(b"a:b")


@pytest.mark.parametrize(
    ("reading", "line", "says"),
    [
        (Reading(format="hex"), b"0g", "the value is not hex"),
        (Reading(format="base64"), b"a", "the value is not base64"),
        (Reading(format="base64"), b"YQ==\xff", "the value is not base64"),
        (Reading(format="json"), b"{", "the value is not JSON"),
        (Reading(format="json"), b"\xff", "the value is not JSON"),
        (Reading(key_format="hex", key_separator=b":"), b"x:1", "the key is not hex"),
    ],
)
def test_a_line_that_does_not_fit_its_format_is_refused(reading, line, says):
    with pytest.raises(Refused, match=says):
        reading.record(line)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"vulue": 1}', "'vulue' is none of key, value"),
        (b'{"value": "x", "partition": "a"}', "partition 'a'"),
        (b'{"value": "x", "partition": true}', "partition True"),
        (b'{"value": "x", "timestamp": -1}', "timestamp -1"),
        (b'{"value": "x", "timestamp": "soon"}', "'soon' is no place"),
        (b'{"value": "x", "headers": 3}', "headers are no pairs"),
        (b'{"value": "x", "headers": [["a"]]}', "is no pair"),
        (b'{"value": "x", "headers": [[1, "a"]]}', "is no pair"),
        (b'{"value": {"base64": "?"}}', "not base64"),
    ],
)
def test_an_object_that_is_no_record_is_refused(line, says):
    with pytest.raises(Refused, match=says):
        Reading().object(line)


def test_what_is_printed_stands_before_the_value_in_order():
    writing = Writing(timestamps=True, places=True, headers=True, keys=True, separator=b"|", end=b";")
    message = Message(b"k", b"v", [("a", b"1"), ("b", None)])
    assert writing.line(message) == b"2023-11-14T22:13:20.123Z|t[2]@9|a=1,b=|k|v;"
    assert Writing(keys=True).line(Message(None, None)) == b"null\tnull\n"
    assert Writing().line(Message(None, b"\xff\n")) == b"\xff\n\n"
    assert Writing(timestamps=True).line(Message(None, b"", timestamp=(0, -1))) == b"-\t\n"


def test_a_record_that_is_not_in_the_format_asked_for_says_how_to_read_it():
    with pytest.raises(Refused, match="its key is not JSON: read it with --key-format text"):
        Writing(key_format="json").object(Message(b"k", b"1"))


def test_headers_and_separators_as_they_are_typed():
    assert header_of("a=b=c") == ("a", b"b=c")
    assert header_of("a=") == ("a", b"")
    assert header_of("a") == ("a", None)
    with pytest.raises(Refused, match="write NAME=VALUE"):
        header_of("=b")
    assert separator_of(r"\t") == b"\t"
    assert separator_of(r"\x00") == b"\0"
    assert separator_of("→") == "→".encode()
    with pytest.raises(Refused, match="at least one character"):
        separator_of("")
    with pytest.raises(Refused, match="separator"):
        separator_of("\\x")
