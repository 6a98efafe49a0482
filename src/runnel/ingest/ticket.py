"""A request's batches on their way, and the answer that comes back."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from runnel.errors import RunnelError
from runnel.log.builder import Sealed
from runnel.metadata.producers import Verdict
from runnel.metadata.updates.commit import GUARDED, NAMED, Guard
from runnel.world.objects import Buffer


class Answer(NamedTuple):
    """What became of one batch: its first offset, or why it has none.

    A duplicate has the offset of its first copy where that is still known, else -1. `error` is set when the batch
    could not be brought before the ledger at all (`Unavailable`), or nobody knows whether it was (`Uncertain`).
    """

    first: int
    verdict: Verdict = Verdict.ACCEPTED
    facts: dict[str, Any] | None = None
    error: RunnelError | None = None


Done = Callable[[list[Answer]], None]
Answers = asyncio.Future[list[Answer]]


class Ticket:
    """The batches of one request. `done` is called once with an answer for each, in the order in which they were added.

    `copied` is called once when the bodies are no longer needed, which is earlier: memory they lie in may be reused.
    """

    __slots__ = ("answers", "batches", "copied", "done", "guards", "missing", "names", "size", "uncopied")

    def __init__(self, done: Done, copied: Callable[[], None] | None = None) -> None:
        self.done = done
        self.copied = copied
        self.batches: list[Sealed] = []
        self.answers: list[Answer | None] = []
        self.guards: dict[int, Guard] = {}
        self.names: dict[int, str] = {}
        self.size = 0
        self.missing = 0
        self.uncopied = 0

    @classmethod
    def awaited(cls) -> tuple["Ticket", Answers]:
        """A ticket whose answers come as a future, for those who wait; whoever has given up waiting is not told."""
        answers: Answers = asyncio.get_running_loop().create_future()

        def done(given: list[Answer]) -> None:
            if not answers.done():
                answers.set_result(given)

        return cls(done), answers

    def add(
        self,
        stream: int,
        body: Buffer,
        records: int,
        stamp: int,
        producer: int = -1,
        epoch: int = -1,
        sequence: int = -1,
        flags: int = 0,
    ) -> None:
        """One sealed batch whose head has been checked."""
        index = len(self.batches)
        self.batches.append(Sealed(stream, body, records, stamp, producer, epoch, sequence, flags, (self, index)))
        self.size += len(body)

    def add_guarded(
        self,
        stream: int,
        body: Buffer,
        records: int,
        stamp: int,
        *,
        name: str | None = None,
        epoch: int = -1,
        sequence: int = -1,
        guard: Guard | None = None,
        flags: int = 0,
    ) -> None:
        """A batch with a named producer, with conditions, or without any records (to close a stream)."""
        index = len(self.batches)
        if name is not None:
            self.names[index] = name
            flags |= NAMED
        if guard is not None:
            self.guards[index] = guard
            flags |= GUARDED
        self.add(stream, body, records, stamp, -1, epoch, sequence, flags)
