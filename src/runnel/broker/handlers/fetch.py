"""Fetch (1): records from offsets on.

    resolve    which partitions: those of the request, or of the session it belongs to (sessions.py)
    look       at the ledger's tail, for partitions that seem to have nothing: what was acknowledged anywhere is found
    take       in this turn what is in memory; by a task what has to come from the store
    wait       when that is less than the client wants at least: until enough has come, or it has waited long enough

A waiting request is a few dict entries: no task, no future, no timer of its own. Records leave sealed as they came.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from runnel.broker.broker import Broker
from runnel.broker.call import Call, Handler
from runnel.broker.problems import code_of
from runnel.broker.routing import epoch_error
from runnel.broker.sessions import Session, Sessions, Wanted
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from runnel.errors import NotThere, RunnelError
from runnel.model import StreamId
from runnel.read.reader import Ask, Read

BY_ID_FROM = 13
READ_COMMITTED = 1
NO_ROOM_PAUSE_S = 0.1
"""While slow readers hold all the memory there is for answers, a request waits at least so long for less."""


def handlers(broker: Broker) -> Mapping[int, Handler]:
    return {1: Fetch(broker)}


class Fetch:
    """The handler, its sessions, and the requests that wait."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        limits, chance = broker.limits, broker.world.chance
        self.sessions = Sessions(limits.sessions_max, limits.session_partitions_max, lambda: chance.getrandbits(31))
        self.waiting: dict[Fetching, None] = {}
        broker.when_draining.append(self._answer_all)
        metrics = broker.world.metrics
        metrics.gauge("runnel_kafka_fetch_sessions", "Fetch sessions.", read=lambda: len(self.sessions))
        metrics.gauge("runnel_kafka_fetches_waiting", "Fetches that wait for records.", read=lambda: len(self.waiting))

    def __call__(self, call: Call) -> None:
        by_id = call.version >= BY_ID_FROM
        opened = self.sessions.open(call.request, by_id=by_id, at=self.broker.world.clock.monotonic())
        if opened.error:
            call.answer(FetchResponse(error_code=opened.error))
            return
        fetching = Fetching(self, call, opened.session, is_full=opened.is_full)
        fetching.resolve(opened.wanted, by_id=by_id)
        fetching.begin()

    def _answer_all(self) -> None:
        for fetching in tuple(self.waiting):
            fetching.answer()


class Fetching:
    """One request on its way."""

    __slots__ = (
        "_alarm", "_asks", "_available", "_broker", "_call", "_deadline", "_fetch", "_full", "_hasty", "_left",
        "_looking_again", "_places", "_reads", "_session", "_told", "_watched",
    )  # fmt: skip

    def __init__(self, fetch: Fetch, call: Call, session: Session | None, *, is_full: bool) -> None:
        limits = fetch.broker.limits
        wait = min(max(call.request.max_wait_ms, 0) / 1000, limits.fetch_wait_seconds_max)
        self._fetch = fetch
        self._broker = fetch.broker
        self._call = call
        self._session = session
        self._full = is_full
        self._told: list[tuple[Wanted, PartitionData]] = []
        self._asks: list[Ask] = []
        self._places: list[tuple[Wanted, PartitionData]] = []
        """What each ask is for."""
        self._reads: Sequence[Read] = ()
        self._hasty = wait <= 0
        """Whether the client wants an answer now, whatever it is."""
        self._deadline: float = asyncio.get_running_loop().time() + wait
        self._left = max(1, min(call.request.max_bytes, limits.fetch_bytes_max))
        self._available: dict[StreamId, int] = {}
        self._watched: list[Ask] = []
        self._alarm: int | None = None
        self._looking_again = False

    # --- resolve

    def resolve(self, wanted: Iterable[Wanted], *, by_id: bool) -> None:
        """Find the stream of each partition; what cannot be read makes the whole answer hasty, as in Kafka."""
        catalog = self._broker.catalog
        leaders = self._leaders_elsewhere()
        for each in wanted:
            data = PartitionData(partition_index=each.index, high_watermark=-1, records=b"")
            if self._call.request.isolation_level != READ_COMMITTED:
                data.aborted_transactions = None
            self._told.append((each, data))
            if each.stream is None:
                topic, missing = catalog.find(each.topic, each.topic_id, by_id=by_id)
                if topic is None:
                    data.error_code = missing
                    self._hasty = True
                    continue
                each.stream = catalog.stream(topic, each.index)
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if each.stream is None else epoch_error(each.epoch)
            if code is not None or each.stream is None:
                data.error_code = code or ErrorCode.NONE
                self._hasty = True
            elif leaders:
                data.preferred_read_replica = leaders[1 + each.stream % (len(leaders) - 1)]
                self._tell(data, self._broker.engine.reader.nothing(Ask(each.stream, each.offset, 0)))
                self._hasty = True
            else:
                self._asks.append(Ask(each.stream, each.offset, each.size_max))
                self._places.append((each, data))

    def _leaders_elsewhere(self) -> list[int] | None:
        """Whom to send a client to that asks from a rack of its own, with brokers there, and came here (KIP-392)."""
        rack, routing = self._call.request.rack_id, self._broker.routing
        if not rack or rack == routing.own.zone or all(endpoint.zone != rack for endpoint in routing.brokers()):
            return None
        return routing.leaders(rack)

    # --- look, take

    def begin(self) -> None:
        if not self._asks:
            self.answer()
        elif self._broker.engine.reader.must_look(self._asks):
            self._bring_soon(fresh=True)
        else:
            self._take()

    def _take(self) -> None:
        """Answer in this turn if what is wanted is in memory; else let a task bring it."""
        if self._call.is_gone or self._call.answered:
            return
        if not self._broker.unsent.has_room():
            self._wait_for_room()
            return
        reads = self._broker.engine.reader.at_hand(self._asks, bytes_max=self._left)
        if reads is None:
            self._bring_soon(fresh=False)
        else:
            self._judge(reads)

    def _bring_soon(self, *, fresh: bool) -> None:
        self._call.task = self._broker.world.tasks.spawn(self._bring(fresh=fresh), name="fetch")

    async def _bring(self, *, fresh: bool) -> None:
        """What needs the ledger or the store."""
        reader, unsent = self._broker.engine.reader, self._broker.unsent
        if not unsent.has_room():
            self._wait_for_room()
            return
        coming = min(self._left, sum(max(0, reader.available(ask)) for ask in self._asks))
        unsent.coming += coming
        try:
            reads = await self._broker.engine.read_many(self._asks, fresh=fresh, bytes_max=self._left)
        except RunnelError as error:
            self._fail(error)
        else:
            self._judge(reads)
        finally:
            unsent.coming -= coming

    def _judge(self, reads: Sequence[Read]) -> None:
        """Answer, or wait for more."""
        if self._call.is_gone or self._call.answered:
            return
        self._reads = reads
        size = sum([len(read.data) for read in reads])
        wanted = min(self._call.request.min_bytes, self._left)
        if self._hasty or size >= wanted or any(read.error is not None for read in reads) or self._time_left() <= 0:
            self.answer()
        else:
            self._wait(wanted)

    # --- wait

    def _time_left(self) -> float:
        return float(self._deadline - asyncio.get_running_loop().time())

    def _wait(self, wanted: int) -> None:
        """Be called when something happens to one of the streams, or the time is over."""
        engine = self._broker.engine
        available = self._available = {ask.stream: engine.reader.available(ask) for ask in self._asks}
        has_come = min(available.values()) < 0 or sum(available.values()) >= wanted
        if has_come and not self._looking_again:
            # While the store was asked, more came. It may be a wrong guess: then the second look waits.
            self._looking_again = True
            asyncio.get_running_loop().call_soon(self._take)
            return
        self._looking_again = False
        for ask in self._asks:
            engine.shards.of_stream(ask.stream).watch(ask.stream, self._something_happened)
        self._watched = self._asks
        self._enroll(self._time_left())

    def _wait_for_room(self) -> None:
        """Others hold all the memory for answers: this one waits its time, then takes what there is room for."""
        if self._alarm is None and (self._time_left() > 0 or not self._reads):
            self._reads = [self._broker.engine.reader.nothing(ask) for ask in self._asks]
            self._enroll(max(NO_ROOM_PAUSE_S, self._time_left()))
        else:
            self.answer()

    def _enroll(self, seconds: float) -> None:
        self._alarm = self._broker.alarms.set(seconds, self._time_is_over)
        self._call.when_gone = self._leave
        self._fetch.waiting[self] = None

    def _leave(self) -> None:
        """Wait no longer."""
        for ask in self._watched:
            self._broker.engine.shards.of_stream(ask.stream).unwatch(ask.stream, self._something_happened)
        self._watched = []
        if self._alarm is not None:
            self._broker.alarms.cancel(self._alarm, self._time_is_over)
            self._alarm = None
        self._call.when_gone = None
        self._fetch.waiting.pop(self, None)

    def _something_happened(self, stream: int) -> None:
        """An entry touched one of the streams: is it enough now?"""
        available = self._available
        for ask in self._asks:
            if ask.stream == stream:
                available[ask.stream] = self._broker.engine.reader.available(ask)
        if min(available.values()) < 0 or sum(available.values()) >= min(self._call.request.min_bytes, self._left):
            self._leave()
            # At the end of the turn: an object brings records for many shards.
            asyncio.get_running_loop().call_soon(self._take)

    def _time_is_over(self) -> None:
        self._alarm = None
        self._leave()
        self._hasty = True
        self._take()

    # --- answer

    def answer(self) -> None:
        """Answer with what there is."""
        self._leave()
        if self._call.is_gone or self._call.answered:
            return
        for (wanted, data), read in zip(self._places, self._reads, strict=False):
            self._tell(data, read)
            if isinstance(read.error, NotThere):
                wanted.stream = None  # deleted: another topic may have its name next time
        self._send()

    def _tell(self, data: PartitionData, read: Read) -> None:
        data.high_watermark = data.last_stable_offset = read.end
        data.log_start_offset = read.start
        data.records = read.data
        if read.error is not None:
            data.error_code = code_of(read.error)

    def _fail(self, error: RunnelError) -> None:
        for _, data in self._places:
            data.error_code = code_of(error)
        self._reads = ()
        self.answer()

    def _send(self) -> None:
        session = self._session
        told = self._told
        if session is not None:
            # A full answer tells everything, and what it told is noted all the same.
            news = [(wanted, data) for wanted, data in told if wanted.is_news(data)]
            for wanted, data in news:
                if data.records:
                    session.to_the_end(wanted)
            if not self._full:
                told = news
        number = session.id if session is not None else 0
        self._call.answer(FetchResponse(session_id=number, responses=_by_topic(told)))


def _by_topic(told: Iterable[tuple[Wanted, PartitionData]]) -> list[FetchableTopicResponse]:
    """Neighbours of one topic go together."""
    topics: list[FetchableTopicResponse] = []
    partitions: list[PartitionData] = []
    last: tuple[str, bytes] | None = None
    for wanted, data in told:
        topic = wanted.topic, wanted.topic_id
        if topic != last:
            partitions = []
            topics.append(FetchableTopicResponse(topic=wanted.topic, topic_id=wanted.topic_id, partitions=partitions))
            last = topic
        partitions.append(data)
    return topics
