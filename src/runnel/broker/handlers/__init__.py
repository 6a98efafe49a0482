"""Handlers, one file per family of APIs. `runnel.broker` says how to add one.

api_versions   what is offered here
classic_groups members of classic groups join, assign, and say that they are alive
cluster        the cluster as a whole: brokers, quorum, partitions by the page
configs        settings of topics and brokers
consumer_groups
               members of groups of the new protocol, and those groups described
delete_records partitions that begin at a later offset
fetch          records from offsets on
leader_epochs  where the one epoch ends
find_coordinator
               whom to ask about a group
groups         groups listed, described and deleted
leaderless     harmless answers for what means nothing without leaders
list_offsets   beginnings, ends, and the first record at a time
log_dirs       where records lie, and how much each partition has
metadata       brokers, topics and whom to ask for their partitions
offsets        how far groups have read
produce        sealed batches in, offsets out
producer_ids   numbers for idempotent producers
quotas         there are none
security       there are no logins and no access rules yet
telemetry      metrics that clients would send of themselves
topics         making, growing and removing topics
"""

from collections.abc import Mapping
from types import ModuleType

from runnel.broker.broker import Broker
from runnel.broker.call import Handler
from runnel.broker.handlers import (
    api_versions,
    classic_groups,
    cluster,
    configs,
    consumer_groups,
    delete_records,
    fetch,
    find_coordinator,
    groups,
    leader_epochs,
    leaderless,
    list_offsets,
    log_dirs,
    metadata,
    offsets,
    produce,
    producer_ids,
    quotas,
    security,
    telemetry,
    topics,
)

FAMILIES: tuple[ModuleType, ...] = (
    api_versions,
    classic_groups,
    cluster,
    configs,
    consumer_groups,
    delete_records,
    fetch,
    leader_epochs,
    find_coordinator,
    groups,
    leaderless,
    list_offsets,
    log_dirs,
    metadata,
    offsets,
    produce,
    producer_ids,
    quotas,
    security,
    telemetry,
    topics,
)


def all_handlers(broker: Broker) -> Mapping[int, Handler]:
    """Every handler there is, by API key."""
    found: dict[int, Handler] = {}
    for family in FAMILIES:
        mine: Mapping[int, Handler] = family.handlers(broker)
        assert not found.keys() & mine.keys(), f"{family.__name__} handles what another family handles"
        found |= mine
    return found
