"""Records as lines and as JSON, both ways: pure.

    text      bytes as they are; inside JSON a string, or {"base64": "…"} where they are not UTF-8
    json      a JSON value on one line
    hex, base64

What `runnel consume --json` prints is what `runnel produce --json` takes.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from runnel.errors import Refused
from runnel.ui.cli.kafka.places import moment_of, written

FORMATS = ("text", "json", "hex", "base64")
Header = tuple[str, bytes | None]
_ESCAPES = {b"t": b"\t", b"n": b"\n", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}
FIELDS = ("key", "value", "headers", "partition", "timestamp", "topic", "offset")
"""What a record in JSON may have; the last two are printed and, when read, passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record to be sent. A partition of -1 lets the client choose, a timestamp of 0 is now."""

    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    partition: int = -1
    timestamp: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How lines become records."""

    format: str = "text"
    key_format: str = "text"
    key_separator: bytes | None = None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    null: bytes | None = None
    """The word that stands for no value (and no key), where there is one."""

    def record(self, line: bytes) -> Record:
        """A line that holds a value, or a key and a value."""
        key = self.key
        if self.key_separator is not None:
            before, separator, after = line.partition(self.key_separator)
            if not separator:
                raise Refused(f"no key separator {self.key_separator.decode(errors='replace')!r} in it")
            key = self._bytes(before, self.key_format, "key")
            line = after
        return Record(key=key, value=self._bytes(line, self.format, "value"), headers=self.headers)

    def _bytes(self, text: bytes, form: str, what: str) -> bytes | None:
        return None if self.null is not None and text == self.null else packed(text, form, what)

    def object(self, line: bytes) -> Record:
        """A line that holds one JSON object."""
        try:
            facts = json.loads(line)
        except ValueError as error:
            raise Refused(f"not JSON: {error}") from None
        if not isinstance(facts, dict):
            raise Refused('not a JSON object: write {"value": …} or {"key": …, "value": …, "headers": [["name", "…"]]}')
        unknown = [name for name in facts if name not in FIELDS]
        if unknown:
            raise Refused(f"{unknown[0]!r} is none of {', '.join(FIELDS)}: what a record holds goes into 'value'")
        partition = facts.get("partition", -1)
        if isinstance(partition, bool) or not isinstance(partition, int) or not -1 <= partition < 1 << 31:
            raise Refused(f"partition {partition!r} is not the number of one")
        return Record(
            key=unwrapped(facts["key"], self.key_format, "key") if "key" in facts else self.key,
            value=unwrapped(facts.get("value"), self.format, "value"),
            headers=self.headers + _headers(facts.get("headers") or ()),
            partition=partition,
            timestamp=_timestamp(facts.get("timestamp", 0)),
        )


def packed(text: bytes, form: str, what: str) -> bytes:
    """The bytes that a word in this format stands for."""
    if form == "text":
        return text
    if form == "json":
        try:
            json.loads(text)
        except ValueError as error:
            raise Refused(f"the {what} is not JSON: {error}") from None
        return text
    try:
        return bytes.fromhex(text.decode("ascii")) if form == "hex" else base64.b64decode(text.strip(), validate=True)
    except (ValueError, binascii.Error):
        raise Refused(f"the {what} is not {form}") from None


def unwrapped(value: Any, form: str, what: str) -> bytes | None:
    """The bytes that a value inside a JSON object stands for."""
    if value is None:
        return None
    if form == "json":
        return _dumped(value)
    if isinstance(value, str):
        return packed(value.encode(errors="surrogatepass"), form, what)
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        return packed(value["base64"].encode(), "base64", what)
    if form == "text":
        return _dumped(value)
    raise Refused(f"the {what} is not {form}: write it as a string")


def wrapped(content: bytes | None, form: str, what: str = "value") -> Any:
    """What stands for these bytes inside a JSON object."""
    if content is None:
        return None
    if form == "hex":
        return content.hex()
    if form == "base64":
        return base64.b64encode(content).decode()
    if form == "json":
        return _loaded(content, what)
    try:
        return content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}


def line_of(content: bytes | None, form: str, null: bytes, what: str = "value") -> bytes:
    """What stands for these bytes in a line."""
    if content is None:
        return null
    if form == "hex":
        return content.hex().encode()
    if form == "base64":
        return base64.b64encode(content)
    return _dumped(_loaded(content, what)) if form == "json" else content


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """How records become lines. What is to be seen besides the value stands before it, in the order of the fields."""

    format: str = "text"
    key_format: str = "text"
    timestamps: bool = False
    places: bool = False
    headers: bool = False
    keys: bool = False
    separator: bytes = b"\t"
    end: bytes = b"\n"
    null: bytes = b"null"

    def printer(self, *, as_json: bool) -> Callable[[Any], bytes]:
        return self.object if as_json else self.line

    def line(self, message: Any) -> bytes:
        parts = []
        if self.timestamps:
            kind, moment = message.timestamp()
            parts.append(written(moment).encode() if kind else b"-")
        if self.places:
            parts.append(f"{message.topic()}[{message.partition()}]@{message.offset()}".encode())
        if self.headers:
            shown = (f"{name}={_text(value)}" for name, value in message.headers() or ())
            parts.append(",".join(shown).encode(errors="surrogateescape") or b"-")
        if self.keys:
            parts.append(line_of(message.key(), self.key_format, self.null, "key"))
        parts.append(line_of(message.value(), self.format, self.null))
        return self.separator.join(parts) + self.end

    def object(self, message: Any) -> bytes:
        kind, moment = message.timestamp()
        facts = {
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": moment if kind else None,
            "key": wrapped(message.key(), self.key_format, "key"),
            "value": wrapped(message.value(), self.format),
            "headers": [[name, wrapped(value, "text")] for name, value in message.headers() or ()],
        }
        return _dumped(facts) + b"\n"


def header_of(text: str) -> Header:
    """NAME=VALUE, or NAME for a header without a value."""
    name, sign, value = text.partition("=")
    if not name:
        raise Refused(f"--header {text}: write NAME=VALUE")
    return name, value.encode(errors="surrogateescape") if sign else None


def separator_of(text: str) -> bytes:
    r"""A separator as it was typed: \t, \n, \0 and \xNN are what they are in C."""
    if not text:
        raise Refused("a separator has at least one character")

    def meant(found: re.Match[bytes]) -> bytes:
        if found[1] in _ESCAPES:
            return _ESCAPES[found[1]]
        if len(found[1]) == 3:
            return bytes.fromhex(found[1][1:].decode())
        raise Refused(f"separator {text!r}: after a backslash stands t, n, r, 0, xNN or another backslash")

    return re.sub(rb"\\(x[0-9A-Fa-f]{2}|.?)", meant, text.encode(errors="surrogateescape"))


def _headers(said: Any) -> tuple[Header, ...]:
    """Pairs, or an object where no name comes twice."""
    pairs = list(said.items()) if isinstance(said, Mapping) else said
    if not isinstance(pairs, list | tuple):
        raise Refused('headers are no pairs: write [["name", "value"], …] or {"name": "value", …}')
    found = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise Refused(f'header {json.dumps(pair)} is no pair: write ["name", "value"]')
        found.append((pair[0], unwrapped(pair[1], "text", f"header {pair[0]!r}")))
    return tuple(found)


def _timestamp(said: Any) -> int:
    if said is None:
        return 0
    if isinstance(said, str):
        return moment_of(said)
    if isinstance(said, bool) or not isinstance(said, int) or not 0 <= said < 1 << 63:
        raise Refused(f"timestamp {said!r} is neither milliseconds since 1970 nor such as 2026-11-19T20:00:00Z")
    return said


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="surrogateescape")


def _dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")


def _loaded(content: bytes, what: str) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        raise Refused(
            f"its {what} is not JSON: read it with {'--key-format' if what == 'key' else '--format'} text"
        ) from None
