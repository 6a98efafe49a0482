"""Feeds requests, bent requests and garbage to a Kafka door: `python tests/fuzz/kafka_fuzz.py --seconds 60 --seed 1`.

Each round is a connection that sends some frames: requests of all APIs in all versions, filled by chance with names and
batches that exist among those that do not; the same with bytes wrong; half frames, absurd lengths, noise; in pieces or at
once. Then it listens a little and leaves, politely or not. Meanwhile the server must not fail at anything (`request_failed`,
a dead task, an exception in a callback), what it answers to whole requests must decode, a client that behaves must be
served as ever, and when all have gone nothing of them is left: no connection, no memory, no task.
A failure prints its seed and the frames of its round; the same seed sends the same frames.
"""

# A program of its own that prints, lives by the real clock and brings its own seed:
# ruff: noqa: T201, TID251, TRY301

import argparse
import asyncio
import contextlib
import gc
import os
import random
import runpy
import struct
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from runnel.broker.broker import Broker
from runnel.broker.limits import Limits
from runnel.broker.server import KafkaServer
from runnel.codec.apis import APIS
from runnel.codec.compression import Compression
from runnel.codec.declare import Struct
from runnel.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from runnel.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from runnel.codec.records import Record, build_batch, read_records
from runnel.codec.shapes import shapes_of
from runnel.codec.wire import decode_response, encode_request
from runnel.engine import Engine, EngineLimits
from runnel.engine.membership import Presence
from runnel.ingest.gather import IngestLimits
from runnel.ingest.window import WindowBounds
from runnel.settings import Settings
from runnel.world.telemetry import capture

CODEC = runpy.run_path(str(Path(__file__).with_name("codec_fuzz.py")))
LIMITS = Limits(
    request_bytes_max=1 << 20,
    receive_bytes_max=1 << 20,
    fetch_wait_seconds_max=0.2,
    sessions_max=20,
    session_partitions_max=200,
)
KEPT = ("orders", "canary")
ROUNDS_BETWEEN_LOOKS = 200
GROWTH_BYTES_MAX = 96 << 20
SILENCE_S = 0.01


class Found(AssertionError):
    """The server did something that it must never do."""


class Fuzzer:
    """One server, and everything that comes at it."""

    def __init__(self, seed: int, engine: Engine, server: KafkaServer, address: tuple[str, int]) -> None:
        self.chance = random.Random(seed)
        self.engine = engine
        self.server = server
        self.address = address
        self.frames: list[bytes] = []
        self.answered = 0
        self.topic_id = engine.topics.get("orders").id
        self.canary_end = 0

    # --- what is sent

    def request(self) -> tuple[int, int, bytes, bool]:
        """Key, version, frame, and whether it is as it should be."""
        chance = self.chance
        key = chance.choice(list(self.server.broker.versions))
        first, last = self.server.broker.versions[key]
        version = chance.randint(first, last)
        kind = APIS[key].request()
        if not kind.version_first <= version <= kind.version_last:
            version = kind.version_last
        request = CODEC["filled"](kind, version, version >= kind.flexible_from, chance)
        self.make_likely(request)
        frame = b"".join(map(bytes, encode_request(key, version, chance.getrandbits(31), "fuzz", request)))
        if chance.random() < 0.4:
            return key, version, self.framed(CODEC["bent"](frame[4:], chance)), False
        return key, version, frame, True

    def framed(self, body: bytes) -> bytes:
        return struct.pack(">i", len(body)) + body

    def make_likely(self, told: Struct) -> None:
        """Put names, numbers and batches that mean something in the place of some of those that do not."""
        chance = self.chance
        for shape in shapes_of(type(told)):
            value = getattr(told, shape.name)
            if isinstance(value, Struct):
                self.make_likely(value)
            elif isinstance(value, list | tuple) and value and isinstance(value[0], Struct):
                for each in value:
                    self.make_likely(each)
            elif chance.random() < 0.6 and not shape.array and value is not None:
                setattr(told, shape.name, self.likely(shape.word, value))

    def likely(self, word: str, value: Any) -> Any:
        chance = self.chance
        match word:
            case "string":
                return chance.choice(["orders", "orders", "group", "member", "range", "consumer", "retention.ms"])
            case "uuid":
                return self.topic_id
            case "records":
                batch = self.batch()
                return CODEC["bent"](batch, chance) if chance.random() < 0.5 else batch
            case "bool" | "float64" | "bytes" | "":
                return value
            case _:
                return chance.choice([0, 0, 0, 1, 1, 2, 3, 5, 100, -1, -1, -2])

    def batch(self) -> bytes:
        chance = self.chance
        records = [Record(b"k", b"v" * chance.randint(0, 300), timestamp=chance.getrandbits(40))] * chance.randint(1, 4)
        idempotent = {"producer": chance.randint(0, 3), "epoch": 0, "sequence": chance.randint(0, 9)}
        return build_batch(
            records,
            compression=Compression(chance.randrange(5)),
            **(idempotent if chance.random() < 0.4 else {}),
        )

    def noise(self) -> bytes:
        chance = self.chance
        match chance.randrange(4):
            case 0:
                return struct.pack(">i", chance.choice([-1, 0, 3, 7, 1 << 20, (1 << 20) + 1, (1 << 31) - 1]))
            case 1:
                return chance.choice([b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00", b"\0" * 50])
            case 2:
                _, _, frame, _ = self.request()
                return frame[: chance.randint(0, len(frame))]
            case _:
                return self.framed(chance.randbytes(chance.randint(8, 300)))

    # --- rounds

    async def round(self) -> None:
        chance = self.chance
        self.frames = []
        expected = []
        for _ in range(chance.choice((1, 1, 2, 5))):
            if chance.random() < 0.15:
                self.frames.append(self.noise())
                break
            key, version, frame, whole = self.request()
            self.frames.append(frame)
            if not whole:
                expected = []
                break
            expected.append((key, version))
        data = b"".join(self.frames)
        reader, writer = await asyncio.open_connection(*self.address)
        try:
            if chance.random() < 0.3:
                at = 0
                while at < len(data):
                    step = chance.randint(1, 1 + len(data) // 3)
                    writer.write(data[at : at + step])
                    await asyncio.sleep(0)
                    at += step
            else:
                writer.write(data)
            await self.listen(reader, expected)
        except ConnectionError:
            pass
        finally:
            if chance.random() < 0.5:
                writer.transport.abort()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def listen(self, reader: asyncio.StreamReader, expected: list[tuple[int, int]]) -> None:
        """Answers until there is silence; those to whole requests are looked at."""
        with contextlib.suppress(TimeoutError, asyncio.IncompleteReadError):
            for at in range(10):
                async with asyncio.timeout(SILENCE_S):
                    size = struct.unpack(">i", await reader.readexactly(4))[0]
                    body = await reader.readexactly(size)
                self.answered += 1
                # acks=0 has no answer, so only the first can be told for certain.
                if at == 0 and expected and expected[0][0] != 0:
                    decode_response(*expected[0], body)

    async def canary(self) -> None:
        """Somebody who behaves is served as ever."""
        reader, writer = await asyncio.open_connection(*self.address)

        async def ask(request: Any, version: int) -> Any:
            writer.writelines(map(bytes, encode_request(request.api_key, version, 1, "canary", request)))
            async with asyncio.timeout(20):
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                return decode_response(request.api_key, version, await reader.readexactly(size))[1]

        try:
            value = b"alive %d" % self.canary_end
            data = [PartitionProduceData(index=0, records=build_batch([Record(None, value, timestamp=1)]))]
            topics = [TopicProduceData(name="canary", partition_data=data)]
            told = await ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), 9)
            (partition,) = told.responses[0].partition_responses
            if (partition.error_code, partition.base_offset) != (0, self.canary_end):
                raise Found(f"the canary was told {partition.error_code} {partition.error_message}")
            wanted = [FetchPartition(partition=0, fetch_offset=self.canary_end, partition_max_bytes=9999)]
            told = await ask(FetchRequest(topics=[FetchTopic(topic="canary", partitions=wanted)]), 12)
            found = [record.value for record in read_records(told.responses[0].partitions[0].records)]
            if found != [value]:
                raise Found(f"the canary read {found}, not {value!r}")
            self.canary_end += 1
        finally:
            writer.close()
            await writer.wait_closed()

    async def look(self) -> None:
        """Nobody is there: nothing is left of those who were."""
        for topic in self.engine.topics.all():
            if topic.name not in KEPT:
                await self.engine.topics.delete(topic)
        for _ in range(300):
            left = self.left_over()
            if not any(left.values()):
                return
            await asyncio.sleep(0.02)
        raise Found(f"left over: {left}")

    def left_over(self) -> dict[str, int]:
        server = self.server
        server.broker.unsent.has_room()
        tasks = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith(("fetch", "kafka api"))]
        return {
            "connections": server.connections,
            "receive bytes": server.arenas.private_bytes,
            "append bytes": self.engine.ingest.inflight_bytes,
            "tasks": len(tasks),
        }


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


async def run(seed: int, seconds: float, rounds: int | None) -> dict[str, int]:
    failures: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, facts: failures.append(repr(facts)))
    limits = EngineLimits(
        ingest=IngestLimits(window=WindowBounds(age_max=0.005)), cache_bytes_max=8 << 20, free_blocks_bytes_max=4 << 20
    )
    done = 0
    grown = warm = 0
    async with Engine(limits=limits, shards=4, presence=Presence()) as engine:
        with capture("error") as events:
            server = KafkaServer(Broker.of(engine, Settings(), LIMITS))
            address = await server.start("127.0.0.1", 0)
            server.broker.routing.announce(*address)
            await engine.topics.create("orders", 3)
            await engine.topics.create("canary", 1, {"max.message.bytes": "100000", "retention.ms": "-1"})
            fuzzer = Fuzzer(seed, engine, server, address)
            until = time.monotonic() + seconds
            try:
                while time.monotonic() < until and done != rounds:
                    await fuzzer.round()
                    done += 1
                    bad = [event for event in events if event[2] in ("request_failed", "task_died")]
                    if failures or bad:
                        raise Found(f"{failures or bad}")
                    if done % ROUNDS_BETWEEN_LOOKS == 0:
                        await fuzzer.canary()
                        await fuzzer.look()
                        events.clear()
                        gc.collect()
                        warm = warm or (resident() if done >= 10 * ROUNDS_BETWEEN_LOOKS else 0)
                        grown = resident() - warm if warm else 0
                        if grown > GROWTH_BYTES_MAX:
                            raise Found(f"{grown} bytes more than after the first rounds")
                await fuzzer.canary()
                await fuzzer.look()
            except BaseException:
                print(f"seed {seed}, round {done}: {[frame.hex() for frame in fuzzer.frames]}", file=sys.stderr)
                raise
            finally:
                await server.drain(5)
    return {"seed": seed, "rounds": done, "answered": fuzzer.answered, "grown_bytes": grown}


def fuzz(seed: int, seconds: float, rounds: int | None = None) -> dict[str, int]:
    """Runs until the time is over or the rounds are done."""
    return asyncio.run(run(seed, seconds, rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    told = parser.parse_args()
    seed = random.randrange(1 << 32) if told.seed is None else told.seed
    print(f"seed {seed}", flush=True)
    print(fuzz(seed, told.seconds))


if __name__ == "__main__":
    main()
