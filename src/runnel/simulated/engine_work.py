"""Those who write to and read from a lake's brokers, through door.py.

A *writer* is an idempotent producer: it numbers its batches in each stream, keeps some of them under way on one
connection, and when anything goes wrong takes another connection, to any broker, and sends everything without an answer
again, in order. Now and then it sends again what was acknowledged long since, and must be told the same offsets.

A *reader* goes through the streams from their starts, asks any broker, and knows what was acknowledged before it asked.
It also reads at random places, which must hold what they held before.

Both end when they have done their share or the time is over, and all is acknowledged, all is read.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from runnel.codec.records import Record, build_batch, read_records
from runnel.metadata.producers import RECENT_MAX
from runnel.simulated.door import BROKEN, PORT, receive, send
from runnel.simulated.lake import Lake
from runnel.world.chance import Chance
from runnel.world.simulation.nodes import NodePlan, World

PATIENCE_S = 15.0


class TryAgain(Exception):
    """The broker could not do it; ask another."""


@dataclass(slots=True, eq=False)
class Batch:
    """Values for one stream, sealed, and sent until they are acknowledged."""

    stream: int
    values: list[bytes]
    body: bytes
    first: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """How a writer writes."""

    batches: int = 60
    under_way: int = 3
    pause_s: float = 0.3
    records: tuple[int, ...] = (1, 1, 2, 5)
    value_bytes: tuple[int, ...] = (0, 20, 300, 3000)
    repeats: float = 0.1
    """How often something acknowledged is sent again."""
    hops: float = 0.05
    """How often it goes to another broker of its own will, and leaves behind what is under way."""
    idempotent: bool = True


@dataclass(slots=True)
class Desk:
    """What a writer must not forget when it is killed."""

    producer: int = -1
    left: int = 0
    next_sequence: dict[int, int] = field(default_factory=dict)
    unacknowledged: deque[Batch] = field(default_factory=deque)
    recent: dict[int, deque[Batch]] = field(default_factory=dict)


def writers(
    count: int, brokers: Sequence[str], habits: Habits | None = None, *, mortal: bool = False
) -> tuple[NodePlan, ...]:
    style = habits or Habits()

    async def main(world: World) -> None:
        await Writer(world, brokers, style).work()

    return tuple(
        NodePlan(name=f"writer{number}", main=main, workload=True, mortal=mortal) for number in range(1, count + 1)
    )


def trimmers(count: int, brokers: Sequence[str]) -> tuple[NodePlan, ...]:
    async def main(world: World) -> None:
        await trim_along(world, brokers)

    return tuple(
        NodePlan(name=f"trimmer{number}", main=main, workload=True, mortal=False) for number in range(1, count + 1)
    )


def clerks(count: int, brokers: Sequence[str]) -> tuple[NodePlan, ...]:
    async def main(world: World) -> None:
        await make_and_remove_topics(world, brokers)

    return tuple(
        NodePlan(name=f"clerk{number}", main=main, workload=True, mortal=False) for number in range(1, count + 1)
    )


def readers(count: int, brokers: Sequence[str], *, bytes_max: int = 4000) -> tuple[NodePlan, ...]:
    async def main(world: World) -> None:
        await read_along(world, brokers, bytes_max)

    return tuple(
        NodePlan(name=f"reader{number}", main=main, workload=True, mortal=False) for number in range(1, count + 1)
    )


async def connect(chance: Chance, brokers: Sequence[str]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    async with asyncio.timeout(3):
        return await asyncio.open_connection(chance.choice(brokers), PORT)


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: dict[str, Any]) -> Any:
    """One question, one answer; `TryAgain` where the broker says that it cannot."""
    send(writer, head)
    async with asyncio.timeout(PATIENCE_S):
        answer, body = await receive(reader)
    if "error" in answer:
        raise TryAgain(answer["error"])
    return answer, body


class Writer:
    """One incarnation of a writer."""

    def __init__(self, world: World, brokers: Sequence[str], habits: Habits) -> None:
        self.world = world
        self.lake: Lake = world.state
        self.brokers = brokers
        self.habits = habits
        self.desk: Desk = self.lake.work.setdefault(world.node, Desk(left=habits.batches))

    async def work(self) -> None:
        desk = self.desk
        while (desk.left > 0 and self.world.working) or desk.unacknowledged:
            try:
                reader, writer = await connect(self.world.chance, self.brokers)
            except BROKEN:
                await asyncio.sleep(self.world.chance.uniform(0.05, 0.5))
                continue
            try:
                await self._talk(reader, writer)
            except (*BROKEN, TryAgain) as error:
                self.world.note("breaks off", why=str(error) or type(error).__name__)
                await asyncio.sleep(self.world.chance.uniform(0.05, 0.5))
            finally:
                writer.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Over one connection: first what has no answer yet, then more."""
        world, desk, chance = self.world, self.desk, self.world.chance
        if self.habits.idempotent and desk.producer < 0:
            desk.producer = (await ask(reader, writer, {"do": "number"}))[0]["producer"]
        asked: deque[Batch] = deque()
        for batch in desk.unacknowledged:
            self._send(writer, batch, asked)
        while True:
            while len(asked) < self.habits.under_way and desk.left > 0 and world.working:
                desk.left -= 1
                again = self._something_acknowledged() if chance.random() < self.habits.repeats else None
                if again is None:
                    again = self._new_batch()
                    desk.unacknowledged.append(again)
                self._send(writer, again, asked)
            if not asked:
                return
            async with asyncio.timeout(PATIENCE_S):
                await writer.drain()
                answer, _ = await receive(reader)
            self._learn(asked.popleft(), answer)
            if chance.random() < self.habits.hops:
                raise TryAgain("of its own will")
            await asyncio.sleep(chance.uniform(0, self.habits.pause_s))

    def _send(self, writer: asyncio.StreamWriter, batch: Batch, asked: deque[Batch]) -> None:
        send(writer, {"do": "append", "stream": batch.stream}, batch.body)
        asked.append(batch)

    def _new_batch(self) -> Batch:
        world, desk, habits, chance = self.world, self.desk, self.habits, self.world.chance
        stream = chance.choice(self.lake.all_streams())
        number = desk.next_sequence.get(stream, 0)
        count = chance.choice(habits.records)
        values = [
            f"{world.node}/{stream}/{number + at}/".encode() + chance.randbytes(chance.choice(habits.value_bytes))
            for at in range(count)
        ]
        desk.next_sequence[stream] = number + count
        self.lake.book.send(values, writer=world.node, stream=stream, number=number, once=habits.idempotent)
        now = world.clock.now_ms()
        epoch, sequence = (0, number) if habits.idempotent else (-1, -1)
        records = [Record(None, value, timestamp=now) for value in values]
        body = build_batch(records, producer=desk.producer, epoch=epoch, sequence=sequence)
        return Batch(stream, values, body)

    def _something_acknowledged(self) -> Batch | None:
        """One of the last batches of a stream: those must get their first offsets again."""
        recent = self.desk.recent
        # What is under way may push older batches out of what is remembered, before this one arrives.
        streams = [stream for stream in recent if all(batch.stream != stream for batch in self.desk.unacknowledged)]
        return self.world.chance.choice(list(recent[self.world.chance.choice(streams)])) if streams else None

    def _learn(self, batch: Batch, answer: dict[str, Any]) -> None:
        world, desk = self.world, self.desk
        if "error" in answer:
            raise TryAgain(answer["error"])
        verdict, first = answer["verdict"], answer["first"]
        if first < 0:
            world.violate(f"a batch for stream {batch.stream} was refused as {verdict.lower()}")
            return
        self.lake.book.told(batch.stream, first, batch.values)
        world.note("acknowledged", stream=batch.stream, first=first, records=len(batch.values), verdict=verdict)
        batch.first = first
        if batch in desk.unacknowledged:
            desk.unacknowledged.remove(batch)
            if self.habits.idempotent:
                desk.recent.setdefault(batch.stream, deque(maxlen=RECENT_MAX - 1)).append(batch)


async def read_along(world: World, brokers: Sequence[str], bytes_max: int) -> None:
    """Read every stream from its start to what was promised, again and again, until all writers have ended."""
    lake: Lake = world.state
    book, chance = lake.book, world.chance
    places: dict[int, int] = lake.work.setdefault(world.node, dict.fromkeys(lake.all_streams(), 0))

    def behind() -> list[int]:
        return [stream for stream, place in places.items() if place < book.promised(stream)]

    while world.working or behind():
        stream = chance.choice(behind() or list(places))
        try:
            reader, writer = await connect(chance, brokers)
        except BROKEN:
            await asyncio.sleep(chance.uniform(0.05, 0.5))
            continue
        try:
            for _ in range(chance.randint(1, 8)):
                somewhere = places[stream] and chance.random() < 0.2
                offset = chance.randrange(places[stream]) if somewhere else places[stream]
                following = await read_once(lake, reader, writer, stream, offset, bytes_max, wait=chance.random() < 0.3)
                if not somewhere:
                    places[stream] = following
                world.note("read", stream=stream, offset=offset, upto=following)
                await asyncio.sleep(chance.uniform(0, 0.1))
        except (*BROKEN, TryAgain) as error:
            world.note("breaks off", why=str(error) or type(error).__name__)
            await asyncio.sleep(chance.uniform(0.05, 0.5))
        finally:
            writer.close()


async def read_once(
    lake: Lake,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    stream: int,
    offset: int,
    bytes_max: int,
    *,
    wait: bool,
) -> int:
    """One read, held against the book; the offset to go on from."""
    floor = lake.book.promised(stream)
    send(writer, {"do": "read", "stream": stream, "offset": offset, "bytes_max": bytes_max, "wait": wait})
    async with asyncio.timeout(PATIENCE_S):
        answer, body = await receive(reader)
    if "error" in answer:
        if answer["error"] == "OffsetOutOfRange" and offset < lake.book.starts.get(stream, 0):
            return max(offset, lake.book.starts[stream])
        if answer["error"] in {"Unavailable", "Overloaded"}:
            raise TryAgain(answer["error"])
        raise AssertionError(f"a read of stream {stream} at {offset} was refused: {answer['says']}")
    records = [(each.offset, each.value or b"") for each in read_records(body)]
    return lake.book.saw(stream, offset, records, floor=floor)


async def insist(world: World, brokers: Sequence[str], head: dict[str, Any]) -> dict[str, Any]:
    """Ask one broker after another until one gives an answer: words of its own, or a refusal by name."""
    while True:
        await asyncio.sleep(world.chance.uniform(0.01, 0.3))
        try:
            reader, writer = await connect(world.chance, brokers)
        except BROKEN:
            continue
        try:
            send(writer, head)
            async with asyncio.timeout(PATIENCE_S):
                answer, _ = await receive(reader)
        except BROKEN:
            continue
        finally:
            writer.close()
        if answer.get("error") not in {"Unavailable", "Uncertain", "Overloaded"}:
            return answer


async def trim_along(world: World, brokers: Sequence[str]) -> None:
    """Let streams begin later and later."""
    lake: Lake = world.state
    while world.working:
        await asyncio.sleep(world.chance.uniform(0.1, 2.0))
        stream = world.chance.choice(lake.all_streams())
        start = world.chance.randint(0, lake.book.promised(stream))
        lake.book.truncated(stream, start)
        answer = await insist(world, brokers, {"do": "truncate", "stream": stream, "start": start})
        if answer.get("start", -1) < start:
            world.violate(f"stream {stream} was asked to begin at {start}: {answer}")
        world.note("truncated", stream=stream, start=answer.get("start"))


async def make_and_remove_topics(world: World, brokers: Sequence[str]) -> None:
    """Topics come and go; their names are free again at once."""
    round_number = 0
    while world.working:
        round_number += 1
        name = f"{world.node}-{round_number % 3}"
        made = await insist(world, brokers, {"do": "create", "name": name, "partitions": world.chance.randint(1, 5)})
        if made.get("error") not in {None, "AlreadyThere"}:
            world.violate(f"topic {name} was not made: {made}")
        world.note("topic made", name=name)
        await asyncio.sleep(world.chance.uniform(0, 0.3))
        gone = await insist(world, brokers, {"do": "delete", "name": name})
        if gone.get("error") not in {None, "NotThere"}:
            world.violate(f"topic {name} was not removed: {gone}")
        world.note("topic removed", name=name)
