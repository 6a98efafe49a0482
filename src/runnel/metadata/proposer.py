"""The proposer brings a node's updates into the ledger, in the order in which they were handed in.

One append is under way at a time; what is handed in meanwhile goes together with the next. So order is kept, whatever
fails, and a slow ledger makes for larger appends, not for more of them.

A proposal is answered when its entry is *applied* here, by the follower of its shard. An append whose answer was lost is
sent again with the same entry ids: the state applies each id once. Only when `patience` runs out is the caller told
`Unavailable` (it never reached the ledger, or so late that it was not applied) or `Uncertain` (it may have).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from runnel.errors import Corrupt, Overloaded, Refused, RunnelError, Unavailable, Uncertain
from runnel.metadata.encoding import encode_entry
from runnel.metadata.entry import Entry, Update
from runnel.metadata.follower import Follower, Outcome
from runnel.metadata.ledger import Ledger
from runnel.metadata.state import Applied, EntryStale
from runnel.model import ShardId
from runnel.world.telemetry import get_log
from runnel.world.world import World

log = get_log("proposer")

Done = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposerLimits:
    waiting_max: int = 10_000
    """Proposals that may wait for their answer; one more is refused as `Overloaded`."""
    append_bytes_max: int = 4 * 1024 * 1024
    append_entries_max: int = 256
    patience_s: float = 30.0
    backoff_s: float = 0.05
    backoff_s_max: float = 1.0


@dataclass(slots=True, eq=False)
class Proposal:
    shard: ShardId
    updates: Sequence[Update]
    done: Done
    deadline: float
    entry: Entry | None = None
    data: bytes = b""
    maybe: bool = False
    """An append that carried it may have happened."""
    settled: bool = field(default=False)


class Proposer:
    """One per node. `follower_of` gives the live follower of a shard."""

    def __init__(
        self,
        ledger: Ledger,
        follower_of: Callable[[ShardId], Follower],
        world: World,
        limits: ProposerLimits | None = None,
    ) -> None:
        self._ledger = ledger
        self._follower_of = follower_of
        self._world = world
        self._limits = limits or ProposerLimits()
        self.unanswered = 0
        self._waiting: deque[Proposal] = deque()
        self._something = asyncio.Event()
        self._closing = False
        self._running = world.tasks.spawn(self._run(), name="proposer")

    async def propose(self, shard: ShardId, update: Update) -> Any:
        """Propose one update and return its result, or raise the refusal it met."""
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def done(outcome: Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        self.submit(shard, [update], done)
        outcome = await future
        if isinstance(outcome, RunnelError):
            raise outcome
        assert outcome.results is not None
        result = outcome.results[0]
        if isinstance(result, RunnelError):
            raise result
        return result

    def submit(self, shard: ShardId, updates: Sequence[Update], done: Done) -> None:
        """Hand in updates that make one entry; `done` is called once, in the turn in which the entry is applied."""
        if self._closing:
            raise Unavailable("this node is closing")
        if self.unanswered >= self._limits.waiting_max:
            raise Overloaded(f"{self.unanswered} proposals wait for the ledger")
        self.unanswered += 1
        deadline = self._world.clock.monotonic() + self._limits.patience_s
        self._waiting.append(Proposal(shard, updates, done, deadline))
        self._something.set()

    async def close(self) -> None:
        """Stop; what was not answered is answered now."""
        self._closing = True
        self._running.cancel()
        await asyncio.wait([self._running])
        while self._waiting:
            self._fail(self._waiting.popleft(), "this node is closing")

    # --- one append after another

    async def _run(self) -> None:
        batch: list[Proposal] = []
        try:
            while True:
                if not self._waiting:
                    self._something.clear()
                    await self._something.wait()
                batch = self._next_batch()
                await self._append(batch)
        finally:
            for proposal in batch:
                self._fail(proposal, "this node is closing")

    def _next_batch(self) -> list[Proposal]:
        """As many waiting proposals as one append may carry, each with its entry made."""
        batch: list[Proposal] = []
        size = 0
        while self._waiting and len(batch) < self._limits.append_entries_max:
            proposal = self._waiting[0]
            if proposal.entry is None:
                try:
                    self._make_entry(proposal)
                except RunnelError as error:
                    self._waiting.popleft()
                    self._settle(proposal, error)
                    continue
            size += len(proposal.data)
            if batch and size > self._limits.append_bytes_max:
                break
            batch.append(self._waiting.popleft())
        return batch

    def _make_entry(self, proposal: Proposal) -> None:
        follower = self._follower_of(proposal.shard)
        entry = Entry(
            self._world.chance.randbytes(16),
            follower.state.position,
            self._world.clock.now_ms(),
            proposal.updates,
        )
        proposal.entry = entry
        proposal.data = encode_entry(entry)
        follower.expect(entry.id, lambda outcome: self._learned(proposal, outcome))

    async def _append(self, batch: list[Proposal]) -> None:
        pause = self._limits.backoff_s
        while batch := [proposal for proposal in batch if proposal.entry is not None and not proposal.settled]:
            try:
                positions = await self._ledger.append([(proposal.shard, proposal.data) for proposal in batch])
            except (Unavailable, Uncertain) as error:
                if isinstance(error, Uncertain):
                    for proposal in batch:
                        proposal.maybe = True
                log.warning("append_failed", entries=len(batch), error=str(error), again_s=pause)
                self._give_up_late_ones(batch, error)
                await asyncio.sleep(pause * self._world.chance.uniform(0.5, 1.0))
                pause = min(pause * 2, self._limits.backoff_s_max)
            except (Refused, Corrupt) as error:
                for proposal in batch:
                    self._settle(proposal, error)
                return
            else:
                for proposal, position in zip(batch, positions, strict=True):
                    assert proposal.entry is not None
                    self._follower_of(proposal.shard).landed(position, proposal.entry)
                return

    def _give_up_late_ones(self, batch: list[Proposal], error: RunnelError) -> None:
        now = self._world.clock.monotonic()
        for proposal in batch:
            if proposal.deadline <= now and not proposal.settled:
                self._fail(proposal, str(error))
        while self._waiting and self._waiting[0].deadline <= now:
            self._fail(self._waiting.popleft(), str(error))

    # --- answers

    def _learned(self, proposal: Proposal, outcome: Outcome) -> None:
        """The follower has seen what became of the entry."""
        if isinstance(outcome, Applied) and outcome.results and isinstance(outcome.results[0], EntryStale):
            # Proposing it anew from here would put it behind what was handed in after it.
            outcome = Unavailable(f"entry for shard {proposal.shard} came too late to be applied")
        self._settle(proposal, outcome)

    def _fail(self, proposal: Proposal, why: str) -> None:
        kind = Uncertain if proposal.maybe else Unavailable
        self._settle(proposal, kind(f"entry for shard {proposal.shard} did not get through: {why}"))

    def _settle(self, proposal: Proposal, outcome: Outcome) -> None:
        if proposal.settled:
            return
        proposal.settled = True
        self.unanswered -= 1
        if proposal.entry is not None:
            self._follower_of(proposal.shard).expect_no_more(proposal.entry.id)
        proposal.done(outcome)
