"""Who reads what, worked out by the broker for groups of the new protocol (KIP-848). Pure.

range    each topic's partitions in runs, one run for each of its readers, in the order of their names: the readers of two
         topics with as many partitions read the same partitions of both
uniform  everyone reads as many partitions as everyone else, as far as subscriptions allow, and keeps what it has

Both are given what members want (`Wishes`) and what there is (`Partitions`), and the assignment so far, which uniform
disturbs as little as it can. Members are taken in the order of their names, so that the same input gives the same output.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heapreplace

Part = tuple[bytes, int]
"""Topic id and partition."""
Parts = frozenset[Part]
Wishes = Mapping[str, AbstractSet[bytes]]
"""Topics by member: those that exist."""
Counts = Mapping[bytes, int]
"""Partitions by topic."""
Assignment = dict[str, Parts]
Assignor = Callable[[Wishes, Counts, Mapping[str, Parts]], Assignment]

NOTHING: Parts = frozenset()


def by_range(wishes: Wishes, counts: Counts, before: Mapping[str, Parts]) -> Assignment:
    """See the module."""
    del before
    got: dict[str, list[Part]] = {member: [] for member in wishes}
    for topic, count in counts.items():
        readers = sorted(member for member, topics in wishes.items() if topic in topics)
        first = 0
        for place, member in enumerate(readers):
            share = count // len(readers) + (place < count % len(readers))
            got[member] += ((topic, index) for index in range(first, first + share))
            first += share
    return {member: frozenset(parts) for member, parts in got.items()}


def uniform(wishes: Wishes, counts: Counts, before: Mapping[str, Parts]) -> Assignment:
    """See the module."""
    members = sorted(wishes)
    got = {
        member: {
            part for part in before.get(member, ()) if part[0] in wishes[member] and part[1] < counts.get(part[0], 0)
        }
        for member in members
    }
    wanted = {topic: [member for member in members if topic in wishes[member]] for topic in counts}
    taken: set[Part] = set()
    for member in members:
        got[member] -= taken  # of two who claim the same one has it
        taken |= got[member]
    free = [
        (topic, index)
        # The topics that fewest can read come first: the others make up for what they cause.
        for topic in sorted(counts, key=lambda topic: (len(wanted[topic]), topic))
        for index in range(counts[topic])
        if wanted[topic] and (topic, index) not in taken
    ]
    if len({frozenset(topics) for topics in wishes.values()}) <= 1:
        _level_alike(members, got, free)
    else:
        _level_unlike(got, free, wanted)
    return {member: frozenset(parts) for member, parts in got.items()}


def _level_alike(members: Sequence[str], got: dict[str, set[Part]], free: list[Part]) -> None:
    """All want the same: everyone gets the same number, or one more; those who have most get the one more."""
    if not members:
        return
    least, more = divmod(sum(map(len, got.values())) + len(free), len(members))
    ranked = sorted(members, key=lambda member: (-len(got[member]), member))
    quota = {member: least + (place < more) for place, member in enumerate(ranked)}
    for member in members:
        surplus = len(got[member]) - quota[member]
        if surplus > 0:
            given = sorted(got[member], reverse=True)[:surplus]
            got[member].difference_update(given)
            free += given
    for member in members:
        lacks = quota[member] - len(got[member])
        if lacks > 0:
            got[member].update(free[:lacks])
            del free[:lacks]
    assert not free, f"{len(free)} partitions are left over"


def _level_unlike(got: dict[str, set[Part]], free: list[Part], wanted: Mapping[bytes, Sequence[str]]) -> None:
    """Everyone wants something else: what is free goes to who has least, then what can be moved to level is moved."""
    heaps: dict[bytes, list[tuple[int, str]]] = {}
    for topic, index in free:
        heap = heaps.get(topic)
        if heap is None:
            heap = heaps[topic] = [(len(got[member]), member) for member in wanted[topic]]
            heapify(heap)
        while heap[0][0] != len(got[heap[0][1]]):  # it has got something of another topic since
            heapreplace(heap, (len(got[heap[0][1]]), heap[0][1]))
        member = heap[0][1]
        got[member].add((topic, index))
        heapreplace(heap, (len(got[member]), member))
    moved = True
    while moved:  # each move brings two members closer together: it ends
        moved = False
        for giver in sorted(got, key=lambda member: (-len(got[member]), member)):
            for part in sorted(got[giver]):
                taker = min(wanted[part[0]], key=lambda member: (len(got[member]), member))
                if len(got[taker]) + 1 < len(got[giver]):
                    got[giver].remove(part)
                    got[taker].add(part)
                    moved = True


ASSIGNORS: Mapping[str, Assignor] = {"uniform": uniform, "range": by_range}
"""By the name that clients ask for. The first is what they get who do not ask."""
