"""Workers on Spark.

Each piece of work is a Spark job of one task; as many jobs run side by side as the cluster has cores, and some more, so
that none of them waits. So results come one by one, and work that cannot be done fails alone: Spark tries it four
times, on other executors where one died.
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

JOBS_MAX = 64
"""Jobs side by side; each holds a thread here and one in the JVM."""


class SparkWorkers:
    """A session that is started by the first work and stays until `close`. `schemas` says where schemas are asked for."""

    def __init__(self, settings: SparkSettings, store: str, schemas: Callable[[], Schemas]) -> None:
        self._settings = settings
        self._store = store
        self._schemas = schemas
        self._context: SparkContext | None = None
        self._pool = ThreadPoolExecutor(JOBS_MAX, thread_name_prefix="spark")
        self._starting = asyncio.Lock()

    async def start(self) -> SparkContext:
        """Have the session ready; freshness is not start-up time."""
        async with self._starting:
            if self._context is None:
                loop = asyncio.get_running_loop()
                self._context = await loop.run_in_executor(self._pool, start, self._settings)
                log.info("spark_started", master=self._settings.master, version=self._context.version)
            return self._context

    async def run(self, works: Sequence[Work]) -> AsyncIterator[tuple[int, Outcome]]:
        try:
            context = await self.start()
        except RunnelError as error:
            for number in range(len(works)):
                yield number, error
            return
        loop = asyncio.get_running_loop()
        schemas = self._schemas()
        gate = asyncio.Semaphore(min(JOBS_MAX, 2 * context.defaultParallelism))

        async def one(number: int, work: Work) -> tuple[int, Outcome]:
            async with gate:
                return number, await loop.run_in_executor(self._pool, self._do, context, work, schemas)

        for each in asyncio.as_completed([one(number, work) for number, work in enumerate(works)]):
            yield await each
        if await loop.run_in_executor(self._pool, has_stopped, context):
            with suppress(Exception):
                context.stop()  # PySpark allows one at a time, dead or alive
            self._context = None  # a new one is started by the next work

    def _do(self, context: SparkContext, work: Work, schemas: Schemas) -> Outcome:
        do: Any = partial(do_work, store=self._store, schemas=schemas)
        try:
            (outcome,) = context.parallelize([work], 1).map(do).collect()
        except Exception as error:  # noqa: BLE001  Spark raises what it likes
            return Unavailable(
                f"Spark at {self._settings.master} could not do the work ({reason_of(error)}): "
                f"see {self._settings.folder}/spark.log"
            )
        result: Outcome = outcome
        return result

    async def close(self) -> None:
        context, self._context = self._context, None
        if context is not None:
            await asyncio.get_running_loop().run_in_executor(self._pool, context.stop)
        self._pool.shutdown(wait=True, cancel_futures=True)


def has_stopped(context: SparkContext) -> bool:
    """Whether a session has ended by itself: its cluster is gone, or its JVM."""
    try:
        return context._jsc is None or bool(context._jsc.sc().isStopped())  # noqa: SLF001
    except Exception:  # noqa: BLE001  the JVM does not answer
        return True


def reason_of(error: BaseException) -> str:
    """The line of a long story that says most."""
    lines = [line.strip(": \t") for line in str(error).splitlines() if line.strip(": \t")]
    told = [line for line in lines if "Exception" in line and not line.startswith("at ")]
    return (told or lines or [type(error).__name__])[0][:300]
