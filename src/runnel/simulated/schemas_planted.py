"""Registries with a planted bug each, so that what is checked of them is seen to catch something.

They are not listed and run only when named. `FOUND_BY` says what the violation must speak of.
"""

from contextlib import suppress
from typing import Any

from runnel.api.registry.registry import SchemaRegistry
from runnel.engine import Engine
from runnel.errors import Fenced
from runnel.metadata.entry import Update
from runnel.metadata.ledger.faulty import LedgerFaults
from runnel.metadata.schemas import Registry
from runnel.metadata.updates import RegisterSchema
from runnel.model import ShardId
from runnel.simulated.lake import Serve
from runnel.simulated.schemas import schemas
from runnel.simulated.schemas_work import open_door
from runnel.world.objects.faulty import CALM
from runnel.world.simulation.nodes import World
from runnel.world.simulation.scenario import Scenario, scenario

SLOW = {"store": CALM, "ledger": LedgerFaults(delay_ms_max=150, late_wait_ms_max=1500)}
"""Brokers learn late of what others have done, unless they ask."""

FOUND_BY = {
    "planted-schemas-judged-too-early": "does not read the one before it",
    "planted-schemas-stale": "was told and is not found",
}


class Hasty:
    """An engine whose registrations are never too late: they claim to be judged by what is there when they arrive."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def propose(self, shard: ShardId, update: Update) -> Any:
        while True:
            if isinstance(update, RegisterSchema):
                await self._engine.catch_up(shard)
                known = self._engine.root.registry.subject(update.subject)
                update = _judged_at(update, 0 if known is None else known.revision)
            with suppress(Fenced):
                return await self._engine.propose(shard, update)


def _judged_at(update: RegisterSchema, revision: int) -> RegisterSchema:
    return RegisterSchema(
        update.subject,
        update.kind,
        update.text,
        update.digest,
        update.references,
        update.extra,
        revision,
        update.registry_revision,
    )


class Stale(SchemaRegistry):
    """Answers from what it happens to know."""

    async def fresh(self) -> Registry:
        return self.known


def with_engine(kind: type[Hasty]) -> Serve:
    async def serve(world: World, engine: Engine) -> None:
        await open_door(world, engine, SchemaRegistry(kind(engine)))  # type: ignore[arg-type]  # it is one but for a bug

    return serve


async def _serve_stale(world: World, engine: Engine) -> None:
    await open_door(world, engine, Stale(engine))


@scenario(hidden=True)
def planted_schemas_judged_too_early() -> Scenario:
    """Of two rivals both are taken. This scenario must fail."""
    return schemas(lake=SLOW, serving=with_engine(Hasty))


@scenario(hidden=True)
def planted_schemas_stale() -> Scenario:
    """A broker does not look whether others have registered something. This scenario must fail."""
    return schemas(lake=SLOW, serving=_serve_stale)
