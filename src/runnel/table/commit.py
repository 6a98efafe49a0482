"""One commit of one table, from written files to everything that points at them. Every step can be the last before a crash.

    0  files      executors wrote them; nothing points at them yet, and a sweep may take them one day
    1  manifest   an object that says all there is to know of the commit
    2  begin      the ledger has the commit: from here on it can only be finished, and offsets have moved on
    3  swapped    extents of the streams point at the files instead of write-ahead objects, shard by shard
       letters    records that cannot be rows are in the dead-letter topic
       iceberg    a snapshot has the files and the offsets
       delta      a log entry has the files and the offsets
    4  finished   the ledger has it among the recent commits, and the next one may begin

Each step of 3 may be repeated: the ledger answers that an extent was swapped already, the producer of the letters is
known with its epoch, both formats know the number of their last commit. So whoever finds a pending commit does all steps
that are not marked, in any order, and nothing twice. A step that fails leaves its reason in the ledger for people; the
other steps are done meanwhile.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runnel.codec.records import Record
from runnel.errors import AlreadyThere, Corrupt, Fenced, RunnelError, Unavailable, Uncertain
from runnel.metadata.tables import Step, Table, TableCommit
from runnel.metadata.updates import BeginCommit, MarkCommit, NoteTable, ReplaceExtents
from runnel.metadata.updates.extents import Replacement
from runnel.model import ROOT, ObjectName, ShardId
from runnel.table.catalogs.seam import Behind, TableFormat, Target
from runnel.table.files.columns import TableColumns
from runnel.table.files.facts import Written
from runnel.table.files.restore import Letter, read_letters
from runnel.table.lease import Lease
from runnel.table.manifest import Manifest, manifest_name, read_manifest, write_manifest
from runnel.table.removal import still_there
from runnel.table.truth import Truth
from runnel.world.telemetry import get_log

log = get_log("table")

LETTERS_PER_BATCH = 500
LETTER_BYTES_PER_BATCH = 512 << 10
EPOCHS = 30_000
"""Commits with one producer id for their letters; an epoch has 15 bits."""
PUT_TRIES = 5

Reached = Callable[[str], None]
"""Called with the name of each step once it is done. A test may end the process there."""


def nothing(_: str) -> None:
    """For those who do not watch."""


@dataclass(slots=True)
class Trouble(Exception):
    """Steps that could not be done now, by name, and why."""

    reasons: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "; ".join(self.reasons.values())


class Commits:
    """Begins and finishes commits, for one planner. `formats` are the ones that can be published here."""

    def __init__(
        self,
        truth: Truth,
        lease: Lease,
        formats: Sequence[TableFormat],
        *,
        patience_s: float = 60.0,
        swap: bool = True,
        reached: Reached = nothing,
    ) -> None:
        self._truth = truth
        self._lease = lease
        self._formats = {each.name: each for each in formats}
        self._patience_s = patience_s
        self._swap_too = swap
        self._reached = reached
        self._chance = truth.world.chance.fork(f"commits of {lease.holder}")
        self._kept: dict[str, Manifest] = {}

    # --- from files to the ledger

    async def begin(
        self,
        table: Table,
        written: Written,
        columns: TableColumns,
        settings: dict[str, str],
        formats: Sequence[str],
        stamp: int,
    ) -> None:
        """Steps 1 and 2. `Fenced` when somebody else has moved the table meanwhile: these files are orphans."""
        number = table.number + 1
        previous = table.recent[-1].manifest if table.recent else ""
        ends = dict(table.ends) | written.ends
        manifest = Manifest(
            table.id, table.name, number, stamp, ends, columns, settings, tuple(formats), written, previous
        )
        name = manifest_name(table.folder, number, self._chance.getrandbits(64))
        await self._put(name, write_manifest(manifest))
        self._reached("manifest")
        commit = TableCommit(
            number=number,
            manifest=name,
            ends=written.ends,
            stamp=stamp,
            files=len(written.files),
            rows=written.records,
            bytes=written.size,
            source_bytes=written.source_bytes,
        )
        self._kept = {name: manifest}
        await self._truth.propose(ROOT, BeginCommit(self._lease.epoch, table.id, commit, written.firsts))
        self._reached("begin")

    async def _put(self, name: ObjectName, body: bytes) -> None:
        for attempt in range(PUT_TRIES):
            try:
                await self._truth.objects.put_new(name, body)
            except AlreadyThere:
                if bytes(await self._truth.objects.read(name)) != body:
                    raise Fenced(f"{name} was written by somebody else") from None
                return  # an earlier try of ours did it
            except (Unavailable, Uncertain):
                if attempt == PUT_TRIES - 1:
                    raise
                await asyncio.sleep(0.1 * 2**attempt)
            else:
                return

    # --- from the ledger to everywhere

    async def finish(self, table: Table, wanted: Sequence[str]) -> None:
        """Step 3 and 4 of a pending commit; `Trouble` if some step could not be done.

        `wanted` are the formats that the topic has now: one that somebody took out since is not waited for.
        """
        commit = table.pending
        assert commit is not None, f"table {table.name} has nothing pending"
        manifest = await self._read(commit.manifest)
        formats = [name for name in manifest.formats if name in wanted and name in self._formats]
        trouble = Trouble()
        duties: dict[str, tuple[Step, Any]] = {
            "swap": (Step.SWAPPED, self._swap),
            "letters": (Step.LETTERS, self._letters),
        }
        for name in formats:
            duties[name] = (self._formats[name].step, self._publisher(self._formats[name]))
        due = {name: duty for name, (step, duty) in duties.items() if not commit.steps & step}
        results = await asyncio.gather(*(duty(table, manifest) for duty in due.values()), return_exceptions=True)
        done = 0
        for name, result in zip(due, results, strict=True):
            if result is None:
                done |= duties[name][0]
            elif isinstance(result, RunnelError | TimeoutError) and not isinstance(result, Fenced):
                trouble.reasons[name] = str(result) or "no answer in time"
            else:
                raise result
        finished = not trouble.reasons
        if done or finished:
            await self._truth.propose(
                ROOT, MarkCommit(self._lease.epoch, table.id, commit.number, done, finished=finished)
            )
        self._reached("finished" if finished else "marked")
        if trouble.reasons:
            raise trouble
        self._kept.pop(commit.manifest, None)
        log.info(
            "table_committed",
            table=table.name,
            commit=commit.number,
            files=commit.files,
            rows=commit.rows,
            bytes=commit.bytes,
        )

    async def _read(self, name: str) -> Manifest:
        kept = self._kept.get(name)
        if kept is None:
            kept = read_manifest(name, bytes(await self._truth.objects.read(ObjectName(name))))
        return kept

    async def _swap(self, _: Table, manifest: Manifest) -> None:
        if not self._swap_too:
            return
        by_shard: dict[ShardId, set[int]] = {}
        for group in manifest.written.groups:
            for run in group.runs:
                by_shard.setdefault(self._truth.shard_of(run.stream), set()).add(run.stream)
        for shard, streams in sorted(by_shard.items()):
            files, runs = manifest.written.replacement(streams)
            answers = await self._truth.propose(shard, ReplaceExtents(files, runs))
            others = sum(1 for answer in answers if answer == Replacement.OTHER)
            if others:
                log.warning("extents_kept", table=manifest.topic, shard=shard, runs=others)
            self._reached(f"swapped shard {shard}")
        self._reached("swapped")

    async def _letters(self, table: Table, manifest: Manifest) -> None:
        """Send what could not be a row to the dead-letter topic: one producer epoch a commit, so that it goes once."""
        groups = [group for group in manifest.written.groups if group.letters]
        if not groups:
            return
        topic = self._truth.root.topics.get(table.name)
        name = self._truth.rules(topic).dead_letters if topic is not None else ""
        target = await self._truth.letter_topic(name or f"{table.name}-dead-letters")
        producer = await self._producer(table, manifest.number // EPOCHS)
        sequence = 0
        for group in groups:
            found = [letter async for letter in read_letters(self._truth.objects, group)]
            for batch in batched(found):
                records = [as_record(letter, table.name) for letter in batch]
                await self._truth.append(
                    target.streams[0],
                    records,
                    producer=producer,
                    epoch=manifest.number % EPOCHS,
                    sequence=sequence,
                )
                sequence += len(records)
                self._reached("some letters")
        self._reached("letters")

    async def _producer(self, table: Table, generation: int) -> int:
        """The producer of a table's letters; it is in the ledger before it writes anything."""
        key = f"letters.producer.{generation}"
        known = table.facts.get(key)
        if known is None:
            known = str(await self._truth.new_producer())
            await self._truth.propose(ROOT, NoteTable(self._lease.epoch, table.id, facts={key: known}))
        return int(known)

    def _publisher(self, to: TableFormat) -> Any:
        async def publish(table: Table, manifest: Manifest) -> None:
            try:
                facts = await self._in_time(to, table, manifest)
            except Behind as behind:
                facts = await self._catch_up(to, table, manifest, behind.commit)
            news = {key: value for key, value in facts.items() if table.facts.get(key) != value}
            self._reached(f"published {to.name}")
            if news:
                await self._truth.propose(ROOT, NoteTable(self._lease.epoch, table.id, facts=news))
            self._reached(to.name)

        return publish

    async def _catch_up(self, to: TableFormat, table: Table, manifest: Manifest, has: int) -> Mapping[str, str]:
        """Publish the commits that a format lacks, from their manifests, then this one: it was away, or is new."""
        missing: list[str] = []
        earlier = manifest
        while earlier.number > has + 1:
            if not earlier.previous:
                raise Corrupt(f"table '{table.name}': the manifest before commit {earlier.number} is not known")
            missing.append(earlier.previous)
            earlier = await self._read(earlier.previous)
        for name in reversed(missing):
            await self._in_time(to, table, await self._read(name))
        log.info("table_caught_up", table=table.name, format=to.name, commits=len(missing))
        return await self._in_time(to, table, manifest)

    async def rebuild(self, table: Table, formats: Sequence[str]) -> None:
        """Make the tables of these formats again, where they are gone, from the files of every commit."""
        for name in formats:
            to = self._formats[name]
            facts = to.forget(Target(table.name, table.id, table.folder, dict(table.facts)))
            await self._truth.propose(ROOT, NoteTable(self._lease.epoch, table.id, facts=facts))
            if table.recent:
                await self._publisher(to)(table, await self._read(table.recent[-1].manifest))

    async def tidy(self, table: Table, wanted: Sequence[str], now_ms: int) -> None:
        """Upkeep of one table in every format it has."""
        for name in wanted:
            known = f"{name}.{'uuid' if name == 'iceberg' else 'id'}"
            if name in self._formats and table.facts.get(known):
                target = Target(table.name, table.id, table.folder, dict(table.facts))
                await asyncio.to_thread(self._formats[name].tidy, target, now_ms)

    async def _in_time(self, to: TableFormat, table: Table, manifest: Manifest) -> Mapping[str, str]:
        """A catalog that hangs holds nobody up. Its thread goes on; if it still commits, the next look will see that."""
        target = Target(table.name, table.id, table.folder, dict(table.facts))
        try:
            async with asyncio.timeout(self._patience_s):
                files = still_there(manifest.written, table.starts)
                return await asyncio.to_thread(to.commit, target, manifest.with_files(files))
        except TimeoutError:
            raise Uncertain(
                f"the {to.name} catalog gave no answer within {self._patience_s:.0f} s for table '{table.name}': see that it runs"
            ) from None


def as_record(letter: Letter, topic: str) -> Record:
    """A dead letter: the record as it was, with where it lay and what is wrong in its headers."""
    said = {
        "runnel.reason": letter.why,
        "runnel.topic": topic,
        "runnel.partition": str(letter.partition),
        "runnel.offset": str(letter.offset),
    }
    headers = [*letter.headers, *((name, text.encode()) for name, text in said.items())]
    return Record(letter.key, letter.value, headers, letter.timestamp)


def batched(letters: Iterable[Letter]) -> Iterator[list[Letter]]:
    """The same cut in the same way every time, or a batch that comes again would not be known again."""
    gathered: list[Letter] = []
    size = 0
    for letter in letters:
        gathered.append(letter)
        size += len(letter.key or b"") + len(letter.value or b"")
        if len(gathered) == LETTERS_PER_BATCH or size >= LETTER_BYTES_PER_BATCH:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered
