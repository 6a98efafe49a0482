"""What went wrong at the cluster, as one of our kinds of error, with the next step."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from runnel.errors import AlreadyThere, Fenced, NotThere, Refused, RunnelError, Unavailable, Uncertain
from runnel.ui.cli.kafka.connect import Cluster

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


@contextmanager
def kindly(cluster: Cluster, what: str = "") -> Iterator[None]:
    """Within, errors of librdkafka become ours; `what` was being asked of."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        cause = error.args[0]
        raise problem(cluster, cause, what) from None


def problem(cluster: Cluster, error: "KafkaError", what: str = "") -> RunnelError:
    """The kind, and a sentence that says what to do."""
    from confluent_kafka import KafkaError

    code = error.code()
    said = _sentence(error)
    of = f"{what}: " if what else ""
    if code in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._TIMED_OUT):  # noqa: SLF001  librdkafka's own codes begin like this
        reason = f" ({cluster.said[-1]})" if cluster.said else ""
        return Unavailable(
            f"{of}the cluster at {cluster.bootstrap} does not answer{reason}: see that its nodes run, then try again"
        )
    if code == KafkaError._MSG_TIMED_OUT:  # noqa: SLF001  as above
        return Uncertain(f"{of}not acknowledged in time, and possibly written all the same: see that the nodes run")
    if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):  # noqa: SLF001  as above
        return NotThere(
            f"{of}there is no such topic: 'runnel topic list' shows what there is, 'runnel topic create' makes one"
        )
    if code == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001  as above
        return NotThere(f"{of}there is no such partition: 'runnel topic describe' shows how many there are")
    if code == KafkaError.GROUP_ID_NOT_FOUND:
        return NotThere(f"{of}there is no such group: 'runnel group list' shows what there is")
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return AlreadyThere(f"{of}it exists already: 'runnel topic describe' shows it, 'runnel topic alter' changes it")
    if code in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE):
        return Refused(
            f"{of}larger than the topic takes: raise it with 'runnel topic alter TOPIC --setting max.message.bytes=…'"
        )
    if code == KafkaError.NON_EMPTY_GROUP:
        return Refused(f"{of}the group has members: stop them first; 'runnel group describe' shows who they are")
    if code in (KafkaError._AUTHENTICATION, KafkaError._SSL):  # noqa: SLF001  as above
        return Refused(f"{of}{said}: check the properties given with --client or --client-file")
    if code in (KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError._FENCED):  # noqa: SLF001  as above
        return Fenced(f"{of}{said}")
    if code in (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION):  # noqa: SLF001  as above
        return Refused(f"{of}the cluster at {cluster.bootstrap} does not offer this ({said})")
    if error.retriable():
        return Unavailable(f"{of}{said}: try again")
    return Refused(f"{of}{said}")


def _sentence(error: "KafkaError") -> str:
    """What the cluster says, in our manner: lower case, no full stop."""
    text = (error.str() or error.name()).removeprefix("Broker: ").removeprefix("Local: ").strip().rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def results(cluster: Cluster, futures: dict[Any, Any], what: str) -> list[tuple[Any, Any, RunnelError | None]]:
    """Of each key of an admin answer its result or its error; `what` comes before the key's name."""
    from confluent_kafka import KafkaException

    found: list[tuple[Any, Any, RunnelError | None]] = []
    for key, future in futures.items():
        try:
            found.append((key, future.result(), None))
        except KafkaException as error:
            name = getattr(key, "name", key)
            found.append((key, None, problem(cluster, error.args[0], f"{what} '{name}'")))
    return found


def raise_first(found: list[tuple[Any, Any, RunnelError | None]]) -> None:
    """The first error; the others are said with it."""
    errors = [error for _, _, error in found if error is not None]
    if not errors:
        return
    more = "".join(f"\nrunnel: {error}" for error in errors[1:])
    raise type(errors[0])(f"{errors[0]}{more}")
