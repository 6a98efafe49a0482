"""The answer to one request: given once, at any later moment, from any callback.

    respond(Response(204))                     the whole answer
    respond.begin(200, headers)                a streaming answer: then write(...) as often as wanted, then end()

Requests of one connection may be answered in any order; the connection writes the answers in the order of the
requests. A streaming answer that is not first in line yet collects what is written, under the same bound as one whose
reader is slow: `write` says False once the writer should wait for `when_writable`. A writer that goes on regardless
loses its connection at `stream_buffer_bytes_max`, and nobody else notices.

`when_gone` is called once if the client leaves before the answer is finished; `when_draining` when the server begins
to shut down, so that a long wait can end early.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from runnel.api.messages import NO_HEADERS, Response, accepts_gzip, compressible, gzipped, render_head

Chunk = bytes | bytearray | memoryview
Callback = Callable[[], None]


class Line(Protocol):
    """The connection, as an answer sees it."""

    memo: Any
    """What a handler keeps with the connection, once; its `gone()` is called when the connection ends."""

    @property
    def prefix(self) -> str: ...
    @property
    def writable(self) -> bool: ...
    def ready(self, answer: "Answer") -> None: ...
    def flow(self, answer: "Answer", data: bytes) -> bool: ...
    def abort(self) -> None: ...


class Answer:
    """See the module."""

    __slots__ = (
        "_line", "also", "chunked", "close_after", "gzip", "head_only", "held_bytes", "http10", "out", "started", "streaming",
        "when_draining", "when_gone", "when_writable", "whole",
    )  # fmt: skip

    def __init__(
        self, line: Line, *, head_only: bool, close_after: bool, accepted: str | None, held_bytes: int
    ) -> None:
        self._line: Line | None = line
        self.head_only = head_only
        self.close_after = close_after
        self.http10 = False
        self.also: Mapping[str, str] = NO_HEADERS
        """Headers that this answer has whatever becomes of it."""
        self.gzip = accepted
        self.held_bytes = held_bytes
        self.out: list[Any] = []
        self.started = False
        self.streaming = False
        self.chunked = False
        self.whole = False
        self.when_gone: Callback | None = None
        self.when_draining: Callback | None = None
        self.when_writable: Callback | None = None

    @property
    def gone(self) -> bool:
        """The client has left; whatever is written now goes nowhere."""
        return self._line is None

    @property
    def line(self) -> Line | None:
        """The connection, for what is kept with it; None once the client has left."""
        return self._line

    @property
    def writable(self) -> bool:
        """A streaming answer may go on writing."""
        return self._line is not None and self._line.writable

    def __call__(self, response: Response) -> None:
        assert not self.started, "a request is answered once"
        self.started = self.whole = True
        line = self._line
        if line is None:
            return
        headers, body, status = response.headers, response.body, response.status
        if self.also:
            headers = {**headers, **self.also}
        tail = "connection: close\r\n" if self.close_after else "connection: keep-alive\r\n" if self.http10 else ""
        if compressible(response):
            tail += "vary: accept-encoding\r\n" if "vary" not in headers else ""
            if self.gzip is not None and accepts_gzip(self.gzip):
                body = gzipped(body)
                tail += "content-encoding: gzip\r\n"
        if status >= 200 and status not in {204, 304}:
            tail += f"content-length: {len(body)}\r\n"
            has_body = not self.head_only
        else:
            has_body = False
        head = render_head(status, headers, line.prefix, tail)
        if has_body and len(body) < 65536:
            self.out.append(head + body)
        else:
            self.out.append(head)
            if has_body:
                self.out.append(body)
        line.ready(self)

    def begin(self, status: int = 200, headers: Mapping[str, str] = NO_HEADERS) -> None:
        """Start a streaming answer."""
        assert not self.started, "a request is answered once"
        self.started = self.streaming = True
        if (line := self._line) is None:
            return
        self.chunked = not self.http10
        self.close_after = self.close_after or self.http10
        tail = "connection: close\r\n" if self.close_after else ""
        tail += "transfer-encoding: chunked\r\n" if self.chunked else ""
        line.flow(self, render_head(status, {**headers, **self.also}, line.prefix, tail))

    def write(self, data: Chunk) -> bool:
        """Send some bytes of a streaming answer; False asks to wait for `when_writable`."""
        assert self.streaming, "write comes after begin"
        assert not self.whole, "write comes before end"
        line = self._line
        if line is None:
            return False
        if not data or self.head_only:
            return line.writable
        return line.flow(self, b"%x\r\n%b\r\n" % (len(data), bytes(data)) if self.chunked else bytes(data))

    def end(self) -> None:
        """The streaming answer is complete."""
        assert self.streaming, "end comes after begin"
        assert not self.whole, "end comes once"
        self.whole = True
        if (line := self._line) is not None:
            if self.chunked and not self.head_only:
                line.flow(self, b"0\r\n\r\n")
            line.ready(self)

    def abort(self) -> None:
        """Break the connection: the only honest end of a streaming answer that went wrong."""
        if (line := self._line) is not None:
            line.abort()

    def lost(self) -> None:
        """The connection says that the client is gone, or that all is written."""
        self._line = None
        callback, self.when_gone = self.when_gone, None
        self.when_writable = self.when_draining = None
        if callback is not None and not self.whole:
            callback()
