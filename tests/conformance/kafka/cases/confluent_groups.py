"""librdkafka's consumer groups: offsets, rebalances of each kind, static members, churn, the admin's view of them."""

import random
import threading
import time

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import NewPartitions, NewTopic
from tests.conformance.kafka.cases.confluent import admin_of, sent, values
from tests.conformance.kafka.ledger import case
from tests.conformance.kafka.stage import settings, until


def member(stage, topics, group=None, *, bootstrap=None, **more):
    """A consumer that has subscribed."""
    chosen = {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 500, "auto_offset_reset": "earliest"}
    if more.get("group_protocol") == "consumer":
        chosen = {"auto_offset_reset": "earliest"}
    consumer = Consumer(settings(bootstrap or stage.bootstrap, **{"group_id": group or stage.name, **chosen, **more}))
    consumer.subscribe([topics] if isinstance(topics, str) else topics)
    return consumer


def gathered(consumers, count, patience=40.0):
    """Records of these consumers until there are so many; errors are failures."""
    found = []
    end = time.monotonic() + patience
    while len(found) < count and time.monotonic() < end:
        for consumer in consumers:
            for message in consumer.consume(500, 0.1):
                assert message.error() is None, message.error()
                found.append(message)
    assert len(found) >= count, f"{len(found)} of {count} records came"
    return found


def settled(consumers, shares, patience=40.0):
    """Wait until the members' shares are these, keeping them alive."""

    def look():
        for consumer in consumers:
            consumer.poll(0.1)
        return sorted(len(consumer.assignment()) for consumer in consumers) == sorted(shares)

    until(look, patience, f"shares of {shares}")
    owned = [(each.topic, each.partition) for consumer in consumers for each in consumer.assignment()]
    assert len(owned) == len(set(owned)), "a partition has two owners"


@case()
def a_group_reads_everything_and_goes_on_where_it_was(stage):
    topic = stage.topic(4)
    sent(stage, topic, ({"value": b"%d" % n, "partition": n % 4} for n in range(400)))
    consumer = member(stage, topic)
    assert sorted(int(value) for value in values(gathered([consumer], 400))) == list(range(400))
    consumer.close()
    sent(stage, topic, [{"value": b"more"}])
    consumer = member(stage, topic)
    assert values(gathered([consumer], 1)) == [b"more"]
    consumer.close()


@case()
def offsets_are_committed_and_read_with_their_metadata(stage):
    topic = stage.topic(2)
    consumer = member(stage, topic, enable_auto_commit=False)
    settled([consumer], [2])
    given = [TopicPartition(topic, 0, 5, metadata="a note"), TopicPartition(topic, 1, 0, metadata="")]
    consumer.commit(offsets=given, asynchronous=False)
    found = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], 20)
    assert [(each.offset, each.metadata or "") for each in found] == [(5, "a note"), (0, "")]
    consumer.close()
    other = Consumer(settings(stage.bootstrap, group_id=f"{stage.name}-other"))
    assert other.committed([TopicPartition(topic, 0)], 20)[0].offset == -1001
    other.close()


@case()
def offsets_are_kept_for_whoever_assigns_by_hand(stage):
    """commit() without being a member."""
    topic = stage.topic()
    sent(stage, topic, [{"value": b"%d" % n} for n in range(10)])
    for start, end in ((0, 4), (4, 10)):
        consumer = Consumer(
            settings(stage.bootstrap, group_id=stage.name, auto_offset_reset="earliest", enable_auto_commit=False)
        )
        consumer.assign([TopicPartition(topic, 0)])
        for n in range(start, end):
            message = consumer.poll(20)
            assert message.value() == b"%d" % n
            consumer.commit(message, asynchronous=False)
        consumer.close()


@case()
def a_group_without_offsets_starts_as_was_said(stage):
    topic = stage.topic()
    sent(stage, topic, [{"value": b"old"}])
    latest = member(stage, topic, auto_offset_reset="latest")
    settled([latest], [1])
    latest.poll(1.0)
    sent(stage, topic, [{"value": b"new"}])
    assert values(gathered([latest], 1)) == [b"new"]
    latest.close()


def shared(stage, **more):
    """Three members share six partitions, one leaves, one comes; every record is read."""
    topic = stage.topic(6)
    members = [member(stage, topic, **more) for _ in range(3)]
    settled(members, [2, 2, 2])
    sent(stage, topic, ({"value": b"%d" % n, "partition": n % 6} for n in range(300)))
    assert sorted(int(value) for value in values(gathered(members, 300))) == list(range(300))
    members.pop().close()
    settled(members, [3, 3])
    members.append(member(stage, topic, **more))
    settled(members, [2, 2, 2])
    sent(stage, topic, ({"value": b"%d" % n, "partition": n % 6} for n in range(300, 600)))
    found = {int(value) for value in values(gathered(members, 300))}
    assert found >= set(range(300, 600))
    for each in members:
        each.close()


@case(seconds=120)
def members_share_by_range(stage):
    shared(stage, partition_assignment_strategy="range")


@case(seconds=120)
def members_share_round_robin(stage):
    shared(stage, partition_assignment_strategy="roundrobin")


@case(seconds=120)
def members_share_cooperatively(stage):
    shared(stage, partition_assignment_strategy="cooperative-sticky")


@case(seconds=120)
def members_of_the_new_protocol_share(stage):
    """group.protocol=consumer (KIP-848), the server's assignor."""
    shared(stage, group_protocol="consumer")


@case(seconds=120)
def members_of_the_new_protocol_share_by_range(stage):
    shared(stage, group_protocol="consumer", group_remote_assignor="range")


@case(seconds=120)
def members_change_to_the_new_protocol_one_by_one(stage):
    """A classic group with members takes one of the new protocol, as in a rolling upgrade (KIP-848, migration)."""
    topic = stage.topic(4)
    first = member(stage, topic)
    settled([first], [4])
    second = member(stage, topic, group_protocol="consumer")
    settled([first, second], [2, 2])
    first.close()
    settled([second], [4])
    third = member(stage, topic, group_protocol="consumer")
    settled([second, third], [2, 2])
    second.close()
    third.close()


@case()
def an_empty_group_changes_to_the_new_protocol_and_back(stage):
    topic = stage.topic(1)
    for n, protocol in enumerate(("classic", "consumer", "classic")):
        sent(stage, topic, [{"value": b"%d" % n}])
        consumer = member(stage, topic, group_protocol=protocol)
        assert values(gathered([consumer], 1)) == [b"%d" % n]
        consumer.close()


@case(seconds=90)
def cooperative_members_keep_what_they_have(stage):
    """When another comes, partitions that stay are not taken away in between."""
    topic = stage.topic(4)
    revoked = []
    first = Consumer(
        settings(
            stage.bootstrap, group_id=stage.name, partition_assignment_strategy="cooperative-sticky",
            heartbeat_interval_ms=500, session_timeout_ms=10_000,
        )
    )  # fmt: skip
    first.subscribe([topic], on_revoke=lambda _, partitions: revoked.extend(each.partition for each in partitions))
    settled([first], [4])
    second = member(stage, topic, partition_assignment_strategy="cooperative-sticky")
    settled([first, second], [2, 2])
    assert len(revoked) == 2
    first.close()
    second.close()


@case(seconds=90)
def a_member_that_falls_silent_is_left_out(stage):
    """session.timeout.ms: its partitions go to the others."""
    topic = stage.topic(2)
    members = [member(stage, topic, session_timeout_ms=6000, max_poll_interval_ms=6000) for _ in range(2)]
    settled(members, [1, 1])
    settled(members[:1], [2], 40)
    members[0].close()
    members[1].close()


@case(seconds=120)
def a_static_member_comes_back_to_its_own(stage):
    """group.instance.id: leaving and coming back within the session changes nobody's share."""
    topic = stage.topic(4)
    taken = []
    first = member(stage, topic, group_instance_id="one", session_timeout_ms=30_000)
    second = Consumer(
        settings(
            stage.bootstrap, group_id=stage.name, group_instance_id="two", session_timeout_ms=30_000,
            heartbeat_interval_ms=500,
        )
    )  # fmt: skip
    second.subscribe([topic], on_revoke=lambda _, partitions: taken.append(partitions))
    settled([first, second], [2, 2])
    mine = sorted(each.partition for each in first.assignment())
    taken.clear()
    first.close()
    first = member(stage, topic, group_instance_id="one", session_timeout_ms=30_000)
    settled([first, second], [2, 2])
    assert sorted(each.partition for each in first.assignment()) == mine
    assert taken == []
    second.close()
    first.close()


@case(seconds=90)
def two_static_members_of_one_name_are_told(stage):
    """The older one is fenced."""
    topic = stage.topic(2)
    first = member(stage, topic, group_instance_id="same")
    settled([first], [2])
    second = member(stage, topic, group_instance_id="same")
    said = []

    def look():
        second.poll(0.1)
        message = first.poll(0.1)
        if message is not None and message.error() is not None:
            said.append(message.error().code())
        return KafkaError._FATAL in said or KafkaError.FENCED_INSTANCE_ID in said

    until(look, 40, "the older one to be fenced")
    second.close()
    first.close()


@case(seconds=150)
def churn_loses_nothing_and_never_goes_back(stage):
    """Members come and go while records are written: each record is read, and commits only grow."""
    churned(stage)


@case(seconds=150)
def churn_with_the_new_protocol(stage):
    churned(stage, group_protocol="consumer")


def churned(stage, **more):
    topic = stage.topic(6)
    luck = random.Random(7)
    done = threading.Event()
    count = 0

    def write():
        nonlocal count
        producer = Producer(settings(stage.bootstrap, enable_idempotence=True, linger_ms=5))
        while not done.is_set():
            producer.produce(topic, b"%d" % count, partition=count % 6)
            count += 1
            producer.poll(0.002)
        assert producer.flush(30) == 0

    writer = threading.Thread(target=write)
    writer.start()
    members, seen, commits = [], set(), {}
    try:
        end = time.monotonic() + 25
        while time.monotonic() < end:
            if len(members) < 2 or (len(members) < 5 and luck.random() < 0.5):
                members.append(member(stage, topic, enable_auto_commit=False, **more))
            else:
                members.pop(luck.randrange(len(members))).close()
            pause = time.monotonic() + 2
            while time.monotonic() < pause:
                for each in members:
                    batch = [message for message in each.consume(200, 0.02) if message.error() is None]
                    seen.update(int(message.value()) for message in batch)
                    try:
                        if batch:
                            each.commit(asynchronous=False)
                    except KafkaException:
                        continue  # a member that was just moved may not commit
            for where in members[0].committed([TopicPartition(topic, n) for n in range(6)], 20):
                assert where.offset >= commits.get(where.partition, -1001), "a commit went back"
                commits[where.partition] = where.offset
    finally:
        done.set()
        writer.join()
    until(
        lambda: (
            [
                seen.update(int(message.value()) for message in each.consume(500, 0.1) if message.error() is None)
                for each in members
            ]
            and len(seen) == count
        ),
        40,
        "every record to be read",
    )
    for each in members:
        each.close()


@case(seconds=90)
def added_partitions_are_shared_too(stage):
    topic = stage.topic(1)
    consumer = member(stage, topic, topic_metadata_refresh_interval_ms=1000, metadata_max_age_ms=1500)
    settled([consumer], [1])
    admin = admin_of(stage)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(20)
    settled([consumer], [3])
    consumer.close()


@case(seconds=90)
def a_pattern_finds_topics_that_come_later(stage):
    first = stage.topic(1)
    consumer = member(stage, f"^{stage.name}-.*", topic_metadata_refresh_interval_ms=1000, metadata_max_age_ms=1500)
    settled([consumer], [1])
    second = stage.topic(2)
    settled([consumer], [3])
    sent(stage, first, [{"value": b"1"}])
    sent(stage, second, [{"value": b"2"}])
    assert sorted(values(gathered([consumer], 2))) == [b"1", b"2"]
    consumer.close()


@case(seconds=90)
def a_pattern_of_the_new_protocol_is_matched_by_the_server(stage):
    stage.topic(2)
    consumer = member(stage, f"^{stage.name}-.*", group_protocol="consumer")
    settled([consumer], [2])
    stage.topic(1)
    settled([consumer], [3])
    consumer.close()


@case()
def the_admin_sees_groups(stage):
    topic = stage.topic(2)
    consumer = member(stage, topic, client_id="somebody")
    settled([consumer], [2])
    admin = admin_of(stage)
    listed = {each.group_id: each for each in admin.list_consumer_groups().result(20).valid}
    assert listed[stage.name].state == ConsumerGroupState.STABLE
    assert listed[stage.name].type == ConsumerGroupType.CLASSIC
    found = admin.describe_consumer_groups([stage.name])[stage.name].result(20)
    assert found.state == ConsumerGroupState.STABLE
    assert [each.client_id for each in found.members] == ["somebody"]
    assert len(found.members[0].assignment.topic_partitions) == 2
    assert found.partition_assignor
    assert found.coordinator.host
    consumer.close()
    until(lambda: admin.describe_consumer_groups([stage.name])[stage.name].result(20).state == ConsumerGroupState.EMPTY)
    empty = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(20).valid
    assert stage.name in {each.group_id for each in empty}


@case()
def the_admin_reads_and_moves_offsets(stage):
    topic = stage.topic(2)
    admin = admin_of(stage)
    given = [TopicPartition(topic, 0, 7), TopicPartition(topic, 1, 9)]
    asked = ConsumerGroupTopicPartitions(stage.name, given)
    moved = admin.alter_consumer_group_offsets([asked])[stage.name].result(20)
    assert all(each.error is None for each in moved.topic_partitions)
    everything = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(stage.name)])[stage.name].result(20)
    found = {(each.partition, each.offset) for each in everything.topic_partitions}
    assert found == {(0, 7), (1, 9)}
    consumer = member(stage, topic)
    settled([consumer], [2])
    refused = admin.alter_consumer_group_offsets([asked])[stage.name].result(20)
    codes = {each.error and each.error.code() for each in refused.topic_partitions}
    assert codes == {KafkaError.UNKNOWN_MEMBER_ID}
    try:
        admin.delete_consumer_groups([stage.name])[stage.name].result(20)
    except KafkaException as error:
        assert error.args[0].code() == KafkaError.NON_EMPTY_GROUP
    else:
        raise AssertionError("a group with members was deleted")
    consumer.close()
    until(lambda: _deleted(admin, stage.name))
    try:
        admin.delete_consumer_groups([stage.name])[stage.name].result(20)
    except KafkaException as error:
        assert error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND
    else:
        raise AssertionError("a group was deleted twice")


def _deleted(admin, group):
    try:
        admin.delete_consumer_groups([group])[group].result(20)
    except KafkaException as error:
        assert error.args[0].code() == KafkaError.NON_EMPTY_GROUP
        return False
    return True


@case(seconds=120, ends_brokers=True)
def a_group_across_a_killed_broker(stage):
    """The coordinator dies with -9: members find it again, commits are kept, every record is read."""
    with stage.node() as node:
        topic = stage.topic(3, bootstrap=node.bootstrap)
        records = ({"value": b"%d" % n, "partition": n % 3} for n in range(900))
        sent(stage, topic, records, bootstrap=node.bootstrap)
        members = [member(stage, topic, bootstrap=node.bootstrap, enable_auto_commit=False) for _ in range(2)]
        seen = {int(value) for value in values(gathered(members, 900))}
        for each in members:
            if each.assignment():
                each.commit(offsets=each.position(each.assignment()), asynchronous=False)
        node.kill()
        node.start()
        more = ({"value": b"%d" % n, "partition": n % 3} for n in range(900, 1200))
        sent(stage, topic, more, bootstrap=node.bootstrap)
        end = time.monotonic() + 50
        after = []
        while len(seen) < 1200 and time.monotonic() < end:
            for each in members:
                after += [int(m.value()) for m in each.consume(500, 0.1) if m.error() is None]
            seen.update(after)
        assert len(seen) == 1200
        assert min(after) >= 900, "what was committed was read again"
        for each in members:
            each.close()


@case(seconds=90)
def many_groups_at_once(stage):
    topic = stage.topic(2)
    sent(stage, topic, [{"value": b"%d" % n} for n in range(50)])
    consumers = [member(stage, topic, f"{stage.name}-{n}") for n in range(15)]
    for each in consumers:
        assert len(gathered([each], 50)) == 50
        each.commit(asynchronous=False)
    for each in consumers:
        each.close()
    admin = admin_of(stage)
    groups = {each.group_id for each in admin.list_consumer_groups().result(20).valid}
    missing = {f"{stage.name}-{n}" for n in range(15)} - groups
    assert not missing, f"{missing} of {len(groups)} are not listed"


@case()
def a_deleted_topic_leaves_the_group_alone(stage):
    kept, gone = stage.topic(1), stage.topic(1)
    admin = admin_of(stage)
    consumer = member(stage, [kept, gone], topic_metadata_refresh_interval_ms=1000)
    settled([consumer], [2])
    admin.delete_topics([gone])[gone].result(20)
    sent(stage, kept, [{"value": b"still"}])
    found = []
    until(lambda: found.extend(m for m in consumer.consume(10, 0.2) if m.error() is None) or found)
    assert values(found) == [b"still"]
    consumer.close()
    admin.create_topics([NewTopic(gone, 1, 1)])[gone].result(20)


@case(seconds=150, ends_brokers=True)
def one_of_two_brokers_is_killed_again_and_again(stage):
    """Two processes serve: a producer (idempotent) and a group go on, each record is there once, none unread."""
    with stage.node("--processes", "2") as node:
        topic = stage.topic(6, bootstrap=node.bootstrap)
        done = threading.Event()
        failed, acknowledged = [], []

        def answered(error, message):
            (failed if error else acknowledged).append(
                error or (message.partition(), message.offset(), message.value())
            )

        def write():
            more = {"enable_idempotence": True, "linger_ms": 5, "retry_backoff_ms": 50, "reconnect_backoff_max_ms": 500}
            producer = Producer(settings(node.bootstrap, **more))
            n = 0
            while not done.is_set():
                producer.produce(topic, b"%d" % n, partition=n % 6, on_delivery=answered)
                n += 1
                producer.poll(0.002)
            assert producer.flush(60) == 0

        writer = threading.Thread(target=write)
        writer.start()
        members = [member(stage, topic, bootstrap=node.bootstrap) for _ in range(2)]
        seen = set()

        def look():
            for each in members:
                seen.update(int(m.value()) for m in each.consume(500, 0.1) if m.error() is None)

        try:
            for _ in range(3):
                end = time.monotonic() + 6
                while time.monotonic() < end:
                    look()
                node.kill_one()
        finally:
            end = time.monotonic() + 3
            while time.monotonic() < end:
                look()
            done.set()
            writer.join()
        assert failed == []
        count = len(acknowledged)
        until(lambda: look() or len(seen) == count, 60, "every acknowledged record to be read")
        for each in members:
            each.close()
        for number in range(6):
            own = sorted((offset, int(value)) for partition, offset, value in acknowledged if partition == number)
            assert [offset for offset, _ in own] == list(range(len(own))), "an offset was given twice, or left out"
            assert [value for _, value in own] == list(range(number, count, 6)), "the order was lost"
