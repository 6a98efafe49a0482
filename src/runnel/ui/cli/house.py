"""What commands need of the house above them. `runnel.__main__` hands it in; a test may hand in another."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # `runnel --help` waits for none of these
    from runnel.metadata.ledger.seam import Ledger
    from runnel.settings import Loaded, Settings
    from runnel.table.pipeline import Progress
    from runnel.table.service import Service
    from runnel.table.status import Look
    from runnel.world.objects.seam import ObjectStore
    from runnel.world.world import World

Announce = Callable[[dict[str, str]], None]
"""Called once the node is ready, with the name and address of every door."""


class House(Protocol):
    """Concrete parts, opened when asked for."""

    def serve(self, loaded: "Loaded", announce: Announce) -> int:
        """Run a node until it ends; the exit code."""

    async def open_objects(self, settings: "Settings", world: "World") -> "ObjectStore":
        """The object store of these settings."""

    async def open_ledger(self, settings: "Settings", world: "World", objects: "ObjectStore") -> "Ledger":
        """The ledger of these settings."""

    def table_service(self, settings: "Settings", progress: "Progress") -> "AbstractAsyncContextManager[Service]":
        """A planner for tables, with Spark to do its work."""

    def table_look(self, settings: "Settings") -> "AbstractAsyncContextManager[Look]":
        """A look at tables, without Spark."""
