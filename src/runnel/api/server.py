"""The HTTP/1.1 server: a listener, its connections, one timer for all of them, and a way to stop politely.

    server = HttpServer(handle, limits=Limits(), clock=clock, tasks=tasks)
    host, port = await server.start("127.0.0.1", 0)
    ...
    await server.drain(10)

`handle(request, respond)` is called for every request, in the turn in which its last byte was read, and returns at
once; `respond` (an `Answer`) may be called then or at any later moment. `asynchronous(handler, tasks)` makes such a
handle out of `async def handler(request) -> Response` for the routes on which a task per request does not matter;
a server that is given such a coroutine function as its handle does so by itself.
An error that leaves a handler is answered as a problem; only a mistake of ours is logged with its story.

It is a plain asyncio protocol: `server.protocol()` makes one connection for any loop and any transport, so that a
simulated network can carry it.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import cast

from httptools import HttpRequestParser

from runnel.api.answer import Answer
from runnel.api.connection import Connection
from runnel.api.limits import Limits
from runnel.api.messages import Request, Response
from runnel.api.problems import problem_of
from runnel.errors import RunnelError
from runnel.world.clock import Clock
from runnel.world.tasks import Tasks
from runnel.world.telemetry.log import get_log
from runnel.world.telemetry.metrics import Counter, Metrics

log = get_log("api")

Handle = Callable[[Request, Answer], None]
AsyncHandler = Callable[[Request], Awaitable[Response]]
BodyLimit = Callable[[str, bytes], int | None]

# On every answer, also a refusal: browsers must neither guess a type nor think that this is a page of ours.
SAFETY = "x-content-type-options: nosniff\r\ncross-origin-resource-policy: cross-origin\r\n"

__all__ = ["Answer", "Handle", "HttpServer", "Limits", "Request", "Response", "asynchronous"]


def asynchronous(handler: AsyncHandler, tasks: Tasks) -> Handle:
    """A handle that runs a coroutine per request; it is cancelled when the client leaves."""

    async def work(request: Request, respond: Answer) -> None:
        try:
            response = await handler(request)
        except RunnelError as error:
            response = problem_of(error)
        except Exception as error:  # noqa: BLE001  whatever it was, the client gets an answer and the server lives on
            log.crash("request_failed", error, method=request.method, path=request.raw_path)
            response = problem_of(error)
        respond(response)

    def handle(request: Request, respond: Answer) -> None:
        task = tasks.spawn(work(request, respond), name=f"http {request.method} {request.raw_path[:80]}")
        respond.when_gone = task.cancel  # type: ignore[assignment]  # its result says nothing here

    return handle


class HttpServer:
    """See the module."""

    def __init__(
        self, handle: Handle | AsyncHandler, *, limits: Limits | None = None, clock: Clock, tasks: Tasks | None = None,
        body_limit: BodyLimit | None = None, metrics: Metrics | None = None,
    ) -> None:  # fmt: skip
        self.limits = limits or Limits()
        self.inflight_body_bytes = 0
        self.draining = False
        self.requests = 0
        self.mishaps = 0
        if inspect.iscoroutinefunction(handle):
            assert tasks is not None, "a coroutine function as handle needs tasks to run in"
            handle = asynchronous(handle, tasks)
        self._handle = cast("Handle", handle)
        self._clock = clock
        self._body_limit = body_limit
        self._connections: set[Connection] = set()
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._empty: asyncio.Event | None = None
        self._second = -1
        self.now = 0.0
        self.prefix = SAFETY
        self._counters: tuple[Counter, Counter] | None = None
        self._counted = (0, 0)
        if metrics is not None:
            self._measure(metrics)

    @property
    def connections(self) -> int:
        return len(self._connections)

    def _measure(self, metrics: Metrics) -> None:
        """What a scrape reads; the two counters are brought up to date by the sweeping timer, not by requests."""
        metrics.gauge("runnel_http_connections", "Connections of HTTP clients.", read=lambda: self.connections)
        metrics.gauge(
            "runnel_http_body_bytes", "Bytes of request bodies in work.", read=lambda: self.inflight_body_bytes
        )
        self._counters = (
            metrics.counter("runnel_http_requests_total", "Requests of HTTP clients."),
            metrics.counter("runnel_http_mishaps_total", "Requests that failed by a mistake of ours."),
        )

    def _count(self) -> None:
        if self._counters is not None:
            requests, mishaps = self._counted
            self._counters[0].add(self.requests - requests)
            self._counters[1].add(self.mishaps - mishaps)
            self._counted = (self.requests, self.mishaps)

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; port 0 takes a free one. Returns the address that was really taken."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self.protocol, host, port, backlog=self.limits.backlog)
        taken = self._listener.sockets[0].getsockname()
        return str(taken[0]), int(taken[1])

    def protocol(self) -> Connection:
        """One connection of this server, for a transport that someone else provides."""
        self._tick()
        return Connection(self)

    async def drain(self, seconds: float) -> None:
        """Take no more; finish what is in work, at most for so long; then cut what is left."""
        self.draining = True
        if self._listener is not None:
            self._listener.close()
        self._empty = asyncio.Event()
        for connection in tuple(self._connections):
            connection.drain()
        if self._connections:
            try:
                await asyncio.wait_for(self._empty.wait(), seconds)
            except TimeoutError:
                for connection in tuple(self._connections):
                    connection.abort()
                await self._empty.wait()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # --- what connections ask -------------------------------------------------------------------------------------

    def admit(self, connection: Connection) -> bool:
        # The one beyond the bound is also remembered, for as long as its refusal takes to be written and lingered.
        self._connections.add(connection)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.limits.sweep_seconds, self._sweep)
        return len(self._connections) <= self.limits.connections_max and not self.draining

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if not self._connections and self._empty is not None:
            self._empty.set()

    def body_max(self, parser: HttpRequestParser, target: bytes) -> int:
        if self._body_limit is None:
            return self.limits.body_bytes_max
        own = self._body_limit(parser.get_method().decode(), target)
        return self.limits.body_bytes_max if own is None else own

    def serve(self, request: Request, respond: Answer) -> None:
        self.requests += 1
        try:
            self._handle(request, respond)
        except Exception as error:  # noqa: BLE001  the client gets an answer and the server lives on
            if not isinstance(error, RunnelError):
                self.mishap(error)
            if respond.started:
                respond.abort()
            else:
                respond(problem_of(error))

    def mishap(self, error: BaseException) -> None:
        """A mistake of ours, told to the log and to nobody else."""
        self.mishaps += 1
        log.crash("request_failed", error)

    # --- time: one timer for all connections, and none while there are none ---------------------------------------

    def _tick(self) -> None:
        self.now = self._clock.monotonic()
        second = self._clock.now_ms() // 1000
        if second != self._second:
            self._second = second
            self.prefix = f"date: {formatdate(second, usegmt=True)}\r\n{SAFETY}"

    def _sweep(self) -> None:
        self._timer = None
        self._tick()
        self._count()
        for connection in tuple(self._connections):
            connection.sweep(self.now)
        if self._connections:
            self._timer = asyncio.get_running_loop().call_later(self.limits.sweep_seconds, self._sweep)
