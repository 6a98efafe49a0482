"""Ranges of an object: which are allowed, and which are better fetched as one. Pure.

A request to an object store costs as much as tens of kilobytes of transfer, so ranges with a small gap between them
are read together and cut apart again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from runnel.errors import Refused, Unavailable
from runnel.model import ObjectName

NEAR_BYTES = 64 * 1024  # a gap that costs less to read than another request does
TOGETHER_BYTES_MAX = 8 * 1024 * 1024  # near ranges are not joined beyond this size

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """One run of bytes to read, and the places in the caller's list that are cut from it."""

    start: int
    length: int
    places: tuple[int, ...]


def stop_of(name: ObjectName, size: int, start: int, length: int | None) -> int:
    """Where a range ends in an object of this size, or `Refused` when it goes over the end."""
    check_range(name, start, length)
    stop = size if length is None else start + length
    if start > size or stop > size:
        raise over_the_end(name, start, length, size)
    return stop


def check_range(name: ObjectName, start: int, length: int | None) -> None:
    if start < 0 or (length is not None and length < 0):
        raise Refused(f"a range of {name!r} starts at {start} and has the length {length}; neither may be negative")


def over_the_end(name: ObjectName, start: int, length: int | None, size: int | None = None) -> Refused:
    asked = f"from {start}" if length is None else f"{start} to {start + length}"
    has = "is shorter" if size is None else f"has {size}"
    return Refused(f"bytes {asked} of {name!r} were asked for, it {has}")


def check_whole(name: ObjectName, asked: int, got: int) -> None:
    """A short answer is no answer: whoever receives one says so, and the caller reads again."""
    if asked != got:
        raise Unavailable(f"the answer for {name!r} broke off after {got} of {asked} bytes; read it again")


def join_near(ranges: Sequence[Range]) -> list[Fetch]:
    """The reads that cover all ranges, near ones joined, in order of their start."""
    fetches: list[Fetch] = []
    for place in sorted(range(len(ranges)), key=ranges.__getitem__):
        start, length = ranges[place]
        last = fetches[-1] if fetches else None
        if (
            last is not None
            and start - (last.start + last.length) <= NEAR_BYTES
            and start + length - last.start <= TOGETHER_BYTES_MAX
        ):
            stop = max(last.start + last.length, start + length)
            fetches[-1] = Fetch(start=last.start, length=stop - last.start, places=(*last.places, place))
        else:
            fetches.append(Fetch(start=start, length=length, places=(place,)))
    return fetches
