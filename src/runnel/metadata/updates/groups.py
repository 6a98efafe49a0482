"""Consumer groups: generations that fence, and offsets that last."""

from typing import TYPE_CHECKING

import msgspec

from runnel.errors import Fenced, NotThere, Refused
from runnel.metadata.groups import Committed, Group

if TYPE_CHECKING:
    from runnel.metadata.state import ShardState


class GenerationStale(Fenced):
    """The group has moved on to a later generation."""


class GroupBusy(Refused):
    """The group has members."""


class LedByAnother(Fenced):
    """Another coordinator has taken the group over."""


class TakeGroup(msgspec.Struct, array_like=True, frozen=True, tag="take-group"):
    """A coordinator takes a group with members over, as it stands: from here on the one before it enters nothing."""

    group: str
    owner: bytes

    def check(self, state: "ShardState") -> None:
        if self.group not in state.groups:
            raise NotThere(f"group '{self.group}' does not exist")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        state.groups[self.group].owner = self.owner


class EnterGeneration(msgspec.Struct, array_like=True, frozen=True, tag="enter-generation"):
    """A coordinator enters what a rebalance has led to. It says which generation it believes in (`expects`).

    A group with members must be its own; one without members is anybody's.
    """

    group: str
    kind: str
    expects: int
    generation: int
    owner: bytes
    members: bytes
    empty: bool = False

    def check(self, state: "ShardState") -> None:
        known = state.groups.get(self.group)
        generation = known.generation if known is not None else 0
        if generation != self.expects:
            raise GenerationStale(f"group '{self.group}' is at generation {generation}, not {self.expects}")
        if known is not None and known.has_members and known.owner != self.owner:
            raise LedByAnother(f"group '{self.group}' is led by another coordinator")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        group = state.groups.get(self.group)
        if group is None:
            group = state.groups[self.group] = Group(self.group)
        group.kind = self.kind
        group.generation = self.generation
        group.owner = self.owner
        group.members = self.members
        group.changed_ms = at_ms
        group.empty_since_ms = at_ms if self.empty else None


class CommitOffsets(msgspec.Struct, array_like=True, frozen=True, tag="commit-offsets"):
    """Offsets by topic id and partition. With a generation, only while the group is in it."""

    group: str
    offsets: dict[bytes, dict[int, Committed]]
    generation: int | None = None

    def check(self, state: "ShardState") -> None:
        known = state.groups.get(self.group)
        generation = known.generation if known is not None else 0
        if self.generation is not None and generation != self.generation:
            raise GenerationStale(f"group '{self.group}' is at generation {generation}, not {self.generation}")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        _commit(state, self.group, self.offsets, at_ms)


class CommitOfMember(msgspec.Struct, array_like=True, frozen=True, tag="commit-of-member"):
    """The same for a member that its coordinator vouches for: only while this coordinator leads the group."""

    group: str
    owner: bytes
    offsets: dict[bytes, dict[int, Committed]]

    def check(self, state: "ShardState") -> None:
        known = state.groups.get(self.group)
        if known is None or known.owner != self.owner:
            raise LedByAnother(f"group '{self.group}' is led by another coordinator")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        _commit(state, self.group, self.offsets, at_ms)


def _commit(state: "ShardState", name: str, offsets: dict[bytes, dict[int, Committed]], at_ms: int) -> None:
    group = state.groups.get(name)
    if group is None:
        group = state.groups[name] = Group(name, empty_since_ms=at_ms)
    group.changed_ms = at_ms
    if group.empty_since_ms is not None:
        group.empty_since_ms = at_ms
    for topic, partitions in offsets.items():
        group.offsets.setdefault(topic, {}).update(partitions)


class DeleteOffsets(msgspec.Struct, array_like=True, frozen=True, tag="delete-offsets"):
    """Forget commits of some partitions."""

    group: str
    partitions: dict[bytes, list[int]]

    def check(self, state: "ShardState") -> None:
        if self.group not in state.groups:
            raise NotThere(f"group '{self.group}' does not exist")

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> None:
        offsets = state.groups[self.group].offsets
        for topic, partitions in self.partitions.items():
            kept = offsets.get(topic, {})
            for partition in partitions:
                kept.pop(partition, None)
            if not kept:
                offsets.pop(topic, None)


class DeleteGroups(msgspec.Struct, array_like=True, frozen=True, tag="delete-groups"):
    """Groups without members go, each in the generation that the caller saw. Answers the names that went."""

    groups: dict[str, int]

    def check(self, state: "ShardState") -> None:
        """Each group is judged for itself when applied."""

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> list[str]:
        gone = []
        for name, generation in self.groups.items():
            group = state.groups.get(name)
            if (
                group is not None
                and group.generation == generation
                and (group.kind == "simple" or group.empty_since_ms is not None)
            ):
                del state.groups[name]
                gone.append(name)
        return gone


class ExpireOffsets(msgspec.Struct, array_like=True, frozen=True, tag="expire-offsets"):
    """Forget what groups without members have committed before a moment, by the proposers' clocks.

    A group that once had members keeps its offsets until it has been without for so long; one that only commits keeps
    each for so long. Groups that have nothing left go. Answers their names.
    """

    before_ms: int

    def check(self, state: "ShardState") -> None:
        """Always allowed."""

    def apply(self, state: "ShardState", at_ms: int, touched: set[int]) -> list[str]:
        gone = []
        for group in list(state.groups.values()):
            if group.has_members:
                continue
            if group.kind == "simple":
                expire_old(group, self.before_ms)
            elif (group.empty_since_ms or 0) < self.before_ms:
                group.offsets.clear()
            if not group.offsets and (group.empty_since_ms or 0) < self.before_ms:
                del state.groups[group.name]
                gone.append(group.name)
        return gone


def expire_old(group: Group, before_ms: int) -> None:
    """Forget each offset that was committed before a moment."""
    for topic, partitions in list(group.offsets.items()):
        for partition, committed in list(partitions.items()):
            if committed.at_ms < before_ms:
                del partitions[partition]
        if not partitions:
            del group.offsets[topic]


def has_expired(group: Group, before_ms: int) -> bool:
    """Whether `ExpireOffsets` would find something to forget in this group."""
    if group.has_members:
        return False
    if (group.empty_since_ms or 0) < before_ms:
        return True
    return group.kind == "simple" and any(
        committed.at_ms < before_ms for partitions in group.offsets.values() for committed in partitions.values()
    )
