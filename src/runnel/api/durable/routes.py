"""The protocol's own address: `/v1/stream/{path…}`, streams of the bucket that is kept for it.

A handler fits on a screen: what is asked, by whom, of which stream; then the service; then the answer. Appends run
without a task of their own, everything else may wait for the ledger and has one.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from runnel.api.answer import Answer
from runnel.api.durable.service import StreamService, Writer
from runnel.api.durable.tails import Tails
from runnel.api.durable.trouble import answer_of
from runnel.api.durable.views import ProtocolView, range_of, read_response
from runnel.api.messages import Request, Response
from runnel.api.routes import Found as Parts
from runnel.api.routes import RoutedHandle, Routes
from runnel.api.streams import answers, asks, words
from runnel.api.streams.answers import Appended
from runnel.api.streams.asks import Live
from runnel.api.streams.names import fork_source, stream_name
from runnel.engine import Engine
from runnel.errors import RunnelError
from runnel.world.tasks import Tasks
from runnel.world.telemetry import get_log

log = get_log("api")

PREFIX = "/v1/stream/"
Target = TypeVar("Target")
Work = Callable[[Request, Answer, Target], Coroutine[Any, Any, None]]


def with_a_task(
    tasks: Tasks,
    work: Work[Target],
    target_of: Callable[[Parts], Target],
    answer_of: Callable[[RunnelError], Response],
) -> RoutedHandle:
    """A handler that may wait. Whatever goes wrong in it, its client gets an answer and the node lives on."""

    async def run(request: Request, respond: Answer, target: Target) -> None:
        try:
            await work(request, respond, target)
        except Exception as error:  # noqa: BLE001  see above
            _fail(request, respond, error, answer_of)

    def handle(request: Request, respond: Answer, parts: Parts) -> None:
        try:
            target = target_of(parts)
        except RunnelError as error:
            respond(answer_of(error))
            return
        task = tasks.spawn(run(request, respond, target), name=f"http {request.method} {request.raw_path[:80]}")
        respond.when_gone = task.cancel  # type: ignore[assignment]  # its result says nothing here

    return handle


class StreamRoutes:
    """The handlers of one address. Another address is another `name_of` and another prefix."""

    def __init__(self, service: StreamService, tails: Tails) -> None:
        self._service = service
        self._tails = tails
        self._view = ProtocolView(service.chunks, tails.cursor)
        self._tasks = service.world.tasks

    def add_to(self, routes: Routes) -> None:
        pattern = PREFIX + "{path…}"
        routes.add("PUT", pattern, self._with_a_task(self.put))
        routes.add("POST", pattern, self.post)
        routes.add("GET", pattern, self._with_a_task(self.get))
        routes.add("HEAD", pattern, self._with_a_task(self.head))
        routes.add("DELETE", pattern, self._with_a_task(self.delete))

    def _with_a_task(self, work: Work[str]) -> RoutedHandle:
        return with_a_task(self._tasks, work, lambda parts: stream_name(parts["path"]), answer_of)

    # --- writing

    async def put(self, request: Request, respond: Answer, name: str) -> None:
        ask = asks.create_ask(request)
        source = stream_name(fork_source(ask.fork.source, PREFIX)) if ask.fork is not None else None
        created = await self._service.create(name, ask, source)
        respond(answers.created_answer(created.stream, new=created.new, location=address_of(request)))

    def post(self, request: Request, respond: Answer, parts: Parts) -> None:
        try:
            name = stream_name(parts["path"])
            ask = asks.append_ask(request)
        except RunnelError as error:
            respond(answer_of(error))
            return

        def done(outcome: Appended | RunnelError) -> None:
            respond(answer_of(outcome) if isinstance(outcome, RunnelError) else answers.append_answer(ask, outcome))

        self._service.append(name, ask, writer_of(respond, self._service.engine), done)

    async def delete(self, _: Request, respond: Answer, name: str) -> None:
        await self._service.delete(name)
        respond(Response(204, words.BROWSER))

    # --- reading

    async def head(self, _: Request, respond: Answer, name: str) -> None:
        respond(answers.described_answer(await self._service.describe(name)))

    async def get(self, request: Request, respond: Answer, name: str) -> None:
        ask = asks.read_ask(request)
        found = await self._service.read(name, ask.place, earliest=ask.offset_text == "-1")
        if ask.live is Live.SSE:
            self._tails.subscribe(found.stream, self._view, found.chunk.start, ask.cursor, respond)
        elif ask.live is Live.NO:
            respond(read_response(found, ask, cursor=None))
        elif found.chunk.next > found.chunk.start:
            respond(self._view.answer(found, ask))
        elif found.closed and found.up_to_date:
            respond(answers.nothing_new_answer(range_of(found, ask), cursor=None))
        else:
            self._tails.poll(found, self._view, ask, respond)


def writer_of(respond: Answer, engine: Engine) -> Writer | None:
    """What the engine's window knows of the connection that this request came by."""
    line = respond.line
    if line is None:
        return None
    if line.memo is None:
        line.memo = Writer(engine)
    writer: Writer = line.memo
    return writer


def _fail(request: Request, respond: Answer, error: Exception, answer_of: Callable[[RunnelError], Response]) -> None:
    if not isinstance(error, RunnelError):
        log.crash("request_failed", error, method=request.method, path=request.raw_path)
    if respond.started:
        respond.abort()
    elif isinstance(error, RunnelError):
        respond(answer_of(error))
    else:
        respond(answers.mishap())


def address_of(request: Request) -> str:
    """The whole address of a request, for Location."""
    scheme = "https" if request.headers.get("x-forwarded-proto", "").lower() == "https" else "http"
    host = request.headers.get("host", "")
    return f"{scheme}://{host}{request.raw_path}" if host else request.raw_path
