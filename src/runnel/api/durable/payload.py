"""What HTTP readers and writers call bytes, and the log calls records.

An append of bytes is one record without a key; a JSON message is one. What comes back is the values, one behind the
other, or as one array. Kafka producers may write what they like into a JSON stream: a value that is no JSON reaches
JSON readers as a string, so that one bad record never breaks the array around it; a missing value is null.
"""

from collections.abc import Iterator, Sequence

import msgspec

from runnel.api.durable.chunks import Chunk
from runnel.api.streams import json_mode
from runnel.codec.records import Record, build_batch, read_records
from runnel.engine.named import Body
from runnel.errors import Refused

_is_json = msgspec.json.Decoder(msgspec.Raw).decode


def sealed(values: Sequence[bytes | memoryview], now_ms: int) -> Body:
    """Values as one batch."""
    return Body(build_batch([Record(None, bytes(value), (), now_ms) for value in values]), len(values), now_ms)


def values_in(body: bytes, *, json: bool) -> Sequence[bytes | memoryview]:
    """What an append's body holds."""
    return json_mode.split(body) if json else [body]


def chunk_of(data: bytes | bytearray, start: int, behind: int, *, json: bool) -> Chunk:
    """A reader's chunk from sealed batches; the first may begin before `start`, as reads have it."""
    values = list(_values(data, start, json=json))
    return Chunk(start, behind, json_mode.join(values) if json else b"".join(values), len(values))


def _values(data: bytes | bytearray, start: int, *, json: bool) -> Iterator[bytes]:
    for record in read_records(data):
        if record.offset >= start:
            yield as_json(record.value) if json else record.value or b""


def as_json(value: bytes | None) -> bytes:
    """A value as JSON, whoever wrote it."""
    if value is None:
        return b"null"
    try:
        value.decode()
        _is_json(value)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return _as_a_string(value)
    return value


def _as_a_string(value: bytes) -> bytes:
    try:
        (message,) = json_mode.split(b"[%b]" % value)
    except (Refused, ValueError):
        return msgspec.json.encode(value.decode(errors="replace"))
    return bytes(message)
