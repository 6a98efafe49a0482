"""Consumer groups: heartbeats, commits and fetches of offsets per second, and what each costs the broker.

bench/run.py run kafka/groups -- [--groups 200] [--seconds 5] [--peers runnel]

One member per group and connection, all in one driver; the driver's own speed bounds what is shown per second, so look
at the broker's processor time. Commits name ten partitions.
"""

import argparse
import asyncio
import json
import statistics
import struct
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

from _clients import make_topic
from _peers import Peer, started

from runnel.codec.errors import ErrorCode
from runnel.codec.messages.find_coordinator import FindCoordinatorRequest
from runnel.codec.messages.heartbeat import HeartbeatRequest
from runnel.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from runnel.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from runnel.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from runnel.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from runnel.codec.wire import decode_response, encode_request

PARTITIONS = 10


class Member:
    def __init__(self, group: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.group, self.reader, self.writer = group, reader, writer
        self.member, self.generation, self.offset = "", -1, 0

    async def ask(self, request: Any, version: int) -> Any:
        self.writer.writelines(bytes(part) for part in encode_request(request.api_key, version, 1, "bench", request))
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return decode_response(request.api_key, version, await self.reader.readexactly(size))[1]

    async def join(self) -> None:
        find = FindCoordinatorRequest(coordinator_keys=[self.group])
        while (await self.ask(find, 4)).coordinators[0].error_code:  # noqa: ASYNC110  a server far away
            await asyncio.sleep(0.2)  # Kafka makes its offsets topic when it is first asked
        while True:
            told = await self.ask(
                JoinGroupRequest(
                    group_id=self.group,
                    session_timeout_ms=60_000,
                    rebalance_timeout_ms=60_000,
                    member_id=self.member,
                    protocol_type="consumer",
                    protocols=[JoinGroupRequestProtocol(name="range", metadata=b"x" * 50)],
                ),
                9,
            )
            self.member = told.member_id or self.member
            if not told.error_code:
                break
            if told.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                await asyncio.sleep(0.2)
        self.generation = told.generation_id
        plan = [SyncGroupRequestAssignment(member_id=self.member, assignment=b"x" * 50)]
        told = await self.ask(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member,
                protocol_type="consumer",
                protocol_name="range",
                assignments=plan,
            ),
            5,
        )
        assert not told.error_code, told

    async def heartbeat(self) -> None:
        ask = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member)
        assert not (await self.ask(ask, 4)).error_code

    async def commit(self) -> None:
        self.offset += 1
        rows = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=self.offset)
            for index in range(PARTITIONS)
        ]
        told = await self.ask(
            OffsetCommitRequest(
                group_id=self.group,
                generation_id_or_member_epoch=self.generation,
                member_id=self.member,
                topics=[OffsetCommitRequestTopic(name="orders", partitions=rows)],
            ),
            9,
        )
        assert not told.topics[0].partitions[0].error_code, told

    async def fetch(self) -> None:
        wanted = [OffsetFetchRequestTopics(name="orders", partition_indexes=list(range(PARTITIONS)))]
        told = await self.ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=self.group, topics=wanted)]), 8
        )
        assert told.groups[0].topics[0].partitions[0].committed_offset == self.offset, told


async def drive(peer: Peer, members: list[Member], what: str, seconds: float) -> dict[str, float]:
    """Every member asks again as soon as it is answered."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    cpu = peer.cpu()

    async def one(member: Member) -> None:
        while (begin := time.perf_counter()) < end:
            await getattr(member, what)()
            times.append(time.perf_counter() - begin)

    await asyncio.gather(*map(one, members))
    return {
        "per_second": len(times) / seconds,
        "broker_cpu_us_each": (peer.cpu() - cpu) / len(times) * 1e6,
        "p50_ms": statistics.median(times) * 1000,
        "p99_ms": statistics.quantiles(times, n=100)[98] * 1000,
    }


async def measure(name: str, groups: int, seconds: float) -> dict[str, Any]:
    with started(name) as peer:
        await asyncio.to_thread(make_topic, peer.bootstrap, "orders", PARTITIONS)
        host, _, port = peer.bootstrap.rpartition(":")
        members = [
            Member(f"group-{number}", *await asyncio.open_connection(host, int(port))) for number in range(groups)
        ]
        begin, rss = time.perf_counter(), peer.rss_mb()
        await asyncio.gather(*(member.join() for member in members))
        found: dict[str, Any] = {"row": name, "joined_ms": (time.perf_counter() - begin) * 1000}
        for what in ("heartbeat", "commit", "fetch"):
            found[what] = await drive(peer, members, what, seconds)
        found["grown_mb"] = peer.rss_mb() - rss
        for member in members:
            member.writer.close()
    print(json.dumps(found), file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--peers", nargs="+", default=["runnel"])
    args = parser.parse_args()
    rows = [asyncio.run(measure(name, args.groups, args.seconds)) for name in args.peers]
    result: dict[str, Any] = {"groups": args.groups, "rows": rows}
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
