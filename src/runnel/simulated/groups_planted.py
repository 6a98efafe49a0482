"""Groups with a planted bug each, so that what is checked of them is seen to catch something.

They are not listed and run only when named. `FOUND_BY` says what the violation must speak of.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from runnel.broker.broker import Broker
from runnel.broker.groups.coordinator import Coordinator
from runnel.broker.groups.held import Asked, Held
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.offset_commit import OffsetCommitRequest
from runnel.engine import Engine
from runnel.metadata.entry import Update
from runnel.metadata.ledger.faulty import LedgerFaults
from runnel.metadata.updates import CommitOffsets, CommitOfMember, EnterGeneration
from runnel.simulated.engine import CALM_LAKE
from runnel.simulated.groups import MEMBERS, groups
from runnel.simulated.groups_work import SETTINGS, Classic, open_door
from runnel.simulated.kafka_work import LIMITS
from runnel.simulated.lake import BROKERS, Serve
from runnel.world.simulation.faults import kills
from runnel.world.simulation.nodes import World
from runnel.world.simulation.scenario import Scenario, scenario

FOUND_BY = {
    "planted-groups-commits-of-anyone": "went back|is committed after that|was taken",
    "planted-groups-told-too-early": "was given to|came after|went back|read partitions",
    "planted-groups-greedy-leader": "was given to",
    "planted-groups-forgetful-leader": "read partitions",
}


class Trusted:
    """A machine that lets everyone commit."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def why_not_commit(self, ask: OffsetCommitRequest, *, version: int, at: float) -> None:
        del ask, version, at


class Trusting(Held):
    """Commits whatever anyone says, whether they are members or were, and whoever leads the group by now."""

    def take(self, asked: Asked) -> None:
        if asked.call is not None and asked.call.api_key == OffsetCommitRequest.api_key:
            event = asked.event
            asked = asked._replace(event=lambda machine, at: event(Trusted(machine), at))
        super().take(asked)

    def enter(self, update: Update, told: Callable[[ErrorCode | None], None]) -> None:
        if isinstance(update, CommitOfMember):
            update = CommitOffsets(update.group, update.offsets)
        super().enter(update, told)


class Hasty(Held):
    """Tells members what is not in the ledger yet, and may never be."""

    def enter(self, update: Update, told: Callable[[ErrorCode | None], None]) -> None:
        if isinstance(update, EnterGeneration):
            super().enter(update, lambda _: None)
            told(None)
        else:
            super().enter(update, told)


def serve_with(held_kind: type[Held]) -> Serve:
    class Planted(Coordinator):
        pass

    Planted.held_kind = held_kind

    async def serve(world: World, engine: Engine) -> None:
        broker = Broker.of(engine, SETTINGS, LIMITS)
        broker.groups.__class__ = Planted
        await open_door(world, broker)
        await asyncio.Event().wait()

    return serve


@scenario(hidden=True)
def planted_groups_commits_of_anyone() -> Scenario:
    """Commits are held against nothing. This scenario must fail."""
    return groups(kills(*MEMBERS), serving=serve_with(Trusting), lake=CALM_LAKE)


@scenario(hidden=True)
def planted_groups_told_too_early() -> Scenario:
    """Members hear of generations that the ledger does not know. This scenario must fail."""
    slow = {"store": CALM_LAKE["store"], "ledger": LedgerFaults(delay_ms_max=800)}
    return groups(
        kills(*BROKERS, every_ms=(200, 1500), down_ms=(50, 500)),
        kills(*MEMBERS, every_ms=(100, 800), down_ms=(50, 200)),
        serving=serve_with(Hasty),
        lake=slow,
        duration_ms=20_000,
    )


class Greedy(Classic):
    """Leads so that all read everything."""

    def plan(self, members: Sequence[str]) -> dict[str, Sequence[int]]:
        return dict.fromkeys(members, range(self.partitions))


class Forgetful(Classic):
    """Leads so that nobody reads the first partition."""

    def plan(self, members: Sequence[str]) -> dict[str, Sequence[int]]:
        return {each: range(1 + place, self.partitions, len(members)) for place, each in enumerate(members)}


@scenario(hidden=True)
def planted_groups_greedy_leader() -> Scenario:
    """A partition is given to more than one. This scenario must fail."""
    return groups(lake=CALM_LAKE, classic=Greedy)


@scenario(hidden=True)
def planted_groups_forgetful_leader() -> Scenario:
    """A partition is read by nobody. This scenario must fail."""
    return groups(lake=CALM_LAKE, classic=Forgetful)
