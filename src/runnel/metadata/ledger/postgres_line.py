"""A connection to PostgreSQL that is made when it is needed, and made again, with back-off, after it broke.

Also what PostgreSQL's errors mean to a caller, and the words for them, which never hold a password.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from runnel.errors import Refused, RunnelError, Unavailable, Uncertain
from runnel.metadata.ledger.postgres_schema import Names
from runnel.world.chance import Chance
from runnel.world.clock import Clock

try:
    import asyncpg
except ImportError:  # an extra; `Address.parse` says so
    asyncpg = None

CONNECT_S = 10.0
COMMAND_S = 30.0
BACK_OFF_S = 0.1
BACK_OFF_S_MAX = 5.0


@dataclass(frozen=True, slots=True)
class Address:
    """A ledger URL taken apart: what asyncpg is told, where our tables are, and how to speak of it."""

    dsn: str
    names: Names
    where: str

    @classmethod
    def parse(cls, url: str) -> "Address":
        if asyncpg is None:
            raise Refused("a ledger in PostgreSQL needs asyncpg: pip install 'runnel[postgres]'")
        try:
            parts = urlsplit(url)
            port = parts.port or 5432
            query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            raise Refused(
                "ledger URL cannot be understood: write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %40 for an @ "
                "inside the password"
            ) from None
        ours = {key: value for key, value in query if key in ("schema", "prefix")}
        theirs = [(key, value) for key, value in query if key not in ("schema", "prefix")]
        host = dict(theirs).get("host") or parts.hostname or "localhost"
        return cls(
            dsn=urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(theirs), "")),
            names=Names(**ours),
            where=f"PostgreSQL at {host}:{dict(theirs).get('port') or port}{parts.path}",
        )

    async def connect(self) -> Any:
        """A new connection. `Refused` when trying again cannot help, else `Unavailable`."""
        try:
            connection = await asyncpg.connect(
                self.dsn, timeout=CONNECT_S, command_timeout=COMMAND_S, server_settings={"application_name": "runnel"}
            )
        except asyncpg.InvalidAuthorizationSpecificationError:
            raise Refused(f"{self.where} refuses this user or password: check them in the ledger URL") from None
        except asyncpg.InvalidCatalogNameError:
            raise Refused(f"{self.where} has no such database: create it, or name another in the ledger URL") from None
        except (asyncpg.InterfaceError, asyncpg.InternalClientError, ValueError) as error:
            # These may quote the URL.
            raise Refused(f"ledger URL for {self.where} is not understood ({type(error).__name__})") from None
        except (OSError, TimeoutError, asyncpg.PostgresError) as error:
            raise Unavailable(
                f"{self.where} cannot be reached ({_short(error)}): check that it runs and that the address is right"
            ) from error
        try:
            async with translated(self, connection, "connect", may_have_happened=False):
                # Positions rely on seeing the newest committed row once its lock is ours; durability on commits that wait.
                await connection.execute("SET default_transaction_isolation = 'read committed'")
                if await connection.fetchval("SHOW synchronous_commit") == "off":
                    await connection.execute("SET synchronous_commit = on")
        except BaseException:
            connection.terminate()
            raise
        return connection


class Line:
    """One connection, used by one at a time."""

    def __init__(self, address: Address, clock: Clock, chance: Chance) -> None:
        self._address = address
        self._clock = clock
        self._chance = chance
        self._turn = asyncio.Lock()
        self._connection: Any = None
        self._back_off_s = 0.0
        self._not_before = 0.0
        self._why: RunnelError = Unavailable(f"{address.where} was not asked yet")
        self._closed = False

    @asynccontextmanager
    async def held(self) -> AsyncIterator[Any]:
        async with self._turn:
            yield await self._connected()

    async def _connected(self) -> Any:
        if self._closed:
            raise Unavailable("ledger is closed")
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        if self._clock.monotonic() < self._not_before:
            raise Unavailable(*self._why.args)
        try:
            self._connection = await self._address.connect()
        except RunnelError as error:
            self._why = error
            self._back_off_s = min(BACK_OFF_S_MAX, max(BACK_OFF_S, 2 * self._back_off_s))
            self._not_before = self._clock.monotonic() + self._back_off_s * self._chance.uniform(0.5, 1.0)
            # A password may have been changed on the way; while running that is for others to mend, not a wrong request.
            raise Unavailable(*error.args) from error
        self._back_off_s = 0.0
        return self._connection

    async def close(self) -> None:
        self._closed = True
        async with self._turn:
            if self._connection is not None:
                await hang_up(self._connection)


async def hang_up(connection: Any) -> None:
    try:
        await connection.close(timeout=2)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        connection.terminate()


@asynccontextmanager
async def translated(address: Address, connection: Any, doing: str, *, may_have_happened: bool) -> AsyncIterator[None]:
    """PostgreSQL's errors in the words of the house.

    A server that reports an error has rolled back; one that went away, or was shut down, may have committed first.
    """
    maybe: type[RunnelError] = Uncertain if may_have_happened else Unavailable
    try:
        yield
    except asyncpg.PostgresError as error:
        state = error.sqlstate or ""
        if state.startswith(("08", "57P")) or state == "40003":
            connection.terminate()
            raise maybe(f"{address.where} went away during {doing} ({_short(error)})") from error
        raise Unavailable(f"{address.where} failed to {doing} ({_short(error)})") from error
    except (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError) as error:
        connection.terminate()
        raise maybe(f"connection to {address.where} broke during {doing} ({_short(error)})") from error
    except asyncio.CancelledError:
        # Half an answer may still be on its way; the next caller gets a fresh connection.
        connection.terminate()
        raise


def _short(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0] or type(error).__name__
