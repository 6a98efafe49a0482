"""The Kafka server: a listener, its connections, one timer for all of them, and a way to stop politely.

    server = KafkaServer(broker)
    host, port = await server.start("127.0.0.1", 9092)
    ...
    await server.drain(10)

For every request: cut the frame, read the header, decode, let the handler of its API act, encode. A frame that is none,
an API or a version that was not offered, and bytes that cannot be decoded close the connection, as in Kafka. It is a
plain asyncio protocol: `server.protocol()` makes one connection for any loop and any transport.
"""

import asyncio
from collections.abc import Coroutine, Generator, Mapping
from typing import Any

from runnel.broker.arenas import Arena, Arenas
from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.connection import PIPELINED, Connection
from runnel.broker.handlers import all_handlers
from runnel.broker.problems import code_of, failed_response
from runnel.broker.routing import zone_in
from runnel.broker.versions import PRODUCE, PRODUCE_REFUSED_UP_TO, answer_version, offered, speaks
from runnel.codec.apis import API_VERSIONS
from runnel.codec.declare import Message
from runnel.codec.errors import ErrorCode
from runnel.codec.framing import RequestHeader, read_request_header
from runnel.codec.primitives import BadMessage
from runnel.codec.wire import decode_request
from runnel.errors import RunnelError
from runnel.world.blocks import BlockPool
from runnel.world.telemetry import get_log

log = get_log("broker")


class KafkaServer:
    """See the module."""

    def __init__(self, broker: Broker, handlers: Mapping[int, Handler] | None = None) -> None:
        self.limits = broker.limits
        self.broker = broker
        self._handlers = dict(all_handlers(broker) if handlers is None else handlers)
        broker.versions = self._versions = offered(self._handlers)
        self._world = broker.world
        self._ingest = broker.engine.ingest
        self.arenas = Arenas(BlockPool(self.limits.free_blocks_bytes_max))
        self.now = self._world.clock.monotonic()
        self.draining = False
        self._connections: dict[Connection, None] = {}
        self._touched: dict[Connection, None] = {}
        self._starved: dict[Connection, None] = {}
        self._crowded: dict[Connection, None] = {}
        self._listener: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._empty: asyncio.Event | None = None
        metrics = self._world.metrics
        self._requests = metrics.counters("runnel_kafka_requests_total", "Requests of Kafka clients.", ("api",))
        self._counted: dict[int, Any] = {}
        self._refused = metrics.counters(
            "runnel_kafka_refused_total", "Connections closed for what they sent, or for their number.", ("why",)
        )
        metrics.gauge("runnel_kafka_connections", "Connections of Kafka clients.", read=lambda: len(self._connections))
        metrics.gauge(
            "runnel_kafka_receive_bytes",
            "Memory for requests that are not whole yet.",
            read=lambda: self.arenas.private_bytes,
        )

    @property
    def connections(self) -> int:
        return len(self._connections)

    # --- life -----------------------------------------------------------------------------------------------------

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; port 0 takes a free one. The address that was really taken."""
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(self.protocol, host, port, backlog=self.limits.backlog)
        for begin in self.broker.when_open:
            begin()
        taken = self._listener.sockets[0].getsockname()
        return str(taken[0]), int(taken[1])

    def protocol(self) -> Connection:
        """One connection of this server, for a transport that someone else provides."""
        self.now = self._world.clock.monotonic()
        return Connection(self)

    async def drain(self, seconds: float) -> None:
        """Take no more; finish what has begun, at most for so long; then cut what is left."""
        self.draining = True
        if self._listener is not None:
            self._listener.close()
        self._empty = asyncio.Event()
        for hurry in self.broker.when_draining:
            hurry()
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
        self.broker.alarms.close()
        self.arenas.close()

    # --- what connections ask -------------------------------------------------------------------------------------

    def admit(self, connection: Connection) -> bool:
        self._connections[connection] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.limits.sweep_seconds, self._sweep)
        if len(self._connections) > self.limits.connections_max:
            self._refused.at("too many connections").add()
            return False
        return not self.draining

    def forget(self, connection: Connection) -> None:
        for group in (self._connections, self._touched, self._starved, self._crowded):
            group.pop(connection, None)
        self.broker.unsent.forget(connection)
        self._ingest.gone(connection.client.producer)
        if not self._connections and self._empty is not None:
            self._empty.set()

    def has_room(self, connection: Connection) -> bool:
        """Whether another append may begin; if not, the connection hears of it when one may."""
        if self._ingest.has_room:
            return True
        if not self._crowded:
            self._ingest.on_room(self._room_again)
        self._crowded[connection] = None
        return False

    def _room_again(self) -> None:
        crowded, self._crowded = self._crowded, {}
        for connection in crowded:
            self.soon(connection)

    def has_memory(self, connection: Connection) -> bool:
        """Whether a connection in the middle of a request may be read from; if not, it hears of it when it may."""
        if self.arenas.private_bytes <= self.limits.receive_bytes_max:
            return True
        self._starved[connection] = None
        return False

    def memory_is_free(self) -> None:
        if self._starved and self.arenas.private_bytes <= self.limits.receive_bytes_max:
            starved, self._starved = self._starved, {}
            for connection in starved:
                self.soon(connection)

    def soon(self, connection: Connection) -> None:
        """Let a connection go on at the end of this turn, together with all others that something happened to."""
        if not self._touched:
            asyncio.get_running_loop().call_soon(self._go_on)
        self._touched[connection] = None

    def _go_on(self) -> None:
        touched, self._touched = self._touched, {}
        for connection in touched:
            if connection.transport is not None:
                connection.go_on()
                if self.draining:
                    connection.drain()

    # --- requests -------------------------------------------------------------------------------------------------

    def refuse_frame(self, connection: Connection, size: int) -> None:
        self._refused.at("no frame").add()
        log.info("frame_refused", host=connection.client.host, bytes=size, bytes_max=self.limits.request_bytes_max)
        connection.abort()

    def begin(self, connection: Connection, arena: Arena, frame: memoryview) -> None:
        """Decode one request and hand it to its handler."""
        client = connection.client
        try:
            header = read_request_header(frame)
            key, version = header.api_key, header.api_version
            if client.id != (header.client_id or ""):
                client.id = header.client_id or ""
                client.zone = zone_in(client.id)
            handler = self._handlers.get(key)
            if handler is None or not speaks(self._versions, key, version):
                self._begin_unspoken(connection, arena, header, frame)
                return
            request = decode_request(key, version, frame, header.body_at)
        except BadMessage as error:
            self._refused.at("undecodable").add()
            log.info("request_refused", host=client.host, client=client.id, error=str(error))
            connection.abort()
            return
        counter = self._counted.get(key)
        if counter is None:
            counter = self._counted[key] = self._requests.at(type(request).__name__.removesuffix("Request"))
        counter.value += 1
        pipelined = key == PIPELINED
        call = Call(connection, client, key, version, header.correlation_id, request, arena, pipelined=pipelined)
        connection.calls.append(call)
        connection.unanswered += 1
        if not pipelined:
            connection.serial += 1
        self._handle(handler, call)

    def _handle(self, handler: Handler, call: Call) -> None:
        try:
            result = handler(call)
        except Exception as error:  # noqa: BLE001  the client gets an answer and the server lives on
            self.failed(call, error)
            return
        if result is None:
            return
        if isinstance(result, Message):
            call.answer(result)
        else:
            call.task = self._world.tasks.spawn(self._run(Work(result), call), name=f"kafka api {call.api_key}")

    async def _run(self, work: "Work", call: Call) -> None:
        try:
            response = await work
        except Exception as error:  # noqa: BLE001  as above
            self.failed(call, error)
            return
        if not call.answered:
            call.answer(response)

    def failed(self, call: Call, error: Exception) -> None:
        """A handler did not find an answer of its own."""
        if isinstance(error, RunnelError):
            code = code_of(error)
        else:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            log.crash("request_failed", error, api=call.api_key, version=call.version, client=call.client.id)
        if call.answered:
            return
        response = failed_response(call.api_key, call.request, code)
        if response is None:
            call.hang_up()
        else:
            call.answer(response)

    def unanswerable(self, call: Call, error: Exception) -> None:
        """An answer that cannot be put into bytes: our mistake, and the client hears nothing but that it is over."""
        log.crash("request_failed", error, api=call.api_key, version=call.version, client=call.client.id)
        call.hang_up()

    def _begin_unspoken(self, connection: Connection, arena: Arena, header: RequestHeader, frame: memoryview) -> None:
        """What was not offered closes the connection; two are told instead what is wrong (see versions.py)."""
        key, version, response = header.api_key, header.api_version, None
        if key in self._handlers and key == API_VERSIONS:
            version = answer_version(self._versions, version)
            response = failed_response(key, None, ErrorCode.UNSUPPORTED_VERSION)
        elif key in self._handlers and key == PRODUCE and 0 <= version <= PRODUCE_REFUSED_UP_TO:
            request = decode_request(key, version, frame, header.body_at)
            response = failed_response(key, request, ErrorCode.UNSUPPORTED_VERSION)
        if response is None:
            self._refused.at("not offered").add()
            log.info("request_not_offered", host=connection.client.host, api=key, version=version)
            connection.abort()
            return
        call = Call(connection, connection.client, key, version, header.correlation_id, None, arena, pipelined=False)
        connection.calls.append(call)
        connection.unanswered += 1
        connection.serial += 1
        call.answer(response)

    # --- time: one timer for all connections, and none while there are none ---------------------------------------

    def _sweep(self) -> None:
        self._timer = None
        self.now = self._world.clock.monotonic()
        for connection in tuple(self._connections):
            if connection.transport is not None:
                connection.sweep(self.now)
        if self._connections:
            self._timer = asyncio.get_running_loop().call_later(self.limits.sweep_seconds, self._sweep)


class Work:
    """A handler's coroutine, closed in peace where its task is cancelled before it has begun."""

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, Message]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Message]:
        return self._coroutine.__await__()

    def __del__(self) -> None:
        self._coroutine.close()
