"""Members of consumer groups in the simulated cluster, and the book of what they were told.

A *classic* member joins, assigns if it leads, syncs, sends heartbeats, and gives everything up before it joins again. A
*modern* one sends heartbeats of the new protocol and does what their answers say. Both read nothing: for each partition
that is theirs they ask for the committed offset and commit one more, again and again, as a consumer of endless streams
would. So what fences a member that was left behind shows in the offsets: they never go back.

What can be judged at once is judged at once; the rest, in groups.py, when all is calm.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from runnel.broker.broker import Broker
from runnel.broker.groups.subscriptions import assignment_in
from runnel.broker.server import KafkaServer
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from runnel.codec.messages.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from runnel.codec.messages.find_coordinator import FindCoordinatorRequest
from runnel.codec.messages.heartbeat import HeartbeatRequest
from runnel.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from runnel.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from runnel.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from runnel.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from runnel.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from runnel.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from runnel.codec.wire import encode_bare
from runnel.engine import Engine
from runnel.settings import Settings
from runnel.simulated.kafka_work import BROKEN, LIMITS, PORT, Talk, TryAgain
from runnel.simulated.lake import Lake
from runnel.world.simulation.nodes import NodePlan, World
from runnel.world.simulation.process import Process

SESSION_S = 2.0
REBALANCE_S = 4.0
BEAT_S = 0.3
ECHOES = 0.3
"""How often, with each commit, one of an earlier generation comes again."""
LEAVES = 0.02
"""How often, with each heartbeat, a member leaves of its own will."""
SETTINGS = Settings(
    group_session_ms_min=100,
    group_initial_delay_ms=100,
    consumer_session_ms=int(SESSION_S * 1000),
    consumer_heartbeat_ms=int(BEAT_S * 1000),
)
ELSEWHERE = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
}
"""Look for the coordinator, and try again."""
LEFT_BEHIND = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNRELEASED_INSTANCE_ID,
}
"""The group went on without this member."""


class LeftBehind(Exception):
    """Give everything up and begin anew."""


class JoinAgain(Exception):
    """The group rebalances."""


@dataclass(slots=True)
class GroupBook:
    """What members of one group were told, outside of all nodes."""

    owned: dict[str, tuple[Process, frozenset[int]]] = field(default_factory=dict)
    """What each node reads now, as far as it knows, and the process that does."""
    handed_out: dict[int, dict[int, str]] = field(default_factory=dict)
    """By generation of a classic group: who was given a partition."""
    acknowledged: dict[int, int] = field(default_factory=dict)
    """The largest offset of a partition whose commit was acknowledged."""
    commits: int = 0
    generations: int = 0

    def given(self, generation: int, member: str, partitions: Sequence[int]) -> None:
        """A member of a classic group has got its assignment."""
        self.generations = max(self.generations, generation)
        given = self.handed_out.setdefault(generation, {})
        for partition in partitions:
            holder = given.setdefault(partition, member)
            assert holder == member, (
                f"in generation {generation} partition {partition} was given to {holder} and to {member}"
            )

    def committed(self, partition: int, offset: int) -> None:
        self.commits += 1
        self.acknowledged[partition] = max(self.acknowledged.get(partition, 0), offset)

    def fetched(self, partition: int, offset: int, floor: int) -> None:
        assert offset >= floor, (
            f"offset {floor} of partition {partition} was acknowledged, and {offset} is committed after that"
        )

    def covered(self) -> list[int]:
        """What is read by anybody who lives."""
        return sorted(part for process, parts in self.owned.values() if process.alive for part in parts)


def book_of(lake: Lake, group: str) -> GroupBook:
    book = lake.work.setdefault("groups", {}).setdefault(group, GroupBook())
    assert isinstance(book, GroupBook)
    return book


# ---- brokers -------------------------------------------------------------------------------------------------------


async def serve_groups(world: World, engine: Engine) -> None:
    """Open the door in a broker and stay."""
    await open_door(world, Broker.of(engine, SETTINGS, LIMITS))
    await asyncio.Event().wait()


async def open_door(world: World, broker: Broker) -> None:
    server = KafkaServer(broker)
    await server.start(world.node, PORT)
    broker.routing.announce(world.node, PORT)
    membership = broker.engine.membership
    assert membership is not None, "coordinators are found among those who are present"
    await membership.tell({"kafka": f"{world.node}:{PORT}"})


# ---- members -------------------------------------------------------------------------------------------------------


class Member:
    """What both kinds have in common."""

    def __init__(self, world: World, group: str, topic: str, brokers: Sequence[str]) -> None:
        self.world = world
        self.lake: Lake = world.state
        self.book = book_of(self.lake, group)
        self.group, self.topic, self.brokers = group, topic, brokers
        self.partitions = len(self.lake.streams[topic])
        self.member = ""
        self.epoch = 0
        """The generation, or the member's epoch."""
        self.positions: dict[int, int] = {}
        self.heard_at = 0.0
        self.topic_id = b""
        self.last_commit: OffsetCommitRequest | None = None

    async def work(self) -> None:
        world = self.world
        while True:
            try:
                talk = await self._coordinator()
                try:
                    await self._take_part(talk)
                finally:
                    talk.close()
            except (*BROKEN, TryAgain) as error:
                world.note("looks elsewhere", why=str(error) or type(error).__name__)
            except LeftBehind as why:
                world.note("left behind", why=str(why))
                self.own(())
                self.member, self.epoch = "", 0
            if self.epoch and world.clock.monotonic() - self.heard_at > SESSION_S:
                self.own(())  # its session is over, for all it knows
                self.epoch = 0
            await asyncio.sleep(world.chance.uniform(0.05, 0.3))

    async def _coordinator(self) -> Talk:
        talk = await Talk.to(self.world, self.world.chance.choice(self.brokers))
        # Whoever waits longer for a broker that lost its power holds on to what others read by then.
        talk.patience_s = REBALANCE_S + 1
        try:
            told = await talk.ask(FindCoordinatorRequest(coordinator_keys=[self.group]), 4)
            if not self.topic_id:
                found = await talk.ask(MetadataRequest(topics=[MetadataRequestTopic(name=self.topic)]), 12)
                self.topic_id = found.topics[0].topic_id
        finally:
            talk.close()
        (coordinator,) = told.coordinators
        talk = await Talk.to(self.world, coordinator.host)
        talk.patience_s = self.world.chance.choice((1.0, REBALANCE_S + 1))
        return talk

    async def _take_part(self, talk: Talk) -> None:
        raise NotImplementedError

    def own(self, partitions: Sequence[int]) -> None:
        """From now on these are ours."""
        self.book.owned[self.world.node] = (self.world.process, frozenset(partitions))
        self.positions = {each: at for each, at in self.positions.items() if each in partitions}

    def heard(self) -> None:
        self.heard_at = self.world.clock.monotonic()

    def judge(self, code: int) -> None:
        """What an error means for a member."""
        if code in ELSEWHERE:
            raise TryAgain(ErrorCode(code).name)
        if code in LEFT_BEHIND:
            raise LeftBehind(ErrorCode(code).name)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise JoinAgain
        if code:
            self.world.violate(f"a member of {self.group} was answered with {ErrorCode(code).name}")

    async def move_on(self, talk: Talk) -> None:
        """Read where we stand in what is new, and commit a little more of everything."""
        _, owned = self.book.owned.get(self.world.node, (None, frozenset[int]()))
        new = sorted(owned - self.positions.keys())
        if new:
            floors = {each: self.book.acknowledged.get(each, 0) for each in new}
            wanted = OffsetFetchRequestTopics(name=self.topic, partition_indexes=new)
            asked = OffsetFetchRequestGroup(group_id=self.group, topics=[wanted])
            told = await talk.ask(OffsetFetchRequest(groups=[asked]), 8)
            (group,) = told.groups
            self.judge(group.error_code)
            for each in group.topics[0].partitions:
                at = max(each.committed_offset, 0)
                self.book.fetched(each.partition_index, at, floors[each.partition_index])
                self.positions[each.partition_index] = at
        await self._echo(talk)
        wanted_offsets = {each: at + 1 for each, at in sorted(self.positions.items())}
        if not wanted_offsets:
            return
        rows = [
            OffsetCommitRequestPartition(partition_index=each, committed_offset=at)
            for each, at in wanted_offsets.items()
        ]
        ask = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member,
            topics=[OffsetCommitRequestTopic(name=self.topic, partitions=rows)],
        )
        told = await talk.ask(ask, 9)
        codes = {each.error_code for each in told.topics[0].partitions}
        assert len(codes) == 1, f"partitions of one commit were answered with {codes}"
        (code,) = codes
        if code == ErrorCode.STALE_MEMBER_EPOCH:
            return  # the next heartbeat tells the newer one
        self.judge(code)
        self.last_commit = ask
        for each, at in wanted_offsets.items():
            self.book.committed(each, at)
            self.positions[each] = at

    async def _echo(self, talk: Talk) -> None:
        """A commit of an earlier time comes again, as one that was long on its way would: it must not be taken."""
        echo = self.last_commit
        if echo is None or self.world.chance.random() >= ECHOES:
            return
        came_as = (echo.member_id, echo.generation_id_or_member_epoch)
        if came_as != (self.member, self.epoch):
            told = await talk.ask(echo, 9)
            codes = {each.error_code for each in told.topics[0].partitions}
            assert 0 not in codes, f"a commit of {came_as} was taken from {(self.member, self.epoch)}"


class Classic(Member):
    """A member of the classic protocol."""

    synced = False
    """Whether it knows what its generation gives it."""

    async def _take_part(self, talk: Talk) -> None:
        chance = self.world.chance
        if self.epoch == 0 or not self.synced:
            await self._join(talk)
        while True:
            try:
                ask = HeartbeatRequest(group_id=self.group, generation_id=self.epoch, member_id=self.member)
                self.judge((await talk.ask(ask, 3)).error_code)
                self.heard()
                await self.move_on(talk)
                if self.world.working and chance.random() < LEAVES:
                    await self._leave(talk)
                await asyncio.sleep(chance.uniform(0.5, 1.0) * BEAT_S)
            except JoinAgain:
                await self._join(talk)

    async def _join(self, talk: Talk) -> None:
        while True:
            self.own(())  # eagerly: all is given up before it can be somebody else's
            self.synced = False
            ask = JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=int(SESSION_S * 1000),
                rebalance_timeout_ms=int(REBALANCE_S * 1000),
                member_id=self.member,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="evenly", metadata=self.metadata())],
            )
            told = await talk.ask(ask, 7)
            if told.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member = told.member_id
                continue
            try:
                self.judge(told.error_code)
                assert told.generation_id >= self.epoch, f"generation {told.generation_id} came after {self.epoch}"
                self.member, self.epoch = told.member_id, told.generation_id
                await self._sync(talk, told)
            except JoinAgain:
                continue
            self.heard()
            return

    async def _sync(self, talk: Talk, joined: Any) -> None:
        plan = [
            SyncGroupRequestAssignment(member_id=each, assignment=self.handed_out(partitions))
            for each, partitions in self.plan(sorted(each.member_id for each in joined.members)).items()
        ]
        ask = SyncGroupRequest(group_id=self.group, generation_id=self.epoch, member_id=self.member, assignments=plan)
        told = await talk.ask(ask, 4)
        self.judge(told.error_code)
        mine = self.understood(told.assignment)
        self.book.given(self.epoch, self.member, mine)
        self.own(mine)
        self.synced = True
        self.world.note("reads", generation=self.epoch, partitions=",".join(map(str, mine)))

    def metadata(self) -> bytes:
        """What it says of itself."""
        return self.world.node.encode()

    def handed_out(self, partitions: Sequence[int]) -> bytes:
        return bytes(partitions)

    def understood(self, assignment: bytes) -> list[int]:
        return list(assignment)

    def plan(self, members: Sequence[str]) -> dict[str, Sequence[int]]:
        """Who reads what, if this member leads."""
        return {each: range(place, self.partitions, len(members)) for place, each in enumerate(members)}

    async def _leave(self, talk: Talk) -> None:
        self.own(())
        ask = LeaveGroupRequest(group_id=self.group, members=[MemberIdentity(member_id=self.member)])
        told = await talk.ask(ask, 4)
        self.judge(told.error_code or told.members[0].error_code)
        raise LeftBehind("of its own will")


class Plain(Classic):
    """A member of the classic protocol that is a consumer as others are: a broker understands what it says."""

    def metadata(self) -> bytes:
        return b"\0\3" + encode_bare(ConsumerProtocolSubscription(topics=[self.topic]), 3)

    def handed_out(self, partitions: Sequence[int]) -> bytes:
        rows = [AssignedPartitions(topic=self.topic, partitions=list(partitions))]
        return b"\0\3" + encode_bare(ConsumerProtocolAssignment(assigned_partitions=rows), 3)

    def understood(self, assignment: bytes) -> list[int]:
        return assignment_in(assignment).get(self.topic, [])


class Modern(Member):
    """A member of the new protocol."""

    async def _take_part(self, talk: Talk) -> None:
        chance = self.world.chance
        if not self.member:
            self.member = f"{self.world.node}-{chance.randbytes(4).hex()}"
        full = True
        while True:
            _, owned = self.book.owned.get(self.world.node, (None, frozenset[int]()))
            first = self.epoch == 0
            ask = ConsumerGroupHeartbeatRequest(
                group_id=self.group,
                member_id=self.member,
                member_epoch=self.epoch,
                topic_partitions=[] if first else self._telling(owned),
            )
            if first or full:
                ask.rebalance_timeout_ms = int(REBALANCE_S * 1000)
                ask.subscribed_topic_names = [self.topic]
            told = await talk.ask(ask, 1)
            self.judge(told.error_code)
            self.heard()
            full = False
            if told.member_epoch != self.epoch:
                self.book.generations = max(self.book.generations, told.member_epoch)
            assert told.member_epoch >= self.epoch, f"{self.member} went back from {self.epoch} to {told.member_epoch}"
            self.epoch = told.member_epoch
            if told.assignment is not None:
                mine = [index for each in told.assignment.topic_partitions for index in each.partitions]
                self.own(mine)
                self.world.note("reads", epoch=self.epoch, partitions=",".join(map(str, mine)))
            await self.move_on(talk)
            if self.world.working and chance.random() < LEAVES:
                await self._leave(talk)
            await asyncio.sleep(chance.uniform(0.5, 1.0) * BEAT_S)

    def _telling(self, owned: frozenset[int]) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=self.topic_id, partitions=sorted(owned))] if owned else []

    async def _leave(self, talk: Talk) -> None:
        self.own(())
        ask = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member, member_epoch=-1, topic_partitions=None
        )
        told = await talk.ask(ask, 1)
        self.judge(told.error_code)
        raise LeftBehind("of its own will")


def members(
    count: int, kind: type[Member], group: str, topic: str, brokers: Sequence[str], *, called: str = "member"
) -> tuple[NodePlan, ...]:
    """Nodes `group-member1`, `group-member2` … that take part for as long as they live, and come back when they die."""

    async def main(world: World) -> None:
        await kind(world, group, topic, brokers).work()

    return tuple(NodePlan(name=name, main=main, restart_ms=(50, 1000)) for name in member_names(count, group, called))


def member_names(count: int, group: str, called: str = "member") -> tuple[str, ...]:
    return tuple(f"{group}-{called}{number}" for number in range(1, count + 1))
