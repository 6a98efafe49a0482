"""The offset index of one stream: which object holds which offsets.

An *extent* is a run of offsets inside one object. A stream keeps its extents in order, as packed columns: 44 bytes
each, found by bisection. Only ends are kept, so extents can neither overlap nor leave a hole: the first offset of one
is the end of the one before it, and the first of all begins at `floor`.

    ends     one past the last offset
    totals   bytes of the stream up to this end, counted from its birth
    stamps   the largest timestamp inside
    peaks    the largest timestamp inside this or any earlier extent, so that a search by time can bisect
    slots    which object (see objects.py)
    places   where in the object the run begins
    lengths  how many bytes it takes there
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

COLUMNS = "qqqqIII"


class Extent(NamedTuple):
    """A run of offsets inside one object: `first` inclusive, `end` exclusive."""

    first: int
    end: int
    slot: int
    place: int
    length: int
    stamp: int

    @property
    def records(self) -> int:
        return self.end - self.first


class Extents:
    """Packed extents of one stream, in order."""

    __slots__ = ("ends", "floor", "lengths", "peaks", "places", "slots", "stamps", "totals")

    def __init__(self, floor: int = 0) -> None:
        self.floor = floor
        self.ends = array("q")
        self.totals = array("q")
        self.stamps = array("q")
        self.peaks = array("q")
        self.slots = array("I")
        self.places = array("I")
        self.lengths = array("I")

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: int) -> Extent:
        return Extent(
            self.ends[index - 1] if index else self.floor,
            self.ends[index],
            self.slots[index],
            self.places[index],
            self.lengths[index],
            self.stamps[index],
        )

    def __iter__(self) -> Iterator[Extent]:
        return (self[index] for index in range(len(self.ends)))

    def append(self, end: int, total: int, stamp: int, slot: int, place: int, length: int) -> None:
        peaks = self.peaks
        peaks.append(stamp if not peaks or stamp > peaks[-1] else peaks[-1])
        self.ends.append(end)
        self.totals.append(total)
        self.stamps.append(stamp)
        self.slots.append(slot)
        self.places.append(place)
        self.lengths.append(length)

    def extend_last(self, end: int, total: int, stamp: int, length: int) -> None:
        """Let the last extent take in the run that lies right behind it in the same object."""
        self.ends[-1] = end
        self.totals[-1] = total
        self.lengths[-1] += length
        self.stamps[-1] = max(self.stamps[-1], stamp)
        self.peaks[-1] = max(self.peaks[-1], stamp)

    def find(self, offset: int) -> int:
        """The index of the extent that holds an offset; `len(self)` when it is at or beyond the end."""
        return bisect_right(self.ends, offset)

    def find_time(self, stamp: int) -> int:
        """The first index at which a record of this time or later may be; from there on, look inside."""
        return bisect_left(self.peaks, stamp)

    def drop_front(self, count: int) -> "array[int]":
        """Forget the oldest extents; their slots are given back, so that references can be let go."""
        if not count:
            return array("I")
        self.floor = self.ends[count - 1]
        gone = self.slots[:count]
        for column in (self.ends, self.totals, self.stamps, self.peaks, self.slots, self.places, self.lengths):
            del column[:count]
        return gone

    def replace(self, low: int, high: int, extents: "Extents") -> "array[int]":
        """Put other extents, which cover the same offsets, in the place of those from `low` up to `high`.

        The slots that were replaced are given back.
        """
        first = self.ends[low - 1] if low else self.floor
        assert extents.floor == first, f"replacement begins at {extents.floor}, not {first}"
        assert extents.ends[-1] == self.ends[high - 1], "replacement ends elsewhere"
        gone = self.slots[low:high]
        self.ends[low:high] = extents.ends
        self.totals[low:high] = extents.totals
        self.stamps[low:high] = extents.stamps
        self.slots[low:high] = extents.slots
        self.places[low:high] = extents.places
        self.lengths[low:high] = extents.lengths
        peak = self.peaks[low - 1] if low else -(1 << 62)
        self.peaks[low:high] = array("q", [peak := max(peak, stamp) for stamp in extents.stamps])
        return gone

    def pack(self) -> bytes:
        """All columns, one behind another; the number of extents is known to whoever keeps it."""
        return b"".join(
            column.tobytes()
            for column in (self.ends, self.totals, self.stamps, self.peaks, self.slots, self.places, self.lengths)
        )

    @classmethod
    def unpack(cls, floor: int, count: int, data: memoryview) -> "Extents":
        extents = cls(floor)
        at = 0
        for name, code in zip(
            ("ends", "totals", "stamps", "peaks", "slots", "places", "lengths"), COLUMNS, strict=True
        ):
            column = getattr(extents, name)
            size = count * (8 if code == "q" else 4)
            column.frombytes(data[at : at + size])
            at += size
        return extents
