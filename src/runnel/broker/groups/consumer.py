"""A group of the new protocol (KIP-848), as a pure state machine: the broker assigns, members only say what they read.

One request serves for everything. With each heartbeat a member may say what it wants and what it owns, and learns what
it is to read. Three epochs say how far things are:

    of the group   counts whenever the members, their subscriptions or the topics change (it is `generation`)
    of the target  the group's epoch for which the assignor was last asked
    of a member    the target that it has reached; commits and heartbeats with another one are refused

The members come from one target to the next each on its own, as `reconcile` says; nobody waits for anybody but for
partitions that another still reads. A member that does not give up what it was told to within its rebalance timeout is
out, and so is one that is silent for a session.

Answers, `dirty`, `due` and `tick` are as in `classic`. Everything that a member has been told is in `kept`, so that
another coordinator goes on where this one stopped.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from runnel.broker.groups.assignors import ASSIGNORS, NOTHING, Part, Parts
from runnel.broker.groups.bounds import GroupBounds
from runnel.broker.groups.kept import KeptConsumer, KeptConsumers
from runnel.broker.groups.member import Caller, Protocols
from runnel.broker.groups.reconcile import REVOKING, STABLE, WAITING, Reading, next_reading
from runnel.broker.groups.topics import BadPattern, TopicsSeen, compiled
from runnel.codec.declare import Message
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from runnel.codec.messages.offset_commit import OffsetCommitRequest

JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
"""What a member epoch of a request means that is none."""
OWN_IDS_FROM = 1
"""ConsumerGroupHeartbeat: members bring ids of their own making from this version on."""
COMMITS_FROM = 9
"""OffsetCommit: older versions cannot carry a member's epoch."""


class Consumer:
    """One member."""

    __slots__ = (
        "assignor", "caller", "deadline", "epoch_before", "id", "instance", "pattern", "protocols", "rack", "reading",
        "rebalance_seconds", "revoke_by", "session_seconds", "target", "topics",
    )  # fmt: skip

    def __init__(self, member_id: str, instance: str | None, caller: Caller) -> None:
        self.id = member_id
        self.instance = instance
        self.caller = caller
        self.rack: str | None = None
        self.rebalance_seconds = 0.0
        self.topics: frozenset[str] = frozenset()
        self.pattern: str | None = None
        self.assignor: str | None = None
        self.reading = Reading(STABLE, JOINS, NOTHING, NOTHING)
        self.epoch_before = JOINS
        """The epoch before this one: the answer that told this one may have been lost."""
        self.target: Parts = NOTHING
        self.deadline = 0.0
        self.revoke_by = math.inf
        """When it must have given up what it should, or a classic member must have joined again."""
        self.protocols: Protocols = ()
        """Of a member that still speaks the classic protocol (see mixed.py)."""
        self.session_seconds = 0.0
        """Of such a member."""

    def size(self) -> int:
        return sum(map(len, self.topics)) + len(self.pattern or "")

    def wants(self, topics: TopicsSeen, matching: dict[str, frozenset[str]]) -> frozenset[bytes]:
        """The ids of the topics that it subscribes to, as far as they exist."""
        names = self.topics
        if self.pattern:
            if self.pattern not in matching:
                matching[self.pattern] = topics.matching(self.pattern)
            names |= matching[self.pattern]
        by_name = topics.by_name
        return frozenset(by_name[name].id for name in names if name in by_name)


class Refusal(Exception):
    """What a member is told instead of what it asked for."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class ConsumerGroup:
    """See the module."""

    kind = "consumer"

    def __init__(self, name: str, bounds: GroupBounds, generation: int = 0) -> None:
        self.name = name
        self.bounds = bounds
        self.generation = generation
        self.target_epoch = generation
        self.assignor = next(iter(ASSIGNORS))
        self.members: dict[str, Consumer] = {}
        self.instances: dict[str, str] = {}
        self.answers: list[tuple[Any, Message]] = []
        self.dirty = False
        self._readers: dict[Part, str] = {}
        """Who reads a partition, or may still be reading it."""
        self._wishes: dict[str, frozenset[bytes]] = {}
        self._counts: dict[bytes, int] = {}
        self._seen: object = None
        """The version of the topics that wishes and counts are of."""

    @classmethod
    def restored(
        cls, name: str, bounds: GroupBounds, generation: int, kept: KeptConsumers, at: float
    ) -> "ConsumerGroup":
        """The group as another coordinator has left it; its members have a session's time to speak up."""
        group = cls(name, bounds, generation)
        group.target_epoch = kept.target_epoch if kept.members else generation
        group.assignor = kept.assignor or group.assignor
        group._counts = kept.counts
        for each in kept.members:
            member = Consumer(each.id, each.instance, Caller(each.client_id, each.host))
            member.rack = each.rack
            member.rebalance_seconds = each.rebalance_ms / 1000
            member.topics = frozenset(each.topics)
            member.pattern = each.pattern
            member.assignor = each.assignor
            member.target = _parts(each.target)
            member.protocols = each.protocols
            member.session_seconds = each.session_ms / 1000
            member.deadline = at + (member.session_seconds or bounds.consumer_session_ms / 1000)
            group.members[member.id] = member
            if member.instance is not None:
                group.instances[member.instance] = member.id
            group.read(member, Reading(each.phase, each.epoch, _parts(each.assigned), _parts(each.revoked)), at)
            member.epoch_before = each.epoch_before
        group.dirty = False
        return group

    def kept(self) -> KeptConsumers:
        return KeptConsumers(
            target_epoch=self.target_epoch,
            assignor=self.assignor,
            counts=self._counts,
            members=[
                KeptConsumer(
                    id=member.id,
                    instance=member.instance,
                    rack=member.rack,
                    client_id=member.caller.client_id,
                    host=member.caller.host,
                    rebalance_ms=int(member.rebalance_seconds * 1000),
                    topics=sorted(member.topics),
                    pattern=member.pattern,
                    assignor=member.assignor,
                    epoch=member.reading.epoch,
                    epoch_before=member.epoch_before,
                    phase=member.reading.phase,
                    assigned=by_topic(member.reading.assigned),
                    revoked=by_topic(member.reading.revoked),
                    target=by_topic(member.target),
                    protocols=list(member.protocols),
                    session_ms=int(member.session_seconds * 1000),
                )
                for member in self.members.values()
            ],
        )

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.generation > self.target_epoch:
            return "Assigning"
        settled = (STABLE, self.target_epoch)
        here = [member.reading for member in self.members.values() if member.reading.epoch != LEAVES_FOR_A_WHILE]
        return "Stable" if all((each.phase, each.epoch) == settled for each in here) else "Reconciling"

    @property
    def is_idle(self) -> bool:
        return not self.members

    def waiting(self) -> Iterator[Any]:
        """Nobody waits: every heartbeat is answered at once."""
        return iter(())

    # --- heartbeats

    def heartbeat(
        self,
        to: Any,
        ask: ConsumerGroupHeartbeatRequest,
        *,
        version: int,
        by: Caller,
        fresh: str,
        topics: TopicsSeen,
        at: float,
    ) -> None:
        """ConsumerGroupHeartbeat. `fresh` is a member id that nobody has."""
        try:
            check(ask, version)
            leaves = ask.member_epoch < JOINS
            response = self._leave(ask) if leaves else self._beat(ask, by, fresh, topics, at)
        except Refusal as refusal:
            response = ConsumerGroupHeartbeatResponse(error_code=refusal.code, error_message=str(refusal))
        self.answers.append((to, response))

    def _beat(
        self, ask: ConsumerGroupHeartbeatRequest, by: Caller, fresh: str, topics: TopicsSeen, at: float
    ) -> ConsumerGroupHeartbeatResponse:
        owned = None if ask.topic_partitions is None else _told(ask.topic_partitions)
        pattern = ask.subscribed_topic_regex
        if ask.member_epoch == JOINS:
            member, changed = self._joining(ask, by, fresh)
        else:
            member, changed = self._known(ask, owned), False
        changed |= self._subscribe(member, ask, by)
        member.protocols, member.session_seconds = (), 0.0
        before = member.reading
        reading = self.move(member, topics, owned=owned, changed=changed, at=at)
        is_full = (
            ask.rebalance_timeout_ms != -1
            and (ask.subscribed_topic_names is not None or pattern is not None)
            and owned is not None
        )
        tells = ask.member_epoch == JOINS or is_full or reading.assigned != before.assigned
        return ConsumerGroupHeartbeatResponse(
            member_id=member.id,
            member_epoch=reading.epoch,
            heartbeat_interval_ms=self.bounds.consumer_heartbeat_ms,
            assignment=Assignment(topic_partitions=_telling(reading.assigned)) if tells else None,
        )

    def move(self, member: Consumer, topics: TopicsSeen, *, owned: Parts | None, changed: bool, at: float) -> Reading:
        """A member was heard of, and takes a step if it can; `changed` if its coming or its wishes change the group."""
        member.deadline = at + (member.session_seconds or self.bounds.consumer_session_ms / 1000)
        changed |= self._look_at(topics, anew=changed)
        if changed:
            self.generation += 1
            self.dirty = True
        if self.generation > self.target_epoch:
            self._assign()
        reading = next_reading(
            member.reading, member.target, self.target_epoch, owned, lambda part: self._may_have(member, part)
        )
        if reading != member.reading:
            self.read(member, reading, at)
        elif reading.phase != REVOKING:
            member.revoke_by = math.inf
        return reading

    def _may_have(self, member: Consumer, part: Part) -> bool:
        return self._readers.get(part) in (None, member.id)

    def has_news_for(self, member: Consumer, topics: TopicsSeen) -> bool:
        """Whether a classic member should join again, to take a step."""
        if self._look_at(topics, anew=False):
            self.generation += 1
            self.dirty = True
        if self.generation > self.target_epoch:
            self._assign()
        reading = member.reading
        waits = reading.phase == WAITING and any(
            self._may_have(member, part) for part in member.target - reading.assigned
        )
        return reading.epoch < self.target_epoch or reading.phase == REVOKING or waits

    def await_join(self, member: Consumer, at: float) -> None:
        """A classic member was told to join again, and should within its rebalance timeout."""
        member.revoke_by = min(member.revoke_by, at + member.rebalance_seconds)

    def topic_ids(self) -> Collection[bytes]:
        """The topics that are wanted and exist."""
        return self._counts.keys()

    def _joining(self, ask: ConsumerGroupHeartbeatRequest, by: Caller, fresh: str) -> tuple[Consumer, bool]:
        """Who comes anew, or comes back; second, whether the group has changed by it."""
        known = self.members.get(ask.member_id)
        instance = ask.instance_id
        holder = None if instance is None else self.members.get(self.instances.get(instance, ""))
        if holder is not None and holder.id != ask.member_id:
            if holder.reading.epoch != LEAVES_FOR_A_WHILE:
                raise Refusal(
                    ErrorCode.UNRELEASED_INSTANCE_ID, f"static member {instance} is still in use by {holder.id}"
                )
            return self.replaced(holder, ask.member_id or fresh, by), False
        if known is not None:
            # It has lost its way and begins anew: what it had is free for its next assignment.
            self._drop_parts(known)
            known.reading = Reading(STABLE, JOINS, NOTHING, NOTHING)
            known.epoch_before = JOINS
            self.dirty = True
            return known, False
        return self.added(ask.member_id or fresh, instance, by), True

    def added(self, member_id: str, instance: str | None, by: Caller) -> Consumer:
        """A member that was not there."""
        if len(self.members) >= self.bounds.members_max:
            raise Refusal(
                ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {self.name} has {len(self.members)} members already"
            )
        member = Consumer(member_id, instance, by)
        self.members[member.id] = member
        if instance is not None:
            self.instances[instance] = member.id
        return member

    def replaced(self, old: Consumer, member_id: str, by: Caller) -> Consumer:
        """A static member is back under a new id and takes over what was kept for it."""
        self._drop_parts(old)
        del self.members[old.id]
        member = self.members[member_id] = Consumer(member_id, old.instance, by)
        member.rack, member.topics, member.pattern = old.rack, old.topics, old.pattern
        member.assignor, member.rebalance_seconds, member.target = old.assignor, old.rebalance_seconds, old.target
        assert old.instance is not None, "only static members are replaced"
        self.instances[old.instance] = member_id
        self._wishes[member_id] = self._wishes.pop(old.id, frozenset())
        self.dirty = True
        return member

    def _known(self, ask: ConsumerGroupHeartbeatRequest, owned: Parts | None) -> Consumer:
        if not self.generation:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group {self.name} does not exist")
        member = self.member(ask.member_id, ask.instance_id)
        epoch = member.reading.epoch
        if ask.member_epoch > epoch:
            raise Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"member {member.id} is at epoch {epoch}, not {ask.member_epoch}: join again",
            )
        if ask.member_epoch < epoch:
            # The answer that told the newer epoch was lost: then it owns nothing but what it was given before.
            lost = ask.member_epoch == member.epoch_before and owned is not None and owned <= member.reading.assigned
            if not lost:
                raise Refusal(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    f"member {member.id} is at epoch {epoch}, not {ask.member_epoch}: join again",
                )
        return member

    def member(self, member_id: str, instance: str | None) -> Consumer:
        if instance is not None:
            holder = self.instances.get(instance)
            if holder is None:
                raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.name} has no static member {instance}")
            if holder != member_id:
                raise Refusal(
                    ErrorCode.FENCED_INSTANCE_ID, f"static member {instance} is {holder} now, not {member_id}"
                )
        member = self.members.get(member_id)
        if member is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"group {self.name} has no member {member_id}")
        return member

    def _subscribe(self, member: Consumer, ask: ConsumerGroupHeartbeatRequest, by: Caller) -> bool:
        """What the member says of itself this time; whether what it wants has changed."""
        member.caller = by
        if ask.rebalance_timeout_ms >= 0:
            member.rebalance_seconds = ask.rebalance_timeout_ms / 1000
        if ask.rack_id is not None:
            member.rack = ask.rack_id
        before = member.topics, member.pattern, member.assignor
        if ask.subscribed_topic_names is not None:
            member.topics = frozenset(ask.subscribed_topic_names)
        if ask.subscribed_topic_regex is not None:
            member.pattern = ask.subscribed_topic_regex or None
        if ask.server_assignor is not None:
            member.assignor = ask.server_assignor
        after = member.topics, member.pattern, member.assignor
        if after == before:
            return False
        if sum(each.size() for each in self.members.values()) > self.bounds.metadata_bytes_max:
            member.topics, member.pattern, member.assignor = before
            if member.id not in self._wishes:
                self._forget(member)
            raise Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, f"group {self.name} subscribes to more than it may")
        return True

    # --- what there is to read, and who is to read it

    def _look_at(self, topics: TopicsSeen, *, anew: bool) -> bool:
        """Take note of which of the wanted topics there are; whether that is other than before."""
        if topics.version == self._seen and not anew:
            return False
        self._seen = topics.version
        matching: dict[str, frozenset[str]] = {}
        wishes = {member.id: member.wants(topics, matching) for member in self.members.values()}
        wanted = frozenset().union(*wishes.values())
        counts = {topic.id: len(topic.streams) for topic in topics.by_name.values() if topic.id in wanted}
        # Who wants something else has changed the group already; what the same wishes come to shows in the counts.
        changed = counts != self._counts
        self._wishes, self._counts = wishes, counts
        return changed

    def _assign(self) -> None:
        """Ask the assignor that most members like best for a target."""
        votes = Counter(member.assignor for member in self.members.values() if member.assignor is not None)
        self.assignor = min(ASSIGNORS, key=lambda name: -votes[name])
        before = {member.id: member.target for member in self.members.values()}
        target = ASSIGNORS[self.assignor](self._wishes, self._counts, before)
        for member in self.members.values():
            member.target = target.get(member.id, NOTHING)
        self.target_epoch = self.generation
        self.dirty = True

    def read(self, member: Consumer, reading: Reading, at: float) -> None:
        """A member has taken a step."""
        if reading.epoch != member.reading.epoch:
            member.epoch_before = member.reading.epoch
        self._drop_parts(member)
        member.reading = reading
        for part in reading.assigned | reading.revoked:
            self._readers[part] = member.id
        revoking = reading.phase == REVOKING
        member.revoke_by = at + member.rebalance_seconds if revoking else math.inf
        self.dirty = True

    def _drop_parts(self, member: Consumer) -> None:
        for part in member.reading.assigned | member.reading.revoked:
            if self._readers.get(part) == member.id:
                del self._readers[part]

    # --- leaving

    def _leave(self, ask: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        if not self.generation:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"group {self.name} does not exist")
        member = self.member(ask.member_id, ask.instance_id)
        if ask.member_epoch == LEAVES_FOR_A_WHILE:
            # Its place is kept until its session ends. It has given up what it was to give up, for it reads nothing now.
            self._drop_parts(member)
            member.reading = Reading(STABLE, LEAVES_FOR_A_WHILE, member.reading.assigned, NOTHING)
            for part in member.reading.assigned:
                self._readers[part] = member.id
            member.revoke_by = math.inf
            self.dirty = True
        else:
            self.remove(member)
        return ConsumerGroupHeartbeatResponse(member_id=ask.member_id, member_epoch=ask.member_epoch)

    def remove(self, member: Consumer) -> None:
        self._forget(member)
        self.generation += 1
        if not self.members:
            self.target_epoch = self.generation
        self.dirty = True

    def _forget(self, member: Consumer) -> None:
        self._drop_parts(member)
        del self.members[member.id]
        self._wishes.pop(member.id, None)
        if member.instance is not None and self.instances.get(member.instance) == member.id:
            del self.instances[member.instance]

    @property
    def due(self) -> float:
        return min((min(member.deadline, member.revoke_by) for member in self.members.values()), default=math.inf)

    def tick(self, at: float) -> None:
        for member in [each for each in self.members.values() if min(each.deadline, each.revoke_by) <= at]:
            self.remove(member)

    # --- offsets

    def why_not_commit(self, ask: OffsetCommitRequest, *, version: int, at: float) -> ErrorCode | None:
        del at
        epoch = ask.generation_id_or_member_epoch
        if epoch < 0 and not self.members:
            return None
        error = self._why_not(ask.member_id, epoch)
        member = self.members.get(ask.member_id)
        if member is not None and member.protocols:
            return ErrorCode.ILLEGAL_GENERATION if error is not None else None
        return ErrorCode.UNSUPPORTED_VERSION if error is None and version < COMMITS_FROM else error

    def why_not_fetch(self, member_id: str | None, epoch: int) -> ErrorCode | None:
        if member_id is None and epoch < 0:
            return None
        return self._why_not(member_id or "", epoch)

    def _why_not(self, member_id: str, epoch: int) -> ErrorCode | None:
        member = self.members.get(member_id)
        if member is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        return None if epoch == member.reading.epoch else ErrorCode.STALE_MEMBER_EPOCH

    def reads(self, topic: str) -> bool:
        """Whether some member has subscribed to a topic."""
        return any(
            topic in member.topics or (member.pattern is not None and bool(compiled(member.pattern)(topic)))
            for member in self.members.values()
        )


# --- requests


def check(ask: ConsumerGroupHeartbeatRequest, version: int) -> None:
    """Refuse what makes no sense by itself."""
    wrong = None
    if not ask.group_id:
        wrong = "a group needs a name"
    elif ask.instance_id == "" or ask.rack_id == "":
        wrong = "an instance id or a rack that is there is not empty"
    elif not ask.member_id and (version >= OWN_IDS_FROM or ask.member_epoch != JOINS):
        wrong = "a member needs an id"
    elif ask.member_epoch < LEAVES_FOR_A_WHILE:
        wrong = f"{ask.member_epoch} is no member epoch"
    elif ask.member_epoch == LEAVES_FOR_A_WHILE and ask.instance_id is None:
        wrong = "only a member with an instance id leaves for a while"
    elif ask.member_epoch == JOINS:
        if ask.rebalance_timeout_ms < 0:
            wrong = "who joins says how long it may take to give up partitions"
        elif ask.topic_partitions is None or ask.topic_partitions:
            wrong = "who joins owns no partitions"
        elif ask.subscribed_topic_names is None and ask.subscribed_topic_regex is None:
            wrong = "who joins says what it wants to read"
    if wrong is not None:
        raise Refusal(ErrorCode.INVALID_REQUEST, wrong)
    if ask.server_assignor is not None and ask.server_assignor not in ASSIGNORS:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR, f"there are the assignors {', '.join(ASSIGNORS)}, not {ask.server_assignor}"
        )
    if ask.subscribed_topic_regex:
        try:
            compiled(ask.subscribed_topic_regex)
        except BadPattern as error:
            raise Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, str(error)) from None


def _told(topics: Any) -> Parts:
    return frozenset((each.topic_id, index) for each in topics for index in each.partitions)


def _telling(parts: Parts) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=topic, partitions=indexes) for topic, indexes in by_topic(parts).items()]


def by_topic(parts: Parts) -> dict[bytes, list[int]]:
    """The same, written shorter."""
    found: dict[bytes, list[int]] = {}
    for topic, index in sorted(parts):
        found.setdefault(topic, []).append(index)
    return found


def _parts(kept: Mapping[bytes, list[int]]) -> Parts:
    return frozenset((topic, index) for topic, indexes in kept.items() for index in indexes)
