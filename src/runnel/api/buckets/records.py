"""Places counted in records, for streams of JSON: the first message is record 0, the next record 1, forever.

Every message is a record of the log, so a record's number is its offset, and nothing has to be kept to know it.

    record=n | record=now | tail_records=k      where to begin; one of them, and no offset
    max_records=m                               whole records, at most so many
    record_view=envelope                        {"record": n, "value": …} instead of the bare value
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from runnel.api.messages import Request
from runnel.api.streams import words
from runnel.api.streams.asks import integer
from runnel.api.streams.json_mode import Raw, one_line
from runnel.errors import Refused

TOKEN = "json-record-coordinates-v1"  # noqa: S105  a capability's name, no secret
NDJSON = "application/x-ndjson"
ENVELOPES = "application/vnd.durable-stream-records+ndjson"
ENVELOPE_TYPE = "application/vnd.durable-stream-record+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAsk:
    """Where a read begins, counted in records. `record` None means the tail; `tail` counts back from there."""

    record: int | None = None
    tail: int | None = None
    most: int | None = None
    envelope: bool = False


class RecordGone(Refused):
    """The record is before the first that is kept."""


def record_ask(request: Request) -> RecordAsk | None:
    """What the query asks in records; None when it asks in offsets or not at all."""
    record, tail = request.ask("record"), request.ask("tail_records")
    most, view = request.ask("max_records"), request.ask("record_view")
    if record is None and tail is None:
        if most is not None or view is not None:
            raise Refused("max_records and record_view need record=… or tail_records=…")
        return None
    if record is not None and tail is not None:
        raise Refused("record and tail_records exclude each other: give one")
    if request.ask("offset") is not None:
        raise Refused("a read begins at an offset or at a record: give one")
    if request.ask("max_bytes") is not None:
        raise Refused("max_bytes may cut a record: with records, use max_records")
    if view not in {None, "envelope"}:
        raise Refused(f"record_view is {view[:40]!r}, not envelope" if view else "record_view is empty")
    limit = None if most is None else integer("max_records", most)
    if limit == 0:
        raise Refused("max_records is at least 1")
    return RecordAsk(
        record=None if record is None or record == "now" else integer("record", record),
        tail=None if tail is None else integer("tail_records", tail),
        most=limit,
        envelope=view is not None,
    )


def first_record(ask: RecordAsk, start: int, end: int) -> int:
    """The record at which the reading begins, in a stream that has [start, end)."""
    if ask.tail is not None:
        return max(start, end - ask.tail)
    if ask.record is None:
        return end
    if ask.record < start:
        raise RecordGone(f"record {ask.record} is gone, the stream begins at {start}")
    if ask.record > end:
        raise Refused(f"record {ask.record} is not there yet, the next is {end}")
    return ask.record


def record_headers(first: int, start: int, following: int) -> dict[str, str]:
    return {
        words.RECORD_FIRST: str(first),
        words.RECORD_START: str(start),
        words.RECORD_NEXT: str(following),
    }


def lines(messages: Iterable[Raw]) -> bytes:
    """NDJSON: each message on a line of its own."""
    return b"".join([one_line(message) + b"\n" for message in messages])


def envelope(record: int, message: Raw) -> bytes:
    return b'{"record":%d,"value":%b}' % (record, one_line(message))


def envelopes(first: int, messages: Sequence[Raw]) -> bytes:
    return b"".join([envelope(first + index, message) + b"\n" for index, message in enumerate(messages)])
