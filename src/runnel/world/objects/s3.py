"""Objects in a bucket: S3 and all that speaks it, Google Cloud Storage, Azure Blob Storage, through obstore.

A request is tried again, with growing random pauses, as long as its trouble may pass, and never for longer than the
policy says: see `bucket_tries`.

Puts are conditional (`If-None-Match: *`), and each carries a random mark as metadata. When an answer was lost and the
next try finds the name taken, the mark says whether the object is this very put's. So a caller meets `Uncertain` only
when the store stays away until the policy's patience ends.

Reads are hedged: see `hedging`.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from runnel.errors import AlreadyThere, Refused, RunnelError, Uncertain
from runnel.model import ObjectName
from runnel.world.chance import Chance
from runnel.world.objects.bodies import copy_of
from runnel.world.objects.bucket_errors import Meaning, trouble_of
from runnel.world.objects.bucket_tries import Loss, OverTheEnd, Policy, Tries
from runnel.world.objects.hedging import Hedging
from runnel.world.objects.names import check_beginning, check_name, is_name
from runnel.world.objects.ranges import check_range, check_whole, join_near, over_the_end, stop_of
from runnel.world.objects.seam import Body, Buffer, ObjectFacts

T = TypeVar("T")

MARK = "runnelput"  # a name that S3, GCS and Azure all accept for metadata
NAMES_A_REQUEST = 1000
RANGES_AT_ONCE = 8
# In the order of UTF-8 bytes and without '/': to find the greatest text below a prefix.
_ALPHABET = "-.0123456789=ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"


class BucketObjects:
    """An ObjectStore in a bucket. `where` names it in messages and holds no secrets; `remedy` says how to log in."""

    def __init__(
        self,
        bucket: Any,
        chance: Chance,
        *,
        where: str,
        remedy: str,
        policy: Policy | None = None,
        ordered: bool = True,
    ) -> None:
        self.where = where
        self._bucket = bucket
        self._chance = chance
        self._ordered = ordered
        self._hedging = Hedging()
        self._obstore = load_obstore()
        self._troubles = (self._obstore.exceptions.BaseError, OSError)
        self.tries = Tries(policy or Policy(), chance, self._troubles, where=where, remedy=remedy)

    async def check(self) -> None:
        """Whether this store can be used: reachable, with rights to write, read, list and delete, honouring write-once.

        Raises the one line to show a person who starts a node.
        """
        quick = copy.copy(self)
        quick.tries = copy.copy(self.tries)
        quick.tries.policy = replace(self.tries.policy, tries_max=2, hedge=False)
        folder = f"runnel-check/{self._chance.getrandbits(64):016x}"
        # '-' sorts before '/', but not on a server that sorts folder by folder.
        first, second = ObjectName(f"{folder}-b"), ObjectName(f"{folder}/a")
        await quick.put_new(first, b"may be deleted")
        try:
            await quick.put_new(second, b"may be deleted")
            if await _overwrites(quick, first):
                raise Refused(f"{self.where} overwrites objects (it ignores If-None-Match); use a store that does not")
            await quick.read(first, 0, 3)
            if [facts.name async for facts in quick.list(folder)] != [first, second]:
                raise Refused(f"{self.where} lists names in an order of its own; add unordered=true to its address")
        finally:
            with suppress(RunnelError):
                await quick.delete([first, second])

    async def put_new(self, name: ObjectName, body: Body) -> None:
        check_name(name)
        whole = copy_of(body)
        mark = f"{self._chance.getrandbits(96):024x}"
        loss = Loss()

        async def attempt() -> None:
            try:
                with loss:
                    await self._obstore.put_async(
                        self._bucket, name, whole, mode="create", use_multipart=False, attributes={MARK: mark}
                    )
            except self._troubles as error:
                if trouble_of(error).meaning is not Meaning.TAKEN:
                    raise
                if not loss.happened or await self._mark_of(name) != mark:
                    raise AlreadyThere(f"object {name!r} is already there") from None
                # The try whose answer was lost was done.

        try:
            await self.tries.persist(f"put {name!r}", attempt, len(whole))
        except AlreadyThere:
            raise
        except RunnelError as error:
            if not loss.happened:
                raise
            raise Uncertain(f"{error}; it may be there all the same, read it to find out") from error

    async def read(self, name: ObjectName, start: int = 0, length: int | None = None) -> Buffer:
        check_name(name)
        check_range(name, start, length)
        if length == 0:
            stop_of(name, (await self.facts(name)).size, start, 0)
            return b""

        async def attempt() -> Buffer:
            answer = await self._first_answer(name, start, length)
            stop = stop_of(name, answer.meta["size"], start, length)
            found = memoryview(await answer.bytes_async())
            check_whole(name, stop - start, len(found))
            return found

        try:
            return await self.tries.persist(f"read {name!r}", attempt, length or 0)
        except OverTheEnd:
            size = (await self.facts(name)).size
            if start == size and length is None:
                return b""
            raise over_the_end(name, start, length, size) from None

    async def read_ranges(self, name: ObjectName, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        check_name(name)
        for start, length in ranges:
            check_range(name, start, length)
        parts: list[Buffer] = [b""] * len(ranges)
        fetches = join_near(ranges)
        for at in range(0, len(fetches), RANGES_AT_ONCE):
            some = fetches[at : at + RANGES_AT_ONCE]
            answers = await asyncio.gather(
                *(self.read(name, fetch.start, fetch.length) for fetch in some), return_exceptions=True
            )
            for fetch, answer in zip(some, answers, strict=True):
                if isinstance(answer, BaseException):
                    raise answer
                view = memoryview(answer)
                for place in fetch.places:
                    start, length = ranges[place]
                    parts[place] = view[start - fetch.start : start - fetch.start + length]
        return parts

    async def facts(self, name: ObjectName) -> ObjectFacts:
        check_name(name)
        return _facts(
            await self.tries.persist(f"look at {name!r}", lambda: self._obstore.head_async(self._bucket, name))
        )

    async def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectFacts]:
        check_beginning(prefix)
        last = max(after, _just_below(prefix))
        pages: Any = None

        async def attempt() -> Any:
            # obstore counts a prefix in whole folders; the rest of it is judged here.
            nonlocal pages
            if pages is None:
                folder, offset = prefix.rpartition("/")[0] or None, (last or None) if self._ordered else None
                pages = self._obstore.list(self._bucket, prefix=folder, offset=offset, chunk_size=NAMES_A_REQUEST)
            try:
                return await (anext(pages, None) if self._ordered else pages.collect_async())
            except BaseException:
                pages = None  # after trouble a new list begins after the last name seen
                raise

        while page := await self.tries.persist(f"list {prefix!r}", attempt):
            for meta in page if self._ordered else sorted(page, key=_path):
                name = last = meta["path"]
                if name > prefix and not name.startswith(prefix):
                    return
                if name > after and name.startswith(prefix) and is_name(name):
                    yield _facts(meta)
            if not self._ordered:
                return

    async def delete(self, names: Iterable[ObjectName]) -> None:
        wanted = [*names]
        for name in wanted:
            check_name(name)
        loss = Loss()
        try:
            for at in range(0, len(wanted), NAMES_A_REQUEST):
                some = wanted[at : at + NAMES_A_REQUEST]
                await self.tries.persist(f"delete {len(some)} objects", partial(self._delete, some, loss))
                loss.happened = True  # from here on something has been deleted
        except RunnelError as error:
            if not loss.happened:
                raise
            raise Uncertain(f"{error}; some may be gone, delete them again") from error

    async def close(self) -> None:
        """Connections close by themselves once the store is let go."""

    async def _delete(self, names: Sequence[ObjectName], loss: Loss) -> None:
        try:
            with loss:
                await self._obstore.delete_async(self._bucket, names)
        except self._troubles as error:
            if trouble_of(error).meaning is not Meaning.MISSING:
                raise
            if len(names) > 1:  # stores without a bulk delete stop at the first name that is not there
                for name in names:
                    await self._delete([name], loss)

    async def _mark_of(self, name: ObjectName) -> str | None:
        answer = await self._obstore.get_async(self._bucket, name)
        mark: str | None = answer.attributes.get(MARK)
        return mark

    async def _first_answer(self, name: ObjectName, start: int, length: int | None) -> Any:
        """The answer's head, from the first request or from a second one that overtakes it."""

        def ask() -> asyncio.Future[Any]:
            # obstore hands out futures whose work is under way, so no task is needed to have two of them.
            if start == 0 and length is None:
                return self._obstore.get_async(self._bucket, name)  # type: ignore[no-any-return]
            wanted = {"offset": start} if length is None else (start, start + length)
            return self._obstore.get_async(self._bucket, name, options={"range": wanted})  # type: ignore[no-any-return]

        time = asyncio.get_running_loop().time
        began = time()
        asked = [ask()]
        try:
            if self.tries.policy.hedge and (late_s := self._hedging.late_s) is not None:
                done, _ = await asyncio.wait(asked, timeout=late_s)
                if not done and self._hedging.spend():
                    asked.append(ask())
            pending = set(asked)
            while True:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                answers = [one for one in done if one.exception() is None]
                if answers:
                    self._hedging.saw(time() - began)
                    return answers[0].result()
                if not pending:
                    return done.pop().result()
        finally:
            for one in asked:
                one.cancel()


async def _overwrites(store: BucketObjects, taken: ObjectName) -> bool:
    try:
        await store.put_new(taken, b"overwritten")
    except AlreadyThere:
        return False
    return True


def load_obstore() -> ModuleType:
    try:
        import obstore  # noqa: PLC0415  # an extra: only who uses buckets needs it
    except ImportError:
        raise Refused("objects in a bucket need the package obstore; run: pip install 'runnel[s3]'") from None
    return obstore


def _just_below(prefix: str) -> str:
    """A text below all names that begin with the prefix and above all names before them, to start a list from."""
    if not prefix or prefix.endswith("/"):
        return prefix.rstrip("/")
    place = _ALPHABET.index(prefix[-1])
    return prefix[:-1] + _ALPHABET[place - 1] + "~" if place else prefix[:-1].rstrip("/")


def _path(meta: Any) -> str:
    path: str = meta["path"]
    return path


def _facts(meta: Any) -> ObjectFacts:
    modified_ms = int(meta["last_modified"].timestamp() * 1000)
    return ObjectFacts(name=ObjectName(meta["path"]), size=meta["size"], modified_ms=modified_ms)
