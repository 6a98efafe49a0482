"""The witness stands beside bucket and ledger and knows at once what became of every entry.

It applies each entry in the very moment in which the ledger makes it durable, with a state of its own that is never
killed, paused or behind. So it can judge when things happen, not only at the end:

    each entry       leaves a state whose invariants hold, and refers to no object that is not in the bucket
    each apply       of a broker gives the results that it gave here, and now and then the whole state is compared
    each deletion    takes no object that something refers to
    each trim        leaves a checkpoint from which a new broker could begin

`WitnessedLedger` and `WitnessedObjects` wrap the services themselves, behind their faults: what they see has happened.
Where the bucket itself is the ledger, its packs are seen when they are put.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from crc32c import crc32c

from runnel.errors import Corrupt, NotThere
from runnel.log.names import PREFIX
from runnel.metadata.checkpoint import checkpoint_prefix, decode_checkpoint, position_of
from runnel.metadata.comparing import differences, digest
from runnel.metadata.encoding import decode_entry
from runnel.metadata.invariants import broken
from runnel.metadata.ledger.memory import MemoryLedger
from runnel.metadata.ledger.packs import decode as decode_pack
from runnel.metadata.ledger.packs import number_in
from runnel.metadata.state import Applied, ShardState
from runnel.metadata.updates import CommitObject
from runnel.model import ObjectName, Position, ShardId
from runnel.world.objects.memory import MemoryObjects
from runnel.world.objects.seam import Body, Buffer, ObjectFacts

COMPARED_EVERY = 7
"""Results are compared at every position, whole states at every so manieth."""


class Witness:
    """The truth of every shard as of now."""

    def __init__(self, durable: MemoryObjects, shards: int, violate: Callable[[str], None]) -> None:
        self.states = {ShardId(number): ShardState(number, shards) for number in range(shards + 1)}
        self.objects_written = 0
        self._durable = durable
        self.trimmed = dict.fromkeys(self.states, 0)
        self.violate = violate
        self._results: dict[tuple[int, int], int] = {}
        self._digests: dict[tuple[int, int], int] = {}

    def referred_to(self, name: str) -> bool:
        return any(name in state.objects for state in self.states.values())

    async def saw(self, shard: ShardId, position: Position, data: bytes) -> None:
        """An entry is durable."""
        state = self.states[shard]
        entry = decode_entry(data, f"entry {position} of shard {shard}")
        applied = state.apply(entry, position)
        self._results[shard, position] = _sum_of(applied)
        if not position % COMPARED_EVERY:
            self._digests[shard, position] = digest(state)
        for sentence in broken(state):
            self.violate(f"shard {shard} at {position}: {sentence}")
        for update in entry.updates:
            if isinstance(update, CommitObject) and update.name in state.objects:
                try:
                    await self._durable.facts(ObjectName(update.name))
                except NotThere:
                    self.violate(f"entry {position} of shard {shard} brought {update.name}, which is not in the store")

    def compare(self, node: str, applied: Applied, state: ShardState) -> None:
        """A broker has applied an entry: the same must have come of it as here."""
        place = (state.shard, applied.position)
        if place not in self._results:
            self.violate(f"{node} applied entry {applied.position} of shard {state.shard}, which is not in the ledger")
        elif _sum_of(applied) != self._results[place]:
            self.violate(f"{node} got other results from entry {applied.position} of shard {state.shard}")
        elif place in self._digests and digest(state) != self._digests[place]:
            self.violate(f"{node} has another state at {applied.position} of shard {state.shard}")

    def compare_now(self, node: str, state: ShardState) -> None:
        """A broker that has everything must have what is here."""
        mine = self.states[ShardId(state.shard)]
        if state.position != mine.position:
            self.violate(f"{node} is at {state.position} of shard {state.shard}, not at {mine.position}")
        for sentence in differences(state, mine):
            self.violate(f"{node} differs in shard {state.shard} at {state.position}: {sentence}")

    async def forgot(self, shard: ShardId, upto: int) -> None:
        """The ledger was trimmed: whoever begins now must find a checkpoint that it goes on from."""
        self.trimmed[shard] = max(self.trimmed[shard], upto)
        await self.look_for_checkpoint(shard)

    async def look_for_checkpoint(self, shard: ShardId) -> None:
        upto = self.trimmed[shard]
        if upto and not [name for name in await self.intact_checkpoints(shard) if position_of(name) >= upto]:
            self.violate(f"shard {shard}: the ledger begins at {upto + 1}, no checkpoint leads there")

    async def put(self, name: ObjectName) -> None:
        """An object is durable; where it is a pack of the ledger, so are its entries."""
        self.objects_written += name.startswith(PREFIX)
        if not name.startswith("ledger/"):
            return
        folder = name.split("/")[1]
        shard, position = ShardId(int(folder.removesuffix("-trimmed"))), number_in(name)
        if folder.endswith("-trimmed"):
            await self.forgot(shard, position)
            return
        pack = decode_pack(bytes(await self._durable.read(name)), name, shard, position)
        following = self.states[shard].position + 1
        if pack.first == following:
            for number, entry in enumerate(pack.entries):
                await self.saw(shard, Position(pack.first + number), entry)
        elif pack.last > self.trimmed[shard]:  # else: a sleeper took a name that a trim had freed; nobody reads it
            self.violate(f"a pack of shard {shard} begins at {pack.first}, where {following} belongs")

    async def intact_checkpoints(self, shard: ShardId) -> list[ObjectName]:
        intact = []
        async for facts in self._durable.list(checkpoint_prefix(shard)):
            try:
                decode_checkpoint(await self._durable.read(facts.name), facts.name)
            except Corrupt:
                continue
            intact.append(facts.name)
        return intact


def _sum_of(applied: Applied) -> int:
    return crc32c(f"{applied.results!r} {sorted(applied.touched)}".encode())


class WitnessedLedger:
    """A ledger that lets a witness see each entry in the turn in which it becomes durable."""

    atomic = True

    def __init__(self, inner: MemoryLedger, witness: Witness) -> None:
        self._inner = inner
        self._witness = witness

    async def append(self, entries: Sequence[tuple[ShardId, bytes]]) -> list[Position]:
        positions = await self._inner.append(entries)
        for (shard, data), position in zip(entries, positions, strict=True):
            await self._witness.saw(shard, position, data)
        return positions

    async def read(self, shard: ShardId, after: Position, limit: int = 1000) -> list[tuple[Position, bytes]]:
        return await self._inner.read(shard, after, limit)

    async def wait(self, shard: ShardId, after: Position) -> None:
        await self._inner.wait(shard, after)

    async def tail(self, shard: ShardId) -> Position:
        return await self._inner.tail(shard)

    async def first(self, shard: ShardId) -> Position:
        return await self._inner.first(shard)

    async def trim(self, shard: ShardId, upto: Position) -> None:
        await self._inner.trim(shard, upto)
        await self._witness.forgot(shard, await self._inner.first(shard) - 1)

    async def close(self) -> None:
        await self._inner.close()


class WitnessedObjects:
    """A store whose deletions are judged when they happen."""

    def __init__(self, inner: MemoryObjects, witness: Witness) -> None:
        self._inner = inner
        self._witness = witness

    async def put_new(self, name: ObjectName, body: Body) -> None:
        await self._inner.put_new(name, body)
        await self._witness.put(name)

    async def read(self, name: ObjectName, start: int = 0, length: int | None = None) -> Buffer:
        return await self._inner.read(name, start, length)

    async def read_ranges(self, name: ObjectName, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return await self._inner.read_ranges(name, ranges)

    async def facts(self, name: ObjectName) -> ObjectFacts:
        return await self._inner.facts(name)

    def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectFacts]:
        return self._inner.list(prefix, after)

    async def delete(self, names: Iterable[ObjectName]) -> None:
        wanted = list(names)
        for name in wanted:
            if name.startswith(PREFIX) and self._witness.referred_to(name):
                self._witness.violate(f"{name} is deleted while something refers to it")
        await self._inner.delete(wanted)
        for shard in self._witness.states:
            if any(name.startswith(checkpoint_prefix(shard)) for name in wanted):
                await self._witness.look_for_checkpoint(shard)

    async def close(self) -> None:
        await self._inner.close()
