"""From a closed window to acknowledged records: one object, one entry for each shard it touches.

    lay out    batches sorted by stream, copied once into a recycled block
    upload     under a fresh name; several objects at once
    commit     in the order in which the windows closed, whatever order the uploads finish in
    answer     in the turn in which the entry is applied

A crash anywhere leaves an object that nothing refers to, which the sweep removes. An entry that is refused because a
sweep's horizon has passed its object is answered as `Unavailable`: slow writers lose their race in the open. The records
are not written again from here, because what came behind them may have been accepted meanwhile: only their sender knows
whether they may still come, and in which order (Kafka's clients keep it with their sequences).
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from runnel.errors import AlreadyThere, Refused, RunnelError, Unavailable, Uncertain
from runnel.ingest.ticket import Answer, Ticket
from runnel.log.builder import Laid, Sealed, lay_out
from runnel.log.names import UNIQUE_BITS, wal_name
from runnel.metadata.follower import Follower, Outcome
from runnel.metadata.proposer import Proposer
from runnel.metadata.state import Applied
from runnel.metadata.updates import CommitObject
from runnel.metadata.updates.commit import GUARDED, ITEM, NAMED, CommitResult, Guard, HorizonPassed
from runnel.model import ObjectName, ShardId
from runnel.world.blocks import SMALLEST, Block, BlockPool
from runnel.world.objects import Buffer, ObjectStore
from runnel.world.objects.cache import ObjectCache
from runnel.world.telemetry import get_log
from runnel.world.world import World

log = get_log("flush")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlushLimits:
    uploads_max: int = 8
    """Objects under way at once."""
    patience_s: float = 30.0
    """How long an upload is tried."""
    backoff_s: float = 0.05
    backoff_s_max: float = 2.0


@dataclass(slots=True, eq=False)
class Share:
    """What one shard gets of an object."""

    shard: ShardId
    items: list[tuple[int, ...]] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    """Indices into the object's batches."""
    local_of: dict[int, int] = field(default_factory=dict)
    """From the object's items to this share's."""
    names: list[str] = field(default_factory=list)
    guards: dict[int, Guard] = field(default_factory=dict)


class Flusher:
    """Turns gatherings of batches into objects and entries. `follower_of` tells what a shard's horizon is."""

    def __init__(
        self,
        objects: ObjectStore,
        proposer: Proposer,
        follower_of: Callable[[ShardId], Follower],
        *,
        shards: int,
        cache: ObjectCache,
        pool: BlockPool,
        world: World,
        limits: FlushLimits | None = None,
        writer: int = -1,
    ) -> None:
        self._objects = objects
        self._proposer = proposer
        self._follower_of = follower_of
        self._shards = shards
        self._cache = cache
        self._pool = pool
        self._world = world
        self._limits = limits or FlushLimits()
        self._writer = writer
        self._uploading = asyncio.Semaphore(self._limits.uploads_max)
        self._last_handed_in: asyncio.Future[None] | None = None
        self._objects_written = world.metrics.counter(
            "runnel_objects_written_total", "Write-ahead objects made durable."
        )
        self._bytes_written = world.metrics.counter(
            "runnel_object_bytes_written_total", "Bytes of write-ahead objects."
        )

    def flush(self, batches: Sequence[Sealed], finished: Callable[[bool], None], *, together: bool = False) -> None:
        """Write an object and commit it; `finished(ok)` is called once, when every batch has its answer.

        With `together`, all batches are appended or none; they are of one shard then.
        """
        before = self._last_handed_in
        handed_in: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last_handed_in = handed_in
        flush = _Flush(batches, finished, together=together)
        self._world.tasks.spawn(self._run(flush, before, handed_in), name="flush")

    async def _run(self, flush: "_Flush", before: asyncio.Future[None] | None, handed_in: asyncio.Future[None]) -> None:
        try:
            async with self._uploading:
                error = await self._upload(flush)
            if before is not None:
                await before
            if error is None:
                self._commit(flush)
            else:
                flush.fail(error)
        except asyncio.CancelledError:
            flush.fail(Uncertain("this node is closing"))
            raise
        finally:
            handed_in.set_result(None)

    # --- the object

    async def _upload(self, flush: "_Flush") -> RunnelError | None:
        """Make the object durable, or say why that cannot be."""
        laid = lay_out(flush.batches, writer=self._writer)
        body = flush.take_over(laid, self._pool)
        deadline = self._world.clock.monotonic() + self._limits.patience_s
        pause = self._limits.backoff_s
        maybe_ours = False
        self._name(flush, laid)
        while True:
            try:
                await self._objects.put_new(ObjectName(flush.name), body)
            except AlreadyThere:
                if maybe_ours:
                    break  # names are drawn from 64 bits of luck: what stands there is what we sent before
                self._name(flush, laid)
                continue
            except (Unavailable, Uncertain) as error:
                maybe_ours = maybe_ours or isinstance(error, Uncertain)
                if self._world.clock.monotonic() + pause > deadline:
                    flush.give_back(self._pool)
                    return Unavailable(f"object {flush.name} could not be written: {error}")
                log.warning("upload_failed", object=flush.name, error=str(error), again_s=pause)
                await asyncio.sleep(pause * self._world.chance.uniform(0.5, 1.0))
                pause = min(pause * 2, self._limits.backoff_s_max)
            except Refused as error:
                flush.give_back(self._pool)
                return error
            else:
                break
        self._objects_written.add()
        self._bytes_written.add(laid.size)
        return None

    def _name(self, flush: "_Flush", laid: Laid) -> None:
        shards = {ShardId(1 + item[0] % self._shards) for item in laid.items}
        horizon = max(self._follower_of(shard).state.horizon for shard in shards)
        flush.stamp = max(self._world.clock.now_ms(), horizon)
        flush.name = wal_name(flush.stamp, self._world.chance.getrandbits(UNIQUE_BITS))

    # --- the entries

    def _commit(self, flush: "_Flush") -> None:
        flush.to_cache(self._cache)
        shares = _shares(flush, self._shards)
        flush.open_shares = len(shares)
        assert len(shares) == 1 or not flush.together, "what happens together happens in one shard"
        for share in shares:
            update = CommitObject(
                flush.name,
                flush.stamp,
                b"".join([ITEM.pack(*item) for item in share.items]),
                share.names,
                share.guards,
                flush.together,
            )

            def learned(outcome: Outcome, share: Share = share) -> None:
                self._answer(flush, share, outcome)

            try:
                self._proposer.submit(share.shard, [update], learned)
            except RunnelError as error:
                self._answer(flush, share, error)

    def _answer(self, flush: "_Flush", share: Share, outcome: Outcome) -> None:
        result: Any = outcome
        if isinstance(outcome, Applied):
            assert outcome.results is not None, "a repetition is told as an error"
            result = outcome.results[0]
        if isinstance(result, HorizonPassed):
            log.warning("object_behind_horizon", object=flush.name, shard=share.shard)
            flush.answer_error(share.batches, Unavailable(f"object {flush.name} came behind a sweep: send it again"))
        elif isinstance(result, CommitResult):
            flush.answer(share, result)
        else:
            flush.answer_error(share.batches, result)
        flush.open_shares -= 1
        if not flush.open_shares:
            flush.finish(ok=isinstance(result, CommitResult))


class _Flush:
    """One object on its way."""

    __slots__ = ("_block", "_body", "_finished", "batches", "laid", "name", "open_shares", "stamp", "together")

    def __init__(self, batches: Sequence[Sealed], finished: Callable[[bool], None], *, together: bool) -> None:
        self.batches = batches
        self.together = together
        self.name = ""
        self.stamp = 0
        self.open_shares = 0
        self.laid: Laid | None = None
        self._finished = finished
        self._block: Block | None = None
        self._body: Buffer = b""

    def take_over(self, laid: Laid, pool: BlockPool) -> Buffer:
        """Copy the object together. From here on the batches' own bytes are not looked at again: `copied`."""
        self.laid = laid
        self.batches = laid.batches
        if laid.size < SMALLEST:
            self._body = b"".join(laid.buffers)
        else:
            self._block = pool.take(laid.size)
            body = memoryview(self._block)[: laid.size]
            at = 0
            for buffer in laid.buffers:
                end = at + len(buffer)
                body[at:end] = buffer
                at = end
            self._body = body
        laid.buffers.clear()
        for batch in self.batches:
            ticket: Ticket = batch.tag[0]
            ticket.uncopied -= 1
            if not ticket.uncopied and ticket.copied is not None:
                ticket.copied()
        return self._body

    def give_back(self, pool: BlockPool) -> None:
        if self._block is not None:
            pool.give(self._block)
            self._block = None

    def to_cache(self, cache: ObjectCache) -> None:
        """The object is durable: readers of the tail will want it at once."""
        if self._block is None:
            cache.put_whole(self.name, self._body)
        else:
            cache.put_block(self.name, self._block, len(self._body))
        self._body = b""

    def answer(self, share: Share, result: CommitResult) -> None:
        """Tell each batch where it went."""
        assert self.laid is not None
        item_of, delta_of, batches = self.laid.item_of, self.laid.delta_of, self.batches
        firsts, notes = result
        local_of = share.local_of
        finished = []
        for index in share.batches:
            local = local_of[item_of[index]]
            ticket, place = batches[index].tag
            if notes and local in notes:
                verdict, facts = notes[local]
                first = firsts[local]
                ticket.answers[place] = Answer(first if first < 0 else first + delta_of[index], verdict, facts)
            else:
                ticket.answers[place] = Answer(firsts[local] + delta_of[index])
            ticket.missing -= 1
            if not ticket.missing:
                finished.append(ticket)
        for ticket in finished:
            ticket.done(ticket.answers)

    def answer_error(self, indices: Sequence[int], error: RunnelError) -> None:
        for index in indices:
            ticket, place = self.batches[index].tag
            ticket.answers[place] = Answer(-1, error=error)
            ticket.missing -= 1
            if not ticket.missing:
                ticket.done(ticket.answers)

    def fail(self, error: RunnelError) -> None:
        """Nothing of this object came before the ledger."""
        self.answer_error(range(len(self.batches)), error)
        self.finish(ok=False)

    def finish(self, *, ok: bool) -> None:
        self._finished(ok)


def _shares(flush: _Flush, shards: int) -> list[Share]:
    """The object's items and batches, shard by shard."""
    assert flush.laid is not None
    shares: dict[int, Share] = {}
    for index, item in enumerate(flush.laid.items):
        shard = 1 + item[0] % shards
        share = shares.get(shard)
        if share is None:
            share = shares[shard] = Share(ShardId(shard))
        share.local_of[index] = len(share.items)
        share.items.append(item)
    for index, batch in enumerate(flush.batches):
        share = shares[1 + batch.stream % shards]
        share.batches.append(index)
        if batch.flags & (NAMED | GUARDED):
            _dress(share, share.local_of[flush.laid.item_of[index]], batch)
    return list(shares.values())


def _dress(share: Share, local: int, batch: Sealed) -> None:
    """Put what an item's few bytes cannot hold beside it: a producer's name, a guard."""
    ticket, place = batch.tag
    if batch.flags & GUARDED:
        share.guards[local] = ticket.guards[place]
    if batch.flags & NAMED:
        stream, stamp, _, *rest = share.items[local]
        share.items[local] = (stream, stamp, len(share.names), *rest)
        share.names.append(ticket.names[place])
