"""Stock clients in consumer groups: they subscribe, rebalance, commit and resume."""

import asyncio
import contextlib
from collections import Counter

import pytest

pytestmark = [
    pytest.mark.leaves("librdkafka and kafka-python end their threads and sockets in their own time"),
    pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning"),  # of kafka-python's
]

PATIENCE = 40


async def filled(node, name="orders", partitions=4, records=40):
    """A topic with records `0` to `records-1`, spread over its partitions."""
    from runnel.codec.records import Record

    topic = await node.engine.topics.create(name, partitions)
    for index, stream in enumerate(topic.streams):
        values = [b"%d" % number for number in range(records) if number % partitions == index]
        await node.engine.append_records(stream, [Record(None, value) for value in values])
    return topic


async def until(what, patience=PATIENCE):
    async with asyncio.timeout(patience):
        while not what():  # noqa: ASYNC110  what clients do in their own threads sends no events
            await asyncio.sleep(0.02)


class Confluent:
    """One consumer of librdkafka's in a thread of its own."""

    def __init__(self, address, **config):
        from confluent_kafka import Consumer

        self.seen, self.assigned, self.errors, self.refused, self.generations = [], set(), [], [], 0
        self.running = True
        self.topics = ["orders"]
        facts = {
            "bootstrap.servers": address,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 100,
            "error_cb": self.errors.append,
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        self.consumer = Consumer({name: value for name, value in facts.items() if value is not None})

    def run(self):
        self.consumer.subscribe(
            self.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )
        while self.running:
            message = self.consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.seen.append(message.value())
                if self.commits:
                    self._commit(message)
        self.consumer.close()

    def _commit(self, message):
        from confluent_kafka import KafkaException

        try:
            self.consumer.commit(message, asynchronous=False)
        except KafkaException as error:
            if not self.forgives:
                raise
            self.refused.append(error)

    def _on_assign(self, consumer, partitions):
        self.generations += 1
        more = {each.partition for each in partitions}
        if self.cooperative:
            consumer.incremental_assign(partitions)
            self.assigned |= more
        else:
            consumer.assign(partitions)
            self.assigned = more

    def _on_revoke(self, consumer, partitions):
        gone = {each.partition for each in partitions}
        if self.cooperative:
            consumer.incremental_unassign(partitions)
            self.assigned -= gone
        else:
            consumer.unassign()
            self.assigned = set()

    cooperative = False
    commits = True
    forgives = False
    """Whether a commit may fail, as it does when the coordinator dies."""

    async def __aenter__(self):
        self.thread = asyncio.get_running_loop().run_in_executor(None, self.run)
        return self

    async def __aexit__(self, *_):
        self.running = False
        await self.thread


class Cooperative(Confluent):
    cooperative = True
    # A cooperative member reads on through a rebalance, and a commit that crosses its end is refused, as by Kafka.
    commits = False


def shared_out(consumers, partitions=4):
    """Whether every partition is read by exactly one."""
    return Counter(index for each in consumers for index in each.assigned) == Counter(range(partitions))


def evenly(*consumers):
    return shared_out(consumers) and len({len(each.assigned) for each in consumers}) == 1


def test_librdkafka_shares_a_topic_out_rebalances_and_resumes_where_it_committed(cluster, run):
    async def story():
        async with cluster.serve() as node:
            await filled(node)
            async with Confluent(node.address) as first:
                await until(lambda: len(first.seen) == 40 and shared_out([first]))
                async with Confluent(node.address) as second:
                    await until(lambda: evenly(first, second))
                await until(lambda: shared_out([first]))
                assert sorted(first.seen, key=int) == [b"%d" % number for number in range(40)]
                assert second.seen == []
            async with Confluent(node.address) as third:
                await until(lambda: shared_out([third]))
                topic = node.engine.topics.get("orders")
                from runnel.codec.records import Record

                await node.engine.append_records(topic.streams[0], [Record(None, b"new")])
                await until(lambda: third.seen)
                assert third.seen == [b"new"]

    run(story())


def test_a_cooperative_rebalance_takes_away_only_what_moves(cluster, run):
    config = {"partition_assignment_strategy": "cooperative-sticky"}

    async def story():
        async with cluster.serve() as node:
            await filled(node)
            async with Cooperative(node.address, **config) as first:
                await until(lambda: shared_out([first]))
                held = [set(first.assigned)]
                async with Cooperative(node.address, **config) as second:

                    def shared():
                        if first.assigned != held[-1]:
                            held.append(set(first.assigned))
                        return evenly(first, second)

                    await until(shared)
                    assert held[-1], "the first never lost everything"
                    assert all(len(each) >= 2 for each in held)
                await until(lambda: shared_out([first]))

    run(story())


def test_a_static_member_that_restarts_disturbs_nobody(cluster, run):
    async def story():
        async with cluster.serve() as node:
            await filled(node)
            async with Confluent(node.address, group_instance_id="a") as first:
                second = Confluent(node.address, group_instance_id="b")
                async with second:
                    await until(lambda: evenly(first, second))
                    had, generation = second.assigned, node.broker.groups.machine("readers").generation
                    seen = first.generations
                # librdkafka does not leave the group as a static member
                async with Confluent(node.address, group_instance_id="b") as again:
                    await until(lambda: again.assigned)
                    assert again.assigned == had
                    assert node.broker.groups.machine("readers").generation == generation
                    assert first.generations == seen

    run(story())


def test_kafka_python_commits_with_metadata_and_another_client_reads_it(cluster, run):
    from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

    def consume(address):
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=address,
            group_id="readers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            consumer_timeout_ms=PATIENCE * 1000,
        )
        seen = [next(consumer).value for _ in range(40)]
        place = TopicPartition("orders", 0)
        consumer.commit({place: OffsetAndMetadata(7, "so far", -1)})
        committed = consumer.committed(place, metadata=True)
        consumer.close()
        return seen, committed

    def look(address):
        from confluent_kafka import ConsumerGroupTopicPartitions
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": address})
        (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("readers")]).values()
        return [(each.topic, each.partition, each.offset, each.metadata) for each in future.result(20).topic_partitions]

    async def story():
        async with cluster.serve() as node:
            await filled(node)
            seen, committed = await asyncio.to_thread(consume, node.address)
            assert sorted(seen, key=int) == [b"%d" % number for number in range(40)]
            assert (committed.offset, committed.metadata) == (7, "so far")
            assert await asyncio.to_thread(look, node.address) == [("orders", 0, 7, "so far")]

    run(story())


def test_aiokafka_shares_a_topic_out_and_resumes(cluster, run):
    from aiokafka import AIOKafkaConsumer

    def consumer(address):
        return AIOKafkaConsumer(
            "orders",
            bootstrap_servers=address,
            group_id="readers",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            metadata_max_age_ms=60_000,
        )

    async def story():
        async with cluster.serve() as node:
            await filled(node)
            async with consumer(node.address) as first:
                seen = [(await first.getone()).value for _ in range(40)]
                await first.commit()
                async with consumer(node.address) as second:
                    await until(lambda: len(second.assignment()) == 2 and len(first.assignment()) == 2)
                await until(lambda: len(first.assignment()) == 4)
            assert sorted(seen, key=int) == [b"%d" % number for number in range(40)]
            async with consumer(node.address) as third:
                assert await third.getmany(timeout_ms=300) == {}
                assert {await third.position(each) for each in third.assignment()} == {10}

    run(story())


class Modern(Confluent):
    """One of librdkafka's in a group of the new protocol: the broker assigns, and partitions come and go one by one."""

    cooperative = True

    def __init__(self, address, **config):
        # The timeouts are the broker's, not the member's.
        super().__init__(
            address, group_protocol="consumer", session_timeout_ms=None, heartbeat_interval_ms=None, **config
        )


QUICK = {"consumer_heartbeat_ms": 50}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_librdkafka_shares_a_topic_out_in_the_new_protocol(cluster, run, assignor):
    async def story():
        async with cluster.serve(**QUICK) as node:
            await filled(node)
            async with Modern(node.address, group_remote_assignor=assignor) as first:
                await until(lambda: len(first.seen) == 40 and shared_out([first]))
                async with Modern(node.address, group_remote_assignor=assignor) as second:
                    await until(lambda: evenly(first, second))
                    machine = node.broker.groups.machine("readers")
                    assert (machine.kind, machine.assignor) == ("consumer", assignor)
                    await until(lambda: machine.state == "Stable")
                await until(lambda: shared_out([first]))
                assert sorted(first.seen, key=int) == [b"%d" % number for number in range(40)]
                assert second.seen == []
            async with Modern(node.address) as third:
                await until(lambda: shared_out([third]))
                from runnel.codec.records import Record

                topic = node.engine.topics.get("orders")
                await node.engine.append_records(topic.streams[0], [Record(None, b"new")])
                await until(lambda: third.seen)
                assert third.seen == [b"new"]

    run(story())


def test_librdkafka_subscribes_by_a_pattern_to_what_comes_later(cluster, run):
    async def story():
        async with cluster.serve(**QUICK) as node:
            await filled(node, "orders.eu", partitions=1, records=1)
            await filled(node, "stock", partitions=1, records=1)
            reader = Modern(node.address, topic_metadata_refresh_interval_ms=100)
            reader.topics = ["^orders\\..*"]
            async with reader:
                await until(lambda: reader.seen == [b"0"])
                await filled(node, "orders.us", partitions=1, records=3)
                await until(lambda: len(reader.seen) == 4)

    run(story())


def test_a_static_member_of_the_new_protocol_keeps_its_partitions_through_a_restart(cluster, run):
    async def story():
        async with cluster.serve(**QUICK) as node:
            await filled(node)
            async with Modern(node.address, group_instance_id="a") as first:
                async with Modern(node.address, group_instance_id="b") as second:
                    await until(lambda: evenly(first, second))
                    machine = node.broker.groups.machine("readers")
                    await until(lambda: machine.state == "Stable")
                    had, generation = set(second.assigned), machine.generation
                async with Modern(node.address, group_instance_id="b") as again:
                    await until(lambda: again.assigned == had)
                    assert machine.generation == generation

    run(story())


def test_a_group_goes_from_one_protocol_to_the_other_while_nobody_is_in_it_and_keeps_its_offsets(cluster, run):
    async def story():
        async with cluster.serve(**QUICK) as node:
            await filled(node)
            seen = []
            for kind, count in ((Confluent, 40), (Modern, 1), (Confluent, 1)):
                async with kind(node.address) as reader:
                    await until(lambda reader=reader, count=count: len(reader.seen) == count and shared_out([reader]))
                    seen += reader.seen
                from runnel.codec.records import Record

                topic = node.engine.topics.get("orders")
                await node.engine.append_records(topic.streams[0], [Record(None, b"%d" % len(seen))])
            assert sorted(seen, key=int) == [b"%d" % number for number in range(42)]

    run(story())


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_changes_its_protocol_while_it_is_at_work_and_back(cluster, run, strategy):
    classic = Cooperative if strategy == "cooperative-sticky" else Confluent

    def machine_of(node):
        return node.broker.groups.machine("readers")

    async def story():
        async with cluster.serve(**QUICK) as node:
            await filled(node)
            old = [classic(node.address, partition_assignment_strategy=strategy) for _ in range(2)]
            new = [Modern(node.address) for _ in range(2)]
            for each in (*old, *new):
                each.forgives = True  # a commit that crosses a rebalance is refused, as by Kafka
            async with contextlib.AsyncExitStack() as leaving:
                async with old[0], old[1]:
                    await until(lambda: evenly(*old))
                    assert machine_of(node).kind == "classic"
                    await leaving.enter_async_context(new[0])
                    await until(lambda: new[0].assigned and evenly_spread(*old, new[0]))
                    assert {bool(each.protocols) for each in machine_of(node).members.values()} == {True, False}
                async with new[1]:
                    await until(lambda: evenly(*new))
                    assert machine_of(node).kind == "consumer"
                async with classic(node.address, partition_assignment_strategy=strategy) as last:
                    last.forgives = True
                    await until(lambda: evenly(new[0], last))
                    await leaving.aclose()
                    await until(lambda: shared_out([last]))
                    assert machine_of(node).kind == "classic"
                    everyone = (*old, *new, last)
                    await until(lambda: len({value for each in everyone for value in each.seen}) == 40)

    run(story())


def evenly_spread(*consumers):
    sizes = [len(each.assigned) for each in consumers]
    return shared_out(consumers) and max(sizes) - min(sizes) <= 1
