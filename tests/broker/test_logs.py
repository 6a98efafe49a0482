"""Where partitions begin and end, how much they hold, and how their beginning is cut off."""

import asyncio

from tests.broker.stock import stock
from tests.broker.test_produce import batch, fetch, offsets_at, produce

from runnel.codec.compression import Compression
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from runnel.codec.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from runnel.codec.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from runnel.codec.records import Record, build_batch, read_records


def delete(name, **offsets):
    """`delete("orders", _0=5)`: partition 0 is to begin at 5."""
    wanted = [DeleteRecordsPartition(partition_index=int(key[1:]), offset=offset) for key, offset in offsets.items()]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=name, partitions=wanted)], timeout_ms=1000)


def told(answer):
    return [
        (each.partition_index, each.error_code, each.low_watermark)
        for topic in answer.topics
        for each in topic.partitions
    ]


def test_records_before_an_offset_are_gone_for_every_broker_at_once(cluster, run):
    async def story():
        async with (
            cluster.serve() as one,
            cluster.serve() as other,
            await one.client() as here,
            await other.client() as there,
        ):
            topic = await one.engine.topics.create("orders", 3)
            for _ in range(3):
                await here.ask(produce(topic, batch(b"a", b"b"), batch(b"c", b"d"), batch(b"e", b"f")), 9)
            for version, offset in enumerate((2, 3, 3)):
                answer = await here.ask(delete("orders", _0=offset, _1=-1), version)
                assert told(answer) == [(0, 0, offset), (1, 0, 6)]
            assert await offsets_at(there, topic, -2, -1) == [(0, 3), (0, 6)]
            answer = await there.ask(fetch(topic, 2, 6, 0), 12)
            gone, empty, whole = answer.responses[0].partitions
            assert (gone.error_code, gone.log_start_offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, 3)
            assert (empty.error_code, empty.log_start_offset, bytes(empty.records)) == (0, 6, b"")
            assert [each.offset for each in read_records(whole.records)] == list(range(6))

    run(story())


def test_a_beginning_never_moves_back_nor_beyond_the_end(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 2)
            await client.ask(produce(topic, batch(b"a", b"b", b"c")), 9)
            assert told(await client.ask(delete("orders", _0=2), 2)) == [(0, 0, 2)]
            assert told(await client.ask(delete("orders", _0=1), 2)) == [(0, 0, 2)]
            out = ErrorCode.OFFSET_OUT_OF_RANGE
            assert told(await client.ask(delete("orders", _0=4, _1=0), 2)) == [(0, out, -1), (1, 0, 0)]
            assert told(await client.ask(delete("orders", _0=-2), 2)) == [(0, out, -1)]
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            assert told(await client.ask(delete("orders", _2=0), 2)) == [(2, unknown, -1)]
            assert told(await client.ask(delete("others", _0=0), 2)) == [(0, unknown, -1)]

    run(story())


def test_the_one_epoch_ends_where_the_partition_ends(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders", 2)
            await client.ask(produce(topic, batch(b"a", b"b", b"c")), 9)

            async def ends(current, epoch, version=4, partition=0):
                wanted = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
                asked = OffsetForLeaderTopic(topic="orders", partitions=[wanted])
                answer = await client.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=[asked]), version)
                (end,) = answer.topics[0].partitions
                return end.partition, end.error_code, end.leader_epoch, end.end_offset

            for version in (2, 3, 4):
                assert await ends(-1, 0, version) == (0, 0, 0, 3)
            assert await ends(0, 0) == (0, 0, 0, 3)
            assert await ends(0, 0, partition=1) == (1, 0, 0, 0)
            assert await ends(0, 1) == (0, 0, -1, -1)
            assert await ends(1, 0) == (0, ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
            assert await ends(0, 0, partition=2) == (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)

    run(story())


def test_each_broker_tells_the_sizes_of_the_partitions_it_is_named_for_and_together_they_tell_all(cluster, run):
    async def story():
        async with (
            cluster.serve() as one,
            cluster.serve() as other,
            await one.client() as here,
            await other.client() as there,
        ):
            topic = await one.engine.topics.create("orders", 8)
            body = batch(b"x" * 1000)
            await here.ask(produce(topic, *[body] * 8), 9)
            await there.ask(produce(topic, *[body] * 8), 9)
            await one.engine.bounds_of(topic.streams)
            sizes = {}
            for version in range(1, 6):
                answers = [await client.ask(DescribeLogDirsRequest(topics=None), version) for client in (here, there)]
                found = [
                    {
                        each.partition_index: each.partition_size
                        for topic in answer.results[0].topics
                        for each in topic.partitions
                    }
                    for answer in answers
                ]
                assert not found[0].keys() & found[1].keys()
                sizes = found[0] | found[1]
                assert sizes == dict.fromkeys(range(8), 2 * len(body))
            asked = [
                DescribableLogDirTopic(topic="orders", partitions=[0, 1, 99]),
                DescribableLogDirTopic(topic="others", partitions=[0]),
            ]
            answers = [await client.ask(DescribeLogDirsRequest(topics=asked), 4) for client in (here, there)]
            assert sorted(
                (topic.name, each.partition_index)
                for answer in answers
                for topic in answer.results[0].topics
                for each in topic.partitions
            ) == [("orders", 0), ("orders", 1)]

    run(story())


def test_times_lead_to_the_first_record_at_or_after_them_and_never_to_one_that_is_gone(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders")
            stamps = [[50, 90, 10], [70, 20], [95, 60, 95]]
            for place, some in enumerate(stamps):
                records = [Record(None, b"v", timestamp=stamp) for stamp in some]
                await client.ask(produce(topic, build_batch(records, compression=Compression(place + 1))), 9)
            flat = [stamp for some in stamps for stamp in some]
            for start in (0, 1, 2, 4, 6):
                await client.ask(delete("orders", _0=start), 2)
                for time in range(0, 110, 5):
                    wanted = next((at for at, stamp in enumerate(flat) if at >= start and stamp >= time), -1)
                    assert await offsets_at(client, topic, time) == [(0, wanted)], (start, time)
                wanted = start + flat[start:].index(max(flat[start:]))
                assert await offsets_at(client, topic, -3) == [(0, wanted)]

    run(story())


def test_stock_admin_clients_cut_off_beginnings_and_ask_for_sizes(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders")
            await client.ask(produce(topic, batch(b"a", b"b", b"c", b"d")), 9)
            assert await stock("confluent_delete", node.address, topic="orders", offset=2) == 2
            said = await stock("kafka_python_delete_and_sizes", node.address, topic="orders", offset=3)
            assert await offsets_at(client, topic, -2) == [(0, 3)]
            assert "low_watermark" in said, said
            assert "partition_size" in said, said

    run(story())


def test_a_topic_that_another_broker_made_a_moment_ago_is_found(cluster, run):
    async def story():
        async with cluster.serve() as one, cluster.serve() as other, await other.client() as client:
            for turn, ask in enumerate(
                (
                    lambda name: client.ask(delete(name, _0=0), 2),
                    lambda name: client.ask(
                        OffsetForLeaderEpochRequest(
                            topics=[OffsetForLeaderTopic(topic=name, partitions=[OffsetForLeaderPartition()])]
                        ),
                        4,
                    ),
                )
            ):
                following = [follower._following for follower in other.engine.shards]
                for task in following:
                    task.cancel()  # nothing is heard of what others do, but by asking
                await asyncio.wait(following)
                topic = await one.engine.topics.create(f"new-{turn}")
                answer = await ask(topic.name)
                assert [each.error_code for each in answer.topics[0].partitions] == [0]
            topic = await one.engine.topics.create("newest")
            assert await offsets_at(client, topic, -1) == [(0, 0)]

    run(story())
