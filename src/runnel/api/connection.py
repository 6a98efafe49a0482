"""One client's connection: bytes become requests, answers leave in the order of the requests.

The parser is llhttp (through httptools) in its strict mode: it refuses a message with two lengths, a length and
chunks, folded headers, bare line feeds. What it leaves open is decided here: every request of HTTP/1.1 names one
host; trailers are dropped; an offer to upgrade (`Upgrade: h2c`) is not taken up and the request is served as it is.

A connection goes through phases, and each has its own patience. The server's one sweeping timer asks `overdue`.

    IDLE   no request begun         HEAD   headers are coming        BODY   a body (or its trailer) is coming
    CLOSING  the last request has been read, its answer is outstanding
    LINGERING  the last answer is written; what still comes is thrown away, so that the client can read the answer
               before it learns that nobody listens (a socket closed with unread bytes in it resets the other side)
"""

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

import httptools

from runnel.api.answer import Answer
from runnel.api.messages import Request, Response, split_target
from runnel.api.problems import problem
from runnel.errors import Refused

if TYPE_CHECKING:
    from runnel.api.server import HttpServer

IDLE, HEAD, BODY, CLOSING, LINGERING = range(5)
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# Spellings that clients use, so that the common header costs a look-up and no new string.
NAMES = {
    spelling.encode(): name
    for name in (
        "host", "user-agent", "accept", "accept-encoding", "accept-language", "connection", "content-type",
        "content-length", "transfer-encoding", "expect", "origin", "if-none-match", "sec-fetch-mode", "stream-seq",
        "stream-closed", "producer-id", "producer-epoch", "producer-seq",
    )
    for spelling in (name, name.title())
}  # fmt: skip
METHODS = {name.encode(): name for name in ("GET", "HEAD", "PUT", "POST", "DELETE", "OPTIONS", "PATCH")}


class _Stop(Exception):
    """The rest of what was received is not worth parsing; the answer is already in line."""


class Connection(asyncio.Protocol):
    """See the module. The methods `on_...` are called by the parser, in the middle of `data_received`."""

    __slots__ = (
        "_has_upgrade", "answers", "body", "body_bytes", "body_max", "fed", "feeding", "head_bytes", "head_bytes_max",
        "header_count", "headers", "headers_max", "memo", "parser", "paused_reading", "peer", "phase", "refused", "server", "since", "stalled_since",
        "target", "transport", "writable",
    )  # fmt: skip

    def __init__(self, server: "HttpServer") -> None:
        self.server = server
        self.transport: Any = None
        self.parser: httptools.HttpRequestParser | None = None
        self.peer = ""
        self.memo: Any = None
        self.answers: deque[Answer] = deque()
        self.phase = IDLE
        self.since = server.now
        self.stalled_since: float | None = None
        self.writable = True
        self.paused_reading = False
        self.feeding = False
        self.refused = False
        self._has_upgrade = False
        self.headers_max = server.limits.headers_max
        self.head_bytes_max = server.limits.head_bytes_max
        self.fed = 0
        self._begin()

    def _begin(self) -> None:
        self.target = b""
        self.headers: dict[str, str] = {}
        self.header_count = self.head_bytes = self.body_bytes = 0
        self.body: list[bytes] = []
        self.body_max = 0

    @property
    def prefix(self) -> str:
        return self.server.prefix

    # --- the transport's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=self.server.limits.write_buffer_bytes_max)
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self.parser = httptools.HttpRequestParser(self)
        if not self.server.admit(self):
            self._last_words(problem(503, "too many connections: try again"))

    def connection_lost(self, error: Exception | None) -> None:
        del error
        self.server.forget(self)
        if self.memo is not None:
            self.memo.gone()
        self._release_body()
        self.parser = None  # the parser holds our methods: without this the pair waits for the collector
        self.transport = None
        answers, self.answers = self.answers, deque()
        for answer in answers:
            self._settle(answer)

    def data_received(self, data: bytes) -> None:
        if self.phase >= CLOSING or self.parser is None:
            return
        self.fed += len(data)
        self.feeding = True
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stop:
            self._decline_upgrade(data[stop.args[0] :])
        except httptools.HttpParserError as error:
            self._unreadable(error)
        finally:
            self.feeding = False
        if self.fed > self.head_bytes_max and self.phase in {HEAD, BODY}:
            self._last_words(problem(431, "the request's head or trailer is too long"))
        if self.answers:
            self._flush()

    def eof_received(self) -> bool:
        """Half a close: answers in work are still delivered, unless their writer waits for news or for ever."""
        if self.phase == LINGERING or not self.answers:
            return False
        if any(answer.streaming or answer.when_gone is not None for answer in self.answers):
            return False
        self.phase = CLOSING
        self.answers[-1].close_after = True
        return True

    def pause_writing(self) -> None:
        self.writable = False
        self.stalled_since = self.server.now
        self._balance()

    def resume_writing(self) -> None:
        self.writable = True
        self.stalled_since = None
        self._balance()
        if self.answers and (callback := self.answers[0].when_writable) is not None:
            callback()

    # --- the parser's side ----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.phase >= CLOSING:
            raise _Stop
        self._begin()
        self.refused = False
        self.phase = HEAD
        self.since = self.server.now
        self.fed = 0  # counts what was received since the parser last told of progress

    def on_url(self, url: bytes) -> None:
        self.target += url
        if len(self.target) > self.server.limits.target_bytes_max:
            self._last_words(problem(414, "the request target is too long"))
            raise _Stop

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase != HEAD:
            return  # a trailer
        self.header_count += 1
        self.head_bytes += len(name) + len(value)
        if self.header_count > self.headers_max or self.head_bytes > self.head_bytes_max:
            self._last_words(problem(431, "the request has too many headers, or too long ones"))
            raise _Stop
        key = NAMES.get(name) or name.decode("latin-1").lower()
        text = value.decode("latin-1")
        if key in self.headers:
            if key == "host":
                self._last_words(problem(400, "the request names two hosts"))
                raise _Stop
            text = f"{self.headers[key]}, {text}"
        self.headers[key] = text

    def on_headers_complete(self) -> None:
        headers, server = self.headers, self.server
        assert self.parser is not None
        self.phase = BODY
        self.fed = 0
        if "host" not in headers and self.parser.get_http_version() != "1.0":
            self._last_words(problem(400, "the request names no host"))
            raise _Stop
        self._has_upgrade = "upgrade" in headers and self.parser.should_upgrade()
        if self._has_upgrade:
            return
        length = int(headers.get("content-length", 0))
        if length or "transfer-encoding" in headers:
            self.body_max = server.body_max(self.parser, self.target)
            if length > self.body_max:
                self._too_large()
            if server.inflight_body_bytes + length > server.limits.inflight_body_bytes_max:
                self._overloaded()
            elif "expect" in headers and headers["expect"].lower() == "100-continue" and not self.answers:
                self.transport.write(CONTINUE)

    def on_chunk_header(self) -> None:
        self.fed = 0

    def on_body(self, data: bytes) -> None:
        self.fed = 0
        if self.refused:
            self.body_bytes += len(data)
            if self.body_bytes > self.body_max:
                self._too_large()
            return
        size = len(data)
        self.body_bytes += size
        self.server.inflight_body_bytes += size
        self.body.append(data)
        if self.body_bytes > self.body_max:
            self._too_large()
        if self.server.inflight_body_bytes > self.server.limits.inflight_body_bytes_max:
            self._overloaded()

    def on_message_complete(self) -> None:
        assert self.parser is not None
        if self._has_upgrade:
            return
        keep = self.parser.should_keep_alive() and not self.server.draining
        self.phase = IDLE if keep else CLOSING
        self.since = self.server.now
        if self.refused:
            self.refused = False
            if not keep:
                self._close_after_last()
            return
        headers, held = self.headers, self.body_bytes
        raw_method = self.parser.get_method()
        answer = Answer(
            self,
            head_only=raw_method == b"HEAD",
            close_after=not keep,
            accepted=headers.get("accept-encoding"),
            held_bytes=held,
        )
        self.body_bytes = 0  # from here the answer holds them
        if (not keep or "connection" in headers) and self.parser.get_http_version() == "1.0":
            answer.http10 = True
        self.answers.append(answer)
        body = self.body
        try:
            path, query = split_target(self.target)
        except Refused as error:
            answer(problem(400, str(error)))
            return
        method = METHODS.get(raw_method) or raw_method.decode("latin-1")
        whole = body[0] if len(body) == 1 else b"".join(body)
        self.body = []
        self.server.serve(Request(method, path, query, headers, whole, self.peer), answer)

    # --- refusals -------------------------------------------------------------------------------------------------

    def _release_body(self) -> None:
        if not self.refused:
            self.server.inflight_body_bytes -= self.body_bytes
        self.body_bytes = 0
        self.body = []

    def _refuse(self, response: Response, *, close: bool) -> None:
        """Answer in place of the handler, in line. The rest of the request, if any is read, is dropped."""
        self._release_body()
        self.refused = True
        answer = Answer(self, head_only=False, close_after=close, accepted=None, held_bytes=0)
        self.answers.append(answer)
        answer(response)

    def _last_words(self, response: Response) -> None:
        self.phase = CLOSING
        if self.refused:
            self._close_after_last()
        else:
            self._refuse(response, close=True)
        self._flush()

    def _close_after_last(self) -> None:
        """The refusal of this request is in line already, or even written."""
        if self.answers:
            self.answers[-1].close_after = True
        else:
            self._linger()

    def _too_large(self) -> None:
        self._last_words(problem(413, f"the body is larger than the {self.body_max} bytes allowed here"))
        raise _Stop

    def _overloaded(self) -> None:
        self._refuse(problem(503, "too many bytes of request bodies are in work: try again"), close=False)

    def _unreadable(self, error: httptools.HttpParserError) -> None:
        if self.phase >= CLOSING:
            return
        if isinstance(error, httptools.HttpParserCallbackError) and not isinstance(error.__context__, _Stop):
            self.server.mishap(error.__context__ or error)
        self._last_words(problem(400, "the request is not well-formed HTTP/1.1"))

    def _decline_upgrade(self, rest: bytes) -> None:
        """Serve the request as if it had offered nothing: parse on behind a head without the offer."""
        assert self.parser is not None
        method = self.parser.get_method()
        if method == b"CONNECT":
            self._last_words(problem(405, "this is no proxy"))
            return
        self._has_upgrade = False
        lines = [b"%b %b HTTP/1.1" % (method, self.target)]
        lines += [
            f"{name}: {value}".encode("latin-1")
            for name, value in self.headers.items()
            if name not in {"upgrade", "connection", "http2-settings"}
        ]
        self.parser = httptools.HttpRequestParser(self)
        self.data_received(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    # --- the answers' side ----------------------------------------------------------------------------------------

    def ready(self, answer: Answer) -> None:
        self.server.inflight_body_bytes -= answer.held_bytes
        answer.held_bytes = 0
        if self.feeding:
            return
        answers = self.answers
        if len(answers) == 1 and not answer.close_after and not self.paused_reading and len(answer.out) == 1:
            # The common case of _flush: the only answer, complete.
            answers.popleft()
            self.transport.write(answer.out[0])
            answer.lost()
            self.since = self.server.now if self.phase == IDLE else self.since
        else:
            self._flush()

    def flow(self, answer: Answer, data: bytes) -> bool:
        limits = self.server.limits
        if self.answers[0] is answer:
            if not answer.out:
                self.transport.write(data)
            else:
                answer.out.append(data)
                self._flush()
            waiting = self.transport.get_write_buffer_size() if self.transport is not None else 0
        else:
            answer.out.append(data)
            waiting = sum(map(len, answer.out))
        if waiting > limits.stream_buffer_bytes_max:
            self.abort()
            return False
        return self.writable and (self.answers[0] is answer or waiting < limits.write_buffer_bytes_max)

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _settle(self, answer: Answer) -> None:
        self.server.inflight_body_bytes -= answer.held_bytes
        answer.held_bytes = 0
        answer.lost()

    def _flush(self) -> None:
        """Write what is at the head of the line: whole answers, then what there is of a streaming one."""
        answers, transport = self.answers, self.transport
        if transport is None:
            return
        out: list[Any] = []
        last = False
        while answers:
            answer = answers[0]
            if answer.out:
                out += answer.out
                answer.out = []
            if not answer.whole:
                break
            answers.popleft()
            answer.lost()
            if answer.close_after:
                last = True
                break
        if len(out) == 1:
            transport.write(out[0])
        elif out:
            transport.writelines(out)
        if last:
            self._linger()
        elif answers or self.paused_reading:
            self._balance()
            if answers and out and self.writable and (callback := answers[0].when_writable) is not None:
                callback()
        else:
            self.since = self.server.now if self.phase == IDLE else self.since

    def _linger(self) -> None:
        if self.phase != LINGERING and self.transport is not None:
            self.phase = LINGERING
            self.since = self.server.now
            try:
                self.transport.write_eof()
            except (OSError, NotImplementedError):  # the client is gone already, or this transport has no half-close
                self.transport.close()

    def _balance(self) -> None:
        """Read only while answers leave: a client that sends and never reads is held up, not stored."""
        busy = len(self.answers) >= self.server.limits.pipeline_max or not self.writable
        if busy != self.paused_reading and self.transport is not None and not self.transport.is_closing():
            self.paused_reading = busy
            if busy:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()

    # --- time -----------------------------------------------------------------------------------------------------

    def sweep(self, now: float) -> None:
        """Called by the server's one timer: end what takes too long."""
        limits, waited = self.server.limits, now - self.since
        if self.stalled_since is not None and now - self.stalled_since > limits.write_stall_seconds:
            self.abort()
        elif self.phase == LINGERING:
            if waited > limits.linger_seconds:
                self.abort()
        elif self.phase == IDLE:
            if waited > limits.idle_seconds and not self.answers:
                self.transport.close()
        elif self.phase == HEAD:
            if waited > limits.head_seconds:
                self._last_words(problem(408, "the request's head took too long"))
        elif self.phase == BODY:
            patience = limits.body_seconds + self.body_bytes / limits.body_bytes_per_second_min
            if waited > patience and not self.paused_reading:
                self._last_words(problem(408, "the request's body took too long"))

    def drain(self) -> None:
        """The server begins to shut down."""
        if self.phase == IDLE and not self.answers:
            self.transport.close()
            return
        if self.answers:
            if self.phase == IDLE:
                self.phase = CLOSING
                self.answers[-1].close_after = True
            for answer in tuple(self.answers):
                if answer.when_draining is not None:
                    answer.when_draining()
