"""The ObjectStore seam: named, write-once bytes."""

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from runnel.model import ObjectName

Buffer = bytes | bytearray | memoryview
Body = Buffer | Sequence[Buffer]
"""What an object is made of: one run of bytes, or several that are written one after another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFacts:
    """What a store knows of an object without reading it."""

    name: ObjectName
    size: int
    modified_ms: int


class ObjectStore(Protocol):
    """Named, write-once bytes.

    What callers may rely on:

    - `put_new` never overwrites: of any number of writers racing for one name exactly one succeeds, the others get
      `AlreadyThere`. When it returns, the object is durable and visible whole; no reader ever sees a part of it.
    - The buffers of a body belong to the store until `put_new` returns or raises, even when it is cancelled; then they
      may be recycled.
    - An object never changes. It can only be deleted, and a deleted name may be used again by nobody but tests.
    - `read` gives exactly the bytes asked for, or raises: `NotThere`, or `Refused` for a range that goes over the end.
      An answer that breaks off is `Unavailable`, never short bytes.
    - `list` is in order of names (as UTF-8 bytes) and sees every object that was durable before it began.
    - `delete` forgives names that are not there.
    - `Unavailable` means nothing happened; `Uncertain` (from `put_new` and `delete` alone) means that it may have.
      After an `Uncertain` put the caller reads the name: what is there was put by itself, by another, or not at all.
      A second `put_new` may then find `AlreadyThere` because the first one was done: callers put something into their
      objects by which they know their own. A delete, done or not, can simply be repeated; of several names any may be
      gone when it fails.

    Names are relative, `/`-separated, of `[A-Za-z0-9._=-]` parts, without empty parts, `.` and `..`, 512 bytes at most
    and 255 in a part; any other is `Refused` before anything else happens. No name may also be a folder of another:
    with `a` there, `a/b` is a mistake, which a file system refuses and a bucket does not notice.
    """

    async def put_new(self, name: ObjectName, body: Body) -> None:
        """Make an object durable under a name that nobody has used."""

    async def read(self, name: ObjectName, start: int = 0, length: int | None = None) -> Buffer:
        """The bytes from `start`; `length` of them, or all that follow."""

    async def read_ranges(self, name: ObjectName, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """Many (start, length) ranges of one object, in the order asked for, near ones fetched as one."""

    async def facts(self, name: ObjectName) -> ObjectFacts:
        """Size and age of one object, or `NotThere`."""

    def list(self, prefix: str, after: str = "") -> AsyncIterator[ObjectFacts]:
        """Objects whose name begins with `prefix` and is greater than `after`, in order of names."""

    async def delete(self, names: Iterable[ObjectName]) -> None:
        """Remove objects; those that are not there are passed over."""

    async def close(self) -> None:
        """Let go of connections and files. Nothing is pending after it."""
