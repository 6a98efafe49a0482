"""What commands need of the house above them. `runnel.__main__` hands it in; a test may hand in another."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # `runnel --help` waits for none of these
    from runnel.metadata.ledger.seam import Ledger
    from runnel.settings import Loaded, Settings
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
