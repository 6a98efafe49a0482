"""Transactions: appends to several streams of one affinity key, all of them or none. What is asked, and what is told.

{"operations": [{"stream": "journal", "content_type": "application/json", "payload_base64": "…",
"record_match": 44, "close_after": false, "stream_seq": "…",
"producer": {"producer_id": "…", "producer_epoch": 0, "producer_seq": 7}}]}
"""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import msgspec

from runnel.api.streams.asks import INTEGER_MAX, PRODUCER_ID_CHARACTERS_MAX, SEQ_CHARACTERS_MAX, AppendAsk, ProducerAsk
from runnel.errors import Refused

OPERATIONS_MAX = 64
TOKEN = "group-append-transaction-v1"  # noqa: S105  a capability's name, no secret
AFFINITY_TOKEN = "path-affinity-v1"  # noqa: S105  the same


class _Producer(msgspec.Struct, forbid_unknown_fields=True):
    producer_id: str
    producer_epoch: int
    producer_seq: int


class _Operation(msgspec.Struct, forbid_unknown_fields=True):
    stream: str
    payload_base64: str
    content_type: str
    close_after: bool = False
    stream_seq: str | None = None
    record_match: int | None = None
    producer: _Producer | None = None


class _Transaction(msgspec.Struct, forbid_unknown_fields=True):
    operations: list[_Operation]


@dataclass(frozen=True, slots=True)
class Operation:
    """One append of a transaction."""

    stream: str
    ask: AppendAsk


_decode = msgspec.json.Decoder(_Transaction).decode


def parse_transaction(body: bytes) -> list[Operation]:
    try:
        asked = _decode(body).operations
    except (msgspec.DecodeError, RecursionError) as error:
        raise Refused(f"the body is not a transaction: {str(error)[:200]}") from None
    if not 0 < len(asked) <= OPERATIONS_MAX:
        raise Refused(f"a transaction has 1 to {OPERATIONS_MAX} operations, not {len(asked)}")
    return [_operation(index, each) for index, each in enumerate(asked)]


def _operation(index: int, asked: _Operation) -> Operation:
    where = f"operation {index}"
    try:
        payload = base64.b64decode(asked.payload_base64, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(f"{where}: payload_base64 is not base64: {error}") from None
    if not payload:
        raise Refused(f"{where} is empty: send bytes")
    if not asked.content_type:
        raise Refused(f"{where}: content_type is empty: send the stream's own")
    if asked.stream_seq is not None and not 0 < len(asked.stream_seq) <= SEQ_CHARACTERS_MAX:
        raise Refused(f"{where}: stream_seq has 1 to {SEQ_CHARACTERS_MAX} characters")
    if asked.record_match is not None:
        _counter(f"{where}: record_match", asked.record_match)
    producer = None
    if asked.producer is not None:
        if not 0 < len(asked.producer.producer_id) <= PRODUCER_ID_CHARACTERS_MAX:
            raise Refused(f"{where}: producer_id has 1 to {PRODUCER_ID_CHARACTERS_MAX} characters")
        _counter(f"{where}: producer_epoch", asked.producer.producer_epoch)
        _counter(f"{where}: producer_seq", asked.producer.producer_seq)
        producer = ProducerAsk(asked.producer.producer_id, asked.producer.producer_epoch, asked.producer.producer_seq)
    ask = AppendAsk(payload, asked.content_type, asked.close_after, producer, asked.stream_seq, asked.record_match)
    return Operation(asked.stream, ask)


def _counter(name: str, number: Any) -> None:
    if not 0 <= number <= INTEGER_MAX:
        raise Refused(f"{name} is {number}, not a whole number from 0 to {INTEGER_MAX}")
