"""A follower brings one shard's state up and keeps it up.

    start     the newest checkpoint that can be read, then every entry behind it
    follow    waits at the ledger, applies what comes, tells waiters in the same turn
    landed    an entry of our own came back with its position: applied at once, without reading it again
    catch_up  the linearizable read: returns when everything acknowledged before the call is applied
    checkpoint, trim
              now and then the state goes to the object store, and the ledger may forget what is before the *older* of
              the two newest checkpoints, so that one lost or torn checkpoint costs nothing

Reading the state without `catch_up` is the local read: consistent, perhaps a little behind.

What cannot be read for certain stops the shard (`stopped`), loudly, and nothing is guessed: `Corrupt` from an entry, or
an entry of a newer version. A follower that fell behind what the ledger still holds begins again from a checkpoint.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from runnel.errors import Corrupt, NotThere, RunnelError, Unavailable, Uncertain
from runnel.metadata.checkpoint import (
    checkpoint_name,
    checkpoint_prefix,
    decode_checkpoint,
    encode_checkpoint,
    position_of,
)
from runnel.metadata.encoding import NewerVersion, decode_entry
from runnel.metadata.entry import Entry
from runnel.metadata.ledger import Ledger, Trimmed
from runnel.metadata.state import Applied, ShardState
from runnel.model import BEGINNING, ObjectName, Position, ShardId
from runnel.world.objects import ObjectStore
from runnel.world.telemetry import get_log
from runnel.world.world import World

log = get_log("follower")

Outcome = Applied | RunnelError
Wake = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerLimits:
    """When a follower writes checkpoints, and how long it lets the ledger be silent."""

    checkpoint_entries: int = 5000
    checkpoints_kept: int = 2
    patience_s: float = 5.0
    """How long `catch_up` tries to reach the ledger."""
    backoff_s: float = 0.1
    backoff_s_max: float = 2.0


class Follower:
    """The live state of one shard."""

    def __init__(
        self,
        shard: ShardId,
        shards: int,
        *,
        ledger: Ledger,
        objects: ObjectStore,
        world: World,
        limits: FollowerLimits | None = None,
        writes_checkpoints: bool = True,
    ) -> None:
        self.shard = shard
        self.state = ShardState(shard, shards)
        self.stopped: RunnelError | None = None
        self._shards = shards
        self._ledger = ledger
        self._objects = objects
        self._world = world
        self._limits = limits or FollowerLimits()
        self._writes_checkpoints = writes_checkpoints
        self._ahead: dict[int, Entry] = {}
        """Own entries that landed behind entries we have not read yet; bounded by what is in flight."""
        self._expected: dict[bytes, Callable[[Outcome], None]] = {}
        self._watching: dict[int, dict[Wake, None]] = {}
        self._reached: list[tuple[int, asyncio.Future[None]]] = []
        self._reading = asyncio.Lock()
        self._tail_check: asyncio.Task[Position | RunnelError] | None = None
        self._following: asyncio.Task[None] | None = None
        self._checkpointing: asyncio.Task[None] | None = None
        self._checkpointed = BEGINNING
        self._checkpoint_after = self._draw_checkpoint_after()
        self._on_applied: list[Callable[[Applied], None]] = []

    # --- coming and going

    async def start(self) -> None:
        """Bring the state up to the ledger's tail, and follow from there."""
        try:
            await self._load_checkpoint()
        except Corrupt as error:
            self._give_up(error)
        await self._read_to_the_tail()
        if self.stopped is not None:
            raise self.stopped
        self._following = self._world.tasks.spawn(self._follow(), name=f"follow shard {self.shard}")

    async def close(self) -> None:
        for task in (self._following, self._checkpointing):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._tail_check is not None:
            await asyncio.wait([self._tail_check])
        self._stop(Unavailable(f"shard {self.shard} is no longer followed"))

    def _stop(self, error: RunnelError) -> None:
        if self.stopped is None:
            self.stopped = error
        expected, self._expected = self._expected, {}
        for tell in expected.values():
            tell(self.stopped)
        reached, self._reached = self._reached, []
        for _, future in reached:
            if not future.done():
                future.set_exception(self.stopped)
        self._wake(list(self._watching))

    # --- telling others

    def watch(self, stream: int, wake: Wake) -> None:
        """Call `wake(stream)` in the turn of every apply that touches a stream, until `unwatch`."""
        self._watching.setdefault(stream, {})[wake] = None

    def unwatch(self, stream: int, wake: Wake) -> None:
        wakes = self._watching.get(stream)
        if wakes is not None:
            wakes.pop(wake, None)
            if not wakes:
                del self._watching[stream]

    def on_applied(self, tell: Callable[[Applied], None]) -> None:
        """Call `tell` after every entry, for as long as this follower lives."""
        self._on_applied.append(tell)

    def expect(self, entry_id: bytes, tell: Callable[[Outcome], None]) -> None:
        """Tell what became of an entry, once, when it is applied here or can no longer be."""
        if self.stopped is not None:
            tell(self.stopped)
        else:
            self._expected[entry_id] = tell

    def expect_no_more(self, entry_id: bytes) -> None:
        self._expected.pop(entry_id, None)

    def _wake(self, streams: list[int] | set[int]) -> None:
        if self._watching:
            for stream in streams:
                for wake in list(self._watching.get(stream, ())):
                    wake(stream)

    # --- applying

    def landed(self, position: Position, entry: Entry) -> None:
        """An entry that this node appended has this position."""
        if position <= self.state.position:
            return
        self._ahead[position] = entry
        self._apply_what_is_next()

    def _apply_what_is_next(self) -> None:
        while self.stopped is None and (entry := self._ahead.pop(self.state.position + 1, None)) is not None:
            self._apply(entry, self.state.position + 1)

    def _apply(self, entry: Entry, position: int) -> None:
        applied = self.state.apply(entry, position)
        tell = self._expected.pop(entry.id, None)
        if tell is not None:
            if applied.results is None:
                # Its first copy was applied before this state was loaded; what it answered is not known any more.
                tell(Uncertain(f"entry {entry.id.hex()} of shard {self.shard} was applied before, its answer is lost"))
            else:
                tell(applied)
        for listener in self._on_applied:
            listener(applied)
        if applied.touched:
            self._wake(applied.touched)
        if self._reached:
            self._tell_reached()
        if position - self._checkpointed >= self._checkpoint_after and self._writes_checkpoints:
            self._checkpoint_soon()

    def _tell_reached(self) -> None:
        while self._reached and self._reached[0][0] <= self.state.position:
            _, future = self._reached.pop(0)
            if not future.done():
                future.set_result(None)

    # --- following

    async def _follow(self) -> None:
        pause = self._limits.backoff_s
        while self.stopped is None:
            try:
                position = self.state.position
                await self._ledger.wait(self.shard, Position(position))
                if self.state.position == position:  # else: what woke us has landed; is there more than that?
                    await self._read_to_the_tail()
                pause = self._limits.backoff_s
            except (Unavailable, Uncertain) as error:
                log.warning("ledger_away", shard=self.shard, error=str(error), again_s=pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._limits.backoff_s_max)

    async def _read_to_the_tail(self) -> None:
        """Read and apply until the ledger has no more; a second caller waits for the first and then looks again."""
        async with self._reading:
            while self.stopped is None:
                try:
                    entries = await self._ledger.read(self.shard, Position(self.state.position))
                except Trimmed as trimmed:
                    if self.state.position + 1 < trimmed.first:  # else: own entries landed while we were reading
                        await self._begin_again(trimmed.first)
                    continue
                except Corrupt as error:
                    self._give_up(error)
                    return
                if not entries:
                    return
                self._apply_read(entries)

    def _apply_read(self, entries: list[tuple[Position, bytes]]) -> None:
        for position, data in entries:
            if position <= self.state.position:
                continue  # landed while we were reading
            if position != self.state.position + 1:
                self._give_up(Corrupt(f"shard {self.shard}: entry {position} follows {self.state.position}"))
                return
            try:
                entry = decode_entry(data, f"entry {position} of shard {self.shard}")
            except Corrupt as error:
                self._give_up(error)
                return
            self._ahead.pop(position, None)
            self._apply(entry, position)
            self._apply_what_is_next()

    def _give_up(self, error: RunnelError) -> None:
        log.error("shard_stopped", shard=self.shard, position=self.state.position, error=str(error))
        self._stop(error)

    async def _begin_again(self, first: Position) -> None:
        """The ledger has forgotten what comes next and goes on from `first`: only a checkpoint leads there."""
        behind = self.state.position
        try:
            await self._load_checkpoint()
        except Corrupt as error:
            self._give_up(error)
            return
        if self.state.position + 1 < first:
            self._give_up(
                Corrupt(
                    f"shard {self.shard}: the ledger begins at {first}, this node is at {self.state.position} and no "
                    "checkpoint leads from there to here"
                )
            )
            return
        log.warning("shard_reloaded", shard=self.shard, was_at=behind, now_at=self.state.position)
        self._ahead = {position: entry for position, entry in self._ahead.items() if position > self.state.position}
        for entry_id in [known for known in self._expected if known in self.state.remembered]:
            self._expected.pop(entry_id)(
                Uncertain(f"entry {entry_id.hex()} of shard {self.shard} was applied, its answer is lost")
            )
        self._tell_reached()
        self._wake(list(self._watching))

    # --- the linearizable read

    async def catch_up(self) -> None:
        """Return when everything that was acknowledged before this call is applied here.

        Callers that come while a look at the tail is on its way wait for the next one, which they share.
        """
        if self.stopped is not None:
            raise self.stopped
        try:
            async with asyncio.timeout(self._limits.patience_s):
                tail = await self._fresh_tail()
                await self.reach(tail)
        except TimeoutError:
            raise Unavailable(f"shard {self.shard} could not catch up within {self._limits.patience_s:g} s") from None

    async def _fresh_tail(self) -> Position:
        running = self._tail_check
        if running is not None and not running.done():
            await asyncio.wait([running])  # it began before us: its answer may be older than our question
        if self._tail_check is running or self._tail_check is None:
            self._tail_check = self._world.tasks.spawn(self._look_at_the_tail(), name=f"tail of shard {self.shard}")
        tail = await asyncio.shield(self._tail_check)
        if isinstance(tail, RunnelError):
            raise tail
        return tail

    async def _look_at_the_tail(self) -> Position | RunnelError:
        """An error is an answer to those who wait here, not the death of a task."""
        try:
            return await self._ledger.tail(self.shard)
        except RunnelError as error:
            return error

    async def reach(self, position: Position) -> None:
        """Return when the state is at a position or beyond."""
        if self.state.position < position:
            await self._read_to_the_tail()
        if self.stopped is not None:
            raise self.stopped
        if self.state.position < position:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._reached.append((position, future))
            self._reached.sort(key=lambda waiting: waiting[0])
            await future

    # --- checkpoints

    def _checkpoint_soon(self) -> None:
        if self._checkpointing is None or self._checkpointing.done():
            self._checkpointed = Position(self.state.position)
            self._checkpoint_after = self._draw_checkpoint_after()
            self._checkpointing = self._world.tasks.spawn(
                self._checkpoint_if_due(), name=f"checkpoint of shard {self.shard}"
            )

    def _draw_checkpoint_after(self) -> int:
        """Every follower of a shard writes checkpoints; spread a little, the first of them saves the others theirs."""
        return int(self._limits.checkpoint_entries * self._world.chance.uniform(1.0, 1.5))

    async def _checkpoint_if_due(self) -> None:
        try:
            newest = max(map(position_of, await self._checkpoints()), default=BEGINNING)
            if newest + self._limits.checkpoint_entries <= self.state.position:
                await self.checkpoint()
            else:
                self._checkpointed = newest
        except (Unavailable, Uncertain, Corrupt, NotThere) as error:
            log.warning("checkpoint_failed", shard=self.shard, error=str(error))

    async def checkpoint(self) -> ObjectName:
        """Write the state as it is now, remove checkpoints that are older than needed, and trim the ledger."""
        position = Position(self.state.position)
        name = checkpoint_name(self.shard, position, self._world.chance.getrandbits(64))
        body = encode_checkpoint(self.state)
        await self._objects.put_new(name, body)
        self._checkpointed = position
        log.info("checkpoint_written", object=name, bytes=len(body))
        names = await self._checkpoints()
        positions = sorted({position_of(known) for known in names})
        kept = positions[-self._limits.checkpoints_kept :]
        await self._objects.delete([known for known in names if position_of(known) < kept[0]])
        if len(positions) >= self._limits.checkpoints_kept and kept[0] > BEGINNING:
            await self._ledger.trim(self.shard, kept[0])
        return name

    async def _checkpoints(self) -> list[ObjectName]:
        return [facts.name async for facts in self._objects.list(checkpoint_prefix(self.shard))]

    async def _load_checkpoint(self) -> None:
        """Take the newest checkpoint that can be read; damaged ones are passed over and named.

        One that is gone by the time it is read was removed in favour of newer ones, so the list is made again.
        """
        while True:
            vanished = False
            for name in reversed(await self._checkpoints()):
                if position_of(name) <= self.state.position:
                    break
                try:
                    state = decode_checkpoint(await self._objects.read(name), name)
                except NewerVersion:
                    raise
                except NotThere:
                    vanished = True
                    continue
                except Corrupt as error:
                    log.warning("checkpoint_unreadable", object=name, error=str(error))
                    continue
                if state.position <= self.state.position:
                    return  # own entries landed while we were reading
                if (state.shard, state.shards) != (self.shard, self._shards):
                    log.warning("checkpoint_of_another_cluster", object=name)
                    continue
                self.state = state
                self._checkpointed = Position(state.position)
                return
            if not vanished:
                return
