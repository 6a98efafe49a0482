"""Topics with their partitions, and offsets of many partitions at once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from runnel.ui.cli.kafka.connect import ANSWER_SECONDS, Cluster
from runnel.ui.cli.kafka.places import Place, resolved
from runnel.ui.cli.kafka.problems import problem, raise_first, results

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class Partition(NamedTuple):
    """A partition by its name."""

    topic: str
    number: int


def partitions_of(cluster: Cluster, admin: "AdminClient", topics: Sequence[str]) -> list[Partition]:
    """All partitions of these topics; `NotThere` for one that is not."""
    return [Partition(each.name, part.id) for each in descriptions(cluster, admin, topics) for part in each.partitions]


def descriptions(cluster: Cluster, admin: "AdminClient", topics: Sequence[str]) -> list[Any]:
    """Each topic with its partitions and leaders. Asking makes no topic, unlike other ways to ask."""
    from confluent_kafka import KafkaException, TopicCollection

    if not topics:
        return []
    try:
        futures = admin.describe_topics(TopicCollection(list(topics)), request_timeout=ANSWER_SECONDS)
    except KafkaException as error:
        raise problem(cluster, error.args[0]) from None
    found = results(cluster, futures, "topic")
    raise_first(found)
    return [description for _, description, _ in found]


def offsets_at(
    cluster: Cluster, admin: "AdminClient", partitions: Iterable[Partition], place: Place, *, committed: bool = True
) -> dict[Partition, int]:
    """The offset of a place in each of these partitions."""
    partitions = list(partitions)
    first = firsts(cluster, admin, partitions)
    after = nexts(cluster, admin, partitions, committed=committed)
    by_time: dict[Partition, int] = {}
    if place.kind == "time":
        from confluent_kafka.admin import OffsetSpec

        found = _ask(cluster, admin, partitions, OffsetSpec.for_timestamp(place.number))
        by_time = {each: offset for each, offset in found.items() if offset >= 0}
    return resolved(place, first, after, by_time)


def firsts(cluster: Cluster, admin: "AdminClient", partitions: Iterable[Partition]) -> dict[Partition, int]:
    """The first offset that each partition keeps."""
    from confluent_kafka.admin import OffsetSpec

    return _ask(cluster, admin, partitions, OffsetSpec.earliest())


def nexts(
    cluster: Cluster, admin: "AdminClient", partitions: Iterable[Partition], *, committed: bool = True
) -> dict[Partition, int]:
    """The offset that each partition gives out next; `committed` leaves out what open transactions hold back."""
    from confluent_kafka import IsolationLevel
    from confluent_kafka.admin import OffsetSpec

    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    return _ask(cluster, admin, partitions, OffsetSpec.latest(), isolation_level=isolation)


def _ask(
    cluster: Cluster, admin: "AdminClient", partitions: Iterable[Partition], spec: Any, **more: Any
) -> dict[Partition, int]:
    from confluent_kafka import KafkaException, TopicPartition

    asked = {TopicPartition(each.topic, each.number): spec for each in partitions}
    if not asked:
        return {}
    try:
        futures: Mapping[Any, Any] = admin.list_offsets(asked, request_timeout=ANSWER_SECONDS, **more)
    except KafkaException as error:
        raise problem(cluster, error.args[0]) from None
    found = {}
    for partition, future in futures.items():
        try:
            found[Partition(partition.topic, partition.partition)] = int(future.result().offset)
        except KafkaException as error:
            raise problem(
                cluster, error.args[0], f"topic '{partition.topic}' partition {partition.partition}"
            ) from None
    return found
