"""DescribeCluster (60), DescribeTopicPartitions (75), DescribeQuorum (55), UnregisterBroker (64), UpdateFeatures (57).

What tools ask about the cluster as a whole. The quorum is the root shard's ledger: its followers are the brokers, all
of them have applied what this one has, as far as it knows.
"""

from collections.abc import Mapping
from contextlib import suppress
from operator import attrgetter

from runnel.broker import authorized
from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.routing import LEADER_EPOCH
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from runnel.codec.messages.describe_quorum import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionDataAnswer,
    ReplicaState,
    TopicDataAnswer,
)
from runnel.codec.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from runnel.codec.messages.unregister_broker import UnregisterBrokerResponse
from runnel.codec.messages.update_features import UpdatableFeatureResult, UpdateFeaturesResponse
from runnel.errors import RunnelError
from runnel.metadata.topics import Topic

BROKERS, CONTROLLERS = 1, 2
"""Kinds of endpoints in DescribeCluster."""
PARTITIONS_PER_ANSWER_MAX = 2000
"""Kafka's max.request.partition.size.limit."""
QUORUM_TOPIC = "__cluster_metadata"


def handlers(broker: Broker) -> Mapping[int, Handler]:
    def describe_cluster(call: Call) -> DescribeClusterResponse:
        kind = call.request.endpoint_type
        if kind != BROKERS:
            known = kind == CONTROLLERS
            code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
            message = "this is where brokers listen, and there are no controllers elsewhere: bootstrap from brokers"
            return DescribeClusterResponse(error_code=code, error_message=message, endpoint_type=kind)
        asked = call.request.include_cluster_authorized_operations
        return DescribeClusterResponse(
            cluster_id=broker.engine.cluster.id,
            controller_id=broker.routing.controller(),
            brokers=[
                DescribeClusterBroker(broker_id=node, host=host, port=port, rack=zone or None)
                for node, host, port, zone in broker.routing.brokers()
            ],
            cluster_authorized_operations=authorized.CLUSTER if asked else authorized.NOT_ASKED,
        )

    async def describe_topic_partitions(call: Call) -> DescribeTopicPartitionsResponse:
        names = sorted({topic.name for topic in call.request.topics})
        if any(broker.catalog.topic(name) is None for name in names):
            with suppress(RunnelError):  # what is known here is told all the same
                await broker.catalog.refresh()
        return _page(broker, call, names)

    def describe_quorum(call: Call) -> DescribeQuorumResponse:
        endpoints = broker.routing.brokers()
        return DescribeQuorumResponse(
            error_message=None,
            topics=[
                TopicDataAnswer(
                    topic_name=topic.topic_name,
                    partitions=[
                        _quorum(broker)
                        if (topic.topic_name, partition.partition_index) == (QUORUM_TOPIC, 0)
                        else PartitionDataAnswer(
                            partition_index=partition.partition_index,
                            error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                            error_message=f"only {QUORUM_TOPIC}-0 stands for a quorum",
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in call.request.topics
            ],
            nodes=[
                Node(node_id=each.node, listeners=[Listener(name="PLAINTEXT", host=each.host, port=each.port)])
                for each in endpoints
            ],
        )

    def unregister_broker(call: Call) -> UnregisterBrokerResponse:
        number = call.request.broker_id
        if number not in broker.engine.root.nodes:
            message = f"no broker has the number {number}"
            return UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=message)
        if broker.routing.endpoint(number) is not None:
            message = f"broker {number} is alive: stop it; it leaves by itself, or when its lease has run out"
            return UnregisterBrokerResponse(error_code=ErrorCode.INVALID_REQUEST, error_message=message)
        return UnregisterBrokerResponse(error_message=None)  # its lease has run out: the others are about to remove it

    def update_features(call: Call) -> UpdateFeaturesResponse:
        message = (
            "features have no levels here: every node does what its version can, and the truth says which it needs"
        )
        results = [
            UpdatableFeatureResult(
                feature=update.feature, error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message
            )
            for update in call.request.feature_updates
        ]
        if call.version >= 2 and results:
            return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=message)
        return UpdateFeaturesResponse(error_message=None, results=results)

    return {
        55: describe_quorum,
        57: update_features,
        60: describe_cluster,
        64: unregister_broker,
        75: describe_topic_partitions,
    }


def _quorum(broker: Broker) -> PartitionDataAnswer:
    root = broker.engine.root
    now = broker.world.clock.now_ms()
    voters = [
        ReplicaState(
            replica_id=each.node, log_end_offset=root.position, last_fetch_timestamp=now, last_caught_up_timestamp=now
        )
        for each in broker.routing.brokers()
    ]
    return PartitionDataAnswer(
        error_message=None, leader_id=broker.routing.controller(), high_watermark=root.position, current_voters=voters
    )


# --- partitions by the page -------------------------------------------------------------------------------------------


def _page(broker: Broker, call: Call, names: list[str]) -> DescribeTopicPartitionsResponse:
    """Partitions of these topics, or of all, from the cursor on, as many as fit; and where the next page begins."""
    request = call.request
    room = max(1, min(request.response_partition_limit, PARTITIONS_PER_ANSWER_MAX))
    topics: list[Topic | str]
    if names:
        topics = [broker.catalog.topic(name) or name for name in names]
    else:
        topics = sorted(broker.catalog.topics(), key=attrgetter("name"))
    begin = 0
    if request.cursor is not None:
        at, begin = request.cursor.topic_name, max(0, request.cursor.partition_index)
        topics = [topic for topic in topics if _name(topic) >= at]
        if not topics or _name(topics[0]) != at:
            begin = 0  # the topic of the cursor has gone meanwhile
    told: list[DescribeTopicPartitionsResponseTopic] = []
    for topic in topics:
        if not room:
            return DescribeTopicPartitionsResponse(topics=told, next_cursor=Cursor(topic_name=_name(topic)))
        if isinstance(topic, str):
            code = broker.catalog.why_missing(topic)
            told.append(DescribeTopicPartitionsResponseTopic(error_code=code, name=topic))
            continue
        end = min(len(topic.streams), begin + room)
        told.append(_told(broker, call, topic, begin, end))
        if end < len(topic.streams):
            cursor = Cursor(topic_name=topic.name, partition_index=end)
            return DescribeTopicPartitionsResponse(topics=told, next_cursor=cursor)
        room -= end - begin
        begin = 0
    return DescribeTopicPartitionsResponse(topics=told)


def _name(topic: Topic | str) -> str:
    return topic if isinstance(topic, str) else topic.name


def _told(broker: Broker, call: Call, topic: Topic, begin: int, end: int) -> DescribeTopicPartitionsResponseTopic:
    leaders = broker.routing.leaders(call.client.zone)
    shards = len(leaders) - 1
    partitions = []
    for index in range(begin, end):
        leader = leaders[1 + topic.streams[index] % shards]
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                partition_index=index,
                leader_id=leader,
                leader_epoch=LEADER_EPOCH,
                replica_nodes=(leader,),
                isr_nodes=(leader,),
                eligible_leader_replicas=(),
                last_known_elr=(),
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name, topic_id=topic.id, partitions=partitions, topic_authorized_operations=authorized.TOPIC
    )
