"""Nodes talk over the simulated network with plain asyncio streams.

Clients send numbered frames of random size to servers, which answer each with its number and checksum. What must hold:
a connection's frames arrive whole and in order or the connection breaks; an answered frame was received by a server
that was alive then. It proves the network that brokers and Kafka clients will talk over.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from crc32c import crc32c

from runnel.world.simulation.faults import kills, one_way_cuts, partitions, pauses, resets
from runnel.world.simulation.harness import Simulation
from runnel.world.simulation.nodes import NodePlan, World
from runnel.world.simulation.scenario import Checker, Fault, Scenario, scenario

SERVERS = ("server1", "server2")
PORT = 7000
FRAMES_PER_CLIENT = 60
PATIENCE_S = 3.0
BROKEN = (OSError, asyncio.IncompleteReadError, TimeoutError)


@dataclass(slots=True)
class Ledger:
    """What was received and what was answered, seen from outside."""

    received: Counter[str] = field(default_factory=Counter)
    answered: dict[str, int] = field(default_factory=dict)


async def server(world: World) -> None:
    ledger: Ledger = world.state

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        expected = 0
        try:
            while True:
                head = await reader.readexactly(8)
                number, size = int.from_bytes(head[:4]), int.from_bytes(head[4:])
                body = await reader.readexactly(size)
                who = body[:20].decode().rstrip()
                if number != expected:
                    world.violate(f"frame {number} of {who} came where {expected} was due")
                expected += 1
                ledger.received[f"{who}/{crc32c(body)}"] += 1
                writer.write(number.to_bytes(4) + crc32c(body).to_bytes(4))
                await writer.drain()
        except BROKEN:
            writer.close()

    async with await asyncio.start_server(serve, None, PORT) as listening:
        world.note("listens")
        await listening.serve_forever()


async def client(world: World) -> None:
    ledger: Ledger = world.state
    me = world.node.ljust(20).encode()
    ledger.answered.setdefault(world.node, 0)
    while ledger.answered[world.node] < FRAMES_PER_CLIENT and world.working:
        try:
            async with asyncio.timeout(PATIENCE_S):
                reader, writer = await asyncio.open_connection(world.chance.choice(SERVERS), PORT)
        except BROKEN:
            await asyncio.sleep(world.chance.uniform(0.05, 0.5))
            continue
        try:
            await talk(world, reader, writer, me)
        except BROKEN as error:
            world.note("broke off", error=type(error).__name__)
        finally:
            writer.close()


async def talk(world: World, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, me: bytes) -> None:
    ledger: Ledger = world.state
    number = 0
    while ledger.answered[world.node] < FRAMES_PER_CLIENT and world.working:
        several = world.chance.randint(1, 4)
        sums = []
        for _ in range(several):
            body = me + world.chance.randbytes(world.chance.choice((0, 10, 1000, 100_000)))
            sums.append(crc32c(body))
            writer.write((number + len(sums) - 1).to_bytes(4) + len(body).to_bytes(4) + body)
        async with asyncio.timeout(PATIENCE_S):
            await writer.drain()
            for checksum in sums:
                answer = await reader.readexactly(8)
                if answer != number.to_bytes(4) + checksum.to_bytes(4):
                    world.violate(f"the answer to frame {number} belongs to another")
                if not ledger.received[f"{world.node}/{checksum}"]:
                    world.violate(f"frame {number} was answered and not received")
                number += 1
                ledger.answered[world.node] += 1
        world.note("answered", frames=several, total=ledger.answered[world.node])
        await asyncio.sleep(world.chance.uniform(0, 0.3))


async def somebody_was_answered(simulation: Simulation) -> None:
    ledger: Ledger = simulation.state
    assert sum(ledger.answered.values()) > 0, "not one frame was answered"


def talking(*faults: Fault) -> Scenario:
    return Scenario(
        setup=lambda _: Ledger(),
        nodes=(
            *(NodePlan(name=name, main=server) for name in SERVERS),
            *(NodePlan(name=f"client{number}", main=client, workload=True) for number in (1, 2)),
        ),
        faults=faults,
        checkers=(Checker(name="somebody was answered", at_end=somebody_was_answered),),
    )


@scenario
def messages_under_everything() -> Scenario:
    """Servers and clients are killed, paused, cut off from each other, and their connections reset."""
    return talking(kills(), pauses(for_ms=(10, 5000)), partitions(), one_way_cuts(), resets())
