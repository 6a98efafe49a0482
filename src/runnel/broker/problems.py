"""Errors of the house in Kafka's words, in one place."""

from collections.abc import Callable, Mapping
from typing import Any

from runnel.codec.apis import API_VERSIONS, APIS
from runnel.codec.declare import Message
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.api_versions import ApiVersion, ApiVersionsResponse
from runnel.codec.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from runnel.codec.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from runnel.codec.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from runnel.errors import AlreadyThere, Corrupt, Fenced, NotThere, Refused, RunnelError, Unavailable, Uncertain
from runnel.read.reader import OffsetOutOfRange

NO_TRANSACTIONS = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
"""While transactions are not served: what clients take as final, so that they fail at once and say so."""

_CODES: tuple[tuple[type[RunnelError], ErrorCode], ...] = (
    (OffsetOutOfRange, ErrorCode.OFFSET_OUT_OF_RANGE),
    (NotThere, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    (AlreadyThere, ErrorCode.TOPIC_ALREADY_EXISTS),
    (Refused, ErrorCode.INVALID_REQUEST),
    (Fenced, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    # Clients try again after both; after the second one an idempotent producer's retry finds out what happened.
    (Unavailable, ErrorCode.KAFKA_STORAGE_ERROR),
    (Uncertain, ErrorCode.REQUEST_TIMED_OUT),
    (Corrupt, ErrorCode.UNKNOWN_SERVER_ERROR),
)


def code_of(error: RunnelError) -> ErrorCode:
    """The Kafka error for an error of the house, where a handler has no better one."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), ErrorCode.UNKNOWN_SERVER_ERROR)


def failed_response(api_key: int, request: Any, code: ErrorCode) -> Message | None:
    """A whole response that says nothing but an error; None for an API that cannot say it as a whole."""
    if api_key == API_VERSIONS:
        # As Kafka does: whoever asked in a version from the future learns in which ones it may ask.
        spoken = APIS[API_VERSIONS]
        keys = (ApiVersion(api_key=API_VERSIONS, min_version=spoken.first, max_version=spoken.last),)
        return ApiVersionsResponse(error_code=code, api_keys=keys)
    special = _SPECIAL.get(api_key)
    if special is not None:
        return special(request, code)
    response = APIS[api_key].response()
    return response(error_code=code) if "error_code" in response.__facts__ else None  # type: ignore[call-arg]


def _failed_produce(request: Any, code: ErrorCode) -> Message:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=partition.index, error_code=code, base_offset=-1)
                    for partition in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def _failed_list_offsets(request: Any, code: ErrorCode) -> Message:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def committed_response(
    request: Any, code: ErrorCode, errors: Mapping[tuple[int, int], ErrorCode] | None = None
) -> Message:
    """The answer to an OffsetCommit: `code` for all partitions but those, by topic and place, that have their own."""
    errors = errors or {}
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=errors.get((row, column), code)
                    )
                    for column, each in enumerate(topic.partitions)
                ],
            )
            for row, topic in enumerate(request.topics)
        ]
    )


_SPECIAL: Mapping[int, Callable[[Any, ErrorCode], Message]] = {
    0: _failed_produce,
    2: _failed_list_offsets,
    8: committed_response,
}
