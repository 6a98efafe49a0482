"""Kafka doors with a planted bug each, so that what their clients check is seen to catch something.

They are not listed and run only when named. `FOUND_BY` says what the violation must speak of.
"""

from collections.abc import Iterable

from runnel.broker.broker import Broker
from runnel.broker.connection import Connection
from runnel.broker.handlers import all_handlers, fetch
from runnel.broker.server import KafkaServer
from runnel.broker.sessions import Opened, Sessions
from runnel.codec.messages.fetch import FetchRequest
from runnel.engine import Engine
from runnel.errors import NotThere, RunnelError
from runnel.metadata.ledger.faulty import LedgerFaults
from runnel.model import StreamId
from runnel.simulated.engine import CALM_LAKE
from runnel.simulated.kafka import kafka
from runnel.simulated.kafka_work import Habits, open_door, stay
from runnel.simulated.lake import LakeEngine
from runnel.world.simulation.nodes import World
from runnel.world.simulation.scenario import Scenario, scenario

FOUND_BY = {
    "planted-kafka-answers-as-they-come": "came in the place of",
    "planted-kafka-stale-ends": "ends at",
    "planted-kafka-sessions-without-news": "which found nothing",
}


class Impatient(Connection):
    """Writes each answer when it is there, whoever asked first."""

    __slots__ = ()

    def flush(self) -> None:
        for call in [call for call in self.calls if call.answered]:
            self.calls.remove(call)
            if self.transport is not None:
                self.transport.writelines(call.out)


class ImpatientServer(KafkaServer):
    def protocol(self) -> Connection:
        return Impatient(self)


async def serve_impatiently(world: World, engine: Engine) -> None:
    await stay(world, await open_door(world, engine, ImpatientServer))


@scenario(hidden=True)
def planted_kafka_answers_as_they_come() -> Scenario:
    """Answers leave in the order in which they are made. This scenario must fail."""
    slow = {"store": CALM_LAKE["store"], "ledger": LedgerFaults(delay_ms_max=200)}
    return kafka(lake=slow, serving=serve_impatiently, habits=Habits(pause_s=0.01, records=(1, 5, 20)))


class StaleEnds(LakeEngine):
    """Says where streams end without asking whether there is more."""

    async def bounds_of(self, streams: Iterable[StreamId]) -> dict[StreamId, tuple[int, int] | RunnelError]:
        found: dict[StreamId, tuple[int, int] | RunnelError] = {}
        for stream in streams:
            known = self.shards.of_stream(stream).state.streams.get(stream)
            found[stream] = (known.start, known.end) if known is not None else NotThere(f"stream {stream}")
        return found


@scenario(hidden=True)
def planted_kafka_stale_ends() -> Scenario:
    """The end of a partition may miss what was acknowledged before. This scenario must fail."""
    return kafka(lake={"store": CALM_LAKE["store"], "engine_kind": StaleEnds}, habits=Habits(strays=1.0))


class LazySessions(Sessions):
    """Answers incremental requests with nothing: nobody said anything new, did they?"""

    def open(self, request: FetchRequest, *, by_id: bool, at: float) -> Opened:
        opened = super().open(request, by_id=by_id, at=at)
        return opened if opened.is_full else opened._replace(wanted=())


class LazyServer(KafkaServer):
    def __init__(self, broker: Broker) -> None:
        handlers = dict(all_handlers(broker))
        lazy = fetch.Fetch(broker)
        lazy.sessions.__class__ = LazySessions
        super().__init__(broker, handlers | {1: lazy})


async def serve_lazily(world: World, engine: Engine) -> None:
    await stay(world, await open_door(world, engine, LazyServer))


@scenario(hidden=True)
def planted_kafka_sessions_without_news() -> Scenario:
    """Sessions keep the news to themselves. This scenario must fail."""
    return kafka(lake=CALM_LAKE, serving=serve_lazily)
