"""DescribeLogDirs (35): where records lie, and how much of them each partition has.

The one place is the object store, which all brokers share. Each broker tells of the partitions that it is named leader
of to this client, so that tools which add up the answers of all brokers count every partition once.
"""

from collections.abc import Iterable, Mapping

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.codec.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from runnel.metadata.topics import Topic
from runnel.world.telemetry.log import mask_url


def handlers(broker: Broker) -> Mapping[int, Handler]:
    place = mask_url(broker.settings.objects) or f"{broker.settings.data_dir}/objects"

    def describe_log_dirs(call: Call) -> DescribeLogDirsResponse:
        asked = call.request.topics
        topics: list[tuple[Topic, Iterable[int]]] = []
        if asked is None:
            topics = [(topic, range(len(topic.streams))) for topic in broker.catalog.topics()]
        else:
            for each in asked:  # what is not there is left out, as in Kafka
                topic = broker.catalog.topic(each.topic)
                if topic is not None:
                    topics.append((topic, sorted(set(each.partitions))))
        told = [_told(broker, call, topic, partitions) for topic, partitions in topics]
        # A store has no size to tell: total_bytes and usable_bytes stay -1, Kafka's word for that.
        return DescribeLogDirsResponse(
            results=[DescribeLogDirsResult(log_dir=place, topics=[topic for topic in told if topic.partitions])]
        )

    return {35: describe_log_dirs}


def _told(broker: Broker, call: Call, topic: Topic, partitions: Iterable[int]) -> DescribeLogDirsTopic:
    leaders = broker.routing.leaders(call.client.zone)
    shards = len(leaders) - 1
    here = broker.routing.node_id
    told = []
    for index in partitions:
        stream = broker.catalog.stream(topic, index)
        if stream is not None and leaders[1 + stream % shards] == here:
            told.append(DescribeLogDirsPartition(partition_index=index, partition_size=broker.catalog.size(stream)))
    return DescribeLogDirsTopic(name=topic.name, partitions=told)
