"""Deadlines with one timer."""

import asyncio

from runnel.broker.alarms import Alarms


def test_alarms_ring_in_the_order_of_their_times_and_those_taken_back_do_not(run):
    async def story():
        alarms, rung = Alarms(), []
        for name, seconds in (("late", 0.06), ("early", 0.01), ("middle", 0.03), ("same", 0.03)):
            alarms.set(seconds, lambda name=name: rung.append(name))

        def never():
            rung.append("never")

        alarms.cancel(alarms.set(0.02, never), never)
        alarms.cancel(alarms.set(0.0, never), never)
        done = asyncio.Event()
        alarms.set(0.08, done.set)
        await asyncio.wait_for(done.wait(), 10)
        assert rung == ["early", "middle", "same", "late"]
        done.clear()
        alarms.set(0.0, lambda: alarms.set(0.0, done.set) and None)
        await asyncio.wait_for(done.wait(), 10)
        alarms.set(0.01, never)
        alarms.close()
        await asyncio.sleep(0.03)
        assert "never" not in rung

    run(story())
