"""The right to move tables forward: one planner at a time holds it.

A planner renews its lease while it works. Another takes it over only when it has watched it stand still for as long as
it lasts, by its own clock. What a planner enters carries its epoch: whoever lost the lease without noticing is `Fenced`
by the ledger at its next step.
"""

import asyncio

from runnel.errors import Fenced, RunnelError, Unavailable, Uncertain
from runnel.metadata.updates import RenewPlanning, TakePlanning
from runnel.model import ROOT
from runnel.table.truth import Truth
from runnel.world.telemetry import get_log

log = get_log("table")

LEASE_MS = 10_000


class Lease:
    """`epoch` is what our entries carry while we hold it."""

    def __init__(self, truth: Truth, holder: str, lease_ms: int = LEASE_MS) -> None:
        self.holder = holder
        self.epoch = -1
        self._truth = truth
        self._lease_ms = lease_ms
        self._seen: tuple[int, int, float] | None = None
        self._renewing: asyncio.Task[None] | None = None

    @property
    def is_ours(self) -> bool:
        """As far as we know."""
        planner = self._truth.root.planner
        return self.epoch >= 0 and planner.epoch == self.epoch and planner.holder == self.holder

    @property
    def other(self) -> str:
        """Who holds it, if that is somebody else."""
        planner = self._truth.root.planner
        return planner.holder if planner.holder != self.holder else ""

    async def take(self, *, from_the_living: bool = False) -> bool:
        """Hold the lease, if nobody else who is alive does. Does not wait: ask again after a while.

        Taken from the living, whatever they are in the middle of is refused, and they come back when it is given up.
        """
        await self._truth.refresh()
        planner = self._truth.root.planner
        if planner.holder == self.holder:
            self.epoch = planner.epoch  # ours; perhaps by an entry that we were not told of
            return True
        now = self._truth.world.clock.monotonic()
        if planner.holder:
            seen = (planner.epoch, planner.renewals)
            if self._seen is None or self._seen[:2] != seen:
                self._seen = (*seen, now)
            if now - self._seen[2] < planner.lease_ms / 1000 and not from_the_living:
                return False
        try:
            update = TakePlanning(self.holder, planner.epoch, planner.renewals, self._lease_ms)
            self.epoch = await self._truth.propose(ROOT, update)
        except Fenced:
            return False  # another was faster
        log.info("planning_taken", holder=self.holder, epoch=self.epoch)
        if self._renewing is None:
            self._renewing = self._truth.world.tasks.spawn(self._keep(), name="renew planning")
        return True

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(self._lease_ms / 3000)
            if not self.is_ours:
                continue
            try:
                await self._truth.propose(ROOT, RenewPlanning(self.epoch))
            except Fenced as error:
                log.warning("planning_lost", error=str(error))
            except (Unavailable, Uncertain) as error:
                log.warning("planning_not_renewed", error=str(error))

    async def give_up(self) -> None:
        """Let others plan at once."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            self._renewing = None
        if self.is_ours:
            planner = self._truth.root.planner
            try:
                await self._truth.propose(ROOT, TakePlanning("", planner.epoch, planner.renewals, 0))
            except RunnelError as error:
                log.info("left_without_goodbye", error=str(error))
        self.epoch = -1
