"""The console tools of Apache Kafka: topics, configs, offsets, console producer and consumer, perf and verifiable ones.

Each is the class that the script of the same name in `bin/` starts, from the jars that Maven holds.
"""

import json
import re
import shutil
import subprocess
import time

from tests.conformance.kafka.ledger import CannotRun, case
from tools.apache_kafka import java_tool

TOOLS = "org.apache.kafka.tools"


def java(stage, main, *words, given="", code=0, bootstrap=None, server="--bootstrap-server", errors=True):
    """What a tool printed: to its output, and to its errors as well unless said."""
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise CannotRun(f"{program} is not installed: tools/system-packages java mvn")
    where = [server, bootstrap or stage.bootstrap] if server else []
    command = java_tool(main if main.startswith(("org.", "kafka.")) else f"{TOOLS}.{main}", *where, *map(str, words))
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=80, check=False)
    assert code is None or done.returncode == code, (main, words, done.returncode, (done.stdout + done.stderr)[-700:])
    return done.stdout + (done.stderr if errors else "")


def produce(stage, topic, lines, *words, bootstrap=None):
    return java(stage, "ConsoleProducer", "--topic", topic, *words, given=lines, bootstrap=bootstrap)


def consume(stage, topic, count, *words, bootstrap=None):
    words = ("--topic", topic, "--max-messages", count, "--timeout-ms", 30_000, *words)
    out = java(stage, "consumer.ConsoleConsumer", *words, bootstrap=bootstrap, errors=False)
    return out.splitlines()


@case(seconds=120)
def topics(stage):
    """kafka-topics: create, list, describe, alter, delete."""
    name = f"{stage.name}-t"
    said = java(stage, "TopicCommand", "--create", "--topic", name, "--partitions", 2, "--config", "retention.ms=9000")
    assert f"Created topic {name}" in said
    again = ("--create", "--topic", name)
    assert "already exists" in java(stage, "TopicCommand", *again, code=1)
    java(stage, "TopicCommand", *again, "--if-not-exists")
    assert name in java(stage, "TopicCommand", "--list").split()
    java(stage, "TopicCommand", "--alter", "--topic", name, "--partitions", 5)
    shown = java(stage, "TopicCommand", "--describe", "--topic", name)
    assert "PartitionCount: 5" in shown
    assert "retention.ms=9000" in shown
    assert len(re.findall(r"Leader: \d+", shown)) == 5
    java(stage, "TopicCommand", "--delete", "--topic", name)
    assert name not in java(stage, "TopicCommand", "--list").split()


@case(seconds=120)
def topics_in_trouble(stage):
    """kafka-topics --describe with --unavailable-partitions and --under-replicated-partitions names none."""
    topic = stage.topic(3)
    for flag in ("--unavailable-partitions", "--under-replicated-partitions", "--under-min-isr-partitions"):
        assert topic not in java(stage, "TopicCommand", "--describe", flag)


@case(seconds=120)
def configs(stage):
    """kafka-configs: describe, add, delete; of topics and brokers."""
    topic = stage.topic()
    entity = ("--entity-type", "topics", "--entity-name", topic)
    tool = "kafka.admin.ConfigCommand"
    java(stage, tool, "--alter", *entity, "--add-config", "retention.ms=1234567,max.message.bytes=2000000")
    shown = java(stage, tool, "--describe", *entity)
    assert "retention.ms=1234567" in shown
    assert "DYNAMIC_TOPIC_CONFIG:retention.ms=1234567" in shown
    java(stage, tool, "--alter", *entity, "--delete-config", "retention.ms")
    shown = java(stage, tool, "--describe", *entity)
    assert "retention.ms" not in shown
    assert "max.message.bytes=2000000" in shown
    assert "retention.ms=604800000" in java(stage, tool, "--describe", "--all", *entity)
    node = re.search(r"Leader: (\d+)", java(stage, "TopicCommand", "--describe", "--topic", topic))[1]
    assert "num.partitions" in java(
        stage, tool, "--describe", "--all", "--entity-type", "brokers", "--entity-name", node
    )


@case(seconds=90)
def console_producer_and_consumer(stage):
    topic = stage.topic(1)
    lines = [f"line {n}" for n in range(1000)]
    produce(stage, topic, "\n".join(lines) + "\n")
    assert consume(stage, topic, 1000, "--from-beginning") == lines
    assert consume(stage, topic, 3, "--partition", 0, "--offset", 500) == lines[500:503]


@case(seconds=90)
def console_records_with_keys_headers_and_timestamps(stage):
    topic = stage.topic(1)
    properties = ("parse.key=true", "key.separator==", "parse.headers=true", "headers.delimiter=|", "null.marker=NULL")
    words = [word for each in properties for word in ("--reader-property", each)]
    produce(stage, topic, "a:1,b:2|key=value\nx:1|NULL=NULL\n", *words)
    shown = [f"print.{each}=true" for each in ("timestamp", "key", "headers", "offset", "partition", "value")]
    words = [word for each in shown for word in ("--formatter-property", each)]
    found = consume(stage, topic, 2, "--from-beginning", *words)
    assert re.fullmatch(r"CreateTime:\d{13}\tPartition:0\tOffset:0\ta:1,b:2\tkey\tvalue", found[0])
    assert found[1].endswith("null\tnull")


@case(seconds=120)
def console_compressions(stage):
    topic = stage.topic(1)
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        produce(stage, topic, f"{codec} {'x' * 3000}\n" * 10, "--compression-codec", codec)
    found = [line.split()[0] for line in consume(stage, topic, 40, "--from-beginning")]
    assert found == [codec for codec in ("gzip", "snappy", "lz4", "zstd") for _ in range(10)]


@case(seconds=90)
def offsets(stage):
    """kafka-get-offsets: earliest, latest, max timestamp, by time."""
    topic = stage.topic(2)
    produce(stage, topic, "a\nb\nc\n", "--reader-property", "parse.key=false")

    def asked(when):
        lines = java(stage, "GetOffsetShell", "--topic", topic, "--time", when).split()
        return sum(int(line.split(":")[2]) for line in lines if line.startswith(topic) and line.count(":") == 2)

    assert asked(-2) == 0
    assert asked(-1) == 3
    assert asked(0) == 0


@case(seconds=90)
def delete_records(stage):
    topic = stage.topic()
    produce(stage, topic, "a\nb\nc\nd\n")
    plan = stage.folder / "plan.json"
    plan.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "offset": 3}], "version": 1}))
    assert "low_watermark: 3" in java(stage, "DeleteRecordsCommand", "--offset-json-file", plan)
    assert consume(stage, topic, 1, "--from-beginning") == ["d"]


@case(seconds=90)
def log_dirs(stage):
    topic = stage.topic(2)
    produce(stage, topic, "a\n")
    out = java(stage, "LogDirsCommand", "--describe", "--topic-list", topic)
    facts = json.loads(out[out.index("{") :])
    partitions = [each for node in facts["brokers"] for folder in node["logDirs"] for each in folder["partitions"]]
    assert {each["partition"] for each in partitions} == {f"{topic}-0", f"{topic}-1"}
    assert sum(each["size"] for each in partitions) > 0


@case(seconds=90)
def broker_api_versions(stage):
    out = java(stage, "BrokerApiVersionsCommand")
    for api in ("Produce(0)", "Fetch(1)", "Metadata(3)", "ApiVersions(18)"):
        assert api in out
    assert "UNSUPPORTED" not in re.search(r"Produce\(0\).*", out)[0]


@case(seconds=90)
def the_cluster_and_its_quorum(stage):
    """kafka-cluster, kafka-metadata-quorum, kafka-features."""
    assert "Cluster ID: " in java(stage, "ClusterTool", "cluster-id", server=None, code=None) or "Cluster ID: " in java(
        stage, "ClusterTool", "cluster-id", "--bootstrap-server", stage.bootstrap, server=None
    )
    assert "LeaderId:" in java(stage, "MetadataQuorumCommand", "describe", "--status")
    java(stage, "FeatureCommand", "describe")


@case(seconds=90)
def elections_and_reassignments(stage):
    """What means nothing without leaders is answered without harm."""
    topic = stage.topic(1)
    java(stage, "LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", 0)
    said = java(stage, "reassign.ReassignPartitionsCommand", "--list")
    assert "No partition reassignments found" in said


@case(seconds=90)
def rights_where_there_are_none(stage):
    """kafka-acls says that no authorizer is configured."""
    said = java(stage, "AclCommand", "--list", code=None)
    assert "no authorizer is configured" in said.lower()


@case(seconds=90)
def transactions_are_listed(stage):
    """kafka-transactions list: none, and no error."""
    said = java(stage, "TransactionsCommand", "list")
    assert "TransactionalId" in said


@case(seconds=120)
def producer_perf_test(stage):
    topic = stage.topic(4)
    words = ("--topic", topic, "--num-records", 100_000, "--record-size", 200, "--throughput", -1)
    more = ("--command-property", f"bootstrap.servers={stage.bootstrap}", "acks=all", "compression.type=lz4")
    out = java(stage, "ProducerPerformance", *words, *more, server=None)
    assert "100000 records sent" in out


@case(seconds=120)
def consumer_perf_test(stage):
    topic = stage.topic(2)
    produce(stage, topic, "x\n" * 5000)
    out = java(stage, "ConsumerPerformance", "--topic", topic, "--num-records", 5000, "--timeout", 30_000)
    row = [line for line in out.splitlines() if ", " in line][-1].split(", ")
    assert int(row[4]) == 5000


@case(seconds=120)
def verifiable_producer_and_consumer(stage):
    """Both report every record and every acknowledgement as JSON."""
    topic = stage.topic(2)
    out = java(stage, "VerifiableProducer", "--topic", topic, "--max-messages", 2000, "--acks", -1)
    said = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert len([each for each in said if each["name"] == "producer_send_success"]) == 2000
    assert not [each for each in said if each["name"] == "producer_send_error"]
    out = java(
        stage,
        "VerifiableConsumer",
        *("--topic", topic, "--group-id", stage.name, "--max-messages", 2000, "--reset-policy", "earliest"),
        *("--group-instance-id", "one"),
    )
    said = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    assert sum(each["count"] for each in said if each["name"] == "records_consumed") == 2000
    assert all(each["success"] for each in said if each["name"] == "offsets_committed")


@case(seconds=120)
def end_to_end_latency(stage):
    topic = stage.topic(1)
    words = ("--topic", topic, "--num-records", 50, "--producer-acks", "all", "--record-size", 100)
    assert "Percentiles" in java(stage, "EndToEndLatency", *words)


@case(seconds=150)
def consumer_groups(stage):
    """kafka-consumer-groups: list, describe with lag, reset offsets, delete offsets, delete."""
    topic = stage.topic(1)
    group = stage.name
    produce(stage, topic, "".join(f"{n}\n" for n in range(10)))
    assert len(consume(stage, topic, 10, "--group", group, "--from-beginning")) == 10
    produce(stage, topic, "10\n11\n")
    tool = "consumer.group.ConsumerGroupCommand"
    assert group in java(stage, tool, "--list").split()
    row = re.search(
        rf"{group}\s+{topic}\s+0\s+(\d+)\s+(\d+)\s+(\d+)", java(stage, tool, "--describe", "--group", group)
    )
    assert row.groups() == ("10", "12", "2")
    assert "Empty" in java(stage, tool, "--describe", "--group", group, "--state")
    java(stage, tool, "--reset-offsets", "--group", group, "--topic", topic, "--to-offset", 4, "--execute")
    assert consume(stage, topic, 2, "--group", group) == ["4", "5"]
    java(stage, tool, "--delete-offsets", "--group", group, "--topic", topic)
    java(stage, tool, "--delete", "--group", group)
    assert group not in java(stage, tool, "--list").split()


@case(seconds=180)
def groups_are_reset_in_every_way(stage):
    """kafka-consumer-groups --reset-offsets: to earliest, latest, a time, by duration, by shifting, to what is now."""
    topic = stage.topic(1)
    group = stage.name
    produce(stage, topic, "".join(f"{n}\n" for n in range(10)))
    tool = "consumer.group.ConsumerGroupCommand"

    def reset(*how, execute="--execute"):
        words = ("--reset-offsets", "--group", group, "--topic", topic, *how, execute)
        row = re.search(rf"{group}\s+{topic}\s+0\s+(\d+)", java(stage, tool, *words))
        return int(row[1])

    assert reset("--to-latest") == 10
    assert reset("--shift-by", "-3") == 7
    assert reset("--to-earliest", execute="--dry-run") == 0
    assert reset("--to-current") == 7
    assert reset("--by-duration", "PT1H") == 0
    assert reset("--to-datetime", "2099-01-01T00:00:00.000") == 10


@case(seconds=120)
def members_of_a_group(stage):
    """kafka-consumer-groups --describe --members --verbose, while one is reading."""
    topic = stage.topic(2)
    command = java_tool(
        f"{TOOLS}.consumer.ConsoleConsumer",
        *("--bootstrap-server", stage.bootstrap, "--topic", topic, "--group", stage.name, "--timeout-ms", "60000"),
    )
    reading = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        words = ("--describe", "--group", stage.name, "--members", "--verbose")
        end = time.monotonic() + 60
        while True:
            shown = java(stage, "consumer.group.ConsumerGroupCommand", *words, code=None)
            if f"{topic}:0,1" in shown or f"{topic}(0,1)" in shown:
                break
            assert time.monotonic() < end, shown
    finally:
        reading.kill()
        reading.wait()


@case(seconds=120)
def what_clients_measure(stage):
    """kafka-client-metrics and kafka-share-groups list nothing, and fail not."""
    java(stage, "ClientMetricsCommand", "--list")
    java(stage, "consumer.group.ShareGroupCommand", "--list")


@case(seconds=90)
def groups_of_every_kind(stage):
    """kafka-groups --list."""
    topic = stage.topic(1)
    produce(stage, topic, "a\n")
    consume(stage, topic, 1, "--group", stage.name, "--from-beginning")
    assert stage.name in java(stage, "GroupsCommand", "--list")


@case(seconds=90)
def a_console_consumer_of_the_new_protocol(stage):
    """group.protocol=consumer (KIP-848)."""
    topic = stage.topic(2)
    produce(stage, topic, "".join(f"{n}\n" for n in range(50)))
    words = ("--group", stage.name, "--from-beginning", "--command-property", "group.protocol=consumer")
    assert sorted(map(int, consume(stage, topic, 50, *words))) == list(range(50))


@case(seconds=90)
def a_console_share_consumer(stage):
    """Share groups (KIP-932)."""
    topic = stage.topic(1)
    entity = ("--entity-type", "groups", "--entity-name", stage.name)
    java(stage, "kafka.admin.ConfigCommand", "--alter", *entity, "--add-config", "share.auto.offset.reset=earliest")
    produce(stage, topic, "".join(f"{n}\n" for n in range(20)))
    words = ("--topic", topic, "--group", stage.name, "--max-messages", 20, "--timeout-ms", 30_000)
    out = java(stage, "consumer.ConsoleShareConsumer", *words, errors=False)
    assert sorted(map(int, out.split())) == list(range(20))


@case(seconds=150, ends_brokers=True)
def a_node_that_is_killed_mid_stream(stage):
    """A console producer (idempotent) writes on across kill -9 and restart: every record is there once."""
    with stage.node() as node:
        topic = stage.topic(1, bootstrap=node.bootstrap)
        command = java_tool(
            f"{TOOLS}.ConsoleProducer",
            *("--bootstrap-server", node.bootstrap, "--topic", topic),
            *("--command-property", "enable.idempotence=true", "--command-property", "acks=all"),
            *("--command-property", "delivery.timeout.ms=90000", "--command-property", "request.timeout.ms=5000"),
        )
        writing = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        try:
            for n in range(4000):
                writing.stdin.write(f"{n}\n")
                if n % 40 == 0:
                    writing.stdin.flush()
                    time.sleep(0.02)
                if n == 2000:
                    node.kill()
                    node.start()
            writing.stdin.close()
            assert writing.wait(90) == 0
        finally:
            writing.kill()
            writing.wait()
        found = consume(stage, topic, 4000, "--from-beginning", bootstrap=node.bootstrap)
        assert list(map(int, found)) == list(range(4000))
        extra = java(stage, "GetOffsetShell", "--topic", topic, "--time", -1, bootstrap=node.bootstrap)
        assert f"{topic}:0:4000" in extra.split()
