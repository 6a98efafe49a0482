"""The schema registry in brokers of a lake, and the clients that register and look up.

A *registrant* registers one of a few record schemas under one of a few subjects, at whichever broker, and asks again until
it is answered: many of them cannot follow each other, so most registrations meet a rival. A *looker* asks for ids that
somebody was told, and for the versions of subjects.

The book holds what anyone was told: what an id stands for, which id a version has.
"""

import asyncio
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product

from runnel.api.limits import Limits
from runnel.api.registry.registry import SchemaRegistry
from runnel.api.registry.routes import add_registry
from runnel.api.routes import Routes
from runnel.api.server import HttpServer
from runnel.engine import Engine
from runnel.simulated.http_work import PORT, Client
from runnel.simulated.lake import Lake
from runnel.world.simulation.nodes import NodePlan, World

KINDS = ({"type": "int", "default": 1}, {"type": "string", "default": ""}, {"type": ["null", "int"], "default": None})
"""What a field may be: each has a default, so it can come and go, but none reads what another wrote."""


REGISTRATIONS, LOOKS = 30, 40


def schemas() -> list[str]:
    """Records with two fields that are there or not, each of several kinds."""
    made = []
    for one, other in product((None, *KINDS), repeat=2):
        fields = [{"name": name, **kind} for name, kind in (("a", one), ("b", other)) if kind is not None]
        made.append(json.dumps({"type": "record", "name": "R", "fields": fields}, separators=(",", ":")))
    return made


SCHEMAS = schemas()


@dataclass(slots=True)
class RegistryBook:
    """What clients were told; it lies outside the nodes."""

    texts: dict[int, str] = field(default_factory=dict)
    versions: dict[tuple[str, int], int] = field(default_factory=dict)
    registered: int = 0
    refused: int = 0

    def told(self, schema_id: int, text: str) -> None:
        known = self.texts.setdefault(schema_id, text)
        assert known == text, f"id {schema_id} stands for {known} and for {text}"

    def told_version(self, subject: str, version: int, schema_id: int) -> None:
        known = self.versions.setdefault((subject, version), schema_id)
        assert known == schema_id, f"version {version} of {subject} has id {known} and id {schema_id}"


def book_of(lake: Lake) -> RegistryBook:
    book = lake.work.setdefault("schemas", RegistryBook())
    assert isinstance(book, RegistryBook)
    return book


async def serve_schemas(world: World, engine: Engine) -> None:
    """Open the door in a broker and stay."""
    await open_door(world, engine, SchemaRegistry(engine))


async def open_door(world: World, engine: Engine, registry: SchemaRegistry) -> None:
    routes = Routes()
    add_registry(routes, registry, engine.world.tasks)
    limits = Limits(idle_seconds=20.0, head_seconds=10.0, body_seconds=10.0)
    server = HttpServer(routes, limits=limits, clock=engine.world.clock, tasks=engine.world.tasks)
    await server.start(world.node, PORT)
    await asyncio.Event().wait()


def registrants(count: int, subjects: Sequence[str], brokers: Sequence[str]) -> tuple[NodePlan, ...]:
    async def main(world: World) -> None:
        book = book_of(world.state)
        with closing(Client(world, brokers)) as client:
            for _ in range(REGISTRATIONS):
                subject, text = world.chance.choice(subjects), world.chance.choice(SCHEMAS)
                body = json.dumps({"schema": text}).encode()
                status, _, answer = await client.ask("POST", f"/subjects/{subject}/versions", body)
                told = json.loads(answer)
                if status == 200:
                    book.registered += 1
                    book.told(told["id"], text)
                    book.told_version(subject, told["version"], told["id"])
                else:
                    assert status == 409, f"registering under {subject} is answered {status}: {told}"
                    book.refused += 1
                await asyncio.sleep(world.chance.uniform(0.0, 0.3))

    return tuple(
        NodePlan(name=f"registrant{number}", main=main, workload=True, mortal=False) for number in range(1, count + 1)
    )


def lookers(count: int, brokers: Sequence[str]) -> tuple[NodePlan, ...]:
    async def main(world: World) -> None:
        book = book_of(world.state)
        with closing(Client(world, brokers)) as client:
            for _ in range(LOOKS):
                await asyncio.sleep(world.chance.uniform(0.0, 0.3))
                if not book.versions:
                    continue
                (subject, version), schema_id = world.chance.choice(sorted(book.versions.items()))
                status, _, answer = await client.ask("GET", f"/schemas/ids/{schema_id}")
                assert status == 200, f"id {schema_id} was told and is not found"
                book.told(schema_id, json.loads(answer)["schema"])
                status, _, answer = await client.ask("GET", f"/subjects/{subject}/versions/{version}")
                assert status == 200, f"version {version} of {subject} was told and is not found"
                book.told_version(subject, version, json.loads(answer)["id"])

    return tuple(
        NodePlan(name=f"looker{number}", main=main, workload=True, mortal=False) for number in range(1, count + 1)
    )
