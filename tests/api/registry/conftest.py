"""Registries that run: nodes of one cluster, each with an HTTP door, in a thread of their own."""

import asyncio
import json
import threading
from contextlib import AsyncExitStack
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest

from runnel.api.registry.registry import SchemaRegistry
from runnel.api.registry.routes import add_registry
from runnel.api.routes import Routes
from runnel.api.server import HttpServer
from runnel.engine import Engine
from runnel.metadata.ledger.memory import MemoryLedger, MemoryShelf
from runnel.world.clock import SystemClock
from runnel.world.objects.memory import MemoryObjects


class Nodes:
    """Some nodes over one ledger and one store."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.addresses: list[str] = []
        self.engines: list[Engine] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(20)
        assert self.addresses, "the nodes did not start"
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self._over.set)
        self._thread.join(20)

    async def _run(self) -> None:
        self.loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with AsyncExitStack() as parts:
                objects, shelf = MemoryObjects(SystemClock()), MemoryShelf()
                for _ in range(self.count):
                    engine = Engine(objects=objects, ledger=MemoryLedger(shelf), shards=2)
                    await parts.enter_async_context(engine)
                    routes = Routes()
                    add_registry(routes, SchemaRegistry(engine), engine.world.tasks)
                    server = HttpServer(routes, clock=engine.world.clock, tasks=engine.world.tasks)
                    _, port = await server.start("127.0.0.1", 0)
                    parts.push_async_callback(server.drain, 1)
                    self.engines.append(engine)
                    self.addresses.append(f"http://127.0.0.1:{port}")
                await self.loop.run_in_executor(None, int)  # the thread for large schemas is there from the start
                self._ready.set()
                await self._over.wait()
        finally:
            self._ready.set()


class Asker:
    """Speaks plain HTTP with one node."""

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(self, method, path, body=None, *, raw=False, headers=None):
        sent = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        request = Request(self.address + path, data=sent, method=method)
        request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urlopen(request, timeout=20) as response:
                told = response.read()
                self.headers = dict(response.headers)
                return told.decode() if raw else json.loads(told)
        except HTTPError as error:
            with error:
                self.headers = dict(error.headers)
                return error.code, json.loads(error.read())

    def get(self, path, **how):
        return self.ask("GET", path, **how)

    def post(self, path, body, **how):
        return self.ask("POST", path, body, **how)

    def put(self, path, body, **how):
        return self.ask("PUT", path, body, **how)

    def delete(self, path, **how):
        return self.ask("DELETE", path, **how)

    def register(self, subject, schema, kind="AVRO", references=(), **more):
        """The id, or the (status, number) of the refusal."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        body = {"schema": text, "schemaType": kind, "references": list(references), **more}
        answer = self.post(f"/subjects/{quote(subject, safe='')}/versions", body)
        return answer["id"] if isinstance(answer, dict) else (answer[0], answer[1]["error_code"])


@pytest.fixture(scope="module")
def nodes():
    with Nodes(2) as running:
        yield running


@pytest.fixture
def ask():
    """A fresh registry, and someone who asks it."""
    with Nodes(1) as running:
        asker = Asker(running.addresses[0])
        asker.engine = running.engines[0]
        yield asker
