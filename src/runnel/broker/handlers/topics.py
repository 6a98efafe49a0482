"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37).

Any broker does what Kafka asks of a controller. Replication factors and assignments are looked at as Kafka looks at
them, so that nonsense is refused, and then forgotten: every record is in the object store, and there is one replica.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.catalog import why_not_a_name
from runnel.broker.configs import Entry, topic_entries
from runnel.broker.problems import code_of
from runnel.codec.declare import NO_UUID
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.create_partitions import (
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from runnel.codec.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from runnel.codec.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse, DeleteTopicState
from runnel.errors import RunnelError
from runnel.metadata.topic_settings import read_settings

AT_ONCE = 16
"""Topics of one request that are worked on at the same time."""
PARTITIONS_PER_REQUEST_MAX = 10_000
"""As in Kafka: one request makes no more."""
REPLICAS = 1

T = TypeVar("T")
R = TypeVar("R")


class Unwanted(Exception):
    """Something in a request is wrong; its error code and what to say."""

    def __init__(self, code: ErrorCode, says: str) -> None:
        super().__init__(says)
        self.code = code


def handlers(broker: Broker) -> Mapping[int, Handler]:
    async def create_topics(call: Call) -> CreateTopicsResponse:
        request = call.request
        await _know_all(broker)
        named = Counter(topic.name for topic in request.topics)
        wanted = sum(_partitions_wanted(broker, topic) for topic in request.topics)

        async def create(topic: CreatableTopic) -> CreatableTopicResult:
            try:
                _check_once(named[topic.name])
                _check_number(wanted)
                return await _create(broker, topic, validate_only=request.validate_only)
            except Unwanted as error:
                return CreatableTopicResult(name=topic.name, error_code=error.code, error_message=str(error))
            except RunnelError as error:
                return CreatableTopicResult(name=topic.name, error_code=code_of(error), error_message=str(error))

        # A name that stands there twice is answered once.
        once = {topic.name: topic for topic in request.topics}.values()
        return CreateTopicsResponse(topics=await _each(once, create))

    async def delete_topics(call: Call) -> DeleteTopicsResponse:
        request = call.request
        asked = [DeleteTopicState(name=name) for name in request.topic_names] or list(request.topics)
        await _know_all(broker)
        named = Counter((topic.name, topic.topic_id) for topic in asked)

        async def delete(topic: DeleteTopicState) -> DeletableTopicResult:
            result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
            try:
                _check_once(named[topic.name, topic.topic_id])
                await _delete(broker, topic, result)
            except Unwanted as error:
                result.error_code, result.error_message = error.code, str(error)
            except RunnelError as error:
                result.error_code, result.error_message = code_of(error), str(error)
            return result

        once = {(topic.name, topic.topic_id): topic for topic in asked}.values()
        return DeleteTopicsResponse(responses=await _each(once, delete))

    async def create_partitions(call: Call) -> CreatePartitionsResponse:
        request = call.request
        await _know_all(broker)
        named = Counter(topic.name for topic in request.topics)

        async def grow(topic: CreatePartitionsTopic) -> CreatePartitionsTopicResult:
            try:
                _check_once(named[topic.name])
                await _grow(broker, topic, validate_only=request.validate_only)
            except Unwanted as error:
                return CreatePartitionsTopicResult(name=topic.name, error_code=error.code, error_message=str(error))
            except RunnelError as error:
                return CreatePartitionsTopicResult(name=topic.name, error_code=code_of(error), error_message=str(error))
            return CreatePartitionsTopicResult(name=topic.name)

        once = {topic.name: topic for topic in request.topics}.values()
        return CreatePartitionsResponse(results=await _each(once, grow))

    return {19: create_topics, 20: delete_topics, 37: create_partitions}


# --- creating ---------------------------------------------------------------------------------------------------------


def _partitions_wanted(broker: Broker, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return broker.settings.topic_partitions if topic.num_partitions == -1 else topic.num_partitions


async def _create(broker: Broker, asked: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
    _check_name(asked.name)
    if broker.catalog.topic(asked.name) is not None:
        raise Unwanted(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic '{asked.name}' already exists")
    _check_shape(asked)
    partitions = _partitions_wanted(broker, asked)
    settings = _settings(asked)
    topic_id = NO_UUID
    if not validate_only:
        topic_id = (await broker.engine.topics.create(asked.name, partitions, settings)).id
    entries = topic_entries(settings, broker.engine.root.settings)
    return CreatableTopicResult(
        name=asked.name,
        topic_id=topic_id,
        error_message=None,
        num_partitions=partitions,
        replication_factor=REPLICAS,
        configs=[_config(entry) for entry in entries],
    )


def _config(entry: Entry) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(name=entry.name, value=entry.value, config_source=entry.source)


def _check_name(name: str) -> None:
    why = why_not_a_name(name)
    if why is not None:
        raise Unwanted(ErrorCode.INVALID_TOPIC_EXCEPTION, why)


def _check_shape(asked: CreatableTopic) -> None:
    if asked.assignments:
        if asked.num_partitions != -1:
            raise Unwanted(ErrorCode.INVALID_REQUEST, "partitions are assigned, so their number must be -1")
        if asked.replication_factor != -1:
            raise Unwanted(ErrorCode.INVALID_REQUEST, "partitions are assigned, so the replication factor must be -1")
        if sorted(each.partition_index for each in asked.assignments) != list(range(len(asked.assignments))):
            raise Unwanted(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "assigned partitions must be 0, 1, 2 and so on")
        for each in asked.assignments:
            _check_replicas(each.broker_ids)
        return
    if asked.num_partitions < -1 or asked.num_partitions == 0:
        raise Unwanted(
            ErrorCode.INVALID_PARTITIONS, "the number of partitions must be 1 or more, or -1 for the default"
        )
    if asked.replication_factor < -1 or asked.replication_factor == 0:
        raise Unwanted(
            ErrorCode.INVALID_REPLICATION_FACTOR, "the replication factor must be 1 or more, or -1 for the default"
        )


def _check_replicas(replicas: Sequence[int]) -> None:
    if not replicas:
        raise Unwanted(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition is assigned to no broker")
    if len(set(replicas)) < len(replicas):
        raise Unwanted(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"a broker is named twice in {list(replicas)}")


def _settings(asked: CreatableTopic) -> dict[str, str]:
    try:
        for config in asked.configs:
            if config.value is None:
                raise Unwanted(ErrorCode.INVALID_CONFIG, f"setting {config.name} has no value: leave it out instead")
        return read_settings({config.name: config.value for config in asked.configs})
    except RunnelError as error:
        raise Unwanted(ErrorCode.INVALID_CONFIG, str(error)) from None


# --- deleting, growing ------------------------------------------------------------------------------------------------


async def _delete(broker: Broker, asked: DeleteTopicState, result: DeletableTopicResult) -> None:
    by_id = asked.topic_id != NO_UUID
    if by_id and asked.name is not None:
        raise Unwanted(ErrorCode.INVALID_REQUEST, "a topic is named by its name or by its id, not by both")
    if not by_id and asked.name is None:
        raise Unwanted(ErrorCode.INVALID_REQUEST, "neither a name nor an id is given")
    topic, code = broker.catalog.find(asked.name, asked.topic_id, by_id=by_id)
    if topic is None:
        raise Unwanted(code, f"there is no topic with the id {asked.topic_id.hex()}" if by_id else no_topic(asked.name))
    await broker.engine.topics.delete(topic)
    result.name, result.topic_id = topic.name, topic.id


async def _grow(broker: Broker, asked: CreatePartitionsTopic, *, validate_only: bool) -> None:
    topic = broker.catalog.topic(asked.name)
    if topic is None:
        raise Unwanted(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, no_topic(asked.name))
    now = len(topic.streams)
    if asked.count <= now:
        raise Unwanted(
            ErrorCode.INVALID_PARTITIONS,
            f"topic '{asked.name}' has {now} partitions and cannot have fewer: {asked.count} would be no increase",
        )
    _check_number(asked.count - now)
    if asked.assignments is not None:
        if len(asked.assignments) != asked.count - now:
            raise Unwanted(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{asked.count - now} partitions come in addition, {len(asked.assignments)} are assigned",
            )
        for assignment in asked.assignments:
            _check_replicas(assignment.broker_ids)
    if not validate_only:
        await broker.engine.topics.add_partitions(topic, asked.count)


# --- all of them ------------------------------------------------------------------------------------------------------


def no_topic(name: str | None) -> str:
    return f"there is no topic '{name}'"


def _check_once(times: int) -> None:
    if times > 1:
        raise Unwanted(ErrorCode.INVALID_REQUEST, "the topic stands in the request more than once")


def _check_number(partitions: int) -> None:
    if partitions > PARTITIONS_PER_REQUEST_MAX:
        raise Unwanted(
            ErrorCode.POLICY_VIOLATION,
            f"one request makes up to {PARTITIONS_PER_REQUEST_MAX:,} partitions, not {partitions:,}: use several",
        )


async def _know_all(broker: Broker) -> None:
    """What was changed through another broker a moment ago must not be overlooked; if nobody can tell, go on."""
    try:
        await broker.catalog.refresh()
    except RunnelError:
        return  # the change itself will find out


async def _each(things: Iterable[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    """Work on all of them, a few at once; what came of it, in their order."""
    room = asyncio.Semaphore(AT_ONCE)

    async def one(thing: T) -> R:
        async with room:
            return await work(thing)

    results: list[Any] = await asyncio.gather(*map(one, things))
    return results
