"""Show a cluster's brokers, zones and topics, and whether they are well.

Asks a Kafka cluster, Runnel or any other, and knocks at each broker it names. Exits 1 when something is not well.
"""

import argparse
import socket
from typing import Any

from runnel.ui.cli.house import House
from runnel.ui.cli.kafka.connect import ANSWER_SECONDS, Cluster, add_cluster, cluster_from
from runnel.ui.cli.kafka.group import listed
from runnel.ui.cli.kafka.problems import kindly
from runnel.ui.cli.output import print_json, print_table
from runnel.world.clock import SystemClock

KNOCK_SECONDS = 3.0
SHOWN_MAX = 10
"""So many troubles are named; the rest are counted."""


def register(parser: argparse.ArgumentParser) -> None:
    add_cluster(parser)


def run(args: argparse.Namespace, _house: House) -> int:
    facts = look(cluster_from(args))
    if args.json:
        print_json(facts)
    else:
        _print(facts)
    return int(bool(facts["troubles"]))


def look(cluster: Cluster) -> dict[str, Any]:
    """What there is, and what is not well."""
    with kindly(cluster):
        admin = cluster.admin()
        described = admin.describe_cluster(request_timeout=ANSWER_SECONDS).result()
        known = admin.list_topics(timeout=ANSWER_SECONDS).topics
    brokers = [
        {
            "broker": node.id,
            "address": f"{node.host}:{node.port}",
            "zone": node.rack,
            "answers_ms": _answers_ms(node.host, node.port),
            "leads": 0,
        }
        for node in sorted(described.nodes, key=lambda node: int(node.id))
    ]
    by_id = {broker["broker"]: broker for broker in brokers}
    troubles = [
        f"broker {broker['broker']} does not answer at {broker['address']}"
        for broker in brokers
        if broker["answers_ms"] is None
    ]
    topics = partitions = 0
    for name, topic in sorted(known.items()):
        topics += not name.startswith("__")
        for number, partition in topic.partitions.items():
            partitions += 1
            leader = by_id.get(partition.leader)
            if leader is None:
                troubles.append(f"topic '{name}' partition {number} has no leader")
            else:
                leader["leads"] += 1
    return {
        "cluster": described.cluster_id,
        "controller": None if described.controller is None else described.controller.id,
        "brokers": brokers,
        "zones": sorted({broker["zone"] for broker in brokers if broker["zone"]}),
        "topics": topics,
        "partitions": partitions,
        "groups": len(listed(cluster, admin)),
        "healthy": not troubles,
        "troubles": troubles,
    }


def _answers_ms(host: str, port: int) -> float | None:
    """How long a connection takes."""
    clock = SystemClock()
    begun = clock.monotonic()
    try:
        socket.create_connection((host, port), KNOCK_SECONDS).close()
    except OSError:
        return None
    return round((clock.monotonic() - begun) * 1000, 1)


def _print(facts: dict[str, Any]) -> None:
    zones = ", ".join(facts["zones"]) or "none named"
    print(
        f"cluster {facts['cluster']}  topics: {facts['topics']:,}  partitions: {facts['partitions']:,}  "
        f"groups: {facts['groups']:,}  zones: {zones}\n"
    )
    rows = [
        (
            f"{broker['broker']}{' (controller)' if broker['broker'] == facts['controller'] else ''}",
            broker["address"],
            broker["zone"] or "-",
            "no" if broker["answers_ms"] is None else f"in {broker['answers_ms']} ms",
            f"{broker['leads']:,}",
        )
        for broker in facts["brokers"]
    ]
    print_table(("broker", "address", "zone", "answers", "leads"), rows)
    print()
    if facts["healthy"]:
        print("all is well")
    for trouble in facts["troubles"][:SHOWN_MAX]:
        print(trouble)
    if len(facts["troubles"]) > SHOWN_MAX:
        print(f"and {len(facts['troubles']) - SHOWN_MAX:,} more")
