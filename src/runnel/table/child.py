"""The table service beside a node: a process of its own, started when there is something to do, started again when it dies.

It is another process because Spark's driver and Arrow want memory and whole cores now and then, and a node that serves
clients must not wait for them. The node holds the other end of its standard input: when the node goes, however it
goes, the service reads the end of it and goes as well.
"""

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from runnel.world.telemetry import get_log
from runnel.world.world import World

log = get_log("table")

FIRST_S = 5.0
"""A node that lives shorter than this, as in tests, starts none."""
LOOK_S = 1.0
GOODBYE_S = 10.0
PAUSE_S, PAUSE_S_MAX = 2.0, 60.0
WELL_S = 60.0
"""A service that lived so long was well: its end is the first trouble, not one more."""


def missing() -> str:
    """What a table service lacks on this machine, with what to do; empty when it can run."""
    lacking = [name for name in ("pyspark", "pyarrow", "pyiceberg", "deltalake") if find_spec(name) is None]
    if lacking:
        return f"{', '.join(lacking)} not installed: pip install 'runnel[table]'"
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        return "no Java 17 or newer: install it (Debian: openjdk-17-jre-headless), or set JAVA_HOME"
    return ""


class TableChild:
    """Keeps one table service running from when `wanted` says so until `close`."""

    def __init__(self, environ: Mapping[str, str], world: World, wanted: Callable[[], bool]) -> None:
        self._environ = environ
        self._world = world
        self._wanted = wanted
        self._process: Process | None = None
        self._task = world.tasks.spawn(self._keep(), name="table service")

    async def _keep(self) -> None:
        pause = PAUSE_S
        clock = self._world.clock
        await asyncio.sleep(FIRST_S)
        while not self._wanted():  # noqa: ASYNC110  what is wanted changes with the ledger, not with an event
            await asyncio.sleep(LOOK_S)
        while True:
            began = clock.monotonic()
            words = [sys.executable, "-m", "runnel", "table", "watch", "--until-eof"]
            self._process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, env=dict(self._environ))
            log.info("table_service_started", pid=self._process.pid)
            code = await self._process.wait()
            if clock.monotonic() - began > WELL_S:
                pause = PAUSE_S
            log.warning("table_service_ended", code=code, again_s=pause)
            await asyncio.sleep(pause)
            pause = min(PAUSE_S_MAX, pause * 2)

    async def close(self) -> None:
        """Let it finish its step, and go."""
        self._task.cancel()
        await asyncio.wait([self._task])
        process = self._process
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None, "it was started with a pipe"
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), GOODBYE_S)
        except TimeoutError:
            process.kill()
            await process.wait()
