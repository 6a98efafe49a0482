"""A node of several processes: one that looks after the others, and those that do the work.

    looks after   forks, waits, passes signals on, starts again what has died, gives up when that happens too often
    works         one process with an event loop of its own; it says once what it listens at (`report`)

The one that looks after them has no event loop and no threads, so that it can fork at any time. Its children hold one
end of a pipe whose other end only it has: when it dies, however suddenly, they hear of that and end in order.

The first process starts alone, because it makes what a new data directory lacks; the others start together.
"""

import json
import os
import selectors
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NoReturn

from runnel.errors import Refused, RunnelError
from runnel.world.clock import Clock
from runnel.world.telemetry import get_log

log = get_log("processes")

EXIT_OF_A_DEAD_PROCESS = 70  # EX_SOFTWARE of sysexits.h
DEATHS_MAX = 5
DEATHS_WITHIN_S = 60.0
"""More deaths than that within that time, and the whole node goes down: something is wrong that starting cannot mend."""
PAUSE_S = 0.2
"""Before a process that died is started again, doubled with each death that came soon before."""

Report = Callable[[dict[str, str]], None]
Work = Callable[[int, Report, int], int]
"""Number of the process, where to say its addresses, what becomes readable when nobody looks after it any more."""


@dataclass(slots=True, eq=False)
class Worker:
    """One process that does the work, as the one that looks after it sees it."""

    number: int
    pid: int = 0
    """0 while it is dead."""
    said: int = -1
    """Where it says what it listens at."""
    words: bytes = b""
    addresses: dict[str, str] | None = None
    again_at: float = 0.0


@dataclass(slots=True)
class Family:
    """All processes of one node."""

    work: Work
    clock: Clock
    workers: list[Worker]
    lifeline: tuple[int, int]
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    deaths: list[float] = field(default_factory=list)
    announced: bool = False
    asked: bool = False
    given_up: RunnelError | None = None
    exit_code: int = 0


def run_processes(count: int, work: Work, announce: Callable[[list[dict[str, str]]], None], clock: Clock) -> int:
    """Run so many processes until someone asks the node to stop or it cannot go on; the exit code.

    `announce` is called once, with the addresses of all.
    """
    ear, hand = socket.socketpair()
    family = Family(work, clock, [Worker(number) for number in range(count)], os.pipe())
    former = {}
    try:
        for end in (ear, hand):
            end.setblocking(False)
        family.selector.register(ear, selectors.EVENT_READ)
        wakeup = signal.set_wakeup_fd(hand.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            former[number] = signal.signal(number, _noted)
        try:
            return _look_after(family, ear, announce)
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
            signal.set_wakeup_fd(wakeup)
    finally:
        for pipe in family.lifeline:
            os.close(pipe)
        family.selector.close()
        ear.close()
        hand.close()


def _noted(number: int, frame: FrameType | None) -> None:
    """The signal wakes the selector; what it means is decided there."""


def _look_after(family: Family, ear: socket.socket, announce: Callable[[list[dict[str, str]]], None]) -> int:
    _start(family, family.workers[0])
    while any(worker.pid for worker in family.workers) or not (family.asked or family.given_up):
        for key, _ in family.selector.select(_patience(family)):
            if key.data is None:
                _hear_signals(family, ear)
            else:
                _hear_words(family, key.data)
        _bury(family)
        if family.asked or family.given_up:
            continue
        if family.workers[0].addresses is not None:
            for worker in family.workers:
                if not worker.pid and family.clock.monotonic() >= worker.again_at:
                    _start(family, worker)
        if not family.announced and all(worker.addresses is not None for worker in family.workers):
            family.announced = True
            announce([worker.addresses or {} for worker in family.workers])
    if family.given_up is not None and not family.announced:
        raise family.given_up
    return family.exit_code


def _patience(family: Family) -> float | None:
    waiting = [worker.again_at for worker in family.workers if not worker.pid and worker.again_at]
    return max(0.0, min(waiting) - family.clock.monotonic()) if waiting and not family.asked else None


# --- signals and words ------------------------------------------------------------------------------------------------


def _hear_signals(family: Family, ear: socket.socket) -> None:
    for number in ear.recv(64):
        if number in (signal.SIGTERM, signal.SIGINT):
            family.asked = True
            _tell_all(family, signal.SIGTERM)


def _tell_all(family: Family, number: int) -> None:
    for worker in family.workers:
        if worker.pid:
            with suppress(ProcessLookupError):
                os.kill(worker.pid, number)


def _hear_words(family: Family, worker: Worker) -> None:
    heard = os.read(worker.said, 65_536)
    worker.words += heard
    if heard and not worker.words.endswith(b"\n"):
        return
    family.selector.unregister(worker.said)
    os.close(worker.said)
    worker.said = -1
    if worker.words:
        facts = json.loads(worker.words)
        if "refused" not in facts:
            worker.addresses = facts
        elif not family.announced:
            _give_up(family, Refused(facts["refused"]))


# --- birth and death --------------------------------------------------------------------------------------------------


def _start(family: Family, worker: Worker) -> None:
    said, says = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if not pid:
        _live(family, worker.number, says)
    os.close(says)
    worker.pid, worker.said, worker.words, worker.again_at = pid, said, b"", 0.0
    family.selector.register(said, selectors.EVENT_READ, worker)
    log.info("process_started", number=worker.number, pid=pid)


def _live(family: Family, number: int, says: int) -> NoReturn:
    """The child: do the work and end without going back into what the parent was doing."""
    code = EXIT_OF_A_DEAD_PROCESS
    try:
        signal.set_wakeup_fd(-1)
        for known in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(known, signal.SIG_DFL)
        os.close(family.lifeline[1])
        os.setpgid(0, 0)  # Ctrl-C reaches the one that looks after us, and through it us, once

        def report(facts: dict[str, Any]) -> None:
            os.write(says, json.dumps(facts).encode() + b"\n")
            os.close(says)

        try:
            code = family.work(number, report, family.lifeline[0])
        except Refused as error:
            log.error("process_refused", number=number, error=str(error))  # noqa: TRY400  a refusal needs no trace
            with suppress(OSError):  # it had said its addresses before
                report({"refused": str(error)})
        except Exception as error:  # noqa: BLE001  the last word of this process
            log.crash("process_failed", error, number=number)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _bury(family: Family) -> None:
    """Take note of the processes that have ended, and of what that means."""
    now = family.clock.monotonic()
    for worker in family.workers:
        if not worker.pid:
            continue
        pid, status = os.waitpid(worker.pid, os.WNOHANG)
        if not pid:
            continue
        if worker.said >= 0:
            _hear_words(family, worker)
        worker.pid = 0
        code = os.waitstatus_to_exitcode(status)
        if family.asked or family.given_up is not None:
            family.exit_code = family.exit_code or abs(code)
            continue
        family.deaths = [at for at in family.deaths if now - at < DEATHS_WITHIN_S] + [now]
        worker.again_at = now + PAUSE_S * 2 ** (len(family.deaths) - 1)
        log.error("process_died", number=worker.number, pid=pid, code=code, again_s=worker.again_at - now)
        if not family.announced or len(family.deaths) > DEATHS_MAX:
            _give_up(family, RunnelError(f"process {worker.number} of this node ended with code {code}: see its log"))


def _give_up(family: Family, why: RunnelError) -> None:
    family.given_up = why
    family.exit_code = EXIT_OF_A_DEAD_PROCESS
    log.error("node_given_up", why=str(why), deaths=len(family.deaths))
    _tell_all(family, signal.SIGTERM)


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
