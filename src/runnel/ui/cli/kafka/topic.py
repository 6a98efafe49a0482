"""Make, show, change and delete topics.

For any Kafka cluster: 'runnel topic ACTION --help' explains an action.
"""

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from runnel.errors import AlreadyThere, NotThere, Refused
from runnel.ui.cli.house import House
from runnel.ui.cli.kafka.connect import ANSWER_SECONDS, Cluster, add_cluster, cluster_from
from runnel.ui.cli.kafka.offsets import Partition, descriptions, firsts, nexts
from runnel.ui.cli.kafka.problems import kindly, raise_first, results
from runnel.ui.cli.options import actions_of, add_action
from runnel.ui.cli.output import print_json, print_table

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

SOURCES = {"DYNAMIC_TOPIC_CONFIG": "topic", "DEFAULT_CONFIG": "default"}
"""Who set a value, in fewer words; else it is a broker or all of them."""
OURS = "runnel."
"""Before the names of a Runnel broker's own settings: another Kafka has none."""


def register(parser: argparse.ArgumentParser) -> None:
    actions = actions_of(parser)
    create = add_action(actions, "create", "make topics", _create)
    create.add_argument("topics", metavar="TOPIC", nargs="+", help="the names of the topics")
    create.add_argument("--partitions", type=int, default=-1, metavar="N", help="left out: the cluster's default")
    create.add_argument(
        "--replication-factor",
        type=int,
        default=-1,
        metavar="N",
        help="for other Kafka clusters; left out: the cluster's default",
    )
    _add_settings(create)
    create.add_argument("--if-not-exists", action="store_true", help="a topic that is there already is no error")
    create.add_argument("--check", action="store_true", help="only see whether it would be made")
    add_cluster(create)

    listing = add_action(actions, "list", "all topics", _list)
    listing.add_argument("--internal", action="store_true", help="also those that the cluster keeps for itself")
    add_cluster(listing)

    describe = add_action(actions, "describe", "partitions with their offsets, and settings", _describe)
    describe.add_argument("topics", metavar="TOPIC", nargs="+", help="the names of the topics")
    describe.add_argument("--settings", action="store_true", help="all settings, not only those that were set")
    add_cluster(describe)

    alter = add_action(actions, "alter", "change settings, add partitions", _alter)
    alter.add_argument("topics", metavar="TOPIC", nargs="+", help="the names of the topics")
    alter.add_argument("--partitions", type=int, default=0, metavar="N", help="how many there shall be, more than now")
    _add_settings(alter)
    alter.add_argument(
        "--reset", action="append", default=[], metavar="NAME", help="give a setting its default again; may be repeated"
    )
    alter.add_argument("--check", action="store_true", help="only see whether it would be changed")
    add_cluster(alter)

    delete = add_action(actions, "delete", "delete topics with all their records", _delete)
    delete.add_argument("topics", metavar="TOPIC", nargs="+", help="the names of the topics")
    delete.add_argument("--yes", action="store_true", help="ask nothing, even on a terminal")
    delete.add_argument("--if-exists", action="store_true", help="a topic that is not there is no error")
    add_cluster(delete)


def run(args: argparse.Namespace, _house: House) -> int:
    return int(args.do(args))


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--setting",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting of the topic, such as retention.ms=3600000; may be repeated",
    )


def _settings(said: Iterable[str]) -> dict[str, str]:
    found = {}
    for text in said:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise Refused(f"--setting {text}: write NAME=VALUE, such as retention.ms=3600000")
        found[name.strip()] = value.strip()
    return found


def _create(args: argparse.Namespace) -> int:
    from confluent_kafka.admin import NewTopic

    if args.partitions == 0 or args.partitions < -1:
        raise Refused(f"--partitions {args.partitions}: a topic has at least one")
    settings = _settings(args.setting)
    cluster = cluster_from(args)
    admin = cluster.admin()
    asked = [
        NewTopic(
            name, num_partitions=args.partitions, replication_factor=args.replication_factor, config=dict(settings)
        )
        for name in dict.fromkeys(args.topics)
    ]
    with kindly(cluster):
        futures = admin.create_topics(asked, request_timeout=ANSWER_SECONDS, validate_only=args.check)
    found = results(cluster, futures, "topic")
    if args.if_not_exists:
        found = [(name, done, None if isinstance(error, AlreadyThere) else error) for name, done, error in found]
    raise_first(found)
    if args.check:
        return _say(args, [{"topic": name, "would": "be made"} for name, _, _ in found], "'{topic}' would be made")
    made = [_facts(each) for each in descriptions(cluster, admin, [str(name) for name, _, _ in found])]
    return _say(args, made, "'{topic}' is there, partitions: {partitions}")


def _list(args: argparse.Namespace) -> int:
    cluster = cluster_from(args)
    with kindly(cluster):
        known = cluster.admin().list_topics(timeout=ANSWER_SECONDS).topics
    rows = [
        {"topic": name, "partitions": len(known[name].partitions)}
        for name in sorted(known)
        if args.internal or not name.startswith("__")
    ]
    if args.json:
        print_json(rows)
    elif rows:
        print_table(("topic", "partitions"), [tuple(row.values()) for row in rows])
    else:
        print(f"no topics at {cluster.bootstrap}: 'runnel topic create NAME' makes one", file=sys.stderr)
    return 0


def _describe(args: argparse.Namespace) -> int:
    cluster = cluster_from(args)
    admin = cluster.admin()
    found = descriptions(cluster, admin, list(dict.fromkeys(args.topics)))
    partitions = [Partition(each.name, part.id) for each in found for part in each.partitions]
    first, after = firsts(cluster, admin, partitions), nexts(cluster, admin, partitions, committed=False)
    settings = _all_settings(cluster, admin, [each.name for each in found])
    documents = _documents(cluster, admin) if args.settings else {}
    answers = []
    for each in found:
        rows = []
        for part in sorted(each.partitions, key=lambda part: part.id):
            place = Partition(each.name, part.id)
            rows.append(
                {
                    "partition": part.id,
                    "leader": None if part.leader is None else part.leader.id,
                    "first": first[place],
                    "next": after[place],
                    "kept": after[place] - first[place],
                }
            )
        shown = [
            {"name": name, "value": value, "from": source, **({"says": documents[name]} if name in documents else {})}
            for name, value, source in settings[each.name]
            if args.settings or source != "default"
        ]
        answers.append(_facts(each) | {"offsets": rows, "settings": shown})
    if args.json:
        print_json(answers)
        return 0
    for number, answer in enumerate(answers):
        kept = sum(row["kept"] for row in answer["offsets"])
        print(f"{chr(10) if number else ''}{answer['topic']}  id {answer['id']}  offsets kept: {kept:,}\n")
        print_table(
            ("partition", "leader", "first", "next", "kept"),
            [["-" if cell is None else cell for cell in row.values()] for row in answer["offsets"]],
        )
        if answer["settings"]:
            print()
            columns = ("setting", "value", "from", "says") if documents else ("setting", "value", "from")
            lines = [(*row.values(), *[""] * (len(columns) - len(row))) for row in answer["settings"]]
            print_table(columns, lines)
    return 0


def _all_settings(
    cluster: Cluster, admin: "AdminClient", topics: list[str]
) -> dict[str, list[tuple[str, str | None, str]]]:
    from confluent_kafka.admin import ConfigResource

    asked = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
    with kindly(cluster):
        futures = admin.describe_configs(asked, request_timeout=ANSWER_SECONDS)
    found = results(cluster, futures, "topic")
    raise_first(found)
    return {
        resource.name: [
            (name, entry.value, SOURCES.get(_source(entry), "cluster")) for name, entry in sorted(entries.items())
        ]
        for resource, entries, _ in found
    }


def _source(entry: Any) -> str:
    from confluent_kafka.admin import ConfigSource

    return ConfigSource(entry.source).name


def _documents(cluster: Cluster, admin: "AdminClient") -> dict[str, str]:
    """What each setting does, where the cluster is Runnel: librdkafka does not hand on what the broker says of it."""
    from confluent_kafka.admin import ConfigResource

    from runnel.metadata.topic_settings import TOPIC_SETTINGS

    with kindly(cluster):
        node = next(iter(admin.list_topics(timeout=ANSWER_SECONDS).brokers))
        futures = admin.describe_configs(
            [ConfigResource(ConfigResource.Type.BROKER, str(node))], request_timeout=ANSWER_SECONDS
        )
        names = [name for future in futures.values() for name in future.result()]
    if not any(name.startswith(OURS) for name in names):
        return {}
    return {name: setting.documentation for name, setting in TOPIC_SETTINGS.items()}


def _alter(args: argparse.Namespace) -> int:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

    settings = _settings(args.setting)
    if not settings and not args.reset and not args.partitions:
        raise Refused("nothing to change: say --setting NAME=VALUE, --reset NAME or --partitions N")
    topics = list(dict.fromkeys(args.topics))
    cluster = cluster_from(args)
    admin = cluster.admin()
    if settings or args.reset:
        changes = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in settings.items()
        ] + [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in args.reset]
        asked = [ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=changes) for name in topics]
        with kindly(cluster):
            altered = admin.incremental_alter_configs(asked, request_timeout=ANSWER_SECONDS, validate_only=args.check)
        raise_first(results(cluster, altered, "topic"))
    if args.partitions:
        wanted = [NewPartitions(name, args.partitions) for name in topics]
        with kindly(cluster):
            grown = admin.create_partitions(wanted, request_timeout=ANSWER_SECONDS, validate_only=args.check)
        raise_first(results(cluster, grown, "topic"))
    if args.check:
        return _say(args, [{"topic": name, "would": "be changed"} for name in topics], "'{topic}' would be changed")
    return _say(args, [{"topic": name, "changed": True} for name in topics], "'{topic}' is changed")


def _delete(args: argparse.Namespace) -> int:
    topics = list(dict.fromkeys(args.topics))
    cluster = cluster_from(args)
    if not args.yes and sys.stdin.isatty() and sys.stderr.isatty():
        print(
            f"delete {', '.join(repr(name) for name in topics)} with all records at {cluster.bootstrap}? [y/N] ", end=""
        )
        if input().strip().lower() not in ("y", "yes"):
            raise Refused("nothing was deleted")
    admin = cluster.admin()
    with kindly(cluster):
        futures = admin.delete_topics(topics, request_timeout=ANSWER_SECONDS)
    found = results(cluster, futures, "topic")
    if args.if_exists:
        found = [(name, done, None if isinstance(error, NotThere) else error) for name, done, error in found]
    raise_first(found)
    return _say(args, [{"topic": name, "deleted": True} for name in topics], "'{topic}' is deleted")


def _facts(description: Any) -> dict[str, Any]:
    return {
        "topic": description.name,
        "id": str(description.topic_id),
        "partitions": len(description.partitions),
    }


def _say(args: argparse.Namespace, facts: list[dict[str, Any]], sentence: str) -> int:
    if args.json:
        print_json(facts)
    else:
        for each in facts:
            print(sentence.format(**each))
    return 0
