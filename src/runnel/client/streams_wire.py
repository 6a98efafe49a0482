"""One HTTP connection to a server: `Wire` is waited for by a thread, `AsyncWire` by an event loop.

Both keep the connection between calls and open a new one when it has gone. A connection that the server has closed
while it was idle is noticed before anything is sent over it, so that this common case is not `Lost`.
"""

import asyncio
import http.client
import select
import ssl
import time
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httptools

from runnel.client.streams_talk import Call, Lost, Pause, Reply, Talk, Unreached
from runnel.errors import Refused

ANSWER_BYTES_MAX = 256 << 20


class Address:
    """Where a stream lives."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise Refused(f"{url!r} is not an http address")
        self.secure = parts.scheme == "https"
        self.host = parts.hostname
        self.port = parts.port or (443 if self.secure else 80)
        self.path = parts.path or "/"
        self.authority = parts.netloc.rpartition("@")[2]

    def target(self, query: str) -> str:
        return f"{self.path}?{query}" if query else self.path


class Wire:
    """For threads: `run` brings a talk to its end."""

    def __init__(self, address: Address, headers: dict[str, str], timeout: float) -> None:
        self._address, self._headers = address, headers
        kind = http.client.HTTPSConnection if address.secure else http.client.HTTPConnection
        self._line = kind(address.host, address.port, timeout=timeout)

    def run(self, talk: Talk[Any]) -> Any:
        heard: Reply | None = None
        problem: Exception | None = None
        while True:
            try:
                said = talk.throw(problem) if problem is not None else talk.send(heard)
            except StopIteration as end:
                return end.value
            heard = problem = None
            if isinstance(said, Pause):
                time.sleep(said.seconds)
                continue
            try:
                heard = self._exchange(said)
            except (Unreached, Lost) as error:
                problem = error

    def _exchange(self, call: Call) -> Reply:
        line = self._line
        if line.sock is not None and select.select([line.sock], [], [], 0)[0]:
            line.close()
        if line.sock is None:
            try:
                line.connect()
            except OSError as error:
                line.close()
                raise Unreached(str(error)) from None
        try:
            target = self._address.target(call.query)
            line.request(call.method, target, call.body or None, {**self._headers, **call.headers})
            answer = line.getresponse()
            body = answer.read(ANSWER_BYTES_MAX)
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, headers, body)
        except (OSError, http.client.HTTPException) as error:
            line.close()
            raise Lost(f"{type(error).__name__} {error}") from None

    def close(self) -> None:
        self._line.close()


class _Answer:
    """Collects what the parser tells of one answer."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body: list[bytes] = []
        self.size = 0
        self.status = 0
        self.headed = self.whole = False
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.status = self.parser.get_status_code()
        self.headed = self.status >= 200
        if not self.headed:
            self.headers = {}

    def on_body(self, data: bytes) -> None:
        self.size += len(data)
        self.body.append(data)

    def on_message_complete(self) -> None:
        self.whole = self.headed

    @property
    def until_the_end(self) -> bool:
        return self.headed and not {"content-length", "transfer-encoding"} & self.headers.keys()


class AsyncWire:
    """For event loops: `run` brings a talk to its end."""

    def __init__(self, address: Address, headers: dict[str, str], timeout: float) -> None:
        self._address, self._headers, self._timeout = address, headers, timeout
        self._line: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, talk: Talk[Any]) -> Any:
        heard: Reply | None = None
        problem: Exception | None = None
        while True:
            try:
                said = talk.throw(problem) if problem is not None else talk.send(heard)
            except StopIteration as end:
                return end.value
            heard = problem = None
            if isinstance(said, Pause):
                await asyncio.sleep(said.seconds)
                continue
            try:
                heard = await asyncio.wait_for(self._exchange(said), self._timeout)
            except (Unreached, Lost) as error:
                problem = error
            except TimeoutError:
                problem = Lost(f"no answer within {self._timeout} seconds")
            finally:
                if heard is None:  # also when cancelled: an answer under way must not meet the next call
                    await self.close()

    async def _exchange(self, call: Call) -> Reply:
        address = self._address
        if self._line is not None and self._line[0].at_eof():
            await self.close()
        if self._line is None:
            secure = ssl.create_default_context() if address.secure else None
            try:
                self._line = await asyncio.open_connection(address.host, address.port, ssl=secure)
            except OSError as error:
                raise Unreached(str(error)) from None
        reader, writer = self._line
        lines = [f"{call.method} {address.target(call.query)} HTTP/1.1", f"host: {address.authority}"]
        fields = {**self._headers, **call.headers}
        lines += [f"{name}: {value}" for name, value in fields.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise Refused("a header or the address has a line break in it")
        if call.body or call.method in {"POST", "PUT"}:
            lines.append(f"content-length: {len(call.body)}")
        answer = _Answer()
        try:
            writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + call.body)
            await writer.drain()
            while not (answer.whole or (answer.headed and call.method == "HEAD")):
                data = await reader.read(1 << 18)
                if not data:
                    if answer.until_the_end:
                        break
                    raise Lost("the connection was closed before the answer was complete")
                answer.parser.feed_data(data)
                if answer.size > ANSWER_BYTES_MAX:
                    raise Lost(f"the answer is larger than {ANSWER_BYTES_MAX} bytes")
        except (OSError, httptools.HttpParserError) as error:
            raise Lost(f"{type(error).__name__} {error}") from None
        if answer.headers.get("connection", "").lower() == "close" or answer.until_the_end:
            await self.close()
        return Reply(answer.status, answer.headers, b"".join(answer.body))

    async def close(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            line[1].close()
            with suppress(OSError):
                await line[1].wait_closed()
