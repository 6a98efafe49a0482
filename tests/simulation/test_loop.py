"""The virtual-time loop: plain asyncio on it, its order, its limits, and what it refuses."""

import asyncio
import signal
import threading

import pytest

from runnel.world.chance import Chance
from runnel.world.clock import LoopClock
from runnel.world.simulation.limits import Deadlock, LoopLimits, NotSimulated, TooBusy, TooLong
from runnel.world.simulation.loop import SimulatedLoop, run_simulated
from runnel.world.simulation.process import Process, current_process
from runnel.world.tasks import Tasks


def test_a_year_of_sleep_takes_a_handful_of_steps():
    async def main(loop):
        before = loop.time()
        await asyncio.sleep(365 * 24 * 3600)
        return loop.time() - before, loop.steps

    slept, steps = run_simulated(main, limits=LoopLimits(virtual_s_max=1e9))
    assert slept == 365 * 24 * 3600
    assert steps < 10


def test_a_hundred_hours_of_three_idle_nodes_cost_two_steps_a_heartbeat():
    async def heart():
        while True:
            await asyncio.sleep(5)

    async def main(loop):
        for number in range(3):
            loop.create_task(heart(), context=Process(f"n{number}").context())
        await asyncio.sleep(100 * 3600)
        return loop.steps

    beats = 3 * 100 * 3600 // 5
    assert run_simulated(main) <= 2 * beats + 20


def test_the_parts_of_asyncio_work():
    async def main(_loop):
        seen = []
        event, queue, condition = asyncio.Event(), asyncio.Queue(1), asyncio.Condition()

        async def producer():
            for number in range(3):
                await queue.put(number)
            await asyncio.sleep(1)
            event.set()
            async with condition:
                condition.notify_all()

        async def consumer():
            for _ in range(3):
                seen.append(await queue.get())
            async with condition:
                await condition.wait()
            await event.wait()

        async with asyncio.TaskGroup() as group:
            group.create_task(consumer())
            group.create_task(producer())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(10), 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await asyncio.Event().wait()
        first, rest = await asyncio.wait(
            [asyncio.get_running_loop().create_task(asyncio.sleep(s)) for s in (3, 1, 2)],
            return_when=asyncio.FIRST_COMPLETED,
        )
        assert (len(first), len(rest)) == (1, 2)
        assert await asyncio.gather(asyncio.sleep(1, "a"), asyncio.sleep(0, "b")) == ["a", "b"]
        return seen, LoopClock().monotonic()

    assert run_simulated(main) == ([0, 1, 2], 1 + 1 + 2 + 1 + 1)


def test_a_failing_task_group_raises_and_cancels_the_others():
    async def main(_loop):
        cancelled = []

        async def victim(name):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                cancelled.append(name)
                raise

        async def failing():
            await asyncio.sleep(1)
            raise ValueError("boom")

        with pytest.raises(ExceptionGroup):
            async with asyncio.TaskGroup() as group:
                for number in range(30):
                    group.create_task(victim(number))
                group.create_task(failing())
        return cancelled

    assert run_simulated(main) == run_simulated(main)


def test_waiting_for_nobody_is_a_deadlock_that_names_the_waiting():
    async def main(loop):
        waiter = loop.create_task(asyncio.Event().wait(), name="the lonely one")
        await waiter

    with pytest.raises(Deadlock, match="the lonely one"):
        run_simulated(main)


def test_virtual_time_has_an_end():
    async def main(_loop):
        while True:
            await asyncio.sleep(60)

    with pytest.raises(TooLong, match="virtual second 3600"):
        run_simulated(main, limits=LoopLimits(virtual_s_max=3600))


def test_a_loop_that_spins_without_time_passing_is_stopped():
    async def main(_loop):
        while True:
            await asyncio.sleep(0)

    with pytest.raises(TooBusy, match="main"):
        run_simulated(main, limits=LoopLimits(steps_at_one_moment_max=1000))


def test_steps_have_an_end():
    async def main(_loop):
        while True:
            await asyncio.sleep(1)

    with pytest.raises(TooBusy):
        run_simulated(main, limits=LoopLimits(steps_max=1000))


@pytest.mark.parametrize(
    "call",
    [
        lambda loop: asyncio.to_thread(print),
        lambda loop: asyncio.open_connection("127.0.0.1", 80),
        lambda loop: asyncio.start_server(print, "127.0.0.1", 0),
        lambda loop: asyncio.create_subprocess_exec("true"),
        lambda loop: loop.getaddrinfo("localhost", 80),
        lambda loop: loop.add_signal_handler(signal.SIGTERM, print),
        lambda loop: loop.add_reader(0, print),
        lambda loop: loop.create_datagram_endpoint(asyncio.DatagramProtocol),
    ],
)
def test_the_world_outside_is_refused_by_name(call):
    async def main(loop):
        await call(loop)

    with pytest.raises(NotSimulated):
        run_simulated(main)


def test_another_thread_may_not_call_in():
    async def main(loop):
        errors = []

        def intrude():
            try:
                loop.call_soon_threadsafe(print)
            except NotSimulated as error:
                errors.append(error)

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        return len(errors)

    assert run_simulated(main) == 1


def _turns(seed, *, shuffle_tasks=False, processes=3, tasks=3):
    async def main(loop):
        order = []

        async def work(name):
            for turn in range(3):
                order.append((name, turn))
                await asyncio.sleep(0)

        for p in range(processes):
            process = Process(f"n{p}")
            for t in range(tasks):
                loop.create_task(work(f"{p}{t}"), context=process.context())
        await asyncio.sleep(1)
        return order

    return run_simulated(main, seed=seed, shuffle_tasks=shuffle_tasks)


def test_the_seed_decides_whose_turn_it_is_and_nothing_else_does():
    assert _turns(1) == _turns(1)
    assert len({tuple(_turns(seed)) for seed in range(20)}) > 10


def test_a_process_keeps_its_own_order_unless_its_tasks_are_shuffled():
    def of_first(order):
        return [entry for entry in order if entry[0][0] == "0"]

    assert len({tuple(of_first(_turns(seed))) for seed in range(20)}) == 1
    assert len({tuple(of_first(_turns(seed, shuffle_tasks=True))) for seed in range(20)}) > 5
    for seed in range(20):
        for name in ("00", "01", "02"):
            assert [turn for who, turn in _turns(seed, shuffle_tasks=True) if who == name] == [0, 1, 2]


def test_sets_of_tasks_have_one_order():
    async def main(loop):
        ballast = [object() for _ in range(ballast_size)]
        tasks = {loop.create_task(asyncio.sleep(1)) for _ in range(50)}
        done, _ = await asyncio.wait(tasks)
        del ballast
        return [task.get_name() for task in done]

    ballast_size = 10
    first = run_simulated(main)
    ballast_size = 12_345
    assert run_simulated(main) == first


def test_the_tasks_of_a_node_are_closed_in_one_order():
    async def main(_loop):
        order = []

        async def work(name):
            try:
                await asyncio.sleep(100)
            finally:
                order.append(name)

        tasks = Tasks(on_death=lambda name, error: order.append((name, error)))
        for number in range(20):
            tasks.spawn(work(number), name=str(number))
        await asyncio.sleep(1)
        await tasks.close()
        return order

    assert run_simulated(main) == list(range(20))


def test_the_shuffle_uses_no_luck_but_its_own():
    async def main(_loop):
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(10)))

    chance = Chance(5)
    run_simulated(main, seed=5)
    assert chance.random() == Chance(5).random()


# ---- processes -----------------------------------------------------------------------------------------------------


def _watched(loop, seen, process, *, every=1.0):
    async def work():
        try:
            while True:
                await asyncio.sleep(every)
                assert current_process() is process
                seen.append(loop.time())
        finally:
            seen.append("cleaned up")
            await asyncio.sleep(0)
            seen.append("cleaned up and awaited")

    return loop.create_task(work(), context=process.context())


def test_a_killed_process_runs_nothing_more_not_even_its_finally():
    async def main(loop):
        process, seen = Process("n"), []
        _watched(loop, seen, process)
        await asyncio.sleep(2.5)
        loop.kill(process)
        await asyncio.sleep(100)
        return list(seen)

    assert run_simulated(main) == [1.0, 2.0]


def test_a_paused_process_does_nothing_and_its_timers_come_late():
    async def main(loop):
        process, other, seen, others = Process("n"), Process("o"), [], []
        _watched(loop, seen, process)
        _watched(loop, others, other)
        await asyncio.sleep(1.5)
        loop.pause(process)
        await asyncio.sleep(10)
        held_back = list(seen)
        loop.wake(process)
        await asyncio.sleep(1.25)
        return held_back, list(seen), len(others)

    held_back, seen, others = run_simulated(main)
    assert held_back == [1.0]
    assert seen == [1.0, 11.5, 12.5]
    assert others == 12


def test_a_paused_process_can_be_killed_and_stays_dead_when_woken():
    async def main(loop):
        process, seen = Process("n"), []
        _watched(loop, seen, process)
        await asyncio.sleep(0.5)
        loop.pause(process)
        await asyncio.sleep(1)
        loop.kill(process)
        loop.wake(process)
        loop.pause(process)
        await asyncio.sleep(5)
        return list(seen)

    assert run_simulated(main) == []


def test_a_process_can_be_doomed_at_any_of_its_steps():
    def lived(step):
        async def main(loop):
            process, seen = Process("n"), []
            process.doomed_at_step = step
            _watched(loop, seen, process)
            await asyncio.sleep(5.5)
            assert process.alive == (step > 11)
            return list(seen)

        return run_simulated(main)

    # the first step begins the task; then each second is one step of the timer and one of the task
    assert [len(lived(step)) for step in range(1, 13)] == [0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5]


def test_what_watches_a_process_hears_of_its_death_in_the_worlds_name():
    async def main(loop):
        process, heard = Process("n"), []
        process.on_kill.append(lambda: heard.append(current_process()))
        loop.kill(process)
        loop.kill(process)
        await asyncio.sleep(0)
        return heard

    assert run_simulated(main) == [None]


def test_an_error_in_a_callback_is_kept_for_the_harness():
    async def main(loop):
        loop.call_soon(lambda: 1 / 0)
        await asyncio.sleep(0)
        return [context["exception"] for context in loop.unhandled]

    (error,) = run_simulated(main)
    assert isinstance(error, ZeroDivisionError)


def test_a_loop_can_be_used_once():
    loop = SimulatedLoop()
    loop.run(asyncio.sleep(1))
    with pytest.raises(RuntimeError, match="closed"):
        loop.call_soon(print)
        loop.run_forever()


def test_the_clock_of_a_skewed_node_is_off_by_its_skew():
    async def main(_loop):
        await asyncio.sleep(1)
        return LoopClock(skew_ms=-250).now_ms() - LoopClock().now_ms()

    assert run_simulated(main) == -250
