"""Handlers, one file per family of APIs. `runnel.broker` says how to add one.

api_versions   what is offered here
fetch          records from offsets on
list_offsets   beginnings, ends, and the first record at a time
metadata       brokers, topics and whom to ask for their partitions
produce        sealed batches in, offsets out
producer_ids   numbers for idempotent producers
"""

from collections.abc import Mapping
from types import ModuleType

from runnel.broker.broker import Broker
from runnel.broker.call import Handler
from runnel.broker.handlers import api_versions, fetch, list_offsets, metadata, produce, producer_ids

FAMILIES: tuple[ModuleType, ...] = (
    api_versions,
    fetch,
    list_offsets,
    metadata,
    produce,
    producer_ids,
)


def all_handlers(broker: Broker) -> Mapping[int, Handler]:
    """Every handler there is, by API key."""
    found: dict[int, Handler] = {}
    for family in FAMILIES:
        mine: Mapping[int, Handler] = family.handlers(broker)
        assert not found.keys() & mine.keys(), f"{family.__name__} handles what another family handles"
        found |= mine
    return found
