"""An asyncio event loop on virtual time, for plain asyncio code.

Theory of operation. The loop is a queue of ready callbacks and a heap of timers. It runs the queue round by round, as
asyncio does; when the queue is empty it sets its clock to the next timer. Nothing takes time but waiting, so an idle
cluster's hour costs what its timers cost. Everything that could differ between two runs is taken away or ordered:

- Threads, real sockets, child processes and signals are refused with `NotSimulated`, naming what to use instead.
- Tasks and futures hash by number instead of address, so that sets of them (asyncio itself keeps such) have one order.
- The cyclic garbage collector sleeps; it is called by step count, because it may close generators and so run code.
- Processes at the same moment take turns as the seed says (each keeps its own order, which asyncio promises);
  with `shuffle_tasks` also the tasks that became ready in one round, which asyncio does not promise.

Instead of hanging, a run ends with `Deadlock` (nobody can ever run again; the waiting tasks are listed), `TooLong`
(virtual time is over) or `TooBusy` (too many steps in all, or while time stands still).
"""

import asyncio
import gc
import heapq
import warnings
from asyncio import AbstractServer, BaseTransport, Future, TimerHandle
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, copy_context
from threading import get_ident
from typing import Any, NoReturn, Protocol, TypeVar

from runnel.world.chance import Chance
from runnel.world.simulation.handles import Ready, SimulatedFuture, SimulatedTask, Timer
from runnel.world.simulation.limits import Deadlock, LoopLimits, NotSimulated, SimulationStopped, TooBusy, TooLong
from runnel.world.simulation.process import Process, in_the_world

T = TypeVar("T")
ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Sockets(Protocol):
    """What stands behind `create_server` and `create_connection`; see `network`."""

    async def serve(self, factory: ProtocolFactory, host: str | None, port: int) -> AbstractServer: ...

    async def dial(
        self, factory: ProtocolFactory, host: str, port: int
    ) -> tuple[BaseTransport, asyncio.BaseProtocol]: ...


class SimulatedLoop(asyncio.BaseEventLoop):
    """The event loop; `run` is the way in."""

    def __init__(
        self, chance: Chance | None = None, *, limits: LoopLimits | None = None, shuffle_tasks: bool = False
    ) -> None:
        super().__init__()
        self.set_debug(False)
        self.limits = limits or LoopLimits()
        self.steps = 0
        self.sockets: Sockets | None = None
        # What asyncio's exception handler was told: errors nobody awaited. The harness takes them as violations.
        self.unhandled: list[dict[str, Any]] = []
        self.on_unhandled: Callable[[dict[str, Any]], None] | None = None
        # Called when the run is over, before what is left is cleared away; with the error that ended it, if one did.
        self.at_end: list[Callable[[BaseException | None], None]] = []
        self._chance = chance
        self._shuffle_tasks = shuffle_tasks
        self._now = 0.0
        self._queue: deque[Ready | Timer] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._timers_cancelled = 0
        self._numbers = 0
        self._moment_began_at_step = 0
        self._collected_at_step = 0
        self._thread = get_ident()
        self.set_exception_handler(self._on_unhandled)

    # ---- the way in -----------------------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; then cancel what is left, and close the loop."""
        collecting = gc.isenabled()
        gc.disable()
        error: BaseException | None = None
        try:
            task: asyncio.Task[T] = self.create_task(main, name="main", context=in_the_world())
            return self.run_until_complete(task)
        except BaseException as raised:
            error = raised
            raise
        finally:
            try:
                for last_act in self.at_end:
                    last_act(error)
                self._bury()
            finally:
                self.close()
                if collecting:
                    gc.enable()

    def _bury(self) -> None:
        """End every task that is left, in order, without running the loop again: the run is over, nobody looks."""
        with warnings.catch_warnings():
            # A coroutine that the dead had made and not yet awaited is nobody's mistake.
            warnings.simplefilter("ignore", RuntimeWarning)
            self._bury_all()

    def _bury_all(self) -> None:
        buried: dict[SimulatedTask[Any], None] = {}
        while left := [task for task in self.pending_tasks() if task not in buried][: 10_000 - len(buried)]:
            for task in left:  # one that is closed may begin others in its `finally`
                buried[task] = None
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own way to say: on purpose
                _close(task.get_coro())
        self._queue.clear()
        self._timers.clear()

    def pending_tasks(self) -> list[SimulatedTask[Any]]:
        """All tasks that have not ended, oldest first."""
        tasks = [task for task in asyncio.all_tasks(self) if isinstance(task, SimulatedTask)]
        return sorted(tasks, key=lambda task: task.number)

    # ---- processes ------------------------------------------------------------------------------------------------

    def kill(self, process: Process) -> None:
        """SIGKILL: nothing of the process ever runs again."""
        if not process.alive:
            return
        process.alive = False
        process.paused = False
        # First everything is kept, then dropped: whatever lost its last reference now would be closed and run code.
        process.graveyard.extend(task for task in self.pending_tasks() if task.process is process)
        process.graveyard.extend(process.held)
        process.graveyard.extend(entry[2] for entry in self._timers if entry[2].process is process)
        process.held.clear()
        self._timers = [entry for entry in self._timers if entry[2].process is not process]
        heapq.heapify(self._timers)
        for hook in process.on_kill:
            self.call_soon(hook, context=in_the_world())

    def pause(self, process: Process) -> None:
        """SIGSTOP."""
        process.paused = process.alive

    def wake(self, process: Process) -> None:
        """SIGCONT: what became ready meanwhile runs now, in order; timers that are overdue are among it."""
        if process.paused:
            process.paused = False
            self._queue.extend(process.held)  # type: ignore[arg-type]
            process.held.clear()

    # ---- what asyncio calls ---------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._now

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None, **_: Any) -> Any:
        return SimulatedTask(
            coro,
            loop=self,
            name=None if name is None else str(name),
            context=copy_context() if context is None else context,
        )

    def create_future(self) -> Future[Any]:
        return SimulatedFuture(loop=self)

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Ready:  # type: ignore[override]
        handle = Ready(callback, args, self, context)
        self._queue.append(handle)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Timer:
        timer = Timer(when, callback, args, self, context)
        self._numbers += 1
        heapq.heappush(self._timers, (when, self._numbers, timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Timer:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon_threadsafe(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Ready:  # type: ignore[override]
        if get_ident() != self._thread:
            raise NotSimulated("another thread called into the simulated loop; simulated code is one thread")
        return self.call_soon(callback, *args, context=context)

    def _timer_handle_cancelled(self, _timer: TimerHandle) -> None:
        self._timers_cancelled += 1

    def _write_to_self(self) -> None:
        """Nobody sleeps outside who would need to be woken."""

    def _process_events(self, _events: object) -> None:
        """There are no events from outside."""

    def _on_unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.unhandled.append(context)
        if self.on_unhandled is not None:
            self.on_unhandled(context)

    # ---- one round ------------------------------------------------------------------------------------------------

    def _run_once(self) -> None:
        queue = self._queue
        if not queue:
            self._jump()
        timers = self._timers
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False
            queue.append(timer)
        if (
            self.steps - self._moment_began_at_step > self.limits.steps_at_one_moment_max
            or self.steps > self.limits.steps_max
        ):
            raise TooBusy(
                f"{self.steps} steps until virtual second {self._now:.3f}, and no end; running: {self._describe()}"
            )
        batch = list(queue)
        queue.clear()
        if self._chance is not None and len(batch) > 1:
            batch = self._take_turns(batch, self._chance)
        done = 0
        try:
            for handle in batch:
                done += 1
                if handle._cancelled:
                    continue
                process = handle.process
                if process is not None:
                    if not process.alive:
                        continue
                    if process.paused:
                        process.held.append(handle)
                        continue
                    process.steps += 1
                    if process.steps == process.doomed_at_step:
                        self.kill(process)
                        continue
                self.steps += 1
                try:
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt, SimulationStopped):
                    raise
                except BaseException as error:  # noqa: BLE001 - as asyncio does: a callback's error stops nobody else
                    self.call_exception_handler({"message": f"error in callback {handle!r}", "exception": error})
        finally:
            if done < len(batch):
                queue.extendleft(reversed(batch[done:]))
        if self.steps - self._collected_at_step > self.limits.steps_between_collections:
            self._collected_at_step = self.steps
            gc.collect(1)

    def _jump(self) -> None:
        """Nobody is ready: let time pass until somebody is."""
        timers = self._timers
        if self._timers_cancelled > 100 and self._timers_cancelled * 2 > len(timers):
            self._timers = timers = [entry for entry in timers if not entry[2]._cancelled]
            heapq.heapify(timers)
            self._timers_cancelled = 0
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
            self._timers_cancelled -= 1
        if not timers:
            raise Deadlock(f"at virtual second {self._now:.3f} everyone waits and no timer is set: {self._describe()}")
        when = timers[0][0]
        if when > self._now:
            if when > self.limits.virtual_s_max:
                raise TooLong(f"virtual second {self.limits.virtual_s_max:.0f} is reached; waiting: {self._describe()}")
            self._now = when
            self._moment_began_at_step = self.steps

    def _take_turns(self, batch: list[Ready | Timer], chance: Chance) -> list[Ready | Timer]:
        """Another order of the same callbacks: the processes' turns are drawn, each process keeps its own order."""
        queues: dict[Process | None, list[Ready | Timer]] = {}
        for handle in batch:
            queues.setdefault(handle.process, []).append(handle)
        if self._shuffle_tasks:
            for own in queues.values():
                if len(own) > 1:
                    _shuffle_task_steps(own, chance)
        if len(queues) == 1:
            return next(iter(queues.values()))
        turns = [handle.process for handle in batch]
        chance.shuffle(turns)
        heads = {process: iter(own) for process, own in queues.items()}
        return [next(heads[process]) for process in turns]

    def _describe(self) -> str:
        names = [
            f"{task.get_name()} of {task.process.name}" if task.process else task.get_name()
            for task in self.pending_tasks()
        ]
        more = f" and {len(names) - 20} more" if len(names) > 20 else ""
        return (", ".join(names[:20]) or "no task") + more

    # ---- what is simulated elsewhere, or not at all ---------------------------------------------------------------

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        if self.sockets is None or options.get("sock") is not None:
            raise NotSimulated("create_server needs a simulated network and no real socket")
        return await self.sockets.serve(protocol_factory, host, int(port or 0))

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        if self.sockets is None or options.get("sock") is not None or options.get("ssl"):
            raise NotSimulated("create_connection needs a simulated network, and neither a real socket nor TLS")
        return await self.sockets.dial(protocol_factory, host, int(port))

    def run_in_executor(self, *_: Any) -> NoReturn:  # type: ignore[override]
        raise NotSimulated("threads are not simulated: run_in_executor and to_thread belong behind a seam with a twin")


def _close(coroutine: Any) -> None:
    for _ in range(100):  # a coroutine may refuse by awaiting in `finally`; it is asked a hundred times
        try:
            coroutine.close()
            return
        except BaseException:  # noqa: BLE001, S112 - whatever it says, the run is over
            continue


def _shuffle_task_steps(handles: list[Ready | Timer], chance: Chance) -> None:
    """Exchange the places of task steps; plain callbacks stay where they are. No task has two steps in one round."""
    places = [
        i for i, handle in enumerate(handles) if isinstance(getattr(handle._callback, "__self__", None), asyncio.Task)
    ]
    steps = [handles[i] for i in places]
    chance.shuffle(steps)
    for place, step in zip(places, steps, strict=True):
        handles[place] = step


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(_self: SimulatedLoop, *_: object, **__: object) -> NoReturn:
        raise NotSimulated(
            f"{name} reaches outside the simulation; put it behind a seam and give the simulation a twin"
        )

    return refuse


for _name in (
    "add_reader",
    "remove_reader",
    "add_writer",
    "remove_writer",
    "sock_recv",
    "sock_recv_into",
    "sock_sendall",
    "sock_connect",
    "sock_accept",
    "getaddrinfo",
    "getnameinfo",
    "create_datagram_endpoint",
    "create_unix_server",
    "create_unix_connection",
    "subprocess_exec",
    "subprocess_shell",
    "connect_read_pipe",
    "connect_write_pipe",
    "add_signal_handler",
    "remove_signal_handler",
    "start_tls",
    "sendfile",
    "sock_sendfile",
    "connect_accepted_socket",
):
    setattr(SimulatedLoop, _name, _refusing(_name))


def run_simulated(
    main: Callable[[SimulatedLoop], Awaitable[T]],
    *,
    seed: int | str | None = 0,
    limits: LoopLimits | None = None,
    shuffle_tasks: bool = False,
) -> T:
    """Run `main(loop)` on a fresh simulated loop. For tests of one part; a cluster has `harness`."""
    loop = SimulatedLoop(
        None if seed is None else Chance(seed).fork("turns"), limits=limits, shuffle_tasks=shuffle_tasks
    )

    async def begin() -> T:
        return await main(loop)

    return loop.run(begin())
