"""Produce: what is taken, what is refused and how, and where records land."""

from runnel.codec.errors import ErrorCode
from runnel.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from runnel.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from runnel.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from runnel.codec.records import Record, build_batch, read_records

VERSIONS = range(3, 14)


def batch(*values, timestamp=1000, **more):
    return build_batch([Record(None, value, timestamp=timestamp) for value in values], **more)


def produce(topic, *batches, acks=-1, transactional_id=None):
    data = [PartitionProduceData(index=index, records=records) for index, records in enumerate(batches)]
    asked = TopicProduceData(name=topic.name, topic_id=topic.id, partition_data=data)
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[asked], transactional_id=transactional_id)


def fetch(topic, *offsets, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, partition_max_bytes=1 << 20):
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
        for index, offset in enumerate(offsets)
    ]
    asked = FetchTopic(topic=topic.name, topic_id=topic.id, partitions=wanted)
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=[asked])


async def offsets_at(client, topic, *times, version=11):
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=time) for time in times]
    told = []
    for each in wanted:
        asked = ListOffsetsTopic(name=topic.name, partitions=[each])
        answer = await client.ask(ListOffsetsRequest(replica_id=-1, topics=[asked]), version)
        (partition,) = answer.topics[0].partitions
        told.append((partition.error_code, partition.offset))
    return told


def test_what_is_produced_in_any_version_is_fetched_in_every_version(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 2)
            for place, version in enumerate(VERSIONS):
                answer = await client.ask(produce(topic, batch(b"a%d" % version), batch(b"b")), version)
                for index in (0, 1):
                    told = answer.responses[0].partition_responses[index]
                    assert (told.index, told.error_code, told.base_offset) == (index, 0, place)
            for version in range(4, 19):
                answer = await client.ask(fetch(topic, 0, 9), version)
                first, second = answer.responses[0].partitions
                assert [each.value for each in read_records(first.records)] == [b"a%d" % each for each in VERSIONS]
                assert [each.offset for each in read_records(second.records)] == [9, 10]
                assert first.high_watermark == first.last_stable_offset == len(VERSIONS)
            assert await offsets_at(client, topic, -2, -1, -3, -4, -5) == [(0, 0), (0, 11), (0, 0), (0, 0), (0, -1)]
            assert await offsets_at(client, topic, -7) == [(ErrorCode.UNSUPPORTED_VERSION, -1)]

    run(story())
