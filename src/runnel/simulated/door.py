"""The plainest door to an engine: frames over a connection, answers in the order of the questions.

    frame   two lengths of 4 bytes, a head (JSON), a body (bytes)

    append   stream; the body is a sealed batch        -> verdict, first
    read     stream, offset, bytes_max, wait           -> next, start, end, closed; the body is batches
    number                                             -> a producer id
    truncate stream, start                             -> start
    create   name, partitions                          -> streams
    delete   name

It has what matters of the real doors: several appends of a connection may be under way, they reach the engine in order,
and each connection is one producer to the window.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from runnel.codec.batches import check_batches
from runnel.engine import Engine
from runnel.errors import NotThere, RunnelError
from runnel.ingest.ticket import Answer, Ticket
from runnel.ingest.window import Producer
from runnel.model import StreamId
from runnel.world.simulation.nodes import World

PORT = 9900
WAIT_S = 0.5
"""How long a read waits for something to come."""
UNDER_WAY_MAX = 16
BROKEN = (OSError, asyncio.IncompleteReadError, TimeoutError)

Reply = tuple[dict[str, Any], bytes]
Coming = Callable[[], Awaitable[Reply]]
"""A reply that is awaited when its turn has come."""


async def serve(world: World, engine: Engine) -> None:
    """Open the door and stay."""

    async def welcome(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        producer = Producer()
        replies: asyncio.Queue[Coming] = asyncio.Queue(UNDER_WAY_MAX)
        answering = world.tasks.spawn(_answer(replies, writer), name="answer")
        try:
            while True:
                head, body = await receive(reader)
                await replies.put(_begin(engine, producer, head, body))
        except BROKEN:
            pass
        finally:
            answering.cancel()
            engine.ingest.gone(producer)
            writer.close()

    async with await asyncio.start_server(welcome, None, PORT) as server:
        await server.serve_forever()


async def _answer(replies: "asyncio.Queue[Coming]", writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            try:
                head, body = await (await replies.get())()
            except RunnelError as error:
                head, body = {"error": type(error).__name__, "says": str(error)}, b""
            send(writer, head, body)
            await writer.drain()
    except BROKEN:
        writer.close()


def _begin(engine: Engine, producer: Producer, head: dict[str, Any], body: bytes) -> Coming:
    """Appends reach the engine at once; what they wait for is awaited by `_answer`."""
    if head["do"] == "append":
        return partial(_told, _append(engine, producer, head["stream"], body))
    return partial(_OTHERS[head["do"]], engine, head)


def _append(engine: Engine, producer: Producer, stream: int, body: bytes) -> Awaitable[Reply]:
    reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def done(answers: list[Answer]) -> None:
        (answer,) = answers
        if reply.done():
            return  # the connection has ended, nobody waits
        if answer.error is not None:
            reply.set_result(({"error": type(answer.error).__name__, "says": str(answer.error)}, b""))
        else:
            reply.set_result(({"verdict": answer.verdict.name, "first": answer.first}, b""))

    ticket = Ticket(done)
    view = memoryview(body)
    (batch,) = check_batches(view, 0, len(view))
    ticket.add(stream, view, batch.records, batch.max_timestamp, batch.producer, batch.epoch, batch.sequence)
    try:
        engine.submit(ticket, producer)
    except RunnelError as error:
        reply.set_result(({"error": type(error).__name__, "says": str(error)}, b""))
    return reply


async def _told(reply: Awaitable[Reply]) -> Reply:
    return await reply


async def _read(engine: Engine, head: dict[str, Any]) -> Reply:
    read = await engine.read(
        StreamId(head["stream"]), head["offset"], bytes_max=head["bytes_max"], wait_s=WAIT_S if head["wait"] else 0
    )
    return {"next": read.next, "start": read.start, "end": read.end, "closed": read.closed}, bytes(read.data)


async def _number(engine: Engine, _head: dict[str, Any]) -> Reply:
    return {"producer": await engine.draw_producer_id()}, b""


async def _truncate(engine: Engine, head: dict[str, Any]) -> Reply:
    starts = await engine.truncate({StreamId(head["stream"]): head["start"]})
    return {"start": starts.get(head["stream"], -1)}, b""


async def _create(engine: Engine, head: dict[str, Any]) -> Reply:
    topic = await engine.topics.create(head["name"], head["partitions"])
    return {"streams": topic.streams}, b""


async def _delete(engine: Engine, head: dict[str, Any]) -> Reply:
    await engine.catch_up()
    topic = engine.topics.get(head["name"])
    if topic is None:
        raise NotThere(f"topic '{head['name']}' does not exist")
    await engine.topics.delete(topic)
    return {}, b""


_OTHERS: dict[str, Callable[[Engine, dict[str, Any]], Awaitable[Reply]]] = {
    "read": _read,
    "number": _number,
    "truncate": _truncate,
    "create": _create,
    "delete": _delete,
}


# ---- both sides ----------------------------------------------------------------------------------------------------


def send(writer: asyncio.StreamWriter, head: dict[str, Any], body: bytes = b"") -> None:
    words = json.dumps(head).encode()
    writer.write(len(words).to_bytes(4) + len(body).to_bytes(4) + words + body)


async def receive(reader: asyncio.StreamReader) -> tuple[dict[str, Any], bytes]:
    lengths = await reader.readexactly(8)
    words = await reader.readexactly(int.from_bytes(lengths[:4]))
    return json.loads(words), await reader.readexactly(int.from_bytes(lengths[4:]))
