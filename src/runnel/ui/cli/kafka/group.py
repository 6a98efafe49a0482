"""Show, move and delete consumer groups.

For any Kafka cluster: 'runnel group ACTION --help' explains an action.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from runnel.errors import NotThere, Refused, RunnelError
from runnel.ui.cli.house import House
from runnel.ui.cli.kafka.connect import ANSWER_SECONDS, Cluster, add_cluster, cluster_from
from runnel.ui.cli.kafka.offsets import Partition, nexts, offsets_at, partitions_of
from runnel.ui.cli.kafka.places import WORDS, place_of
from runnel.ui.cli.kafka.problems import kindly, problem, raise_first, results
from runnel.ui.cli.options import actions_of, add_action
from runnel.ui.cli.output import print_json, print_table
from runnel.world.clock import SystemClock

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

STATES = {"preparing_rebalancing": "rebalancing", "completing_rebalancing": "rebalancing"}
"""librdkafka's names in fewer words."""


def register(parser: argparse.ArgumentParser) -> None:
    actions = actions_of(parser)
    listing = add_action(actions, "list", "all groups", _list)
    add_cluster(listing)

    describe = add_action(actions, "describe", "members, committed offsets and lag", _describe)
    describe.add_argument("groups", metavar="GROUP", nargs="+", help="the names of the groups")
    add_cluster(describe)

    reset = add_action(actions, "reset", "move a group without members to another place", _reset)
    reset.add_argument("group", metavar="GROUP", help="the name of the group")
    reset.add_argument(
        "--topic",
        metavar="TOPIC[:LIST]",
        action="append",
        default=[],
        help="of this topic, or these partitions of it: orders:0,3-5; may be repeated; left out, all that the group read",
    )
    reset.add_argument("--to", metavar="PLACE", required=True, help=WORDS)
    reset.add_argument("--check", action="store_true", help="only show what would be moved")
    add_cluster(reset)

    delete = add_action(actions, "delete", "delete groups with their committed offsets", _delete)
    delete.add_argument("groups", metavar="GROUP", nargs="+", help="the names of the groups")
    delete.add_argument("--yes", action="store_true", help="ask nothing, even on a terminal")
    delete.add_argument("--if-exists", action="store_true", help="a group that is not there is no error")
    add_cluster(delete)


def run(args: argparse.Namespace, _house: House) -> int:
    return int(args.do(args))


def _list(args: argparse.Namespace) -> int:
    cluster = cluster_from(args)
    rows = listed(cluster, cluster.admin())
    if args.json:
        print_json(rows)
    elif rows:
        print_table(("group", "state", "protocol"), [tuple(row.values()) for row in rows])
    else:
        print(f"no groups at {cluster.bootstrap}: 'runnel consume TOPIC --group NAME' makes one", file=sys.stderr)
    return 0


def listed(cluster: Cluster, admin: "AdminClient") -> list[dict[str, Any]]:
    """Every group with its state and its protocol."""
    with kindly(cluster):
        found = admin.list_consumer_groups(request_timeout=ANSWER_SECONDS).result()
    for error in found.errors or ():
        raise problem(cluster, error.args[0], "some groups cannot be listed")
    rows = [
        {"group": each.group_id, "state": _word(each, "state"), "protocol": _word(each, "type")}
        for each in found.valid or ()
    ]
    return sorted(rows, key=lambda row: row["group"])


def _word(thing: Any, name: str) -> str:
    word = str(getattr(getattr(thing, name, None), "name", "unknown")).lower()
    return STATES.get(word, word)


def _describe(args: argparse.Namespace) -> int:
    cluster = cluster_from(args)
    admin = cluster.admin()
    groups = list(dict.fromkeys(args.groups))
    with kindly(cluster):
        futures = admin.describe_consumer_groups(groups, request_timeout=ANSWER_SECONDS)
    found = results(cluster, futures, "group")
    raise_first([(name, each, error or _absent(name, each)) for name, each, error in found])
    answers = [_described(cluster, admin, each) for _, each, _ in found]
    if args.json:
        print_json(answers)
        return 0
    for number, answer in enumerate(answers):
        lag = "unknown" if answer["lag"] is None else f"{answer['lag']:,}"
        print(
            f"{chr(10) if number else ''}{answer['group']}  {answer['state']}  protocol {answer['protocol']}  "
            f"assignor {answer['assignor'] or '-'}  coordinator {answer['coordinator']}  lag {lag}\n"
        )
        rows = [["-" if cell is None else cell for cell in row.values()] for row in answer["partitions"]]
        if rows:
            print_table(("topic", "partition", "committed", "next", "lag", "member"), rows)
        for each in answer["members"]:
            instance = f"  instance {each['instance']}" if each["instance"] else ""
            print(f"\nmember {each['member']}  client {each['client']}  at {each['host']}{instance}", end="")
        print("" if answer["members"] else "no members")
    return 0


def _absent(name: str, described: Any) -> RunnelError | None:
    """A group that never was is described as dead, as in Kafka."""
    if described is not None and _word(described, "state") == "dead":
        return NotThere(f"group '{name}': there is no such group: 'runnel group list' shows what there is")
    return None


def _described(cluster: Cluster, admin: "AdminClient", group: Any) -> dict[str, Any]:
    owners = {
        Partition(each.topic, each.partition): member.member_id
        for member in group.members
        for each in member.assignment.topic_partitions
    }
    committed = _committed(cluster, admin, group.group_id)
    there = _all_of(cluster, admin, {each.topic for each in (*owners, *committed)})
    partitions = sorted({*owners, *committed, *there})
    after = nexts(cluster, admin, there)
    rows = []
    for each in partitions:
        at, end = committed.get(each), after.get(each)
        rows.append(
            {
                "topic": each.topic,
                "partition": each.number,
                "committed": at,
                "next": end,
                "lag": None if at is None or end is None else max(0, end - at),
                "member": owners.get(each),
            }
        )
    lags = [row["lag"] for row in rows if row["lag"] is not None]
    return {
        "group": group.group_id,
        "state": _word(group, "state"),
        "protocol": _word(group, "type"),
        "assignor": group.partition_assignor,
        "coordinator": None if group.coordinator is None else group.coordinator.id,
        "lag": sum(lags) if lags else None,
        "partitions": rows,
        "members": [
            {
                "member": member.member_id,
                "client": member.client_id,
                "host": member.host,
                "instance": member.group_instance_id,
                "partitions": len(member.assignment.topic_partitions),
            }
            for member in group.members
        ],
    }


def _committed(cluster: Cluster, admin: "AdminClient", group: str) -> dict[Partition, int]:
    """Where the group is, of each partition that it has read."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    with kindly(cluster, f"group '{group}'"):
        futures = admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group)], request_timeout=ANSWER_SECONDS
        )
        found = futures[group].result()
    return {
        Partition(each.topic, each.partition): each.offset
        for each in found.topic_partitions or ()
        if each.error is None and each.offset >= 0
    }


def _still_there(cluster: Cluster, admin: "AdminClient", partitions: Sequence[Partition]) -> list[Partition]:
    """Those of these partitions whose topics have not been deleted."""
    with kindly(cluster):
        known = admin.list_topics(timeout=ANSWER_SECONDS).topics
    return [each for each in partitions if each.topic in known and each.number in known[each.topic].partitions]


def _all_of(cluster: Cluster, admin: "AdminClient", topics: set[str]) -> list[Partition]:
    """All partitions of these topics, also those that nobody has read yet; a topic may have been deleted."""
    with kindly(cluster):
        known = admin.list_topics(timeout=ANSWER_SECONDS).topics
    return [Partition(topic, number) for topic in topics if topic in known for number in known[topic].partitions]


def _reset(args: argparse.Namespace) -> int:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    place = place_of(args.to, SystemClock().now_ms())
    cluster = cluster_from(args)
    admin = cluster.admin()
    before = _committed(cluster, admin, args.group)
    chosen = _chosen(cluster, admin, args.topic) if args.topic else _still_there(cluster, admin, sorted(before))
    if not chosen:
        raise NotThere(f"group '{args.group}' has committed nothing yet: say --topic TOPIC to set where it starts")
    moved = offsets_at(cluster, admin, chosen, place)
    rows = [
        {"topic": each.topic, "partition": each.number, "from": before.get(each), "to": moved[each]} for each in chosen
    ]
    if not args.check:
        asked = [TopicPartition(each.topic, each.number, moved[each]) for each in chosen]
        with kindly(cluster, f"group '{args.group}'"):
            futures = admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(args.group, asked)], request_timeout=ANSWER_SECONDS
            )
            done = futures[args.group].result()
        _raise_refused(cluster, args.group, done.topic_partitions or ())
    if args.json:
        print_json(rows)
    else:
        print_table(
            ("topic", "partition", "from", "to"), [["-" if v is None else v for v in row.values()] for row in rows]
        )
    return 0


def _raise_refused(cluster: Cluster, group: str, partitions: Sequence[Any]) -> None:
    from confluent_kafka import KafkaError

    for each in partitions:
        if each.error is None:
            continue
        if each.error.code() in (KafkaError.UNKNOWN_MEMBER_ID, KafkaError.NON_EMPTY_GROUP):
            raise Refused(
                f"group '{group}' has members, which would not notice: stop them first; "
                "'runnel group describe' shows who they are"
            )
        raise problem(cluster, each.error, f"group '{group}', topic '{each.topic}' partition {each.partition}")


def _chosen(cluster: Cluster, admin: "AdminClient", said: list[str]) -> list[Partition]:
    """TOPIC or TOPIC:0,3-5, as partitions that are there."""
    from runnel.ui.cli.kafka.consume import numbers_of

    chosen: list[Partition] = []
    for text in said:
        topic, colon, numbers = text.partition(":")
        there = sorted(partitions_of(cluster, admin, [topic]))
        wanted = set(numbers_of(numbers)) if colon else {each.number for each in there}
        missing = sorted(wanted - {each.number for each in there})
        if missing:
            raise NotThere(f"topic '{topic}' has no partition {missing[0]}, its last is {there[-1].number}")
        chosen += [each for each in there if each.number in wanted]
    return list(dict.fromkeys(chosen))


def _delete(args: argparse.Namespace) -> int:
    groups = list(dict.fromkeys(args.groups))
    cluster = cluster_from(args)
    if not args.yes and sys.stdin.isatty() and sys.stderr.isatty():
        print(f"delete {', '.join(repr(name) for name in groups)} with committed offsets? [y/N] ", end="")
        if input().strip().lower() not in ("y", "yes"):
            raise Refused("nothing was deleted")
    admin = cluster.admin()
    with kindly(cluster):
        futures = admin.delete_consumer_groups(groups, request_timeout=ANSWER_SECONDS)
    found = results(cluster, futures, "group")
    if args.if_exists:
        found = [(name, done, None if isinstance(error, NotThere) else error) for name, done, error in found]
    raise_first(found)
    if args.json:
        print_json([{"group": name, "deleted": True} for name in groups])
    else:
        for name in groups:
            print(f"'{name}' is deleted")
    return 0
