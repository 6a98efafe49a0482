"""One piece of work, wherever it is done: in a Python process of Spark's, or in a thread of this one.

Nothing is raised: what goes wrong is an outcome like another, so that one table's trouble is not everybody's.
"""

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from runnel.errors import RunnelError, Unavailable
from runnel.table.files.facts import Work, Written
from runnel.table.files.write import write_files
from runnel.table.schemas import Schemas
from runnel.world.chance import Chance
from runnel.world.clock import SystemClock
from runnel.world.objects.open import open_store
from runnel.world.telemetry import get_log

log = get_log("table")

Outcome = Written | RunnelError


def do_work(work: Work, store: str, schemas: Schemas) -> Outcome:
    """Read, write, and say what was written. Waits until it is done."""
    try:
        return asyncio.run(_do(work, store, _remembered(schemas)))
    except RunnelError as error:
        return error
    except MemoryError:
        return Unavailable(
            f"work for topic '{work.topic}' needs more memory than an executor has: lower table_task_bytes, or give more"
        )
    except OSError as error:
        what = "the disk is full" if error.errno == errno.ENOSPC else str(error)
        return Unavailable(f"work for topic '{work.topic}' failed on {socket.gethostname()}: {what}")
    except Exception as error:  # noqa: BLE001  an executor has nobody to raise it to
        log.crash("work_failed", error, topic=work.topic)
        return Unavailable(f"work for topic '{work.topic}' failed on {socket.gethostname()}: {error!r}")


_met: dict[tuple[str, ...], Schemas] = {}


def _remembered(schemas: Schemas) -> Schemas:
    """The one that this process has asked before, if there is one: it knows what it learned."""
    known = _met.get(schemas.addresses)
    if known is None:
        _met.clear()
        known = _met[schemas.addresses] = schemas
    else:
        known.learn_from(schemas)
    return known


async def _do(work: Work, store: str, schemas: Schemas) -> Written:
    objects = open_store(store, clock=SystemClock(), chance=Chance())
    try:
        return await write_files(work, objects, schemas.writer, chance=Chance())
    finally:
        await objects.close()


class Threads:
    """Workers in this process: for tests, and where one core is enough. Spark does the same on many."""

    def __init__(self, store: str, schemas: Schemas, *, at_once: int = 1) -> None:
        self._store = store
        self._schemas = schemas
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="table work")

    async def run(self, works: Sequence[Work]) -> AsyncIterator[tuple[int, Outcome]]:
        loop = asyncio.get_running_loop()

        async def one(number: int, work: Work) -> tuple[int, Outcome]:
            return number, await loop.run_in_executor(self._pool, do_work, work, self._store, self._schemas)

        for each in asyncio.as_completed([one(number, work) for number, work in enumerate(works)]):
            yield await each

    async def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
