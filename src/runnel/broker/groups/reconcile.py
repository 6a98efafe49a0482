"""How one member of a group of the new protocol gets from what it reads to what it should read (KIP-848). Pure.

    stable       it has what it should have
    revoking     it was told to give something up, and has not said yet that it did
    waiting      it should get more than it has: others have not given that up yet

A partition is given to a member only when nobody else may still be reading it, and a member moves to the target's epoch
only when it has given up all that the target takes from it.
"""

from collections.abc import Callable
from typing import NamedTuple

from runnel.broker.groups.assignors import NOTHING, Part, Parts

STABLE, REVOKING, WAITING = "stable", "revoking", "waiting"


class Reading(NamedTuple):
    """Where a member stands."""

    phase: str
    epoch: int
    assigned: Parts
    revoked: Parts
    """What it was told to give up and may still be reading."""


def next_reading(
    now: Reading, target: Parts, epoch: int, owned: Parts | None, is_free: Callable[[Part], bool]
) -> Reading:
    """The next step towards the target of an epoch. `owned` is what the member says to own; None if it says nothing."""
    if now.phase == STABLE and now.epoch == epoch:
        return now
    if now.phase == REVOKING and (owned is None or owned & now.revoked):
        return now
    keeps = now.assigned & target
    gives_up = now.assigned - target
    missing = target - keeps
    gets = frozenset(part for part in missing if is_free(part))
    if gives_up and (owned is None or owned & gives_up):
        return Reading(REVOKING, now.epoch, keeps, gives_up)
    return Reading(STABLE if gets == missing else WAITING, epoch, keeps | gets, NOTHING)
