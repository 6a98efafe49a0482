"""Small helpers for tests of the truth: items, commits, entries."""

from runnel.metadata.entry import Entry
from runnel.metadata.state import Applied, ShardState
from runnel.metadata.updates import CommitObject
from runnel.metadata.updates.commit import GUARDED, ITEM, NAMED, Guard

SHARDS = 4


def item(stream, records=1, *, length=100, place=0, stamp=0, producer=-1, epoch=-1, sequence=-1, flags=0):
    return ITEM.pack(stream, stamp, producer, epoch, sequence, place, length, records, flags)


def commit(*items, name="wal/one", stamp=1, names=(), guards=None):
    guards = guards or {}
    return CommitObject(name, stamp, b"".join(items), list(names), guards)


class Book:
    """A state with its entries, so that a test reads as what happened."""

    def __init__(self, shard=1):
        self.state = ShardState(shard, SHARDS)
        self.entries = []

    def enter(self, *updates, at_ms=0, after=None, entry_id=None) -> Applied:
        after = self.state.position if after is None else after
        entry_id = entry_id or len(self.entries).to_bytes(16, "big")
        entry = Entry(entry_id, after, at_ms, list(updates))
        self.entries.append(entry)
        return self.state.apply(entry, self.state.position + 1)

    def one(self, update, **how):
        (result,) = self.enter(update, **how).results
        if isinstance(result, Exception):
            raise result
        return result


__all__ = ["GUARDED", "NAMED", "SHARDS", "Book", "Guard", "commit", "item"]
