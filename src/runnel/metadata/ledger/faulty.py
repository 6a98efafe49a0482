"""A ledger that a Chance makes unreliable in the ways real ones are: slow, failing, forgetting to answer, or away."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from runnel.errors import Unavailable, Uncertain
from runnel.metadata.ledger.seam import Ledger
from runnel.model import Position, ShardId
from runnel.world.chance import Chance


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFaults:
    """How often what goes wrong; shares are between 0 and 1 of the calls."""

    delay_ms_max: float = 0.0
    """Each call takes up to this long before it reaches the ledger, and an append again before its answer comes."""
    fail_share: float = 0.0
    """Calls that fail with `Unavailable`; nothing happened."""
    lost_answer_share: float = 0.0
    """Appends that happen, and whose answer is lost: `Uncertain`."""
    lost_request_share: float = 0.0
    """Appends that do not happen and look exactly like a lost answer: `Uncertain`."""
    early_wait_share: float = 0.0
    """Waits that return though nothing is there yet."""
    late_wait_ms_max: float = 0.0
    """Waits return up to this long after they should."""


class FaultyLedger:
    """Wraps a ledger. `away` may be switched at any time: then everything is `Unavailable`.

    An append that is under way when `away` is switched on may have happened: `Uncertain`.
    `met` counts what was inflicted, so that a test can tell that its faults took place.
    """

    def __init__(self, inner: Ledger, chance: Chance, faults: LedgerFaults | None = None) -> None:
        self.inner = inner
        self.faults = faults if faults is not None else LedgerFaults()
        self.away = False
        self.met: Counter[str] = Counter()
        self._chance = chance
        self.atomic = inner.atomic

    async def append(self, entries: Sequence[tuple[ShardId, bytes]]) -> list[Position]:
        await self._before("append")
        if self._falls("lost_request", self.faults.lost_request_share):
            raise Uncertain("answer to append was lost")
        positions = await self.inner.append(entries)
        await self._delay(self.faults.delay_ms_max)
        if self.away or self._falls("lost_answer", self.faults.lost_answer_share):
            raise Uncertain("answer to append was lost")
        return positions

    async def read(self, shard: ShardId, after: Position, limit: int = 1000) -> list[tuple[Position, bytes]]:
        await self._before("read")
        entries = await self.inner.read(shard, after, limit)
        self._check_here("read")
        return entries

    async def wait(self, shard: ShardId, after: Position) -> None:
        await self._before("wait")
        if self._falls("early_wait", self.faults.early_wait_share):
            return
        await self.inner.wait(shard, after)
        await self._delay(self.faults.late_wait_ms_max)
        self._check_here("wait")

    async def tail(self, shard: ShardId) -> Position:
        await self._before("tail")
        tail = await self.inner.tail(shard)
        self._check_here("tail")
        return tail

    async def first(self, shard: ShardId) -> Position:
        await self._before("first")
        first = await self.inner.first(shard)
        self._check_here("first")
        return first

    async def trim(self, shard: ShardId, upto: Position) -> None:
        await self._before("trim")
        await self.inner.trim(shard, upto)

    async def close(self) -> None:
        await self.inner.close()

    async def _before(self, call: str) -> None:
        await self._delay(self.faults.delay_ms_max)
        self._check_here(call)
        if self._falls("fail", self.faults.fail_share):
            raise Unavailable(f"ledger failed to {call}")

    def _check_here(self, call: str) -> None:
        if self.away:
            self.met["away"] += 1
            raise Unavailable(f"ledger is away, no {call}")

    async def _delay(self, ms_max: float) -> None:
        if ms_max > 0:
            await asyncio.sleep(self._chance.uniform(0, ms_max) / 1000)

    def _falls(self, fault: str, share: float) -> bool:
        """Luck is drawn only for faults that are switched on, so that adding a kind leaves old seeds as they were."""
        if share <= 0 or self._chance.random() >= share:
            return False
        self.met[fault] += 1
        return True
