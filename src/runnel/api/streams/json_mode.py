"""JSON streams: a body becomes messages, messages become an array.

A top-level array is opened exactly one level; any other value is one message. A message keeps the bytes that were
sent, its white space and the spelling of its numbers included: what Kafka and the tables see is what the producer
wrote. msgspec finds where the elements of an array begin and end without making objects of them (10 µs for a hundred
messages of 230 bytes, where parsing takes 40 and the standard library 160). It checks the grammar but not the UTF-8
inside strings; that is done first, on the whole body.

msgspec refuses the escape of half a surrogate pair, which the grammar allows and JavaScript writes. Such a body takes
the slow way through the standard library.
"""

import json
from collections.abc import Iterable
from typing import NoReturn

import msgspec

from runnel.errors import Refused

Raw = bytes | memoryview

_array = msgspec.json.Decoder(list[msgspec.Raw]).decode
_value = msgspec.json.Decoder(msgspec.Raw).decode
_WHITE = b" \t\n\r"


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_slow = json.JSONDecoder(parse_constant=_constant)


def split(body: bytes) -> list[Raw]:
    """The messages of a body. An empty array has none; whether that is allowed is the caller's question."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Refused(f"the body is not UTF-8 at byte {error.start}") from None
    try:
        if body.lstrip(_WHITE)[:1] == b"[":
            return [bytes(message) for message in _array(body)]
        return [bytes(_value(body))]
    except RecursionError:
        raise Refused("the body is nested too deeply") from None
    except msgspec.DecodeError as error:
        if "\\u" not in text:
            raise Refused(f"the body is not JSON: {str(error)[:200]}") from None
        return _split_slowly(text)


def _split_slowly(text: str) -> list[Raw]:
    try:
        return [message.encode() for message in _found(text)]
    except (ValueError, RecursionError) as error:
        raise Refused(f"the body is not JSON: {str(error)[:200]}") from None


def _found(text: str) -> list[str]:
    at = _skip(text, 0)
    if text[at : at + 1] != "[":
        end = _slow.raw_decode(text, at)[1]
        messages = [text[at:end]]
    else:
        messages, at = [], _skip(text, at + 1)
        more = text[at : at + 1] != "]"
        while more:
            end = _slow.raw_decode(text, at)[1]
            messages.append(text[at:end])
            at = _skip(text, end)
            more = text[at : at + 1] == ","
            at = _skip(text, at + 1) if more else at
        if text[at : at + 1] != "]":
            raise ValueError(f"an array ends with ']' (character {at})")
        end = at + 1
    if _skip(text, end) != len(text):
        raise ValueError(f"something follows the value (character {end})")
    return messages


def _skip(text: str, at: int) -> int:
    while text[at : at + 1] and text[at] in " \t\n\r":
        at += 1
    return at


def join(messages: Iterable[Raw]) -> bytes:
    """Messages as one array; the way back from `split`."""
    return b"[" + b",".join(messages) + b"]"


def one_line(message: Raw) -> bytes:
    """A message for line-wise readers (NDJSON): line breaks in JSON only ever stand between its tokens."""
    return bytes(message).replace(b"\r", b" ").replace(b"\n", b" ")
