"""Trying again: how often, how long, and what to say when it did not help.

Only who counts the tries knows whether one of them may have been done, so obstore's own retries are off.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from runnel.errors import NotThere, Overloaded, Refused, RunnelError, Unavailable
from runnel.world.chance import Chance
from runnel.world.objects.bucket_errors import Meaning, Trouble, trouble_of

T = TypeVar("T")


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


class Tries:
    """The tries of one bucket's requests. `where` names it in messages and holds no secrets."""

    def __init__(
        self, policy: Policy, chance: Chance, troubles: tuple[type[BaseException], ...], *, where: str, remedy: str
    ) -> None:
        self.policy = policy
        self.where = where
        self._chance = chance
        self._troubles = troubles
        self._remedy = remedy

    async def persist(self, doing: str, attempt: Callable[[], Awaitable[T]], size: int = 0) -> T:
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
                return OverTheEnd(f"could not {doing}: the range goes over the end")
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


class OverTheEnd(Refused):
    """A range beyond the object's end; how long the object is has still to be asked."""


class Loss:
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
