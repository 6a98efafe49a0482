"""How far a stream may go with its next trigger. Pure.

Offsets are shared out among the partitions in proportion to what each has waiting, so that none is left behind.
"""

from collections.abc import Callable

Bounds = dict[int, tuple[int, int]]


class Progress:
    """Where a stream is, and where it may go."""

    def __init__(self, offsets_max: int | None = None, bytes_max: int | None = None) -> None:
        self._offsets_max = offsets_max
        self._bytes_max = bytes_max
        self._at: dict[int, int] = {}

    @property
    def is_known(self) -> bool:
        return bool(self._at)

    def came_to(self, offsets: dict[int, int]) -> None:
        """Everything before these offsets is read, or about to be."""
        self._at |= {partition: max(offset, self._at.get(partition, 0)) for partition, offset in offsets.items()}

    def goal(self, bounds: Bounds, size: Callable[[Bounds], int]) -> dict[int, int]:
        """The end of the next trigger. `size` tells the bytes of a run of offsets."""
        ends = {partition: end for partition, (_, end) in bounds.items()}
        at = {partition: max(start, self._at.get(partition, start)) for partition, (start, _) in bounds.items()}
        waiting = {partition: max(0, ends[partition] - at[partition]) for partition in ends}
        total = sum(waiting.values())
        most = total
        if self._offsets_max is not None:
            most = min(most, self._offsets_max)
        if self._bytes_max is not None and total:
            held = size({partition: (at[partition], ends[partition]) for partition in ends})
            if held > self._bytes_max:
                most = min(most, max(1, total * self._bytes_max // held))
        if most >= total:
            return {partition: at[partition] + waiting[partition] for partition in ends}
        return _shared_out(at, waiting, most, total)


def _shared_out(at: dict[int, int], waiting: dict[int, int], most: int, total: int) -> dict[int, int]:
    goal = {partition: at[partition] + waiting[partition] * most // total for partition in at}
    left = most - sum(goal[partition] - at[partition] for partition in at)
    for partition in sorted(at, key=lambda each: -waiting[each]):
        more = min(left, at[partition] + waiting[partition] - goal[partition])
        goal[partition] += more
        left -= more
    return goal
