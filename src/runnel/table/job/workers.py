"""Workers on Spark.

One round is one Spark job with a task for each piece of work. If the job as a whole fails (an executor that dies again
and again takes its job with it), every table's work is done once more in a job of its own: then only the one that
cannot be done has trouble.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from pyspark import SparkContext

from runnel.errors import RunnelError, Unavailable
from runnel.table.executor import Outcome, do_work
from runnel.table.files.facts import Work
from runnel.table.job.session import SparkSettings, start
from runnel.table.schemas import Schemas
from runnel.world.telemetry import get_log

log = get_log("table")

JOBS_AT_ONCE = 4


class SparkWorkers:
    """A session that is started by the first work and stays until `close`. `schemas` says where schemas are asked for."""

    def __init__(self, settings: SparkSettings, store: str, schemas: Callable[[], Schemas]) -> None:
        self._settings = settings
        self._store = store
        self._schemas = schemas
        self._context: SparkContext | None = None
        self._pool = ThreadPoolExecutor(JOBS_AT_ONCE + 1, thread_name_prefix="spark")
        self._starting = asyncio.Lock()

    async def start(self) -> None:
        """Have the session ready; freshness is not start-up time."""
        async with self._starting:
            if self._context is None:
                loop = asyncio.get_running_loop()
                self._context = await loop.run_in_executor(self._pool, start, self._settings)
                log.info("spark_started", master=self._settings.master, version=self._context.version)

    async def run(self, works: Sequence[Work]) -> AsyncIterator[tuple[int, Outcome]]:
        numbered = list(enumerate(works))
        try:
            for done in await self._job(numbered):
                yield done
            return
        except Unavailable as error:
            log.warning("spark_job_failed", tasks=len(works), error=str(error))
            if self._context is None:
                for number, _ in numbered:
                    yield number, error
                return
        by_table: dict[str, list[tuple[int, Work]]] = {}
        for number, work in numbered:
            by_table.setdefault(work.folder, []).append((number, work))
        gate = asyncio.Semaphore(JOBS_AT_ONCE)

        async def alone(mine: list[tuple[int, Work]]) -> list[tuple[int, Outcome]]:
            async with gate:
                try:
                    return await self._job(mine)
                except RunnelError as error:
                    return [(number, error) for number, _ in mine]

        for each in asyncio.as_completed([alone(mine) for mine in by_table.values()]):
            for done in await each:
                yield done

    async def _job(self, works: list[tuple[int, Work]]) -> list[tuple[int, Outcome]]:
        await self.start()
        context = self._context
        assert context is not None, "the session has been started"
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._collect, context, works)

    def _collect(self, context: SparkContext, works: list[tuple[int, Work]]) -> list[tuple[int, Outcome]]:
        do: Any = partial(do_one, store=self._store, schemas=self._schemas())
        try:
            return list(context.parallelize(works, len(works)).map(do).collect())
        except Exception as error:
            if context._jsc is None or context._jsc.sc().isStopped():  # noqa: SLF001
                with suppress(Exception):
                    context.stop()  # PySpark allows one at a time, dead or alive
                self._context = None  # a new one is started by the next work
            raise Unavailable(
                f"Spark at {self._settings.master} could not do the work ({reason_of(error)}): "
                f"see {self._settings.folder}/spark.log"
            ) from error

    async def close(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            await asyncio.get_running_loop().run_in_executor(self._pool, context.stop)
        self._pool.shutdown(wait=True, cancel_futures=True)


def reason_of(error: BaseException) -> str:
    """The line of a long story that says most."""
    lines = [line.strip(": \t") for line in str(error).splitlines() if line.strip(": \t")]
    told = [line for line in lines if "Exception" in line and not line.startswith("at ")]
    return (told or lines or [type(error).__name__])[0][:300]


def do_one(numbered: tuple[int, Work], *, store: str, schemas: Schemas) -> tuple[int, Outcome]:
    """What an executor does."""
    number, work = numbered
    return number, do_work(work, store, schemas)
