"""OffsetCommit (8) and OffsetFetch (9): how far groups have read.

A commit is judged twice: by the group's machine (is this a member, of this generation?), and when it is applied, against
the generation and the coordinator that the ledger knows. So a broker that has lost a group without knowing it commits
nothing. A fetch reads the ledger's tail first: what was committed through any broker is seen.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.groups.held import code_of
from runnel.broker.problems import committed_response
from runnel.codec.declare import Message
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from runnel.errors import RunnelError
from runnel.metadata.groups import Committed, Group
from runnel.metadata.topics import Topic
from runnel.metadata.updates import CommitOffsets, CommitOfMember

IDS_FROM = 10
"""Both APIs name topics by their ids from this version on."""
BATCHED_FROM = 8
"""OffsetFetch: many groups in one request from this version on."""
NOWHERE = Committed(-1)


def handlers(broker: Broker) -> Mapping[int, Handler]:
    def offset_commit(call: Call) -> None:
        if any(_topic(broker, call, each) is None for each in call.request.topics):
            broker.world.tasks.spawn(_refreshed_commit(broker, call), name="commit to a new topic")
        else:
            _commit(broker, call)

    async def offset_fetch(call: Call) -> Message:
        if call.version >= BATCHED_FROM:
            return OffsetFetchResponse(groups=[await _fetch_group(broker, call, each) for each in call.request.groups])
        return await _fetch_alone(broker, call)

    return {8: offset_commit, 9: offset_fetch}


def _topic(broker: Broker, call: Call, asked: Any) -> Topic | None:
    return broker.catalog.find(asked.name, asked.topic_id, by_id=call.version >= IDS_FROM)[0]


# --- committing


async def _refreshed_commit(broker: Broker, call: Call) -> None:
    """Some topic is not known here: it may be new."""
    try:
        await broker.catalog.refresh()
    except RunnelError as error:
        call.answer(committed_response(call.request, code_of(error)))
    else:
        _commit(broker, call)


def _commit(broker: Broker, call: Call) -> None:
    request = call.request
    name = request.group_id
    found, errors = _sorted_out(broker, call)

    def answer(code: ErrorCode | None) -> None:
        call.answer(committed_response(request, code or ErrorCode.NONE, {} if code else errors))

    def event(group: Any, at: float) -> None:
        error = group.why_not_commit(request, version=call.version, at=at)
        held = broker.groups.hold(name)
        if error is not None or not found or held is None:
            answer(error)
        else:
            # All that moves a group with members goes through its coordinator: as long as it is this broker, what the
            # machine has just said holds. Without members anyone commits, and the generation shows if some have come.
            owner = broker.groups.id
            members = len(group.members)
            held.enter(
                CommitOfMember(name, owner, found) if members else CommitOffsets(name, found, group.generation), answer
            )

    broker.groups.submit(call, name, event)


def _sorted_out(
    broker: Broker, call: Call
) -> tuple[dict[bytes, dict[int, Committed]], dict[tuple[int, int], ErrorCode]]:
    """What can be committed, and what is wrong with the rest, by the place of topic and partition in the request."""
    now = broker.world.clock.now_ms()
    found: dict[bytes, dict[int, Committed]] = {}
    errors: dict[tuple[int, int], ErrorCode] = {}
    for row, asked in enumerate(call.request.topics):
        topic, missing = broker.catalog.find(asked.name, asked.topic_id, by_id=call.version >= IDS_FROM)
        for column, each in enumerate(asked.partitions):
            note = each.committed_metadata or ""
            if topic is None:
                errors[row, column] = missing
            elif broker.catalog.stream(topic, each.partition_index) is None:
                errors[row, column] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif len(note.encode()) > broker.groups.bounds.note_bytes_max:
                errors[row, column] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                committed = Committed(each.committed_offset, each.committed_leader_epoch, note, now)
                found.setdefault(topic.id, {})[each.partition_index] = committed
    return found, errors


# --- fetching


class Told(NamedTuple):
    """The offsets of one topic."""

    name: str
    topic_id: bytes
    partitions: Sequence[tuple[int, Committed, ErrorCode]]


async def _fetch_alone(broker: Broker, call: Call) -> Message:
    request = call.request
    group = await _group(broker, request.group_id)
    if isinstance(group, ErrorCode):
        # Version 1 has no error of its own: every partition says it.
        topics = [] if call.version >= 2 else _not_told(request.topics or (), group)
        return OffsetFetchResponse(error_code=group, topics=topics)
    told = _told(broker, call, group, request.topics)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index,
                        committed_offset=committed.offset,
                        committed_leader_epoch=committed.leader_epoch,
                        metadata=committed.note,
                        error_code=code,
                    )
                    for index, committed, code in topic.partitions
                ],
            )
            for topic in told
        ]
    )


def _not_told(topics: Iterable[Any], code: ErrorCode) -> list[OffsetFetchResponseTopic]:
    return [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=code)
                for index in topic.partition_indexes
            ],
        )
        for topic in topics
    ]


async def _fetch_group(broker: Broker, call: Call, asked: Any) -> OffsetFetchResponseGroup:
    group = await _group(broker, asked.group_id)
    if isinstance(group, ErrorCode):
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=group)
    machine = broker.groups.machine(asked.group_id)
    error = None if machine is None else machine.why_not_fetch(asked.member_id, asked.member_epoch)
    if error is not None:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error)
    return OffsetFetchResponseGroup(
        group_id=asked.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetFetchResponsePartitions(
                        partition_index=index,
                        committed_offset=committed.offset,
                        committed_leader_epoch=committed.leader_epoch,
                        metadata=committed.note,
                        error_code=code,
                    )
                    for index, committed, code in topic.partitions
                ],
            )
            for topic in _told(broker, call, group, asked.topics)
        ],
    )


async def _group(broker: Broker, name: str) -> Group | ErrorCode:
    """The group as of now; one that does not exist has committed nothing."""
    if not broker.groups.coordinates(name):
        return ErrorCode.NOT_COORDINATOR
    try:
        return await broker.groups.kept(name) or Group(name)
    except RunnelError as error:
        return code_of(error)


def _told(broker: Broker, call: Call, group: Group, asked: Sequence[Any] | None) -> list[Told]:
    """The offsets that were asked for, or all there are."""
    by_id = call.version >= IDS_FROM
    if asked is None:
        told = []
        for topic_id, partitions in group.offsets.items():
            topic = broker.catalog.by_id(topic_id)
            if topic is not None:
                rows = [(index, partitions[index], ErrorCode.NONE) for index in sorted(partitions)]
                told.append(Told(topic.name, topic.id, rows))
        return told
    told = []
    for each in asked:
        topic_id = getattr(each, "topic_id", b"")
        topic, _ = broker.catalog.find(each.name, topic_id, by_id=by_id)
        code = ErrorCode.UNKNOWN_TOPIC_ID if topic is None and by_id else ErrorCode.NONE
        known = {} if topic is None else group.offsets.get(topic.id, {})
        rows = [(index, known.get(index, NOWHERE), code) for index in each.partition_indexes]
        told.append(Told(each.name, topic_id, rows))
    return told
