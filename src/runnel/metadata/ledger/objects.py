"""The bucket itself as the ledger: no database at all.

The next position is claimed by putting an object under its name, which succeeds for exactly one writer. An object is a
*pack*: all appends of one process to one shard that waited together. It is named after its first position, and the next
object after the position that follows its last; so a writer must know where the tail is, and learns it from whoever
was faster.

    put_new(tail + 1) ─► mine ─► was it trimmed meanwhile? ─► answer
         ▲   └─► taken: read it, its end is the new tail ──┐
         └─────────────────────────────────────────────────┘

*Lost answers.* The same bytes are put again under the same name: either that succeeds, or the name is taken and its
pack shows whose it is.

*Trimming.* Deleting frees names, and a writer that slept since before the trim could take one, for an entry that nobody
will ever read. So a trim first puts a marker that says how far it goes, deletes only then, and never deletes the last
pack. Whoever puts or reads packs looks at the marker *afterwards*: a name that a trim has freed is always below a marker
that was there before it was free. Such an append is `Uncertain` and such a read is `Trimmed`.

*Cost.* An append: one put, one listing (the marker). A read that finds something: two listings and a get per pack.
Waiting: a look at the next name, less and less often, up to every `POLL_S_MAX`; nothing when nobody waits. Finding the
tail from cold: about two listings for each doubling of the packs that are kept.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import TypeVar

from runnel.errors import AlreadyThere, Corrupt, NotThere, Unavailable, Uncertain
from runnel.metadata.ledger.checks import check_entries, check_not_trimmed, check_read, check_shard, up_to_read_bytes
from runnel.metadata.ledger.groups import Groups
from runnel.metadata.ledger.packs import (
    Pack,
    decode,
    encode,
    folder,
    number_in,
    pack_name,
    trim_name,
    trims_folder,
)
from runnel.metadata.ledger.seam import APPEND_ENTRIES_MAX, ENTRY_BYTES_MAX, READ_BYTES_MAX
from runnel.metadata.ledger.waiters import Waiters
from runnel.model import ObjectName, Position, ShardId
from runnel.world.chance import Chance
from runnel.world.clock import Clock
from runnel.world.objects.seam import ObjectFacts, ObjectStore
from runnel.world.tasks import Tasks

T = TypeVar("T")

PAGE = 1000
"""Names that one listing gives: what one request to S3 gives."""

PARALLEL_GETS = 8
ATTEMPTS_MAX = 100
"""Names that one append tries before it says that there are too many others."""

UNCERTAIN_PUTS_MAX = 6
LOOKS_MAX = 4
COLLISIONS_BEFORE_LISTING = 3
POLL_S = 0.02
POLL_S_MAX = 1.0
POLLS_BEFORE_LISTING = 16
TAIL_TRUSTED_S = 10.0
"""A tail learnt longer ago is looked up again before it is built upon, so that a late append is rare."""


class ObjectsLedger:
    """A ledger of objects. Several processes may use one store; each has a ledger of its own over it."""

    atomic = False

    def __init__(self, store: ObjectStore, *, clock: Clock, chance: Chance, tasks: Tasks) -> None:
        self._store = store
        self._clock = clock
        self._chance = chance
        self._tasks = tasks
        self._waiters = Waiters()
        self._groups: dict[ShardId, Groups] = {}
        # The end of some pack, and when it was last seen to be the tail: (position, monotonic seconds).
        self._ends: dict[ShardId, tuple[int, float]] = {}

    async def append(self, entries: Sequence[tuple[ShardId, bytes]]) -> list[Position]:
        self._waiters.check_open()
        check_entries(entries)
        places: dict[ShardId, list[int]] = {}
        for place, (shard, _) in enumerate(entries):
            places.setdefault(shard, []).append(place)
        positions = [Position(0)] * len(entries)
        done: list[ShardId] = []
        for shard, mine in places.items():
            try:
                given = await self._group(shard).append([entries[place] for place in mine])
            except Unavailable as error:
                if done:
                    raise Uncertain(f"entries of shards {done} were appended, those of {shard} not: {error}") from error
                raise
            done.append(shard)
            for place, position in zip(mine, given, strict=True):
                positions[place] = position
        return positions

    def _group(self, shard: ShardId) -> Groups:
        if (group := self._groups.get(shard)) is None:
            group = self._groups[shard] = Groups(
                self._claim, self._tasks, name=f"ledger-objects-{shard}", bytes_max=ENTRY_BYTES_MAX
            )
        return group

    async def _claim(self, entries: list[tuple[ShardId, bytes]]) -> list[Position]:
        """Put the entries as one pack behind the tail, wherever that turns out to be."""
        shard = entries[0][0]
        unique = self._chance.getrandbits(128).to_bytes(16)
        first = 1 + await self._tail_to_build_upon(shard)
        uncertain = collisions = 0
        for _ in range(ATTEMPTS_MAX):
            pack = Pack(shard, Position(first), unique, tuple(entry for _, entry in entries))
            try:
                await self._store.put_new(pack_name(shard, first), encode(pack))
            except AlreadyThere:
                held = await self._held(shard, first, uncertain)
                if held.unique != unique:
                    uncertain = 0  # the name is another's, so what was uncertain did not happen
                    collisions += 1
                    self._saw_end(shard, held.last)
                    first = held.last + 1
                    if collisions % COLLISIONS_BEFORE_LISTING == 0:
                        first = 1 + await self._find_tail(shard)
                    continue
            except Uncertain:
                uncertain += 1
                if uncertain == UNCERTAIN_PUTS_MAX:
                    raise
                await asyncio.sleep(POLL_S * 2**uncertain * self._chance.uniform(0.5, 1.0))
                continue
            except Unavailable as error:
                if uncertain:
                    raise Uncertain(f"append to shard {shard} may have happened: {error}") from error
                raise
            await self._check_not_late(pack)
            self._saw_end(shard, pack.last)
            self._waiters.wake([shard])
            return [Position(first + place) for place in range(len(entries))]
        raise Unavailable(f"ledger of shard {shard} has too many writers: {ATTEMPTS_MAX} names were taken by others")

    async def _held(self, shard: ShardId, first: int, uncertain: int) -> Pack:
        """Who took the name."""
        try:
            return await self._insist(lambda: self._get(shard, first))
        except (NotThere, Unavailable) as error:
            self._ends.pop(shard, None)
            if uncertain:
                raise Uncertain(f"append to shard {shard} may have happened: {error}") from error
            raise Unavailable(f"append to shard {shard} lost its place: {error}") from error

    async def _check_not_late(self, pack: Pack) -> None:
        """Had a trim freed the name? The marker was there before it could."""
        try:
            trimmed = await self._insist(lambda: self._trimmed(pack.shard))
        except Unavailable as error:
            raise Uncertain(f"append to shard {pack.shard} cannot be confirmed: {error}") from error
        if trimmed >= pack.first:
            self._ends.pop(pack.shard, None)
            raise Uncertain(f"append to shard {pack.shard} at {pack.first} came late, {trimmed} and before are trimmed")

    async def _insist(self, look: Callable[[], Awaitable[T]]) -> T:
        """Look again when a look fails: an answer hangs on it that has been paid for already."""
        for looks in range(LOOKS_MAX - 1):
            with suppress(Unavailable):
                return await look()
            await asyncio.sleep(POLL_S * 2**looks * self._chance.uniform(0.5, 1.0))
        return await look()

    async def read(self, shard: ShardId, after: Position, limit: int = 1000) -> list[tuple[Position, bytes]]:
        self._waiters.check_open()
        check_read(shard, after, limit)
        for _ in range(2):
            found = await self._packs(shard, after, min(limit, PAGE))
            answer, hole = await self._entries(shard, after, limit, found)
            # Only now: what was read is trusted when no trim had gone over it by then.
            check_not_trimmed(shard, after, Position(1 + await self._trimmed(shard)))
            if answer or not hole:
                return answer
        raise Corrupt(
            f"ledger of shard {shard} misses object {pack_name(shard, after + 1)!r}: restore it from a backup"
        )

    async def _packs(self, shard: ShardId, after: int, limit: int) -> list[ObjectFacts]:
        """The packs that follow a position; the first of them may begin before it."""
        found = await self._page(shard, after, limit)
        if found and number_in(found[0].name) == after + 1:
            return found
        if not found and self._ends.get(shard, (None, 0.0))[0] == after:
            return found  # a pack ends here, so none reaches over it
        earlier = await self._page(shard, max(0, after - APPEND_ENTRIES_MAX), APPEND_ENTRIES_MAX + 1)
        return [facts for facts in earlier if number_in(facts.name) <= after][-1:] + found

    async def _entries(
        self, shard: ShardId, after: int, limit: int, found: list[ObjectFacts]
    ) -> tuple[list[tuple[Position, bytes]], bool]:
        """Entries from packs, until something ends them; True when that is a hole."""
        answer: list[tuple[Position, bytes]] = []
        size = 0
        expected = after + 1
        while found and len(answer) < limit and size < READ_BYTES_MAX:
            some = _some_of(found)
            del found[: len(some)]
            packs = await asyncio.gather(
                *(self._get(shard, number_in(facts.name)) for facts in some), return_exceptions=True
            )
            for pack in packs:
                if isinstance(pack, NotThere):
                    return up_to_read_bytes(answer, limit), True
                if isinstance(pack, BaseException):
                    raise pack
                if pack.first > expected:
                    return up_to_read_bytes(answer, limit), True
                for position, entry in enumerate(pack.entries, pack.first):
                    if position == expected:
                        answer.append((Position(position), entry))
                        size += len(entry)
                        expected += 1
                if pack.last >= expected - 1:
                    self._saw_end(shard, pack.last, now=False)
        return (up_to_read_bytes(answer, limit) if answer else []), False

    async def wait(self, shard: ShardId, after: Position) -> None:
        with self._waiters.enrolled(shard) as woken:
            pause = POLL_S
            looks = 0
            while True:
                end = self._ends.get(shard, (-1, 0.0))[0]
                # Where the tail was, one name tells whether there is more; now and then everything is looked at.
                if looks % POLLS_BEFORE_LISTING == 0 or end != after:
                    grown = await self._find_tail(shard) > after
                else:
                    grown = await self._is_there(shard, after + 1)
                if grown:
                    return None
                await asyncio.wait([woken], timeout=pause * self._chance.uniform(0.75, 1.0))
                if woken.done():
                    return await woken
                looks += 1
                pause = min(POLL_S_MAX, pause * 1.3)

    async def tail(self, shard: ShardId) -> Position:
        self._waiters.check_open()
        check_shard(shard)
        return Position(await self._find_tail(shard))

    async def first(self, shard: ShardId) -> Position:
        self._waiters.check_open()
        check_shard(shard)
        return Position(1 + await self._trimmed(shard))

    async def trim(self, shard: ShardId, upto: Position) -> None:
        self._waiters.check_open()
        check_shard(shard)
        trimmed = await self._trimmed(shard)
        upto = Position(min(upto, await self._find_tail(shard)))
        if upto > trimmed:
            # When the answer is lost nothing is deleted yet, and the caller trims again.
            with suppress(AlreadyThere):
                await self._store.put_new(trim_name(shard, upto), b"")
        else:
            upto = Position(trimmed)  # an earlier trim may have died before it was through
        while gone := [
            name
            for name, following in pairwise([facts.name for facts in await self._page(shard, 0, PAGE)])
            if number_in(following) <= upto + 1
        ]:
            await self._store.delete(gone)
        if old := [name for name in await self._markers(shard) if number_in(name) < upto]:
            await self._store.delete(old)

    async def close(self) -> None:
        self._waiters.close()
        for group in self._groups.values():
            await group.close()

    async def _tail_to_build_upon(self, shard: ShardId) -> int:
        end, seen = self._ends.get(shard, (-1, 0.0))
        if end >= 0 and self._clock.monotonic() - seen < TAIL_TRUSTED_S:
            return end
        return await self._find_tail(shard)

    async def _find_tail(self, shard: ShardId) -> int:
        """The last position, looked up. Doubles its steps from the last end it knows, then halves them."""
        if shard in self._ends:
            floor = low = self._ends[shard][0]
        else:
            floor = await self._trimmed(shard)
            low = max(0, floor - APPEND_ENTRIES_MAX)
        last = None  # a pack that is there
        high = None  # no pack begins after it
        step = PAGE
        probe = low
        while True:
            if found := await self._page(shard, probe, PAGE):
                low = last = number_in(found[-1].name)
                if len(found) < PAGE:
                    break
                step *= 2
            else:
                high = probe
                if high <= low:
                    break
            if high is not None:
                probe = (low + high) // 2 if high - low > PAGE else low
                continue
            probe = low + step
        if last is None:
            end = floor
        else:
            try:
                end = max(floor, (await self._get(shard, last)).last)
            except NotThere as error:
                self._ends.pop(shard, None)
                raise Unavailable(f"tail of shard {shard} moved while it was looked up: {error}") from error
        self._saw_end(shard, end)
        return end

    def _saw_end(self, shard: ShardId, end: int, *, now: bool = True) -> None:
        known, seen = self._ends.get(shard, (-1, 0.0))
        if end >= known:
            self._ends[shard] = (end, self._clock.monotonic() if now else seen)

    async def _page(self, shard: ShardId, after: int, count: int) -> list[ObjectFacts]:
        page: list[ObjectFacts] = []
        listing = self._store.list(folder(shard), pack_name(shard, after))
        async for facts in listing:
            page.append(facts)
            if len(page) == count:
                break
        if isinstance(listing, AsyncGenerator):
            await listing.aclose()  # now, rather than whenever it is collected
        return page

    async def _trimmed(self, shard: ShardId) -> int:
        return max(map(number_in, await self._markers(shard)), default=0)

    async def _markers(self, shard: ShardId) -> list[ObjectName]:
        return [facts.name async for facts in self._store.list(trims_folder(shard))]

    async def _get(self, shard: ShardId, first: int) -> Pack:
        name = pack_name(shard, first)
        return decode(bytes(await self._store.read(name)), name, shard, first)

    async def _is_there(self, shard: ShardId, first: int) -> bool:
        try:
            await self._store.facts(pack_name(shard, first))
        except NotThere:
            return False
        return True


def _some_of(found: list[ObjectFacts]) -> list[ObjectFacts]:
    """As many packs as are fetched side by side: a few, and not more bytes than one answer has."""
    size = 0
    for count, facts in enumerate(found[:PARALLEL_GETS]):
        size += facts.size
        if count and size > READ_BYTES_MAX:
            return found[:count]
    return found[:PARALLEL_GETS]
