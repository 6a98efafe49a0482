"""The pure pieces of streams in buckets: addresses, attributes, records, transactions, bootstrap."""

import base64
import email
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.api.buckets import bootstrap, records
from runnel.api.buckets.addresses import KEY_BYTES_MAX, address, bucket_id
from runnel.api.buckets.attributes import ATTRIBUTES_BYTES_MAX, attributes_body, parse_attributes
from runnel.api.buckets.transactions import OPERATIONS_MAX, parse_transaction
from runnel.api.messages import Request
from runnel.api.streams.asks import ProducerAsk
from runnel.errors import NotThere, Refused
from runnel.metadata.buckets import bucket_of, placement_of
from runnel.world.chance import Chance

text = st.text(max_size=30)
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


class TestAddresses:
    @pytest.mark.parametrize("bucket", ["abc", "Demo", "de mo", "a" * 65, "", "demo/", "demö"])
    def test_a_bucket_has_a_plain_name(self, bucket):
        with pytest.raises(Refused):
            bucket_id(bucket)

    def test_what_leads_elsewhere_is_no_bucket(self):
        with pytest.raises(Refused, match="choose another"):
            bucket_id("healthz", frozenset({"healthz"}))
        with pytest.raises(NotThere):
            bucket_id("v1-stream")

    @pytest.mark.parametrize("stream", ["", "a/b", "a..b", "\0", "streams", "a\nb", "x" * 122])
    def test_a_stream_has_a_safe_name(self, stream):
        with pytest.raises(Refused):
            address("demo", stream)

    @pytest.mark.parametrize("stream", ["$transaction", "attrs", "append-batch", "bootstrap", "retention", "snapshot"])
    def test_names_of_what_lies_below_a_stream_are_kept_free_beside_affinity_keys(self, stream):
        with pytest.raises(Refused):
            address("demo", stream, "run")
        assert address("demo", stream).name == f"demo/{stream}"

    @given(st.text(st.characters(exclude_characters="/."), min_size=1, max_size=20), st.booleans())
    def test_what_is_accepted_is_placed_as_the_engine_places_it(self, key, paired):
        try:
            found = address("demo", "s", key) if paired else address("demo", key)
        except Refused:
            return
        assert bucket_of(found.name) == "demo"
        assert found.placement == placement_of(found.name)
        assert len(found.name.encode()) <= KEY_BYTES_MAX


class TestAttributes:
    def test_only_title_and_metadata_are_kept(self):
        assert parse_attributes(b'{"b":1,"metadata":{"z":1,"a":[2]},"title":"t"}') == (
            b'{"metadata":{"a":[2],"z":1},"title":"t"}'
        )
        assert parse_attributes(b'{"other": 1}') == parse_attributes(b"{}") == b""
        assert attributes_body(b"") == b"{}"

    @pytest.mark.parametrize(
        "body",
        [b"", b"[]", b"1", b'{"title":1}', b'{"metadata":[]}', b"\xff", b'{"metadata":{"a":NaN}}', b"[" * 5000],
    )
    def test_what_is_no_document_is_refused(self, body):
        with pytest.raises(Refused):
            parse_attributes(body)

    def test_there_is_a_largest_size_before_and_after_writing_it_out(self):
        with pytest.raises(Refused, match="at most"):
            parse_attributes(b" " * (ATTRIBUTES_BYTES_MAX + 1))
        with pytest.raises(Refused, match="written out"):
            parse_attributes(json.dumps({"title": "é" * 8000}, ensure_ascii=False).encode())

    @given(st.dictionaries(text, documents, max_size=4))
    def test_reading_what_was_written_changes_nothing(self, metadata):
        once = parse_attributes(json.dumps({"metadata": metadata}).encode())
        assert parse_attributes(once or b"{}") == once
        assert json.loads(once)["metadata"] == metadata


def asked(query):
    return records.record_ask(Request("GET", "/demo/a", query, {}, b""))


class TestRecords:
    def test_where_to_begin(self):
        assert asked("offset=-1") is None
        assert records.first_record(asked("record=3"), 2, 9) == 3
        assert records.first_record(asked("record=now"), 2, 9) == 9
        assert records.first_record(asked("record=9"), 2, 9) == 9
        assert records.first_record(asked("tail_records=4"), 2, 9) == 5
        assert records.first_record(asked("tail_records=40"), 2, 9) == 2
        assert records.first_record(asked("tail_records=0"), 2, 9) == 9

    def test_a_record_that_is_gone_and_one_that_is_not_there_yet(self):
        with pytest.raises(records.RecordGone):
            records.first_record(asked("record=1"), 2, 9)
        with pytest.raises(Refused, match="next is 9"):
            records.first_record(asked("record=10"), 2, 9)

    @pytest.mark.parametrize(
        "query",
        [
            "record=1&tail_records=1", "record=1&offset=-1", "record=1&max_bytes=5", "max_records=5",
            "record_view=envelope", "record=-1", "record=x", "record=", "tail_records=now", "record=1&max_records=0",
            "record=1&record_view=other", "record=1&record_view=", "record=1&record=2", "tail_records=01",
        ],
    )  # fmt: skip
    def test_what_cannot_be_asked_together_is_refused(self, query):
        with pytest.raises(Refused):
            asked(query)

    @given(st.lists(documents, max_size=6), st.integers(0, 10**12))
    def test_lines_and_envelopes_carry_the_values(self, values, first):
        messages = [json.dumps(value, indent=1).encode() for value in values]
        found = records.lines(messages).splitlines()
        assert [json.loads(line) for line in found] == values
        wrapped = [json.loads(line) for line in records.envelopes(first, messages).splitlines()]
        assert wrapped == [{"record": first + at, "value": value} for at, value in enumerate(values)]


def operation(**more):
    return {"stream": "a", "content_type": "text/plain", "payload_base64": base64.b64encode(b"x").decode(), **more}


class TestTransactions:
    def test_an_operation_is_an_append(self):
        producer = {"producer_id": "p", "producer_epoch": 1, "producer_seq": 2}
        whole = operation(close_after=True, stream_seq="s", record_match=7, producer=producer)
        (found,) = parse_transaction(json.dumps({"operations": [whole]}).encode())
        assert (found.stream, found.ask.body, found.ask.close, found.ask.seq) == ("a", b"x", True, "s")
        assert (found.ask.record_match, found.ask.producer) == (7, ProducerAsk("p", 1, 2))

    @pytest.mark.parametrize(
        "document",
        [
            [], {}, {"operations": []}, {"operations": [operation()] * (OPERATIONS_MAX + 1)},
            {"operations": [operation(payload_base64="!")]}, {"operations": [operation(payload_base64="")]},
            {"operations": [operation(content_type="")]}, {"operations": [operation(record_match=-1)]},
            {"operations": [operation(stream_seq="")]}, {"operations": [operation(unknown=1)]},
            {"operations": [operation(producer={"producer_id": "p"})]},
            {"operations": [operation(producer={"producer_id": "", "producer_epoch": 0, "producer_seq": 0})]},
            {"operations": [operation(producer={"producer_id": "p", "producer_epoch": 0, "producer_seq": 2**53})]},
        ],
    )  # fmt: skip
    def test_what_is_no_transaction_is_refused(self, document):
        with pytest.raises(Refused):
            parse_transaction(json.dumps(document).encode())

    @given(st.binary(max_size=60))
    def test_garbage_is_refused_and_nothing_else(self, body):
        with pytest.raises(Refused):
            parse_transaction(body)


@given(st.lists(st.binary(max_size=40), max_size=5), st.integers(0, 2**32))
def test_parts_of_a_bootstrap_are_told_apart_by_a_mime_parser(bodies, seed):
    boundary = bootstrap.draw_boundary(Chance(seed))
    whole = bootstrap.empty_part(boundary)
    whole += b"".join(bootstrap.part(boundary, "application/json", body) for body in bodies) + bootstrap.end(boundary)
    found = whole.split(b"--" + boundary.encode())
    assert found[-1] == b"--\r\n"
    assert [part.partition(b"\r\n\r\n")[2][:-2] for part in found[2:-1]] == bodies
    head = b"Content-Type: multipart/mixed; boundary=" + boundary.encode() + b"\r\n\r\n"
    assert len(email.message_from_bytes(head + whole).get_payload()) == len(bodies) + 1
