"""Events of a live tail.

A payload may hold anything; in an event stream every CR, LF or CRLF ends a line. So each line of a payload becomes a
`data:` line of its own, and no payload can begin an event that we did not write. Readers take one space away after the
colon if there is one: a line that begins with a space is given one more, all others none.

`text/*` and JSON travel as UTF-8 (bytes that are none become U+FFFD, as browsers would have it), everything else as
base64 with `Stream-SSE-Data-Encoding: base64`. A control event follows every data event and is never encoded.
"""

import json
from binascii import b2a_base64

HEARTBEAT = b":\n\n"
CONTENT_TYPE = "text/event-stream"


def _lines(payload: bytes) -> bytes:
    if b"\r" in payload:
        payload = payload.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b" " in payload[:1] or b"\n " in payload:
        payload = (b"\n" + payload).replace(b"\n ", b"\n  ")[1:]
    return b"data:" + payload.replace(b"\n", b"\ndata:") if b"\n" in payload else b"data:" + payload


def data_event(payload: bytes, *, binary: bool) -> bytes:
    if binary:
        return b"event: data\ndata:%b\n\n" % b2a_base64(payload, newline=False)
    try:
        payload.decode()
    except UnicodeDecodeError:
        payload = payload.decode(errors="replace").encode()
    return b"event: data\n%b\n\n" % _lines(payload)


def message_event(offset: int, payload: bytes) -> bytes:
    """A record as an event without a name, which is what a page's `onmessage` hears; its offset is the event's id."""
    try:
        payload.decode()
    except UnicodeDecodeError:
        payload = payload.decode(errors="replace").encode()
    return b"id: %d\n%b\n\n" % (offset, _lines(payload))


def control_event(next_offset: str, *, cursor: str | None, up_to_date: bool, closed: bool) -> bytes:
    """Where the reader is now. `closed` is the end: then neither a cursor nor `upToDate` is said."""
    facts: dict[str, str | bool] = {"streamNextOffset": next_offset}
    if closed:
        facts["streamClosed"] = True
    else:
        if cursor is not None:
            facts["streamCursor"] = cursor
        if up_to_date:
            facts["upToDate"] = True
    return b"event: control\ndata:%b\n\n" % json.dumps(facts, separators=(",", ":")).encode()
