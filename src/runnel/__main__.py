"""`runnel` and `python -m runnel`: the command line, with the house behind it."""

import sys
from typing import TYPE_CHECKING

from runnel.ui.cli.main import run

if TYPE_CHECKING:  # `runnel --help` waits for none of these
    from runnel.metadata.ledger.seam import Ledger
    from runnel.settings import Loaded, Settings
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


def main() -> None:
    sys.exit(run(sys.argv[1:], House()))


if __name__ == "__main__":
    main()
