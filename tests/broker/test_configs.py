"""Settings: told with where they come from, changed one by one or all at once, refused with what would be right."""

import asyncio

import pytest

from runnel.broker.configs import Operation, Resource, Source
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.alter_configs import AlterableConfig as Replaced
from runnel.codec.messages.alter_configs import AlterConfigsRequest
from runnel.codec.messages.alter_configs import AlterConfigsResource as ReplacedResource
from runnel.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from runnel.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from runnel.codec.messages.list_config_resources import ListConfigResourcesRequest
from runnel.metadata.topic_settings import TOPIC_SETTINGS

SET, DELETE, APPEND, SUBTRACT = Operation


async def described(client, kind, name, *, keys=None, version=4):
    asked = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)],
        include_synonyms=True,
        include_documentation=True,
    )
    (told,) = (await client.ask(asked, version)).results
    return told


async def alter(client, kind, name, *changes, validate_only=False, version=1):
    configs = [AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    asked = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (told,) = (await client.ask(asked, version)).responses
    return told.error_code, told.error_message


def test_a_topic_tells_every_setting_its_type_its_source_and_what_it_does(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            await node.engine.topics.create("a", 1, {"retention.ms": "5"})
            assert await alter(client, Resource.BROKER, "", ("log.retention.ms", SET, "7")) == (0, None)
            for version in range(1, 5):
                told = await described(client, Resource.TOPIC, "a", version=version)
                configs = {each.name: each for each in told.configs}
                assert configs.keys() == TOPIC_SETTINGS.keys()
                retention = configs["retention.ms"]
                assert (retention.value, retention.config_source) == ("5", Source.TOPIC)
                assert [(each.name, each.value, each.source) for each in retention.synonyms] == [
                    ("retention.ms", "5", Source.TOPIC),
                    ("log.retention.ms", "7", Source.CLUSTER),
                    ("log.retention.ms", "604800000", Source.DEFAULT),
                ]
                if version >= 3:
                    assert retention.config_type == 5
                    assert "Honoured." in retention.documentation
                    assert "changes nothing: records lie in objects" in configs["segment.bytes"].documentation
            told = await described(client, Resource.TOPIC, "a", keys=["retention.ms", "nonsense"])
            assert [each.name for each in told.configs] == ["retention.ms"]

    run(story())


def test_things_that_are_not_there_have_no_settings(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            for kind, name, code in [
                (Resource.TOPIC, "nothing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                (Resource.TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
                (Resource.BROKER, "7", ErrorCode.INVALID_REQUEST),
                (Resource.BROKER, "zero", ErrorCode.INVALID_REQUEST),
                (3, "x", ErrorCode.INVALID_REQUEST),
            ]:
                told = await described(client, kind, name)
                assert (told.error_code, told.configs) == (code, []), (kind, name)
                assert told.error_message
                assert (await alter(client, kind, name, ("retention.ms", SET, "1")))[0] == code

    run(story())


def test_a_broker_tells_kafkas_names_and_our_own(cluster, run):
    async def story():
        async with cluster.serve(topic_partitions=6, zone="here") as node, await node.client() as client:
            told = await described(client, Resource.BROKER, "0")
            configs = {each.name: each for each in told.configs}
            assert [each.name for each in told.configs] == sorted(configs)
            assert {name: configs[name].value for name in ("num.partitions", "broker.rack", "broker.id")} == {
                "num.partitions": "6",
                "broker.rack": "here",
                "broker.id": "0",
            }
            assert configs["advertised.listeners"].value == f"PLAINTEXT://{node.address}"
            assert configs["num.partitions"].config_source == Source.BROKER
            assert configs["num.partitions"].read_only
            assert not configs["log.retention.ms"].read_only
            assert configs["runnel.object.age.ms.max"].value == "200"
            assert all(each.documentation for each in told.configs)
            assert (await described(client, Resource.BROKER, "")).configs == []
            assert [each.name for each in (await described(client, Resource.BROKER_LOGGER, "0")).configs] == ["root"]

    run(story())


def test_passwords_in_addresses_are_not_told(cluster, run):
    async def story():
        async with cluster.serve(ledger="postgresql://me:hushhush@host/db") as node, await node.client() as client:
            told = await described(client, Resource.BROKER, "0")
            assert "hushhush" not in repr(told)
            assert "postgresql://" in repr(told)

    run(story())


def test_settings_are_set_deleted_added_to_and_taken_from(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            await node.engine.topics.create("a", 1, {"segment.ms": "5"})

            def settings():
                return node.engine.topics.get("a").settings

            listed = "leader.replication.throttled.replicas"
            changes = (("retention.ms", SET, " 9 "), ("segment.ms", DELETE, None), (listed, APPEND, "0:1, 0:2"))
            assert await alter(client, Resource.TOPIC, "a", *changes, validate_only=True) == (0, None)
            assert settings() == {"segment.ms": "5"}
            assert await alter(client, Resource.TOPIC, "a", *changes, version=0) == (0, None)
            assert settings() == {"retention.ms": "9", listed: "0:1,0:2"}
            assert await alter(client, Resource.TOPIC, "a", (listed, SUBTRACT, "0:1")) == (0, None)
            assert await alter(client, Resource.TOPIC, "a", (listed, APPEND, "0:2")) == (0, None)
            assert settings()[listed] == "0:2"
            version = node.engine.topics.get("a").version
            assert await alter(client, Resource.TOPIC, "a", ("retention.ms", SET, "9")) == (0, None)
            assert node.engine.topics.get("a").version == version, "what changes nothing is not entered"
            assert node.engine.topics.rules(node.engine.topics.get("a")).retention_ms == 9

    run(story())


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ([("retention.ms", SET, "x")], ErrorCode.INVALID_CONFIG, "not a whole number"),
        ([("retention.mss", SET, "1")], ErrorCode.INVALID_CONFIG, "did you mean"),
        ([("retention.mss", DELETE, None)], ErrorCode.INVALID_CONFIG, "did you mean"),
        ([("retention.ms", APPEND, "1")], ErrorCode.INVALID_CONFIG, "no list"),
        ([("retention.ms", SET, None)], ErrorCode.INVALID_REQUEST, "no value"),
        ([("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], ErrorCode.INVALID_REQUEST, "more than once"),
        ([("retention.ms", 9, "1")], ErrorCode.INVALID_REQUEST, "no operation 9"),
        ([("cleanup.policy", APPEND, "compact")], ErrorCode.INVALID_CONFIG, "compaction by key does not exist yet"),
        ([("cleanup.policy", SET, "compact")], ErrorCode.INVALID_CONFIG, "compaction by key does not exist yet"),
    ],
)
def test_a_change_that_makes_no_sense_changes_nothing(cluster, run, changes, code, says):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            await node.engine.topics.create("a")
            given = await alter(client, Resource.TOPIC, "a", ("segment.ms", SET, "5"), *changes)
            assert given[0] == code
            assert says in given[1]
            assert node.engine.topics.get("a").settings == {}

    run(story())


def test_all_settings_are_replaced_by_the_older_request(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            await node.engine.topics.create("a", 1, {"segment.ms": "5", "retention.ms": "6"})
            for version in range(3):
                configs = [Replaced(name="retention.ms", value=str(version))]
                resource = ReplacedResource(resource_type=Resource.TOPIC, resource_name="a", configs=configs)
                (told,) = (await client.ask(AlterConfigsRequest(resources=[resource]), version)).responses
                assert (told.error_code, told.resource_name) == (0, "a")
                assert node.engine.topics.get("a").settings == {"retention.ms": str(version)}
            (told, same) = (await client.ask(AlterConfigsRequest(resources=[resource] * 2), 2)).responses
            assert told.error_code == same.error_code == ErrorCode.INVALID_REQUEST

    run(story())


def test_defaults_for_all_topics_change_while_the_cluster_runs_and_nothing_else_does(cluster, run):
    async def story():
        async with cluster.serve() as node, cluster.serve() as there, await node.client() as client:
            topic = await node.engine.topics.create("a")
            given = await alter(client, Resource.BROKER, "", ("log.retention.ms", SET, "1234"))
            assert given == (0, None)
            assert node.engine.topics.rules(topic).retention_ms == 1234
            await there.engine.catch_up()
            assert there.engine.topics.rules(there.engine.topics.get("a")).retention_ms == 1234
            told = await described(client, Resource.BROKER, "")
            assert [(each.name, each.value, each.config_source) for each in told.configs] == [
                ("log.retention.ms", "1234", Source.CLUSTER)
            ]
            assert await alter(client, Resource.BROKER, "", ("log.retention.ms", DELETE, None)) == (0, None)
            assert node.engine.topics.rules(topic).retention_ms == 604_800_000
            for name, code, says in [
                ("retention.ms", ErrorCode.INVALID_CONFIG, "is 'log.retention.ms'"),
                ("num.partitions", ErrorCode.INVALID_CONFIG, "cannot change while the cluster runs"),
            ]:
                given = await alter(client, Resource.BROKER, "", (name, SET, "1"))
                assert given[0] == code
                assert says in given[1]
            given = await alter(client, Resource.BROKER, "0", ("log.retention.ms", SET, "1"))
            assert given[0] == ErrorCode.INVALID_REQUEST
            assert "default entity" in given[1]

    run(story())


def test_changes_of_one_topic_by_several_at_once_all_count(cluster, run):
    async def story():
        async with cluster.serve() as here, cluster.serve() as there:
            await here.engine.topics.create("a")
            names = ["retention.ms", "segment.ms", "flush.ms", "max.compaction.lag.ms"]
            clients = [await each.client() for each in (here, there, here, there)]
            given = await asyncio.gather(
                *(
                    alter(client, Resource.TOPIC, "a", (name, SET, "5"))
                    for client, name in zip(clients, names, strict=True)
                )
            )
            assert given == [(0, None)] * 4
            await here.engine.catch_up()
            assert here.engine.topics.get("a").settings == dict.fromkeys(names, "5")
            for client in clients:
                await client.__aexit__()

    run(story())


def test_things_with_settings_are_listed(cluster, run):
    async def story():
        async with cluster.serve() as node, await node.client() as client:
            await node.engine.topics.create("a")
            assert (await client.ask(ListConfigResourcesRequest(), 0)).config_resources == []
            told = await client.ask(ListConfigResourcesRequest(), 1)
            assert [(each.resource_type, each.resource_name) for each in told.config_resources] == [
                (Resource.TOPIC, "a"),
                (Resource.BROKER, "0"),
                (Resource.BROKER_LOGGER, "0"),
            ]
            told = await client.ask(ListConfigResourcesRequest(resource_types=[Resource.BROKER]), 1)
            assert [each.resource_name for each in told.config_resources] == ["0"]
            told = await client.ask(ListConfigResourcesRequest(resource_types=[5]), 1)
            assert told.error_code == ErrorCode.UNSUPPORTED_VERSION

    run(story())
