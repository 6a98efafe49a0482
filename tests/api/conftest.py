"""A running server and a raw client, for tests of the HTTP door."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import uvloop

from runnel.api.server import HttpServer, Limits
from runnel.world.clock import SystemClock

# The first uvloop of a process opens a pipe for ever; here it is no test's fault.
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as first:
    first.run(asyncio.sleep(0))


class RawClient:
    """Sends bytes as they are and reads answers one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> tuple[int, dict[str, str]]:
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:]:
            if line:
                name, _, value = line.partition(": ")
                assert name not in headers, f"{name} came twice"
                headers[name] = value
        return int(lines[0].split(" ")[1]), headers

    async def answer(self, *, head_only: bool = False) -> tuple[int, dict[str, str], bytes]:
        status, headers = await self.head()
        if head_only or status in {204, 304} or status < 200:
            return status, headers, b""
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(await self.reader.readline(), 16):
                body += await self.reader.readexactly(size)
                await self.reader.readline()
            await self.reader.readline()
            return status, headers, body
        if "content-length" in headers:
            return status, headers, await self.reader.readexactly(int(headers["content-length"]))
        return status, headers, await self.reader.read()

    async def ask(self, text: str, body: bytes = b"", **how: Any) -> tuple[int, dict[str, str], bytes]:
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        self.send(f"{text}\r\nHost: x\r\n{length}\r\n".encode("latin-1") + body)
        return await self.answer(**how)

    async def closed(self) -> bool:
        return await self.reader.read(1) == b""


@asynccontextmanager
async def _running(handle: Any, **options: Any) -> AsyncIterator[tuple[HttpServer, Callable[[], Any]]]:
    server = HttpServer(handle, clock=options.pop("clock", None) or SystemClock(), **options)
    host, port = await server.start("127.0.0.1", 0)
    writers = []

    async def connect() -> RawClient:
        reader, writer = await asyncio.open_connection(host, port)
        writers.append(writer)
        return RawClient(reader, writer)

    try:
        yield server, connect
    finally:
        for writer in writers:
            writer.close()
        await asyncio.wait_for(server.drain(0.2), 10)
        for writer in writers:
            with suppress(OSError):
                await writer.wait_closed()


@pytest.fixture
def serving() -> Any:
    """`async with serving(handle, limits=...) as (server, connect)`."""
    return _running


@pytest.fixture
def quick() -> Callable[..., Limits]:
    """Limits whose sweep comes often enough for a test to wait for it."""
    return lambda **more: Limits(**{"sweep_seconds": 0.02, **more})
