"""Objects in a bucket: S3 and all that speaks it, Google Cloud Storage, Azure Blob Storage, through obstore.

A request is tried again, with growing random pauses, as long as its trouble may pass, and never for longer than the
policy says. obstore's own retries are off: only who counts the tries knows whether one of them may have been done.

Puts are conditional (`If-None-Match: *`), and each carries a random mark as metadata. When an answer was lost and the
next try finds the name taken, the mark says whether the object is this very put's. So a caller meets `Uncertain` only
when the store stays away until the policy's patience ends.

Reads are hedged: see `hedging`.
"""

import asyncio
import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import ModuleType
from typing import Any, TypeVar

from runnel.errors import AlreadyThere, NotThere, Overloaded, Refused, RunnelError, Unavailable, Uncertain
from runnel.model import ObjectName
from runnel.world.chance import Chance
from runnel.world.objects.bodies import copy_of
from runnel.world.objects.bucket_errors import Meaning, Trouble, trouble_of
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How patient a bucket's caller is."""

    tries_max: int = 6
    patience_s: float = 30.0
    answer_s: float = 5.0
    bytes_per_s_min: float = 4e6
    pause_s: float = 0.05
    pause_s_max: float = 2.0
    hedge: bool = True

    def try_s(self, size: int) -> float:
        """How long one try may take that moves this many bytes."""
        return self.answer_s + size / self.bytes_per_s_min


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
        self.policy = policy or Policy()
        self._remedy = remedy
        self._bucket = bucket
        self._chance = chance
        self._ordered = ordered
        self._hedging = Hedging()
        self._obstore = load_obstore()
        self._troubles = (self._obstore.exceptions.BaseError, OSError)

    async def check(self) -> None:
        """Whether this store can be used: reachable, with rights to write, read, list and delete, honouring write-once.

        Raises the one line to show a person who starts a node.
        """
        quick = copy.copy(self)
        quick.policy = replace(self.policy, tries_max=2, hedge=False)
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
        loss = _Loss()

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
            await self._persist(f"put {name!r}", attempt, len(whole))
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
            return await self._persist(f"read {name!r}", attempt, length or 0)
        except _OverTheEnd:
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
        return _facts(await self._persist(f"look at {name!r}", lambda: self._obstore.head_async(self._bucket, name)))

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

        while page := await self._persist(f"list {prefix!r}", attempt):
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
        loss = _Loss()
        try:
            for at in range(0, len(wanted), NAMES_A_REQUEST):
                some = wanted[at : at + NAMES_A_REQUEST]
                await self._persist(f"delete {len(some)} objects", partial(self._delete, some, loss))
                loss.happened = True  # from here on something has been deleted
        except RunnelError as error:
            if not loss.happened:
                raise
            raise Uncertain(f"{error}; some may be gone, delete them again") from error

    async def close(self) -> None:
        """Connections close by themselves once the store is let go."""

    async def _delete(self, names: Sequence[ObjectName], loss: "_Loss") -> None:
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
            if self.policy.hedge and (late_s := self._hedging.late_s) is not None:
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

    async def _persist(self, doing: str, attempt: Callable[[], Awaitable[T]], size: int = 0) -> T:
        """Try until it works, is refused, or patience ends."""
        policy = self.policy
        time = asyncio.get_running_loop().time
        until = time() + policy.patience_s + size / policy.bytes_per_s_min
        tries = 0
        while True:
            tries += 1
            try:
                async with asyncio.timeout(policy.try_s(size)):
                    return await attempt()
            except Refused:
                raise
            except Unavailable as error:
                trouble = Trouble(meaning=Meaning.UNCLEAR, words=str(error))
            except self._troubles as error:
                trouble = trouble_of(error)
                if not trouble.passes:
                    raise self._error_of(trouble, doing, tries) from None
            pause = self._chance.uniform(0, min(policy.pause_s_max, policy.pause_s * 2**tries))
            if tries >= policy.tries_max or time() + pause > until:
                # The cause is left out on purpose: its text can hold what the request was signed with.
                raise self._error_of(trouble, doing, tries)
            await asyncio.sleep(pause)

    def _error_of(self, trouble: Trouble, doing: str, tries: int) -> RunnelError:
        where, words = self.where, trouble.words
        match trouble.meaning:
            case Meaning.MISSING:
                return NotThere(f"could not {doing}: it is not there")
            case Meaning.OVER_THE_END:
                return _OverTheEnd(f"could not {doing}: the range goes over the end")
            case Meaning.NO_BUCKET:
                return Refused(f"there is no such bucket: {where}; make it, or correct the address")
            case Meaning.NO_CREDENTIALS:
                return Refused(f"no credentials for {where}; {self._remedy}")
            case Meaning.FORBIDDEN:
                return Refused(f"{where} did not let us {doing} ({words}); {self._remedy}")
            case Meaning.SLOW_DOWN:
                return Overloaded(f"{where} asks to slow down ({words}); could not {doing} in {tries} tries")
            case Meaning.UNREACHABLE:
                return Unavailable(
                    f"{where} cannot be reached to {doing} ({words}); is it running, and is the address right?"
                )
            case Meaning.UNCLEAR:
                return Unavailable(f"{where} did not manage to {doing} in {tries} tries ({words})")
            case _:
                return Refused(f"{where} refused to {doing} ({words})")


class _OverTheEnd(Refused):
    """A range beyond the object's end; how long the object is has still to be asked."""


class _Loss:
    """Remembers whether the answer to any try was lost, so that the try may have been done."""

    def __init__(self) -> None:
        self.happened = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, asyncio.CancelledError) or (
            error is not None and trouble_of(error).meaning is Meaning.UNCLEAR
        ):
            self.happened = True


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
