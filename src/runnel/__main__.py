"""`runnel` and `python -m runnel`: the command line, with the house behind it."""

import sys
from typing import TYPE_CHECKING

from runnel.ui.cli.main import run

if TYPE_CHECKING:  # `runnel --help` waits for none of these
    from contextlib import AbstractAsyncContextManager

    from runnel.metadata.ledger.seam import Ledger
    from runnel.settings import Loaded, Settings
    from runnel.table.pipeline import Progress
    from runnel.table.service import Service
    from runnel.table.status import Look
    from runnel.ui.cli.house import Announce
    from runnel.world.objects.seam import ObjectStore
    from runnel.world.world import World


class House:
    """Concrete parts for commands, each fetched when a command asks for it."""

    def serve(self, loaded: "Loaded", announce: "Announce") -> int:
        from runnel import wiring

        return wiring.serve(loaded, announce)

    async def open_objects(self, settings: "Settings", world: "World") -> "ObjectStore":
        from runnel import wiring

        return await wiring.open_objects(settings, world)

    async def open_ledger(self, settings: "Settings", world: "World", objects: "ObjectStore") -> "Ledger":
        from runnel import wiring

        return await wiring.open_ledger(settings, world, objects)

    def table_service(self, settings: "Settings", progress: "Progress") -> "AbstractAsyncContextManager[Service]":
        from runnel import wiring

        return wiring.table_service(settings, progress)

    def table_look(self, settings: "Settings") -> "AbstractAsyncContextManager[Look]":
        from runnel import wiring

        return wiring.table_look(settings)


def main() -> None:
    sys.exit(run(sys.argv[1:], House()))


if __name__ == "__main__":
    main()
