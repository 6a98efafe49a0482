"""The Kafka door in a broker of a lake, and the clients that come to it.

A *producer* is idempotent and has a lane for each partition, or one for all: a connection to whom it is told is the
leader, several requests under way, and everything without an answer sent again, in order, when anything goes wrong.
What is under way at the old leader may still arrive there while the retry goes to another.

A *fetcher* reads all partitions with fetch sessions and long polls from any broker, and asks for their ends; it knows
what was acknowledged before it asked. A *cutter* lets partitions begin later (DeleteRecords).

All of them speak Kafka: bytes of the real codec over the simulated network.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from runnel.broker.broker import Broker
from runnel.broker.limits import Limits
from runnel.broker.server import KafkaServer
from runnel.codec.declare import Message
from runnel.codec.errors import ErrorCode
from runnel.codec.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from runnel.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from runnel.codec.messages.init_producer_id import InitProducerIdRequest
from runnel.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from runnel.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from runnel.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from runnel.codec.records import Record, build_batch, read_records
from runnel.codec.wire import decode_response, encode_request
from runnel.engine import Engine
from runnel.settings import Settings
from runnel.simulated.lake import Lake
from runnel.world.simulation.nodes import NodePlan, World

PORT = 9092
PATIENCE_S = 15.0
BATCHES_MIN = 3
BROKEN = (OSError, asyncio.IncompleteReadError, TimeoutError)
LIMITS = Limits(
    request_bytes_max=1 << 20,
    receive_bytes_max=1 << 18,
    fetch_bytes_max=1 << 16,
    unsent_bytes_max=1 << 17,
    sessions_max=4,
    session_partitions_max=16,
    pipeline_max=8,
)
"""Every bound is met in a run of seconds."""
LATER = {
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What clients take as a reason to try again, perhaps elsewhere."""
SESSION_OVER = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
}


class TryAgain(Exception):
    """The broker could not do it; ask another."""


async def serve_kafka(world: World, engine: Engine) -> None:
    """Open the door in a broker and stay."""
    await stay(world, await open_door(world, engine))


async def stay(world: World, server: KafkaServer) -> None:
    """Never return. The lake keeps what is waited for: a loop holds its tasks by what will wake them, and by no more."""
    lake: Lake = world.state
    never = lake.work[f"door of {world.node}"] = (server, asyncio.Event())
    await never[1].wait()


async def open_door(world: World, engine: Engine, kind: type[KafkaServer] = KafkaServer) -> KafkaServer:
    broker = Broker.of(engine, Settings(), LIMITS)
    server = kind(broker)
    await server.start(world.node, PORT)
    broker.routing.announce(world.node, PORT)
    if engine.membership is not None:
        await engine.membership.tell({"kafka": f"{world.node}:{PORT}"})
    return server


# ---- talking -------------------------------------------------------------------------------------------------------


class Talk:
    """One connection to one broker: requests out, answers in their order."""

    patience_s = PATIENCE_S

    def __init__(self, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._name = name
        self._reader = reader
        self._writer = writer
        self._asked: deque[tuple[int, int, int]] = deque()
        self._number = 0

    @classmethod
    async def to(cls, world: World, broker: str) -> "Talk":
        async with asyncio.timeout(3):
            return cls(world.node, *await asyncio.open_connection(broker, PORT))

    def send(self, request: Message, version: int) -> None:
        self._number += 1
        key = type(request).api_key
        assert key is not None, "requests have a key"
        self._asked.append((key, version, self._number))
        for part in encode_request(key, version, self._number, self._name, request):
            self._writer.write(bytes(part))

    async def receive(self) -> Any:
        key, version, number = self._asked.popleft()
        async with asyncio.timeout(self.patience_s):
            size = int.from_bytes(await self._reader.readexactly(4))
            correlation, response = decode_response(key, version, await self._reader.readexactly(size))
        assert correlation == number, f"answer {correlation} came in the place of {number}"
        return response

    async def ask(self, request: Message, version: int) -> Any:
        self.send(request, version)
        return await self.receive()

    def close(self) -> None:
        self._writer.close()


async def leaders_of(world: World, topic: str, brokers: Sequence[str]) -> dict[int, str]:
    """What some broker says of who leads."""
    talk = await Talk.to(world, world.chance.choice(brokers))
    try:
        told = await talk.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 9)
    finally:
        talk.close()
    if told.topics[0].error_code:
        raise TryAgain(f"metadata {told.topics[0].error_code}")
    hosts = {broker.node_id: broker.host for broker in told.brokers}
    leaders = {each.partition_index: each.leader_id for each in told.topics[0].partitions}
    assert set(leaders.values()) <= set(hosts), f"leaders {leaders} are not among the brokers {hosts}"
    return {partition: hosts[leader] for partition, leader in leaders.items()}


# ---- producers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a producer writes."""

    batches: int = 25
    """In each partition, about."""
    under_way: int = 5
    pause_s: float = 0.25
    records: tuple[int, ...] = (1, 1, 2, 5)
    value_bytes: tuple[int, ...] = (0, 20, 300, 3000)
    strays: float = 0.2
    """How often it goes to another broker than the leader."""


@dataclass(slots=True, eq=False)
class Batch:
    partition: int
    values: list[bytes]
    body: bytes


@dataclass(slots=True)
class Lane:
    """What a producer has to do in some partitions, over one connection."""

    partitions: list[int]
    producer: int
    left: int
    sequences: dict[int, int] = field(default_factory=dict)
    unacknowledged: deque[Batch] = field(default_factory=deque)
    made: int = 0

    def goes_on(self, *, working: bool) -> bool:
        """Whether there is more to send. A little is sent in any case, if need be when all is calm again."""
        return self.left > 0 and (working or self.made < BATCHES_MIN)

    def is_first(self, batch: Batch) -> bool:
        """Whether nothing without an answer is before it in its partition."""
        return batch is next(each for each in self.unacknowledged if each.partition == batch.partition)


class Producer:
    """An idempotent producer of a topic."""

    def __init__(self, world: World, topic: str, brokers: Sequence[str], habits: Habits) -> None:
        self.world = world
        self.lake: Lake = world.state
        self.topic = topic
        self.brokers = brokers
        self.habits = habits

    async def work(self) -> None:
        number = await self._draw_number()
        partitions = list(range(len(self.lake.streams[self.topic])))
        dealt = [partitions] if self.world.chance.random() < 0.5 else [[each] for each in partitions]
        lanes = [Lane(some, number, self.habits.batches * len(some)) for some in dealt]
        try:
            async with asyncio.TaskGroup() as group:
                for lane in lanes:
                    group.create_task(self._drive(lane))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _draw_number(self) -> int:
        while True:
            try:
                talk = await Talk.to(self.world, self.world.chance.choice(self.brokers))
                try:
                    told = await talk.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4)
                finally:
                    talk.close()
            except BROKEN:
                await self._pause()
                continue
            if not told.error_code:
                return int(told.producer_id)
            assert told.error_code in LATER, f"a producer id was refused with {told.error_code}"
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self.world.chance.uniform(0.05, 0.5))

    async def _drive(self, lane: Lane) -> None:
        world = self.world
        while lane.goes_on(working=world.working) or lane.unacknowledged:
            try:
                broker = (await leaders_of(world, self.topic, self.brokers))[lane.partitions[0]]
                if world.chance.random() < self.habits.strays:
                    broker = world.chance.choice(self.brokers)
                talk = await Talk.to(world, broker)
                try:
                    await self._talk(talk, lane)
                finally:
                    talk.close()
            except (*BROKEN, TryAgain) as error:
                world.note("breaks off", partition=lane.partitions[0], why=str(error) or type(error).__name__)
                await self._pause()

    async def _talk(self, talk: Talk, lane: Lane) -> None:
        """Over one connection: first what has no answer yet, then more."""
        asked: deque[Batch] = deque()
        for batch in list(lane.unacknowledged):
            self._send(talk, batch, asked)
        while True:
            while len(asked) < self.habits.under_way and lane.goes_on(working=self.world.working):
                lane.left -= 1
                lane.made += 1
                batch = self._new_batch(lane)
                lane.unacknowledged.append(batch)
                self._send(talk, batch, asked)
            if not asked:
                return
            self._learn(lane, asked.popleft(), await talk.receive())
            await asyncio.sleep(self.world.chance.uniform(0, self.habits.pause_s))

    def _send(self, talk: Talk, batch: Batch, asked: deque[Batch]) -> None:
        data = [PartitionProduceData(index=batch.partition, records=batch.body)]
        topic = TopicProduceData(name=self.topic, partition_data=data)
        talk.send(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]), 9)
        asked.append(batch)

    def _new_batch(self, lane: Lane) -> Batch:
        chance = self.world.chance
        partition = chance.choice(lane.partitions)
        stream, sequence = self.lake.streams[self.topic][partition], lane.sequences.get(partition, 0)
        values: list[bytes] = []
        for _ in range(chance.choice(self.habits.records)):
            name = f"{self.world.node} {partition} {sequence + len(values)} "
            values.append(name.encode() + b"x" * chance.choice(self.habits.value_bytes))
        self.lake.book.send(values, writer=self.world.node, stream=stream, number=sequence)
        records = [Record(None, value, timestamp=self.world.clock.now_ms()) for value in values]
        body = build_batch(records, producer=lane.producer, epoch=0, sequence=sequence)
        lane.sequences[partition] = sequence + len(values)
        return Batch(partition, values, body)

    def _learn(self, lane: Lane, batch: Batch, answer: Any) -> None:
        (told,) = answer.responses[0].partition_responses
        stream, code = self.lake.streams[self.topic][batch.partition], told.error_code
        assert told.index == batch.partition, f"partition {told.index} was answered in the place of {batch.partition}"
        if code in LATER or (code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not lane.is_first(batch)):
            # As Kafka's clients do: what follows a batch that has failed is sent again behind it.
            raise TryAgain(ErrorCode(code).name)
        if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self.world.note("is there already", stream=stream)
        elif code:
            self.world.violate(
                f"a batch for {self.topic}-{batch.partition} was refused with {code}: {told.error_message}"
            )
            raise TryAgain(f"refused with {code}")
        else:
            self.lake.book.told(stream, told.base_offset, batch.values)
            self.world.note("acknowledged", stream=stream, first=told.base_offset, records=len(batch.values))
        lane.unacknowledged.remove(batch)


# ---- fetchers ------------------------------------------------------------------------------------------------------


class Fetcher:
    """Reads all partitions of a topic from their starts to what was promised, until all producers have ended."""

    def __init__(self, world: World, topic: str, brokers: Sequence[str]) -> None:
        self.world = world
        self.lake: Lake = world.state
        self.topic = topic
        self.brokers = brokers
        self.streams = dict(enumerate(self.lake.streams[topic]))
        self.places: dict[int, int] = dict.fromkeys(self.streams, 0)
        self.rounds = 0

    async def work(self) -> None:
        world, book = self.world, self.lake.book
        streams = self.streams.items()
        while (
            world.working or not self.rounds or any(self.places[at] < book.promised(stream) for at, stream in streams)
        ):
            try:
                talk = await Talk.to(world, world.chance.choice(self.brokers))
                try:
                    await self._look_at_ends(talk)
                    await self._talk(talk)
                finally:
                    talk.close()
            except (*BROKEN, TryAgain) as error:
                world.note("breaks off", why=str(error) or type(error).__name__)
                await asyncio.sleep(world.chance.uniform(0.05, 0.5))

    async def _look_at_ends(self, talk: Talk) -> None:
        floors = {at: self.lake.book.promised(stream) for at, stream in self.streams.items()}
        wanted = [ListOffsetsPartition(partition_index=at, timestamp=-1) for at in self.streams]
        told = await talk.ask(
            ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=self.topic, partitions=wanted)]), 7
        )
        for each in told.topics[0].partitions:
            if each.error_code in LATER:
                raise TryAgain(ErrorCode(each.error_code).name)
            assert not each.error_code, f"the end of {self.topic}-{each.partition_index}: {each.error_code}"
            floor = floors[each.partition_index]
            assert each.offset >= floor, f"{self.topic}-{each.partition_index} ends at {each.offset}, not at {floor}"

    async def _talk(self, talk: Talk) -> None:
        """Some rounds of one session."""
        session = epoch = 0
        sent: dict[int, int] = {}
        size_max = self.world.chance.choice((500, 4000, 60_000))
        for _ in range(self.world.chance.randint(1, 12)):
            changed = {at: place for at, place in self.places.items() if sent.get(at) != place}
            sent |= changed
            request = FetchRequest(
                max_wait_ms=self.world.chance.choice((0, 100, 1000)),
                min_bytes=self.world.chance.choice((1, 1, 2000)),
                max_bytes=2 * size_max,
                session_id=session,
                session_epoch=epoch,
                topics=[
                    FetchTopic(
                        topic=self.topic,
                        partitions=[
                            FetchPartition(partition=at, fetch_offset=place, partition_max_bytes=size_max)
                            for at, place in changed.items()
                        ],
                    )
                ]
                if changed
                else [],
            )
            floors = {at: self.lake.book.promised(stream) for at, stream in self.streams.items()}
            answer = await talk.ask(request, 12)
            if answer.error_code in SESSION_OVER or answer.error_code in LATER:
                raise TryAgain(ErrorCode(answer.error_code).name)
            assert not answer.error_code, f"a fetch was refused with {answer.error_code}"
            session = answer.session_id
            epoch = epoch + 1 if session else 0
            if not session:
                sent = {}
            self._take(answer, floors)
            self.rounds += 1
            await asyncio.sleep(self.world.chance.uniform(0, 0.1))

    def _take(self, answer: Any, floors: dict[int, int]) -> None:
        book = self.lake.book
        found = {each.partition_index: each for topic in answer.responses for each in topic.partitions}
        came = {}
        for at, each in found.items():
            stream = self.streams[at]
            if each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self.places[at] < book.starts.get(stream, 0):
                self.places[at] = book.starts[stream]
            elif each.error_code in LATER:
                raise TryAgain(ErrorCode(each.error_code).name)
            else:
                assert not each.error_code, f"{self.topic}-{at} at {self.places[at]}: {each.error_code}"
                records = [(record.offset, record.value or b"") for record in read_records(each.records or b"")]
                if records:
                    came[at] = records
        skipped = any(each.error_code for each in found.values())
        for at, stream in self.streams.items():
            # Whoever got nothing may have stood behind others; where nobody got anything, there was nothing to get.
            floor = 0 if came or skipped else floors[at]
            self.places[at] = book.saw(stream, self.places[at], came.get(at, ()), floor=floor)
        if came:
            self.world.note("fetched", upto=",".join(str(place) for place in self.places.values()))


async def cut_off(world: World, topic: str, brokers: Sequence[str]) -> None:
    """Let partitions begin later now and then, in the middle of what was read and written."""
    lake: Lake = world.state
    while world.working:
        await asyncio.sleep(world.chance.uniform(0.2, 2.0))
        partition = world.chance.randrange(len(lake.streams[topic]))
        stream = lake.streams[topic][partition]
        end = lake.book.promised(stream)
        start = world.chance.randint(lake.book.starts.get(stream, 0), end) if end else 0
        lake.book.truncated(stream, start)
        wanted = DeleteRecordsPartition(partition_index=partition, offset=start)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=1000)
        try:
            talk = await Talk.to(world, world.chance.choice(brokers))
            try:
                answer = await talk.ask(request, 2)
            finally:
                talk.close()
        except BROKEN:
            continue
        (told,) = answer.topics[0].partitions
        assert told.error_code in {0, *LATER}, f"{topic}-{partition} could not begin at {start}: {told.error_code}"
        if not told.error_code:
            assert told.low_watermark >= start, f"{topic}-{partition} begins at {told.low_watermark}, not at {start}"
            world.note("cut off", stream=stream, start=told.low_watermark)


# ---- as nodes ------------------------------------------------------------------------------------------------------


def producers(count: int, topic: str, brokers: Sequence[str], habits: Habits | None = None) -> tuple[NodePlan, ...]:
    async def main(world: World) -> None:
        await Producer(world, topic, brokers, habits or Habits()).work()

    return _workloads("producer", count, main)


def fetchers(count: int, topic: str, brokers: Sequence[str]) -> tuple[NodePlan, ...]:
    async def main(world: World) -> None:
        await Fetcher(world, topic, brokers).work()

    return _workloads("fetcher", count, main)


def cutters(count: int, topic: str, brokers: Sequence[str]) -> tuple[NodePlan, ...]:
    async def main(world: World) -> None:
        await cut_off(world, topic, brokers)

    return _workloads("cutter", count, main)


def _workloads(name: str, count: int, main: Any) -> tuple[NodePlan, ...]:
    return tuple(
        NodePlan(name=f"{name}{number}", main=main, workload=True, mortal=False) for number in range(1, count + 1)
    )
