"""From a URL to a ledger. Each implementation is imported when it is chosen, so that nobody pays for the others.

memory:                              forgotten when the process ends
sqlite:///var/lib/runnel/ledger.db   a file of this machine; sqlite:ledger.db is relative to the working directory
postgresql://user@host/database      a database; ?schema=NAME and ?prefix=NAME choose where its tables are
objects:                             the bucket that holds the records holds the ledger as well
"""
# ruff: noqa: PLC0415 -- imported when chosen

from pathlib import Path
from urllib.parse import unquote, urlsplit

from runnel.errors import Refused
from runnel.metadata.ledger.seam import Ledger
from runnel.world.chance import Chance
from runnel.world.clock import Clock
from runnel.world.objects.seam import ObjectStore
from runnel.world.tasks import Tasks

KNOWN = "memory:, sqlite:///PATH, postgresql://USER@HOST/DATABASE or objects:"


async def open_ledger(url: str, *, objects: ObjectStore, clock: Clock, chance: Chance, tasks: Tasks) -> Ledger:
    """Open the ledger that the URL names. `Refused` when it names none or one that this program cannot use."""
    scheme, colon, rest = url.partition(":")
    match scheme if colon else "":
        case "memory":
            from runnel.metadata.ledger.memory import MemoryLedger

            return MemoryLedger()
        case "sqlite":
            from runnel.metadata.ledger.sqlite import SqliteLedger

            return await SqliteLedger.open(_path(url, rest), chance=chance.fork("ledger"), tasks=tasks)
        case "postgresql" | "postgres":
            from runnel.metadata.ledger.postgres import PostgresLedger

            return await PostgresLedger.open(url, clock=clock, chance=chance.fork("ledger"), tasks=tasks)
        case "objects":
            from runnel.metadata.ledger.objects import ObjectsLedger

            return ObjectsLedger(objects, clock=clock, chance=chance.fork("ledger"), tasks=tasks)
        case _:
            # The URL itself is not repeated: it may hold a password.
            raise Refused(f"ledger URL begins with {scheme[:20]!r}, which is none of {KNOWN}")


def _path(url: str, rest: str) -> Path:
    parts = urlsplit(url)
    path = unquote(parts.path)
    if parts.netloc or parts.query or parts.fragment or not path.strip("/"):
        raise Refused(f"ledger URL 'sqlite:{rest}' names no file: write sqlite:///path/to/ledger.db")
    return Path(path)
