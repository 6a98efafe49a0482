"""A group of the classic protocol, as a pure state machine: time comes in, answers go out, nothing waits.

    Empty               no members
    PreparingRebalance  members join; it ends when all have, or when patience does: then a new generation begins
    CompletingRebalance the leader works out who reads what; the others wait for it in SyncGroup
    Stable              everyone has an assignment and sends heartbeats

Whoever joins, leaves or falls silent starts the circle anew. The members do the assigning; nothing in here knows what a
partition is.

An event's answers gather in `answers`, each with the request that it is for. If `dirty` is set by then, they must wait
until what `kept` says is durable. `due` is when `tick` wants to be called next. The rules are those of Kafka's
ClassicGroup and its coordinator; where a name differs, the comment has Kafka's.
"""

import math
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

from runnel.broker.groups.bounds import GroupBounds
from runnel.broker.groups.kept import KeptClassic
from runnel.broker.groups.member import Caller, Member, protocols_of, size_of
from runnel.broker.groups.subscriptions import subscription_in
from runnel.codec.declare import Message
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.describe_groups import DescribedGroupMember
from runnel.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from runnel.codec.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from runnel.codec.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from runnel.codec.messages.offset_commit import OffsetCommitRequest
from runnel.codec.messages.sync_group import SyncGroupRequest, SyncGroupResponse

KNOWN_ID_FROM = 4
"""JoinGroup: from this version on a new member learns its id first, and then joins with it (KIP-394)."""
SKIPS_FROM = 9
"""JoinGroup: from this version on a leader can be told that its assignment is not asked for (KIP-814)."""


class Phase(Enum):
    """Spelled as DescribeGroups tells them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class ClassicGroup:
    """See the module."""

    kind = "classic"

    def __init__(self, name: str, bounds: GroupBounds, generation: int = 0) -> None:
        self.name = name
        self.bounds = bounds
        self.generation = generation
        self.phase = Phase.EMPTY
        self.protocol_type = ""
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        """Member by instance id."""
        self.pending: dict[str, float] = {}
        """Member ids that were given out and not yet used, with when they are forgotten."""
        self.answers: list[tuple[Any, Message]] = []
        self.dirty = False
        self._unsynced: dict[str, None] = {}
        self._join_by = math.inf
        self._sync_by = math.inf
        self._gathering = False
        """The first generation waits for more members to come, even when all that are there have joined."""
        self._gather_left = 0.0
        self._came_while_gathering = False

    @classmethod
    def restored(cls, name: str, bounds: GroupBounds, generation: int, kept: KeptClassic, at: float) -> "ClassicGroup":
        """The group as another coordinator has left it; its members have a session's time to speak up."""
        group = cls(name, bounds, generation)
        group.protocol_type = kept.protocol_type
        group.protocol = kept.protocol
        group.leader = kept.leader
        for each in kept.members:
            member = Member.restored(each)
            member.alive(at)
            group.members[member.id] = member
            if member.instance is not None:
                group.instances[member.instance] = member.id
        if group.members:
            group.phase = Phase.STABLE
            if not kept.assigned:
                group._prepare(at)
        return group

    def kept(self) -> KeptClassic:
        return KeptClassic(
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            assigned=self.phase is Phase.STABLE,
            members=[member.kept() for member in self.members.values()],
        )

    @property
    def state(self) -> str:
        return self.phase.value

    @property
    def is_idle(self) -> bool:
        """Nothing but what the ledger has: there is no need to hold it in memory."""
        return not self.members and not self.pending and self.phase is Phase.EMPTY

    def waiting(self) -> Iterator[Any]:
        """The requests that wait for their answers."""
        for member in self.members.values():
            if member.joining is not None:
                yield member.joining
            if member.syncing is not None:
                yield member.syncing

    # --- joining

    def join(self, to: Any, ask: JoinGroupRequest, *, version: int, by: Caller, fresh: str, at: float) -> None:
        """JoinGroup. `fresh` is a member id that nobody has."""
        if not self._has_room(ask):
            if (known := self.members.get(ask.member_id)) is not None:
                self._remove(known, at)
            self._refuse_join(to, ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        elif not self._takes(ask):
            self._refuse_join(to, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ask.member_id)
        elif ask.member_id:
            self._join_with_id(to, ask, by, at)
        elif ask.group_instance_id is not None:
            self._join_static(to, ask, version, by, fresh, at)
        elif version >= KNOWN_ID_FROM:
            self.pending[fresh] = at + ask.session_timeout_ms / 1000
            self._refuse_join(to, ErrorCode.MEMBER_ID_REQUIRED, fresh)
        else:
            self._add(to, ask, by, fresh, at)

    def _has_room(self, ask: JoinGroupRequest) -> bool:
        """Whether the group may hold this member, in number and in size."""
        known = self.members.get(ask.member_id) or self.members.get(self.instances.get(ask.group_instance_id or "", ""))
        size = size_of(protocols_of(ask.protocols))
        others = sum(member.size() for member in self.members.values() if member is not known)
        if others + size > self.bounds.metadata_bytes_max:
            return False
        if known is not None:
            return True
        waiting = 0 if ask.member_id in self.pending else len(self.pending)
        return len(self.members) + waiting < self.bounds.members_max

    def _takes(self, ask: JoinGroupRequest) -> bool:
        """Whether there is a protocol that the member and all others speak (supportsProtocols)."""
        offered = {each.name for each in ask.protocols}
        if not ask.protocol_type or not offered:
            return False
        others = [member for member in self.members.values() if member.id != ask.member_id]
        if not self.members:
            return True
        return ask.protocol_type == self.protocol_type and (not others or bool(offered & self._spoken_by_all(others)))

    def _join_with_id(self, to: Any, ask: JoinGroupRequest, by: Caller, at: float) -> None:
        if self.pending.pop(ask.member_id, None) is not None:
            self._add(to, ask, by, ask.member_id, at)
            return
        error = self._why_not(ask.member_id, ask.group_instance_id)
        if error is not None:
            self._refuse_join(to, error, ask.member_id)
            return
        member = self.members[ask.member_id]
        same = list(member.protocols) == protocols_of(ask.protocols)
        if same and self.phase is Phase.COMPLETING:
            # It has not got the answer to its join: here is the same again.
            self._answer_join(to, member)
        elif same and self.phase is Phase.STABLE and member.id != self.leader:
            self._answer_join(to, member)
        else:
            self._update(member, ask)
            self._wait_for_join(member, to, at)
            self._prepare(at)

    def _join_static(self, to: Any, ask: JoinGroupRequest, version: int, by: Caller, fresh: str, at: float) -> None:
        """A member with an instance id and no member id: new, or back again after a restart."""
        assert ask.group_instance_id is not None
        old = self.members.get(self.instances.get(ask.group_instance_id, ""))
        if old is None:
            self._add(to, ask, by, fresh, at)
            return
        led = self.leader
        member = self._replace(old, fresh, by)
        self._update(member, ask)
        if self.phase is Phase.STABLE and self._choose() == self.protocol:
            # Back in its place: nobody else need notice.
            member.alive(at)
            self.dirty = True
            leads = member.id == self.leader
            if version >= SKIPS_FROM:
                self._answer_join(to, member, skip=leads)
            else:
                # It must not take itself for the leader, or it would hand out an assignment that nobody asked for.
                self._answer_join(to, member, leader=led)
            return
        self._wait_for_join(member, to, at)
        self._prepare(at)

    def _replace(self, old: Member, member_id: str, by: Caller) -> Member:
        """A member with the same instance id takes the old one's place; the old one is fenced."""
        assert old.instance is not None
        self._answer_waits(old, ErrorCode.FENCED_INSTANCE_ID)
        member = Member(member_id, old.instance, by)
        member.is_new = False
        member.assignment = old.assignment
        # In the old one's place, so that the order of members (and with it the next leader) stays.
        self.members = {
            member_id if each.id == old.id else each.id: member if each.id == old.id else each
            for each in self.members.values()
        }
        self.instances[old.instance] = member_id
        if old.id in self._unsynced:
            del self._unsynced[old.id]
            self._unsynced[member_id] = None
        if self.leader == old.id:
            self.leader = member_id
        return member

    def _add(self, to: Any, ask: JoinGroupRequest, by: Caller, member_id: str, at: float) -> None:
        member = self.members[member_id] = Member(member_id, ask.group_instance_id, by)
        if member.instance is not None:
            self.instances[member.instance] = member_id
        self.protocol_type = ask.protocol_type
        self.leader = self.leader or member_id
        self._update(member, ask)
        self._wait_for_join(member, to, at)
        self._came_while_gathering = True
        self._prepare(at)

    def _update(self, member: Member, ask: JoinGroupRequest) -> None:
        member.protocols = protocols_of(ask.protocols)
        member.session_seconds = ask.session_timeout_ms / 1000
        # Version 0 has no rebalance timeout: the session's serves.
        rebalance_ms = ask.rebalance_timeout_ms if ask.rebalance_timeout_ms >= 0 else ask.session_timeout_ms
        member.rebalance_seconds = rebalance_ms / 1000

    def _wait_for_join(self, member: Member, to: Any, at: float) -> None:
        if member.joining is not None:  # asked again on another connection: only the newest is answered in earnest
            self._refuse_join(member.joining, ErrorCode.REBALANCE_IN_PROGRESS, member.id)
        member.joining = to
        if member.is_new:
            member.deadline = at + self.bounds.new_member_seconds

    # --- from one generation to the next

    def rejoin(self, at: float) -> None:
        """Ask members that were put in from outside to join."""
        self.phase = Phase.STABLE
        self._prepare(at)

    def _prepare(self, at: float) -> None:
        """Ask everyone to join (prepareRebalance)."""
        if self.phase is Phase.PREPARING:
            self._try_to_complete(at)
            return
        if self.phase is Phase.COMPLETING:
            for member in self.members.values():
                member.assignment = b""
                if member.syncing is not None:
                    self.answers.append((member.syncing, _not_synced(ErrorCode.REBALANCE_IN_PROGRESS)))
                    member.syncing = None
                    member.alive(at)
        first = self.phase is Phase.EMPTY
        self.phase = Phase.PREPARING
        self._unsynced.clear()
        self._sync_by = math.inf
        patience = self._patience()
        if first and self.bounds.initial_delay_ms > 0:
            delay = min(self.bounds.initial_delay_ms / 1000, patience)
            self._gathering = True
            self._gather_left = patience - delay
            self._came_while_gathering = False
            self._join_by = at + delay
        else:
            self._join_by = at + patience
            self._try_to_complete(at)

    def _patience(self) -> float:
        return max((member.rebalance_seconds for member in self.members.values()), default=0.0)

    def _try_to_complete(self, at: float) -> None:
        if self._gathering or self.pending or any(member.joining is None for member in self.members.values()):
            return
        self._complete_join(at)

    def _complete_join(self, at: float) -> None:
        """Whoever has not joined by now is out; the others are the next generation (completeClassicGroupJoin)."""
        self._gathering = False
        for member in [each for each in self.members.values() if each.joining is None and each.instance is None]:
            self._forget(member)
        if self.members and not self._elect():
            # Only static members are left, and none of them has joined: they may until their sessions end.
            self._join_by = at + self._patience()
            return
        self.generation += 1
        self.dirty = True
        self._join_by = math.inf
        if not self.members:
            self.phase = Phase.EMPTY
            self.protocol = self.leader = ""
            return
        self.protocol = self._choose()
        self.phase = Phase.COMPLETING
        self._sync_by = at + self._patience()
        self._unsynced = dict.fromkeys(self.members)
        for member in self.members.values():
            member.is_new = False
            member.assignment = b""
            member.alive(at)
            if member.joining is not None:
                self._answer_join(member.joining, member)
                member.joining = None

    def _elect(self) -> bool:
        """A leader that has joined stays; otherwise the first one who has (maybeElectNewJoinedLeader)."""
        leader = self.members.get(self.leader)
        if leader is None or leader.joining is None:
            leader = next((each for each in self.members.values() if each.joining is not None), None)
        if leader is None:
            return False
        self.leader = leader.id
        return True

    def _choose(self) -> str:
        """The protocol that most members like best among those that all speak (selectProtocol)."""
        spoken = self._spoken_by_all(self.members.values())
        votes: dict[str, int] = {}
        for member in self.members.values():
            liked = next((name for name, _ in member.protocols if name in spoken), None)
            if liked is not None:
                votes[liked] = votes.get(liked, 0) + 1
        return max(votes, key=lambda name: votes[name]) if votes else ""

    @staticmethod
    def _spoken_by_all(members: Iterable[Member]) -> set[str]:
        spoken: set[str] | None = None
        for member in members:
            mine = {name for name, _ in member.protocols}
            spoken = mine if spoken is None else spoken & mine
        return spoken or set()

    # --- assignments

    def sync(self, to: Any, ask: SyncGroupRequest, *, at: float) -> None:
        """SyncGroup."""
        error = self._why_not(ask.member_id, ask.group_instance_id) or self._why_not_sync(ask)
        if error is not None:
            self.answers.append((to, _not_synced(error)))
            return
        member = self.members[ask.member_id]
        self._unsynced.pop(member.id, None)
        if not self._unsynced:
            self._sync_by = math.inf
        if self.phase is Phase.STABLE:
            member.alive(at)
            self._answer_sync(to, member)
            return
        if member.syncing is not None:
            self.answers.append((member.syncing, _not_synced(ErrorCode.REBALANCE_IN_PROGRESS)))
        member.syncing = to
        if member.id != self.leader:
            return
        for each in ask.assignments:
            if each.member_id in self.members:
                self.members[each.member_id].assignment = each.assignment
        self.phase = Phase.STABLE
        self.dirty = True
        for each_member in self.members.values():
            if each_member.syncing is not None:
                self._answer_sync(each_member.syncing, each_member)
                each_member.syncing = None
                each_member.alive(at)

    def _why_not_sync(self, ask: SyncGroupRequest) -> ErrorCode | None:
        if ask.generation_id != self.generation:
            return ErrorCode.ILLEGAL_GENERATION
        told = ((ask.protocol_type, self.protocol_type), (ask.protocol_name, self.protocol))
        if any(theirs is not None and theirs != ours for theirs, ours in told):
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if self.phase is Phase.PREPARING:
            return ErrorCode.REBALANCE_IN_PROGRESS
        if sum(len(each.assignment) for each in ask.assignments) > self.bounds.assignment_bytes_max:
            # Kafka's log refuses what is larger than a record may be, and says no more than this either.
            return ErrorCode.UNKNOWN_SERVER_ERROR
        return None

    # --- being alive, and no longer

    def heartbeat(self, to: Any, ask: HeartbeatRequest, *, at: float) -> None:
        error = self._why_not(ask.member_id, ask.group_instance_id)
        if error is None and ask.generation_id != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is None:
            self.members[ask.member_id].alive(at)
            if self.phase is Phase.PREPARING:
                error = ErrorCode.REBALANCE_IN_PROGRESS
        self.answers.append((to, HeartbeatResponse(error_code=error or ErrorCode.NONE)))

    def leave(self, to: Any, ask: LeaveGroupRequest, *, version: int, at: float) -> None:
        """LeaveGroup: one member up to version 2, many from then on, static ones by their instance ids alone."""
        if version < 3:
            error = self._leave(MemberIdentity(member_id=ask.member_id), at)
            self.answers.append((to, LeaveGroupResponse(error_code=error or ErrorCode.NONE)))
            return
        told = [
            MemberResponse(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                error_code=self._leave(each, at) or ErrorCode.NONE,
            )
            for each in ask.members
        ]
        self.answers.append((to, LeaveGroupResponse(members=told)))

    def _leave(self, who: MemberIdentity, at: float) -> ErrorCode | None:
        member_id = who.member_id
        if not member_id and who.group_instance_id is not None:
            member_id = self.instances.get(who.group_instance_id, "")
        if self.pending.pop(member_id, None) is not None:
            self._prepared_without(at)
            return None
        error = self._why_not(member_id, who.group_instance_id)
        if error is None:
            self._remove(self.members[member_id], at)
        return error

    @property
    def due(self) -> float:
        """When something is to be done if nobody speaks until then."""
        due = min(self._join_by, self._sync_by, *self.pending.values(), math.inf)
        for member in self.members.values():
            if (member.is_new or not member.waits) and member.deadline < due:
                due = member.deadline
        return due

    def tick(self, at: float) -> None:
        """Time has come for something."""
        for member_id in [each for each, until in self.pending.items() if until <= at]:
            del self.pending[member_id]
            self._prepared_without(at)
        for member in list(self.members.values()):
            if member.deadline <= at and (member.is_new or not member.waits) and member.id in self.members:
                self._remove(member, at)
        if self._join_by <= at:
            if self._gathering and self._came_while_gathering and self._gather_left > 0:
                delay = min(self.bounds.initial_delay_ms / 1000, self._gather_left)
                self._gather_left -= delay
                self._came_while_gathering = False
                self._join_by = at + delay
            else:
                self._complete_join(at)
        if self._sync_by <= at:
            silent = [self.members[each] for each in self._unsynced if each in self.members]
            self._sync_by = math.inf
            for member in silent:
                self._forget(member)
            self._prepare(at)

    def _remove(self, member: Member, at: float) -> None:
        """A member has left or fallen silent; the others share out its part."""
        self._forget(member)
        if self.phase is Phase.PREPARING:
            self._prepared_without(at)
        elif self.phase is not Phase.EMPTY:
            self._prepare(at)

    def _prepared_without(self, at: float) -> None:
        if self.phase is Phase.PREPARING:
            self._try_to_complete(at)

    def _forget(self, member: Member) -> None:
        self._answer_waits(member, ErrorCode.UNKNOWN_MEMBER_ID)
        del self.members[member.id]
        self._unsynced.pop(member.id, None)
        if member.instance is not None and self.instances.get(member.instance) == member.id:
            del self.instances[member.instance]
        if self.leader == member.id:
            self.leader = next(iter(self.members), "")

    # --- offsets

    def why_not_commit(self, ask: OffsetCommitRequest, *, version: int, at: float) -> ErrorCode | None:
        """Whether this member may commit offsets now; without members anyone may who claims no generation."""
        del version
        generation = ask.generation_id_or_member_epoch
        if generation < 0 and self.phase is Phase.EMPTY:
            return None
        if generation < 0 and not ask.member_id and ask.group_instance_id is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        error = self._why_not(ask.member_id, ask.group_instance_id)
        if error is None and generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        if error is None and self.phase is Phase.COMPLETING:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error is None:
            self.members[ask.member_id].alive(at)
        return error

    def why_not_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        """Anyone may know the offsets of a classic group."""
        del member_id, epoch
        return None

    # --- what people ask

    def described(self) -> list[DescribedGroupMember]:
        """Members as DescribeGroups tells them: what they read only while that is settled."""
        settled = self.phase is Phase.STABLE
        return [
            DescribedGroupMember(
                member_id=member.id,
                group_instance_id=member.instance,
                client_id=member.caller.client_id,
                client_host=member.caller.host,
                member_metadata=member.metadata(self.protocol) if settled else b"",
                member_assignment=member.assignment if settled else b"",
            )
            for member in self.members.values()
        ]

    def reads(self, topic: str) -> bool:
        """Whether some member has subscribed to a topic; of a consumer that cannot be understood, it is assumed."""
        subscribed = [subscription_in(member.metadata(self.protocol)) for member in self.members.values()]
        return any(topics is None or topic in topics for topics in subscribed)

    # --- answers

    def _why_not(self, member_id: str, instance: str | None) -> ErrorCode | None:
        """What is wrong with who somebody says to be."""
        if instance is None:
            return None if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID
        holder = self.instances.get(instance)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if holder == member_id else ErrorCode.FENCED_INSTANCE_ID

    def _refuse_join(self, to: Any, error: ErrorCode, member_id: str) -> None:
        self.answers.append((to, JoinGroupResponse(error_code=error, member_id=member_id)))

    def _answer_waits(self, member: Member, error: ErrorCode) -> None:
        if member.joining is not None:
            self._refuse_join(member.joining, error, member.id)
        if member.syncing is not None:
            self.answers.append((member.syncing, _not_synced(error)))
        member.joining = member.syncing = None

    def _answer_join(self, to: Any, member: Member, *, skip: bool = False, leader: str | None = None) -> None:
        leader = self.leader if leader is None else leader
        told = []
        if leader == member.id:
            told = [
                JoinGroupResponseMember(
                    member_id=each.id, group_instance_id=each.instance, metadata=each.metadata(self.protocol)
                )
                for each in self.members.values()
            ]
        response = JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=leader,
            skip_assignment=skip,
            member_id=member.id,
            members=told,
        )
        self.answers.append((to, response))

    def _answer_sync(self, to: Any, member: Member) -> None:
        response = SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=member.assignment
        )
        self.answers.append((to, response))


def _not_synced(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)
