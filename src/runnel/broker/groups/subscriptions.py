"""What consumers say of themselves inside the classic protocol: bytes that the broker carries and seldom reads."""

from collections.abc import Mapping
from typing import Any

from runnel.broker.groups.assignors import Parts
from runnel.codec.messages.consumer_protocol import (
    AssignedPartitions,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from runnel.codec.primitives import BadMessage
from runnel.codec.wire import decode_bare, encode_bare

CONSUMERS = "consumer"
"""The protocol type of groups of consumers, among them those of the new protocol."""


def subscription_in(metadata: bytes) -> frozenset[str] | None:
    """The topics that a member's metadata names; None if it is no consumer's."""
    told = consumer_in(metadata)
    return None if told is None else frozenset(told.topics)


def consumer_in(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """All that a consumer says; None if it is no consumer."""
    told: ConsumerProtocolSubscription | None = _versioned(ConsumerProtocolSubscription, metadata)
    return told


def assignment_in(data: bytes) -> dict[str, list[int]]:
    """The partitions that a leader has handed to a consumer, by topic; nothing if that cannot be understood."""
    told = _versioned(ConsumerProtocolAssignment, data)
    return {} if told is None else {each.topic: list(each.partitions) for each in told.assigned_partitions}


def assignment_of(parts: Parts, names: Mapping[bytes, str]) -> bytes:
    """What a leader would hand to a consumer."""
    rows: dict[str, list[int]] = {}
    for topic, index in sorted(parts):
        if topic in names:
            rows.setdefault(names[topic], []).append(index)
    told = [AssignedPartitions(topic=name, partitions=indexes) for name, indexes in rows.items()]
    return bytes(2) + encode_bare(ConsumerProtocolAssignment(assigned_partitions=told), 0)


def _versioned(kind: type[Any], data: bytes) -> Any:
    """A message behind its version; None if it is none."""
    if len(data) < 2:
        return None
    version = min(int.from_bytes(data[:2], signed=True), kind.version_last)
    if version < 0:
        return None
    try:
        # Later versions have more fields behind those that we know.
        return decode_bare(kind, version, data[2:])
    except BadMessage:
        return None
