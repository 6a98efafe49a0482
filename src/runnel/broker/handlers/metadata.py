"""Metadata (3): brokers, topics and whom to ask for their partitions.

The leader named for a partition is the broker that owns its shard in the client's zone; it is its only replica, for the
records live in the object store. Two clients in two zones may be told different leaders, and both are right.
"""

from collections.abc import Coroutine, Mapping
from typing import Any

from runnel.broker import authorized
from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.routing import LEADER_EPOCH
from runnel.codec.declare import NO_UUID
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from runnel.errors import RunnelError
from runnel.metadata.topics import Topic

NULLABLE_NAME_FROM = 12


def handlers(broker: Broker) -> Mapping[int, Handler]:
    catalog = broker.catalog

    def metadata(call: Call) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
        request = call.request
        # Version 0 has no null: an empty list asks for everything.
        if request.topics is None or (call.version == 0 and not request.topics):
            return _response(broker, call, [_told(broker, call, topic) for topic in catalog.topics()])
        found = [_find(broker, asked.name, asked.topic_id) for asked in request.topics]
        if all(found):
            return _response(broker, call, [_told(broker, call, topic) for topic in found if topic is not None])
        return _look_closer(broker, call)

    return {3: metadata}


def _find(broker: Broker, name: str | None, topic_id: bytes) -> Topic | None:
    if topic_id != NO_UUID:
        return broker.catalog.by_id(topic_id)
    return broker.catalog.topic(name or "")


async def _look_closer(broker: Broker, call: Call) -> MetadataResponse:
    """Some topic is not known here: it may be new, or be made on demand."""
    request = call.request
    error: ErrorCode | None = None
    try:
        await broker.catalog.refresh(asked.name for asked in request.topics)
    except RunnelError:
        error = ErrorCode.LEADER_NOT_AVAILABLE  # nobody can tell now: the client asks again
    told = []
    # Version 3 and older could not say: they always allow it.
    on_demand = broker.settings.auto_create_topics and (call.version < 4 or request.allow_auto_topic_creation)
    for asked in request.topics:
        topic: Topic | ErrorCode | None = _find(broker, asked.name, asked.topic_id)
        if topic is None and asked.topic_id != NO_UUID:
            topic = error or ErrorCode.UNKNOWN_TOPIC_ID
        elif topic is None and on_demand and error is None:
            topic = await broker.catalog.create_on_demand(asked.name or "")
        elif topic is None:
            topic = error or broker.catalog.why_missing(asked.name or "")
        if isinstance(topic, Topic):
            told.append(_told(broker, call, topic))
        else:
            # A request without a name can be told one that is none only from version 12 on.
            name = asked.name if call.version >= NULLABLE_NAME_FROM else asked.name or ""
            told.append(MetadataResponseTopic(error_code=topic, name=name, topic_id=asked.topic_id))
    return _response(broker, call, told)


def _told(broker: Broker, call: Call, topic: Topic) -> MetadataResponseTopic:
    leaders = broker.routing.leaders(call.client.zone)
    shards = len(leaders) - 1
    partitions = []
    for index, stream in enumerate(topic.streams):
        leader = leaders[1 + stream % shards]
        alone = (leader,)
        partitions.append(
            MetadataResponsePartition(
                partition_index=index,
                leader_id=leader,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=alone,
                isr_nodes=alone,
            )
        )
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        partitions=partitions,
        topic_authorized_operations=authorized.TOPIC
        if call.request.include_topic_authorized_operations
        else authorized.NOT_ASKED,
    )


def _response(broker: Broker, call: Call, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    routing = broker.routing
    asked = call.request.include_cluster_authorized_operations
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node, host=host, port=port, rack=zone or None)
            for node, host, port, zone in routing.brokers()
        ],
        cluster_id=broker.engine.cluster.id,
        controller_id=routing.controller(),
        topics=topics,
        cluster_authorized_operations=authorized.CLUSTER if asked else authorized.NOT_ASKED,
    )
