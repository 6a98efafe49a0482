"""The book of promises: what writers sent and were told, what readers saw. It lies outside the nodes.

Every value that is ever sent is different and says who sent it, so that the streams can be held against the book at the
end. What can be judged at once is judged at once: an `AssertionError` in a node's code fails the run.

    writer:  book.send(...) before the first attempt, book.told(...) for each answer that gives an offset
    reader:  floor = book.promised(stream) before it asks, book.saw(..., floor=floor) with what came
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class Sent(NamedTuple):
    """Who sent a value, where to, and as the how manieth of this writer in this stream."""

    writer: str
    stream: int
    number: int
    once: bool
    """Whether its writer is idempotent: then it may be there once only, in order."""


@dataclass(slots=True)
class Book:
    sent: dict[bytes, Sent] = field(default_factory=dict)
    first_told: dict[bytes, int] = field(default_factory=dict)
    held: dict[int, dict[int, bytes]] = field(default_factory=dict)
    """What anyone was told or saw to be at an offset of a stream."""
    ends: dict[int, int] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    """Offsets before which records may be gone, because somebody has asked for that."""
    deleted: set[int] = field(default_factory=set)
    reads: int = 0

    def send(self, values: Sequence[bytes], *, writer: str, stream: int, number: int, once: bool = True) -> None:
        """Values are about to be sent for the first time; `number` is that of the first."""
        for at, value in enumerate(values):
            assert value not in self.sent, f"{value[:40]!r} is sent twice: let writers number their values"
            self.sent[value] = Sent(writer, stream, number + at, once)

    def told(self, stream: int, first: int, values: Sequence[bytes]) -> None:
        """An append, or a retry of it, was acknowledged with its first offset."""
        for at, value in enumerate(values):
            offset = first + at
            sent = self.sent[value]
            if sent.once:
                earlier = self.first_told.setdefault(value, offset)
                assert earlier == offset, (
                    f"record {sent.number} of {sent.writer} in stream {stream} was given offset {earlier} and, "
                    f"when it was sent again, {offset}"
                )
            self._hold(stream, offset, value)
        self.ends[stream] = max(self.ends.get(stream, 0), first + len(values))

    def promised(self, stream: int) -> int:
        """The offset up to which whatever is read from now on must reach."""
        return self.ends.get(stream, 0)

    def saw(
        self, stream: int, asked: int, records: Iterable[tuple[int, bytes]], *, floor: int, closed: bool = False
    ) -> int:
        """A read at `asked` came back; the offset to go on from. Batches may begin before what was asked for."""
        self.reads += 1
        following = asked
        for offset, value in records:
            self._hold(stream, offset, value)
            if offset >= asked:
                assert offset == following, f"stream {stream}: a read at {asked} jumped from {following} to {offset}"
                following += 1
        assert following > asked or asked >= floor or closed, (
            f"stream {stream}: offset {asked} was acknowledged before a read there, which found nothing"
        )
        return following

    def truncated(self, stream: int, start: int) -> None:
        """Somebody is about to ask that a stream begin at an offset."""
        self.starts[stream] = max(self.starts.get(stream, 0), start)

    def _hold(self, stream: int, offset: int, value: bytes) -> None:
        sent = self.sent.get(value)
        assert sent is not None, f"nobody sent what is at offset {offset} of stream {stream}: {value[:40]!r}"
        assert sent.stream == stream, f"{value[:40]!r} was sent to stream {sent.stream} and is in {stream}"
        known = self.held.setdefault(stream, {}).setdefault(offset, value)
        assert known == value, f"offset {offset} of stream {stream} was {known[:40]!r} and is {value[:40]!r}"


def hold_against(book: Book, stream: int, start: int, end: int, contents: Sequence[tuple[int, bytes]]) -> None:
    """The whole of a stream at the end, against everything that was promised."""
    offsets = [offset for offset, _ in contents]
    assert offsets == list(range(start, end)), f"stream {stream} has holes or doubles between {start} and {end}"
    assert start <= book.starts.get(stream, 0), f"stream {stream} begins at {start}, nobody asked for that"
    found = dict(contents)
    for offset, value in book.held.get(stream, {}).items():
        if offset >= start:
            there = found.get(offset)
            assert there is not None, f"offset {offset} of stream {stream} was acknowledged and is lost"
            assert there == value, f"offset {offset} of stream {stream} was {value[:40]!r} and is {there[:40]!r}"
    last: dict[str, int] = {}
    for offset, value in contents:
        sent = book.sent.get(value)
        assert sent is not None, f"nobody sent what is at offset {offset} of stream {stream}: {value[:40]!r}"
        assert sent.stream == stream, f"{value[:40]!r} was sent to stream {sent.stream} and is in {stream}"
        before = last.get(sent.writer)
        assert not sent.once or before is None or sent.number == before + 1, (
            f"stream {stream}: record {sent.number} of {sent.writer} comes after its record {before}"
        )
        last[sent.writer] = sent.number
