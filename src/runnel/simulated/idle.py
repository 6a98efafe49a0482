"""Nothing happens for a hundred hours, quickly."""

import asyncio

from runnel.world.simulation.nodes import NodePlan, World
from runnel.world.simulation.scenario import Scenario, scenario

HOURS = 100


async def heart(world: World) -> None:
    """As much as an idle node does: it renews its lease."""
    beats = 0
    while True:
        await asyncio.sleep(5)
        beats += 1
        if beats % 7200 == 0:
            world.note("still here", hours=beats // 720)


@scenario(slow=True)
def idle() -> Scenario:
    """A hundred virtual hours of a cluster that does nothing but renew leases."""
    return Scenario(
        nodes=tuple(NodePlan(name=f"node{number}", main=heart) for number in (1, 2, 3)), duration_ms=HOURS * 3_600_000
    )
