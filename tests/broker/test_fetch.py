"""Fetch: sessions, sizes, waiting, and where a client is sent elsewhere."""

import asyncio

import pytest
from tests.broker.test_produce import batch, fetch, produce

from runnel.broker.sessions import EVICTABLE_AFTER_S, Sessions
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from runnel.codec.records import read_records


def ask(number, epoch, *offsets, name="orders", forget=(), more=1 << 20):
    """A request of a session: `offsets` are (partition, offset)."""
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=more) for index, offset in offsets
    ]
    return FetchRequest(
        session_id=number,
        session_epoch=epoch,
        min_bytes=1,
        topics=[FetchTopic(topic=name, partitions=wanted)] if wanted else [],
        forgotten_topics_data=[ForgottenTopic(topic=name, partitions=list(forget))] if forget else [],
    )


def told(answer):
    """What an answer holds: offsets of records by partition, or the error."""
    return {
        each.partition_index: each.error_code or [record.offset for record in read_records(each.records)]
        for topic in answer.responses
        for each in topic.partitions
    }


# --- sessions, by themselves ------------------------------------------------------------------------------------------


class Book:
    """Sessions with numbers that can be foretold."""

    def __init__(self, sessions_max=10, partitions_max=100):
        self.numbers = iter(range(1, 1000))
        self.sessions = Sessions(sessions_max, partitions_max, lambda: next(self.numbers))
        self.at = 0.0

    def open(self, request):
        return self.sessions.open(request, by_id=False, at=self.at)


def places(opened):
    return [(wanted.index, wanted.offset) for wanted in opened.wanted]


def test_an_incremental_request_adds_changes_and_forgets():
    book = Book()
    opened = book.open(ask(0, 0, (0, 5), (1, 6)))
    assert (opened.session.id, places(opened), opened.is_full) == (1, [(0, 5), (1, 6)], True)
    opened = book.open(ask(1, 1))
    assert (places(opened), opened.is_full) == ([(0, 5), (1, 6)], False)
    assert places(book.open(ask(1, 2, (1, 7), (2, 1)))) == [(0, 5), (1, 7), (2, 1)]
    assert places(book.open(ask(1, 3, forget=[0]))) == [(1, 7), (2, 1)]
    assert book.open(ask(1, 3)).error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert book.open(ask(1, 5)).error == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert book.open(ask(2, 1)).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert book.sessions.open(ask(1, 4), by_id=True, at=0).error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert book.sessions.partitions == 2
    opened = book.open(ask(1, 4, forget=[1, 2]))
    assert (opened.error, opened.wanted, len(book.sessions)) == (0, (), 0)


def test_a_full_request_ends_the_session_it_names():
    book = Book()
    book.open(ask(0, 0, (0, 5)))
    opened = book.open(ask(1, 0, (0, 5)))
    assert (opened.session.id, len(book.sessions)) == (2, 1)
    opened = book.open(ask(2, -1, (0, 5)))
    assert (opened.session, len(book.sessions), book.sessions.partitions) == (None, 0, 0)
    assert book.open(ask(0, -1, (0, 5))).session is None


def test_epochs_begin_again_after_the_largest():
    book = Book()
    session = book.open(ask(0, 0, (0, 5))).session
    session.epoch = (1 << 31) - 1
    assert not book.open(ask(1, (1 << 31) - 1)).error
    assert not book.open(ask(1, 1)).error


def test_sessions_are_bounded_and_only_idle_ones_make_room():
    book = Book(sessions_max=2, partitions_max=5)
    for _ in range(2):
        assert book.open(ask(0, 0, (0, 5))).session is not None
    assert book.open(ask(0, 0, (0, 5))).session is None
    book.at += EVICTABLE_AFTER_S
    assert not book.open(ask(1, 1)).error
    assert book.open(ask(0, 0, *((index, 0) for index in range(5)))).session is None, "1 is not idle, 2 is too small"
    assert book.open(ask(2, 1)).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert book.open(ask(0, 0, *((index, 0) for index in range(4)))).session is not None
    assert (len(book.sessions), book.sessions.partitions) == (2, 5)
    assert book.open(ask(1, 2, (9, 0))).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(book.sessions), book.sessions.partitions) == (1, 4)


def test_only_what_is_new_is_news_and_after_an_error_everything_is():
    (wanted,) = Book().open(ask(0, 0, (0, 5))).wanted

    def news(**facts):
        facts = {"high_watermark": 7, "log_start_offset": 1, "records": b""} | facts
        return wanted.is_news(PartitionData(partition_index=0, **facts))

    assert news()
    assert not news()
    assert news(records=b"x")
    assert not news()
    assert news(high_watermark=8)
    assert news(high_watermark=8, log_start_offset=2)
    assert not news(high_watermark=8, log_start_offset=2)
    assert news(error_code=1)
    assert news(error_code=1)
    assert news(high_watermark=8, log_start_offset=2)
    assert news(high_watermark=8, log_start_offset=2, preferred_read_replica=3)


# --- through the door -------------------------------------------------------------------------------------------------


def test_a_session_tells_what_changed_and_nothing_else(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client, await node.client() as writer:
            topic = await node.engine.topics.create("orders", 3)
            await writer.ask(produce(topic, batch(b"a"), batch(b"b"), batch(b"c")), 9)
            first = await client.ask(ask(0, 0, (0, 0), (1, 0), (2, 1)), 12)
            number = first.session_id
            assert number > 0
            assert told(first) == {0: [0], 1: [0], 2: []}
            again = await client.ask(ask(number, 1, (0, 1), (1, 1)), 12)
            assert (again.session_id, told(again)) == (number, {})
            await writer.ask(produce(topic, batch(b"d")), 9)
            assert told(await client.ask(ask(number, 2), 12)) == {0: [1]}
            assert told(await client.ask(ask(number, 3, (0, 2), (1, 9)), 12)) == {1: ErrorCode.OFFSET_OUT_OF_RANGE}
            assert told(await client.ask(ask(number, 4, (1, 1)), 12)) == {1: []}
            assert told(await client.ask(ask(number, 5, (7, 0)), 12)) == {7: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            assert told(await client.ask(ask(number, 6, forget=[7]), 12)) == {}
            wrong = await client.ask(ask(number, 6), 12)
            assert (wrong.error_code, wrong.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)

    run(story())


def test_a_session_finds_a_topic_that_was_made_again_under_its_name(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client, await node.client() as writer:
            topic = await node.engine.topics.create("orders")
            await writer.ask(produce(topic, batch(b"a")), 9)
            number = (await client.ask(ask(0, 0, (0, 0)), 12)).session_id
            await node.engine.topics.delete(topic)
            assert told(await client.ask(ask(number, 1), 12)) == {0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            topic = await node.engine.topics.create("orders")
            await writer.ask(produce(topic, batch(b"a", b"b")), 9)
            assert told(await client.ask(ask(number, 2), 12)) == {0: [0, 1]}

    run(story())


def test_who_got_something_stands_behind_the_others_next_time(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client, await node.client() as writer:
            topic = await node.engine.topics.create("orders", 3)
            await writer.ask(produce(topic, *[batch(b"x" * 1000)] * 3), 9)
            request = ask(0, 0, (0, 0), (1, 0), (2, 0))
            request.max_bytes = 100
            first = await client.ask(request, 12)
            assert told(first) == {0: [0], 1: [], 2: []}
            seen = []
            for epoch in range(1, 4):
                request = ask(first.session_id, epoch)
                request.max_bytes = 100
                seen.append(told(await client.ask(request, 12)))
            assert seen == [{1: [0]}, {2: [0]}, {0: [0]}]

    run(story())


def test_an_answer_holds_whole_batches_within_its_bounds_and_one_at_least(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client, await node.client() as writer:
            topic = await node.engine.topics.create("orders", 3)
            body = batch(b"x" * 1000)
            for _ in range(5):
                await writer.ask(produce(topic, body, body, body), 9)

            async def counts(*offsets, **bounds):
                answer = await client.ask(fetch(topic, *offsets, **bounds), 12)
                return [len(each) for each in told(answer).values()]

            size = len(body)
            assert await counts(0, 0, 0) == [5, 5, 5]
            assert await counts(0, 0, 0, partition_max_bytes=2 * size) == [2, 2, 2]
            assert await counts(0, 0, 0, partition_max_bytes=2 * size - 1) == [1, 1, 1]
            assert await counts(0, 0, 0, partition_max_bytes=1) == [1, 0, 0]
            assert await counts(0, 0, 0, max_bytes=7 * size) == [5, 2, 0]
            assert await counts(5, 3, 0, max_bytes=3 * size + 5) == [0, 2, 1]
            assert await counts(0, 0, 0, max_bytes=1) == [1, 0, 0]
            assert await counts(5, 0, 0, max_bytes=0) == [0, 1, 0]

    run(story())


def test_a_fetch_waits_for_as_much_as_it_wants_and_no_longer_than_it_says(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client, await node.client() as writer:
            topic = await node.engine.topics.create("orders", 2)
            loop = asyncio.get_running_loop()
            begun = loop.time()
            assert told(await client.ask(fetch(topic, 0, 0, max_wait_ms=60), 12)) == {0: [], 1: []}
            assert loop.time() - begun >= 0.06

            client.send(fetch(topic, 0, 0, max_wait_ms=20_000), 12)
            await writer.ask(produce(topic, batch(b"a")), 9)
            assert told(await client.receive()) == {0: [0], 1: []}

            client.send(fetch(topic, 0, 0, max_wait_ms=20_000, min_bytes=3000), 12)
            for _ in range(3):
                assert not client.reader._buffer
                await writer.ask(produce(topic, batch(b"x"), batch(b"y" * 900)), 9)
            answer = told(await client.receive())
            assert answer == {0: [0, 1, 2, 3], 1: [0, 1, 2]}

            client.send(fetch(topic, 4, 3, max_wait_ms=20_000), 12)
            await asyncio.sleep(0.01)
            await node.engine.topics.delete(topic)
            assert set(told(await client.receive()).values()) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    run(story())


def test_what_was_acknowledged_by_another_broker_is_found_and_wakes_those_who_wait(cluster, run):
    async def story():
        async with (
            cluster.serve() as one,
            cluster.serve() as other,
            await one.client() as here,
            await other.client() as there,
        ):
            topic = await one.engine.topics.create("orders", 4)
            await other.engine.catch_up()
            for turn in range(20):
                await here.ask(produce(topic, *[batch(b"a")] * 4), 9)
                assert told(await there.ask(fetch(topic, *[turn] * 4), 12)) == {index: [turn] for index in range(4)}
            there.send(fetch(topic, *[20] * 4, max_wait_ms=20_000), 12)
            await asyncio.sleep(0.01)
            await here.ask(produce(topic, batch(b"a")), 9)
            assert told(await there.receive()) == {0: [20], 1: [], 2: [], 3: []}

    run(story())


def test_a_client_that_leaves_waits_no_longer_and_a_drained_server_answers_everyone(cluster, run):
    async def story():
        async with cluster.serve() as node:
            topic = await node.engine.topics.create("orders")
            metrics = node.engine.world.metrics

            async def waiting(count):
                async with asyncio.timeout(10):
                    while f"runnel_kafka_fetches_waiting {count}\n" not in metrics.render():  # noqa: ASYNC110  a number
                        await asyncio.sleep(0.005)

            async with await node.client() as client:
                client.send(fetch(topic, 0, max_wait_ms=200_000), 12)
                await waiting(1)
            await waiting(0)
            async with await node.client() as client:
                client.send(fetch(topic, 0, max_wait_ms=200_000), 12)
                await waiting(1)
                _, answer = await asyncio.gather(node.server.drain(10), client.receive())
                assert told(answer) == {0: []}

    run(story())


def test_readers_that_take_nothing_do_not_cost_more_memory_than_there_is_for_them(cluster, run):
    async def story():
        async with cluster.serve(limits={"unsent_bytes_max": 3 << 20}) as node, await node.client() as writer:
            topic = await node.engine.topics.create("orders", 1, {"max.message.bytes": "2000000"})
            for _ in range(4):
                await writer.ask(produce(topic, batch(b"x" * (1 << 20))), 9)
            slow = [await node.client() for _ in range(8)]
            for client in slow:
                client.reader._transport.pause_reading()
                for _ in range(4):
                    client.send(fetch(topic, 0, max_wait_ms=10, max_bytes=4 << 20, partition_max_bytes=4 << 20), 12)
            async with await node.client() as client:
                async with asyncio.timeout(20):
                    while told(await client.ask(fetch(topic, 0, max_wait_ms=1), 12))[0]:
                        pass
                unsent = sum(each.transport.get_write_buffer_size() for each in node.server._connections)
                assert unsent <= (3 << 20) + (5 << 20)
                for each in slow:
                    each.writer.transport.abort()
                async with asyncio.timeout(20):
                    while not told(await client.ask(fetch(topic, 0, max_wait_ms=1), 12))[0]:
                        pass

    run(story())


@pytest.mark.parametrize("zone", ["", "a"])
def test_a_client_from_a_rack_with_brokers_of_its_own_is_sent_there(cluster, run, zone):
    async def story():
        async with cluster.serve(zone=zone) as far, cluster.serve(zone="b") as near:
            topic = await near.engine.topics.create("orders", 4)
            await far.engine.catch_up()
            async with await far.client() as client, await near.client() as other:
                await client.ask(produce(topic, *[batch(b"a")] * 4), 9)
                request = fetch(topic, *[0] * 4)
                request.rack_id = "b"
                answer = await client.ask(request, 12)
                number = near.broker.routing.node_id
                assert [each.preferred_read_replica for each in answer.responses[0].partitions] == [number] * 4
                assert set(map(len, told(answer).values())) == {0}
                answer = await other.ask(request, 12)
                assert [each.preferred_read_replica for each in answer.responses[0].partitions] == [-1] * 4
                assert set(map(len, told(answer).values())) == {1}
                for rack in ("nowhere", ""):
                    request.rack_id = rack
                    assert set(map(len, told(await client.ask(request, 12)).values())) == {1}

    run(story())


def test_aborted_transactions_are_named_to_those_who_ask_for_committed_records_only(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            topic = await node.engine.topics.create("orders")
            await client.ask(produce(topic, batch(b"a")), 9)
            for level, named in ((0, None), (1, [])):
                request = fetch(topic, 0)
                request.isolation_level = level
                (partition,) = (await client.ask(request, 12)).responses[0].partitions
                assert (partition.last_stable_offset, partition.aborted_transactions) == (1, named)

    run(story())
