"""The cluster as tools see it, and harmless answers for what means nothing here."""

from runnel.broker import authorized
from runnel.codec.declare import NO_UUID
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from runnel.codec.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from runnel.codec.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from runnel.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from runnel.codec.messages.create_acls import AclCreation, CreateAclsRequest
from runnel.codec.messages.create_delegation_token import CreateDelegationTokenRequest
from runnel.codec.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from runnel.codec.messages.describe_acls import DescribeAclsRequest
from runnel.codec.messages.describe_client_quotas import DescribeClientQuotasRequest
from runnel.codec.messages.describe_cluster import DescribeClusterRequest
from runnel.codec.messages.describe_delegation_token import DescribeDelegationTokenRequest
from runnel.codec.messages.describe_quorum import DescribeQuorumRequest, PartitionData, TopicData
from runnel.codec.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from runnel.codec.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from runnel.codec.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from runnel.codec.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from runnel.codec.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from runnel.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from runnel.codec.messages.push_telemetry import PushTelemetryRequest
from runnel.codec.messages.sasl_authenticate import SaslAuthenticateRequest
from runnel.codec.messages.sasl_handshake import SaslHandshakeRequest
from runnel.codec.messages.unregister_broker import UnregisterBrokerRequest
from runnel.codec.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


def test_the_cluster_is_described(cluster, run):
    async def story():
        async with cluster.serve(zone="a") as here, cluster.serve(zone="b") as there, await here.client() as client:
            await here.engine.catch_up()
            for version in range(3):
                told = await client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
                assert told.cluster_id == here.engine.cluster.id
                assert [(each.broker_id, f"{each.host}:{each.port}", each.rack) for each in told.brokers] == [
                    (0, here.address, "a"),
                    (1, there.address, "b"),
                ]
                assert told.controller_id in {0, 1}
                assert told.cluster_authorized_operations == authorized.CLUSTER
            told = await client.ask(DescribeClusterRequest(endpoint_type=2), 2)
            assert told.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
            told = await client.ask(DescribeClusterRequest(endpoint_type=3), 2)
            assert told.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE

    run(story())


def test_what_a_client_may_do_is_told_when_it_asks(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            await node.engine.topics.create("a")
            asked = MetadataRequest(
                topics=[MetadataRequestTopic(name="a")],
                include_topic_authorized_operations=True,
                include_cluster_authorized_operations=True,
            )
            told = await client.ask(asked, 10)
            assert told.cluster_authorized_operations == authorized.CLUSTER
            assert told.topics[0].topic_authorized_operations == authorized.TOPIC
            told = await client.ask(MetadataRequest(topics=None), 10)
            assert told.topics[0].topic_authorized_operations == authorized.NOT_ASKED

    run(story())


async def pages(client, limit, *names):
    """All pages, each as a list of (topic, partitions)."""
    cursor, found = None, []
    while True:
        asked = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        told = await client.ask(asked, 0)
        found.append([(each.name, [part.partition_index for part in each.partitions]) for each in told.topics])
        if told.next_cursor is None:
            return found
        cursor = told.next_cursor


def test_partitions_come_by_the_page_and_none_is_missed(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
                await node.engine.topics.create(name, partitions)
            assert await pages(client, 2000) == [[("a", [0, 1]), ("b", [0, 1, 2]), ("c", [0])]]
            assert await pages(client, 2) == [[("a", [0, 1])], [("b", [0, 1])], [("b", [2]), ("c", [0])]]
            assert await pages(client, 0) == await pages(client, 1)
            for limit in range(1, 8):
                flat = [(name, part) for page in await pages(client, limit) for name, parts in page for part in parts]
                assert flat == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]
            assert await pages(client, 2, "c", "a") == [[("a", [0, 1])], [("c", [0])]]
            # The cursor's topic was removed between two pages.
            asked = DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="aa", partition_index=5))
            told = await client.ask(asked, 0)
            assert [(each.name, len(each.partitions)) for each in told.topics] == [("b", 3), ("c", 1)]
            asked = [TopicRequest(name="nothing"), TopicRequest(name="a b")]
            told = await client.ask(DescribeTopicPartitionsRequest(topics=asked), 0)
            assert {each.name: each.error_code for each in told.topics} == {
                "nothing": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
            }

    run(story())


def test_elections_and_reassignments_are_answered_without_doing_anything(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            await node.engine.topics.create("a", 2)
            for version in range(3):
                asked = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[0, 7])])
                told = await client.ask(asked, version)
                assert [each.error_code for each in told.replica_election_results[0].partition_result] == [
                    ErrorCode.ELECTION_NOT_NEEDED,
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ]
                told = await client.ask(ElectLeadersRequest(topic_partitions=None), version)
                assert (told.error_code, told.replica_election_results) == (0, [])
            parts = [(0, [1, 2]), (1, None), (0, []), (0, [1, 1]), (9, [1])]
            asked = [
                ReassignableTopic(
                    name="a",
                    partitions=[ReassignablePartition(partition_index=part, replicas=to) for part, to in parts],
                )
            ]
            told = await client.ask(AlterPartitionReassignmentsRequest(topics=asked), 1)
            assert [each.error_code for each in told.responses[0].partitions] == [
                0,
                ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ]
            assert (await client.ask(ListPartitionReassignmentsRequest(topics=None), 0)).topics == []
            folders = [
                AlterReplicaLogDir(path="/x", topics=[AlterReplicaLogDirTopic(name="a", partitions=[0, 9])]),
                AlterReplicaLogDir(path="/y", topics=[AlterReplicaLogDirTopic(name="a", partitions=[1])]),
            ]
            told = await client.ask(AlterReplicaLogDirsRequest(dirs=folders), 2)
            assert [(each.partition_index, each.error_code) for each in told.results[0].partitions] == [
                (0, ErrorCode.LOG_DIR_NOT_FOUND),
                (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                (1, ErrorCode.LOG_DIR_NOT_FOUND),
            ]

    run(story())


def test_the_quorum_is_the_brokers(cluster, run):
    async def story():
        async with cluster.serve() as node, cluster.serve(), await node.client() as client:
            await node.engine.catch_up()
            partitions = [PartitionData(partition_index=index) for index in (0, 1)]
            for version in range(3):
                asked = DescribeQuorumRequest(
                    topics=[TopicData(topic_name="__cluster_metadata", partitions=partitions)]
                )
                good, bad = (await client.ask(asked, version)).topics[0].partitions
                assert (good.error_code, good.leader_id) == (0, node.broker.routing.controller())
                assert [each.replica_id for each in good.current_voters] == [0, 1]
                assert good.high_watermark > 0
                assert bad.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(story())


def test_a_broker_that_lives_is_not_struck_off(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            assert (await client.ask(UnregisterBrokerRequest(broker_id=0), 0)).error_code == ErrorCode.INVALID_REQUEST
            told = await client.ask(UnregisterBrokerRequest(broker_id=5), 0)
            assert told.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
            updates = [FeatureUpdateKey(feature="metadata.version", max_version_level=9)]
            told = await client.ask(UpdateFeaturesRequest(feature_updates=updates), 1)
            assert (told.error_code, told.results[0].error_code) == (0, ErrorCode.INVALID_UPDATE_VERSION)
            told = await client.ask(UpdateFeaturesRequest(feature_updates=updates), 2)
            assert told.error_code == ErrorCode.INVALID_UPDATE_VERSION

    run(story())


def test_security_is_answered_as_by_a_kafka_without_it(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            assert (await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)).error_code == 34
            told = await client.ask(SaslAuthenticateRequest(auth_bytes=b"\0me\0secret"), 2)
            assert told.error_code == ErrorCode.ILLEGAL_SASL_STATE
            disabled = ErrorCode.SECURITY_DISABLED
            assert (await client.ask(DescribeAclsRequest(), 3)).error_code == disabled
            told = await client.ask(CreateAclsRequest(creations=[AclCreation()] * 2), 3)
            assert [each.error_code for each in told.results] == [disabled, disabled]
            told = await client.ask(DeleteAclsRequest(filters=[DeleteAclsFilter()]), 3)
            assert [each.error_code for each in told.filter_results] == [disabled]
            refused = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
            assert (await client.ask(CreateDelegationTokenRequest(), 3)).error_code == refused
            assert (await client.ask(DescribeDelegationTokenRequest(), 3)).error_code == refused
            assert (await client.ask(DescribeUserScramCredentialsRequest(users=None), 0)).results == []
            told = await client.ask(DescribeUserScramCredentialsRequest(users=[UserName(name="me")]), 0)
            assert told.results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND
            asked = AlterUserScramCredentialsRequest(
                deletions=[ScramCredentialDeletion(name="him", mechanism=1)],
                upsertions=[ScramCredentialUpsertion(name="me", mechanism=1, iterations=4096)],
            )
            told = await client.ask(asked, 0)
            assert {each.user: each.error_code for each in told.results} == {
                "him": ErrorCode.RESOURCE_NOT_FOUND,
                "me": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            }

    run(story())


def test_there_are_no_quotas_and_a_quota_that_would_not_hold_is_refused(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            for version in range(2):
                told = await client.ask(DescribeClientQuotasRequest(), version)
                assert (told.error_code, told.entries) == (0, [])
                entity = [EntityData(entity_type="client-id", entity_name="x")]
                asked = [
                    EntryData(entity=entity, ops=[OpData(key="producer_byte_rate", value=1.0)]),
                    EntryData(entity=entity, ops=[OpData(key="producer_byte_rate", remove=True)]),
                ]
                told = await client.ask(AlterClientQuotasRequest(entries=asked), version)
                assert [each.error_code for each in told.entries] == [ErrorCode.POLICY_VIOLATION, 0]
                assert told.entries[0].entity == entity

    run(story())


def test_clients_are_told_that_nobody_wants_their_metrics(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            told = await client.ask(GetTelemetrySubscriptionsRequest(), 0)
            assert told.client_instance_id != NO_UUID
            assert told.requested_metrics == []
            assert told.push_interval_ms > 0
            again = await client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=told.client_instance_id), 0)
            assert again.client_instance_id == told.client_instance_id
            pushed = PushTelemetryRequest(client_instance_id=told.client_instance_id, metrics=b"x")
            assert (await client.ask(pushed, 0)).error_code == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
            assert (await client.ask(PushTelemetryRequest(), 0)).error_code == ErrorCode.INVALID_REQUEST
            pushed = PushTelemetryRequest(client_instance_id=told.client_instance_id, metrics=bytes((1 << 20) + 1))
            assert (await client.ask(pushed, 0)).error_code == ErrorCode.TELEMETRY_TOO_LARGE

    run(story())
