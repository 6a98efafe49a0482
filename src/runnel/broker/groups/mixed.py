"""Members of both protocols in one group: how a group of consumers changes its protocol while it is at work (KIP-848).

When the first member of the new protocol comes to a classic group of consumers, the group becomes one of the new kind
(`upgraded`). Its classic members stay: the broker now assigns for them as well, and `ClassicFace` answers their requests:
a heartbeat sends them to join when their part has changed, joining tells what they own, and syncing gives them their
part. Nobody leads. When the last member of the new protocol has gone, the group is a classic one again (`downgraded`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from runnel.broker.groups.assignors import NOTHING, Parts
from runnel.broker.groups.classic import KNOWN_ID_FROM, ClassicGroup
from runnel.broker.groups.consumer import Consumer, ConsumerGroup, Refusal
from runnel.broker.groups.member import Caller, Member, protocols_of
from runnel.broker.groups.reconcile import STABLE, Reading
from runnel.broker.groups.subscriptions import CONSUMERS, assignment_in, assignment_of, consumer_in
from runnel.broker.groups.topics import TopicsSeen
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from runnel.codec.messages.join_group import JoinGroupRequest, JoinGroupResponse
from runnel.codec.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from runnel.codec.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def upgraded(classic: ClassicGroup, topics: TopicsSeen, at: float) -> ConsumerGroup | None:
    """The same group for members of both protocols; None if its members are no consumers that can be understood."""
    told = {member.id: consumer_in(member.metadata(classic.protocol)) for member in classic.members.values()}
    if classic.protocol_type != CONSUMERS or not told or None in told.values():
        return None
    group = ConsumerGroup(classic.name, classic.bounds, classic.generation)
    for each in classic.members.values():
        consumer = told[each.id]
        assert consumer is not None, "those that cannot be understood were sorted out"
        member = Consumer(each.id, each.instance, each.caller)
        member.protocols = each.protocols
        member.session_seconds = each.session_seconds
        member.rebalance_seconds = each.rebalance_seconds
        member.topics = frozenset(consumer.topics)
        member.target = _parts(assignment_in(each.assignment), topics)
        member.deadline = at + each.session_seconds
        group.members[member.id] = member
        if member.instance is not None:
            group.instances[member.instance] = member.id
        group.read(member, Reading(STABLE, classic.generation, member.target, NOTHING), at)
    # Whoever waits for the others has to join once more: it is not for a leader to assign any longer.
    group.answers = classic.answers
    for waiting in classic.members.values():
        if waiting.joining is not None:
            refused = JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS, member_id=waiting.id)
            group.answers.append((waiting.joining, refused))
        if waiting.syncing is not None:
            group.answers.append((waiting.syncing, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
    group.dirty = True
    return group


def downgraded(group: ConsumerGroup, at: float) -> ClassicGroup | None:
    """The same group as a classic one, when only classic members are left; they join again under a leader."""
    if not group.members or any(not member.protocols for member in group.members.values()):
        return None
    classic = ClassicGroup(group.name, group.bounds, group.generation)
    classic.protocol_type = CONSUMERS
    for each in group.members.values():
        member = Member(each.id, each.instance, each.caller)
        member.is_new = False
        member.protocols = each.protocols
        member.session_seconds = each.session_seconds
        member.rebalance_seconds = each.rebalance_seconds
        member.alive(at)
        classic.members[member.id] = member
        if member.instance is not None:
            classic.instances[member.instance] = member.id
        classic.leader = classic.leader or member.id
    classic.answers = group.answers
    classic.dirty = True
    classic.rejoin(at)
    return classic


class ClassicFace:
    """What classic members of a group of the new kind meet: the requests of ClassicGroup, answered by a ConsumerGroup."""

    def __init__(self, group: ConsumerGroup, topics: TopicsSeen) -> None:
        self._group = group
        self._topics = topics

    def join(self, to: Any, ask: JoinGroupRequest, *, version: int, by: Caller, fresh: str, at: float) -> None:
        try:
            response = self._join(ask, version, by, fresh, at)
        except Refusal as refusal:
            response = JoinGroupResponse(error_code=refusal.code, member_id=ask.member_id)
        self._group.answers.append((to, response))

    def _join(self, ask: JoinGroupRequest, version: int, by: Caller, fresh: str, at: float) -> JoinGroupResponse:
        group, protocols = self._group, protocols_of(ask.protocols)
        told = consumer_in(protocols[0][1]) if protocols else None
        others = [
            set(dict(each.protocols)) for each in group.members.values() if each.protocols and each.id != ask.member_id
        ]
        shared = [name for name, _ in protocols if all(name in names for names in others)]
        if ask.protocol_type != CONSUMERS or told is None or not shared:
            raise Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "it is no consumer as the others are")
        if not ask.member_id and ask.group_instance_id is None and version >= KNOWN_ID_FROM:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=fresh)
        member, changed = self._member_that_joins(ask, fresh, by)
        member.caller = by
        member.protocols = protocols
        member.session_seconds = ask.session_timeout_ms / 1000
        rebalance_ms = ask.rebalance_timeout_ms if ask.rebalance_timeout_ms >= 0 else ask.session_timeout_ms
        member.rebalance_seconds = rebalance_ms / 1000
        changed |= member.topics != frozenset(told.topics)
        member.topics = frozenset(told.topics)
        owned = _parts({each.topic: each.partitions for each in told.owned_partitions}, self._topics)
        group.move(member, self._topics, owned=owned, changed=changed, at=at)
        return JoinGroupResponse(
            generation_id=member.reading.epoch,
            protocol_type=CONSUMERS,
            protocol_name=shared[0],
            leader="",
            member_id=member.id,
        )

    def _member_that_joins(self, ask: JoinGroupRequest, fresh: str, by: Caller) -> tuple[Consumer, bool]:
        group, instance = self._group, ask.group_instance_id
        if instance is not None and instance in group.instances:
            holder = group.members[group.instances[instance]]
            if not ask.member_id:
                # It is back after a restart, and takes its place under a new id.
                return group.replaced(holder, fresh, by), False
            if holder.id != ask.member_id:
                raise Refusal(ErrorCode.FENCED_INSTANCE_ID, f"static member {instance} is {holder.id} now")
            return holder, False
        known = group.members.get(ask.member_id)
        if known is not None:
            return known, False
        return group.added(ask.member_id or fresh, instance, by), True

    def sync(self, to: Any, ask: SyncGroupRequest, *, at: float) -> None:
        group = self._group
        member, error = self._known(ask.member_id, ask.group_instance_id, ask.generation_id)
        response = SyncGroupResponse(error_code=error or ErrorCode.NONE)
        if member is not None:
            member.deadline = at + member.session_seconds
            names = {topic.id: topic.name for topic in self._topics.by_name.values() if topic.id in group.topic_ids()}
            response.protocol_type, response.protocol_name = CONSUMERS, ask.protocol_name
            response.assignment = assignment_of(member.reading.assigned, names)
        group.answers.append((to, response))

    def heartbeat(self, to: Any, ask: HeartbeatRequest, *, at: float) -> None:
        member, error = self._known(ask.member_id, ask.group_instance_id, ask.generation_id)
        if member is not None:
            member.deadline = at + member.session_seconds
            if self._group.has_news_for(member, self._topics):
                error = ErrorCode.REBALANCE_IN_PROGRESS
                self._group.await_join(member, at)
        self._group.answers.append((to, HeartbeatResponse(error_code=error or ErrorCode.NONE)))

    def leave(self, to: Any, ask: LeaveGroupRequest, *, version: int, at: float) -> None:
        del at
        if version < 3:
            error = self._leave(MemberIdentity(member_id=ask.member_id))
            self._group.answers.append((to, LeaveGroupResponse(error_code=error)))
            return
        told = [
            MemberResponse(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=self._leave(each)
            )
            for each in ask.members
        ]
        self._group.answers.append((to, LeaveGroupResponse(members=told)))

    def _leave(self, who: MemberIdentity) -> ErrorCode:
        member_id = who.member_id
        if not member_id and who.group_instance_id is not None:
            member_id = self._group.instances.get(who.group_instance_id, "")
        try:
            member = self._group.member(member_id, who.group_instance_id)
        except Refusal as refusal:
            return refusal.code
        self._group.remove(member)
        return ErrorCode.NONE

    def _known(self, member_id: str, instance: str | None, generation: int) -> tuple[Consumer | None, ErrorCode | None]:
        try:
            member = self._group.member(member_id, instance)
        except Refusal as refusal:
            return None, refusal.code
        if not member.protocols:
            return None, ErrorCode.UNKNOWN_MEMBER_ID
        if generation != member.reading.epoch:
            return None, ErrorCode.ILLEGAL_GENERATION
        return member, None


def _parts(by_name: Mapping[str, Sequence[int]] | None, topics: TopicsSeen) -> Parts:
    return frozenset(
        (topics.by_name[name].id, index)
        for name, indexes in (by_name or {}).items()
        if name in topics.by_name
        for index in indexes
    )
