"""What every test gets: a way to run coroutines, a free port, and a check that it cleans up after itself.

A test that leaves tasks, sockets, files, child processes or threads behind fails with their names. Where an outside
library keeps something on purpose, the test says so: `@pytest.mark.leaves("the reason")`.
"""

import asyncio
import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings

T = TypeVar("T")
Run = Callable[..., Any]

settings.register_profile(
    "house", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
settings.register_profile("thorough", settings.get_profile("house"), max_examples=2000)
settings.load_profile(os.environ.get("RUNNEL_TEST_PROFILE", "house"))


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "leaves(reason): an outside library keeps files, sockets or threads open")


def run_to_the_end(work: Coroutine[Any, Any, T], loop_factory: Callable[[], Any] | None = None) -> T:
    """`asyncio.run`, but tasks that outlive the work are an error instead of being cancelled quietly."""

    async def watched() -> T:
        result = await work
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for _ in range(3):  # tasks that are only just ending may end
            if not left:
                break
            await asyncio.sleep(0)
            left = {task for task in left if not task.done()}
        assert not left, f"tasks left behind: {sorted(task.get_name() for task in left)}"
        return result

    with asyncio.Runner(loop_factory=loop_factory, debug=False) as runner:
        return runner.run(watched())


@pytest.fixture
def run() -> Run:
    """Run a coroutine: `run(coroutine())`, or `run(coroutine(), loop_factory=uvloop.new_event_loop)`."""
    return run_to_the_end


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _open_things() -> set[str]:
    things = set()
    for number in Path("/proc/self/fd").iterdir():
        try:
            target = str(number.readlink())
        except OSError:
            continue
        if target.startswith(("socket:", "pipe:")) or (target.startswith("/") and not target.startswith("/dev/")):
            things.add(f"{number.name} -> {target}")
    return things


def _threads() -> set[str]:
    return {f"{thread.name} ({thread.ident})" for thread in threading.enumerate()}


def _children() -> set[str]:
    children = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            children.update((task / "children").read_text().split())
        except OSError:
            continue
    return children


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.node.get_closest_marker("leaves") or not Path("/proc/self/fd").exists():
        yield
        return
    checks = {"open files and sockets": _open_things, "threads": _threads, "child processes": _children}
    before = {name: look() for name, look in checks.items()}
    yield
    for patience in range(20):
        left = {name: look() - before[name] for name, look in checks.items()}
        if not any(left.values()):
            return
        if patience == 0:
            gc.collect()  # a closed thing may wait for its last reference
        time.sleep(0.01 * patience)
    pytest.fail("left behind: " + "; ".join(f"{name}: {sorted(what)}" for name, what in left.items() if what))
