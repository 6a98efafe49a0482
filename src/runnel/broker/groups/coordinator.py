"""The groups of this broker: loaded when somebody asks, taken over when their shard becomes ours, given up when it goes.

Once a second a look is taken at who owns which shard. Groups of shards that have gone to another broker are dropped, and
their members told to look for their coordinator; groups with members of shards that have come are taken over, so that
the sessions of members that died along with their coordinator end as well.
"""

import asyncio
from functools import partial

from runnel.broker.alarms import Alarms
from runnel.broker.call import Call
from runnel.broker.groups.bounds import GroupBounds
from runnel.broker.groups.classic import ClassicGroup
from runnel.broker.groups.consumer import ConsumerGroup
from runnel.broker.groups.held import Asked, Held, code_of
from runnel.broker.groups.kept import decode_classic, decode_consumers
from runnel.broker.groups.machine import Event, Machine
from runnel.broker.groups.topics import TopicsSeen
from runnel.broker.problems import failed_response
from runnel.broker.routing import Routing
from runnel.codec.errors import ErrorCode
from runnel.engine import Engine
from runnel.errors import Fenced, Overloaded, RunnelError
from runnel.metadata.follower import Follower
from runnel.metadata.groups import Group
from runnel.metadata.state import Applied
from runnel.metadata.updates import AddPartitions, CreateTopic, DeleteTopic, EnterGeneration, TakeGroup
from runnel.model import ROOT, ShardId
from runnel.world.telemetry import get_log

log = get_log("groups")

LOOK_SECONDS = 1.0
TOPICS_CHANGE = (AddPartitions, CreateTopic, DeleteTopic)


class Coordinator:
    """See the module."""

    held_kind = Held

    def __init__(self, engine: Engine, routing: Routing, alarms: Alarms, bounds: GroupBounds) -> None:
        self.bounds = bounds
        self.id = engine.world.chance.randbytes(16)
        """Whom the ledger knows as the coordinator of our groups."""
        self._engine = engine
        self._routing = routing
        self._alarms = alarms
        self._held: dict[str, Held] = {}
        self._topic_changes = 0
        self._owned: set[int] = set()
        self._watched: dict[ShardId, Follower] = {}
        self._closed = False
        self._alarm: int | None = None
        engine.world.metrics.gauge(
            "runnel_groups_held",
            "Consumer groups with members that this node coordinates.",
            read=lambda: len(self._held),
        )

    # --- life

    def open(self) -> None:
        self._engine.shards.follower(ROOT).on_applied(self._saw_root)
        self._alarm = self._alarms.set(0.0, self._look)

    def close(self) -> None:
        """Give all groups up: their members look for whoever takes them."""
        self._closed = True
        if self._alarm is not None:
            self._alarms.cancel(self._alarm, self._look)
        for held in list(self._held.values()):
            held.drop(ErrorCode.NOT_COORDINATOR)

    # --- what handlers ask

    def shard_of(self, name: str) -> ShardId:
        return self._engine.shard_of_name(name)

    def coordinates(self, name: str) -> bool:
        """Whether this broker is the one to ask about a group."""
        return not self._closed and self._routing.leaders("")[self.shard_of(name)] == self._routing.node_id

    def submit(
        self,
        call: Call,
        name: str,
        event: Event,
        kind: str | None = None,
        mismatch: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID,
        *,
        joins: bool = False,
    ) -> None:
        """Let a group hear of a request; the group, or whoever fails to find it, answers.

        A request with a kind is for groups that can take that kind; others answer with `mismatch`.
        """
        held = self.hold(name) if self.coordinates(name) else None
        if held is not None:
            held.take(Asked(call, event, kind, mismatch, joins))
            return
        code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if self.coordinates(name) else ErrorCode.NOT_COORDINATOR
        response = failed_response(call.api_key, call.request, code)
        assert response is not None, f"API {call.api_key} has no words for an error"
        call.answer(response)

    def hold(self, name: str) -> Held | None:
        """A group in our hands, perhaps not loaded yet; None when there are too many."""
        held = self._held.get(name)
        if held is None and len(self._held) < self.bounds.groups_max:
            held = self._held[name] = self.held_kind(
                name,
                self.shard_of(name),
                self.id,
                clock=self._engine.world.clock,
                alarms=self._alarms,
                proposer=self._engine.proposer,
                make=partial(self._empty, name),
                topics=self.topics,
                release=self._released,
            )
            self._engine.world.tasks.spawn(self._load(held), name="load group")
        return held

    def machine(self, name: str) -> Machine | None:
        """A group in our hands that is loaded."""
        held = self._held.get(name)
        return None if held is None else held.machine

    async def loaded(self, name: str) -> Machine:
        """A group as it is now, in our hands or on loan: with members it is in our hands, without it is a copy."""
        held = self._held.get(name)
        if held is not None and held.machine is not None:
            return held.machine
        group = await self.kept(name)
        if group is None or not group.has_members:
            return self._made(name, group)
        held = self.hold(name)
        if held is None:
            raise Overloaded(f"{len(self._held)} groups are held already")
        return await held.ready()

    async def all_kept(self) -> list[Group]:
        """The groups of all shards that are ours, as the ledger has them now."""
        leaders = self._routing.leaders("")
        ours = [ShardId(each) for each in range(ROOT + 1, len(leaders)) if leaders[each] == self._routing.node_id]
        await asyncio.gather(*(self._engine.catch_up(shard) for shard in ours))
        return [group for shard in ours for group in self._engine.shards.follower(shard).state.groups.values()]

    async def look(self, name: str) -> tuple[Group | None, Machine] | ErrorCode:
        """A group as it is kept and as it is now, for who describes it; or why this broker cannot tell."""
        if not self.coordinates(name):
            return ErrorCode.NOT_COORDINATOR
        try:
            return await self.kept(name), await self.loaded(name)
        except RunnelError as error:
            return code_of(error)

    async def kept(self, name: str) -> Group | None:
        """A group as the ledger has it now."""
        shard = self.shard_of(name)
        await self._engine.catch_up(shard)
        return self._engine.shards.follower(shard).state.groups.get(name)

    def topics(self) -> TopicsSeen:
        """The topics as this node knows them."""
        root = self._engine.root
        return TopicsSeen((self._topic_changes, id(root)), root.topics)

    def fresh_member_id(self, prefix: str) -> str:
        """A member id that nobody has, which begins with something that people know."""
        return f"{prefix}-{fresh_uuid(self._engine.world.chance.randbytes(16))}"

    # --- loading

    def _released(self, held: Held) -> None:
        if self._held.get(held.name) is held:
            del self._held[held.name]

    async def _load(self, held: Held) -> None:
        try:
            machine, generation = await self._machine_of(held)
        except RunnelError as error:
            log.info("group_not_loaded", group=held.name, error=str(error))
            held.drop(code_of(error))
        else:
            if not held.dropped:
                held.loaded(machine, generation)

    async def _machine_of(self, held: Held) -> tuple[Machine, int]:
        name, shard = held.name, held.shard
        group = await self.kept(name)
        self._watch(shard)
        if group is not None and group.has_members and group.owner != self.id:
            await self._engine.propose(shard, TakeGroup(name, self.id))
            group = self._engine.shards.follower(shard).state.groups.get(name)
            if group is None or group.owner != self.id:
                raise Fenced(f"group '{name}' was taken over by another coordinator")
            log.info("group_taken_over", group=name, kind=group.kind, generation=group.generation)
        if group is None and len(self._engine.shards.follower(shard).state.groups) >= self.bounds.groups_max:
            raise Overloaded(f"there are {self.bounds.groups_max} groups in shard {shard} already")
        return self._made(name, group), 0 if group is None else group.generation

    def _made(self, name: str, group: Group | None) -> Machine:
        if group is None:
            return ClassicGroup(name, self.bounds)
        at = self._engine.world.clock.monotonic()
        if group.kind == ConsumerGroup.kind:
            consumers = decode_consumers(group.members, name)
            return ConsumerGroup.restored(name, self.bounds, group.generation, consumers, at)
        return ClassicGroup.restored(name, self.bounds, group.generation, decode_classic(group.members, name), at)

    def _empty(self, name: str, kind: str, generation: int) -> Machine:
        made = ConsumerGroup if kind == ConsumerGroup.kind else ClassicGroup
        return made(name, self.bounds, generation)

    def _watch(self, shard: ShardId) -> None:
        follower = self._engine.shards.follower(shard)
        if self._watched.get(shard) is not follower:
            self._watched[shard] = follower
            follower.on_applied(self._saw)

    def _saw(self, applied: Applied) -> None:
        """Another coordinator has entered something for a group of ours: it has the group now."""
        for place, update in enumerate(applied.entry.updates):
            if (
                isinstance(update, TakeGroup | EnterGeneration)
                and update.owner != self.id
                and (held := self._held.get(update.group)) is not None
                and held.machine is not None
                and applied.results is not None
                and not isinstance(applied.results[place], RunnelError)
            ):
                log.info("group_lost", group=update.group)
                held.drop(ErrorCode.NOT_COORDINATOR)

    def _saw_root(self, applied: Applied) -> None:
        self._topic_changes += any(isinstance(update, TOPICS_CHANGE) for update in applied.entry.updates)

    # --- shards come and go

    def _look(self) -> None:
        self._alarm = self._alarms.set(LOOK_SECONDS, self._look)
        for name, held in list(self._held.items()):
            if not self.coordinates(name):
                held.drop(ErrorCode.NOT_COORDINATOR)
        leaders = self._routing.leaders("")
        node = self._routing.node_id
        owned = {shard for shard in range(ROOT + 1, len(leaders)) if leaders[shard] == node}
        come = owned - self._owned
        self._owned = owned
        if come:
            self._engine.world.tasks.spawn(self._adopt(come), name="adopt groups")

    async def _adopt(self, shards: set[int]) -> None:
        for shard in sorted(shards):
            try:
                await self._engine.catch_up(ShardId(shard))
            except RunnelError as error:
                log.info("groups_not_adopted", shard=shard, error=str(error))
                self._owned.discard(shard)  # the next look tries again
                continue
            for group in list(self._engine.shards.follower(ShardId(shard)).state.groups.values()):
                if group.has_members and self.coordinates(group.name):
                    self.hold(group.name)


def fresh_uuid(drawn: bytes) -> str:
    """A version 4 UUID out of sixteen random bytes, as people write it."""
    digits = drawn.hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{'89ab'[drawn[8] & 3]}{digits[17:20]}-{digits[20:]}"
