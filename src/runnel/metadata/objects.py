"""Which objects a shard refers to, and how often.

Extents name an object by a *slot*, a small number that is reused when the last extent that named it has gone. An object
without references is forgotten here at once; the sweep finds it in the store by its absence here.
"""

from array import array
from enum import IntEnum

NO_SLOT = 0xFFFFFFFF


class FileKind(IntEnum):
    """What an object is, and so how its records are read."""

    WAL = 0
    """Sealed batches: an extent's `place` and `length` are bytes of the object."""
    PARQUET = 1
    """Rows in columns: `place` is the first row group, `length` the bytes that the sealed batches had."""
    BODY = 2
    """Bytes that somebody published beside a stream; no extent refers to them."""


class ObjectTable:
    """Slots, their objects' names and kinds, and the number of extents that refer to each."""

    __slots__ = ("free", "kinds", "names", "references", "slot_of")

    def __init__(self) -> None:
        self.names: list[str] = []
        self.kinds = bytearray()
        self.references = array("I")
        self.free: list[int] = []
        self.slot_of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self.slot_of)

    def __contains__(self, name: str) -> bool:
        return name in self.slot_of

    def enter(self, name: str, kind: FileKind = FileKind.WAL) -> int:
        """The slot of an object; a new one begins without references."""
        slot = self.slot_of.get(name)
        if slot is not None:
            return slot
        if self.free:
            slot = self.free.pop()
            self.names[slot] = name
            self.kinds[slot] = kind
        else:
            slot = len(self.names)
            self.names.append(name)
            self.kinds.append(kind)
            self.references.append(0)
        self.slot_of[name] = slot
        return slot

    def refer(self, slot: int, times: int = 1) -> None:
        self.references[slot] += times

    def release(self, slots: "array[int]") -> list[str]:
        """Let go of one reference for each slot; the names of objects that nothing refers to any more are given back."""
        forgotten = []
        for slot in slots:
            self.references[slot] -= 1
            if not self.references[slot]:
                forgotten.append(self.forget(slot))
        return forgotten

    def forget(self, slot: int) -> str:
        assert not self.references[slot], f"slot {slot} is still referred to"
        name = self.names[slot]
        self.names[slot] = ""
        del self.slot_of[name]
        self.free.append(slot)
        return name
