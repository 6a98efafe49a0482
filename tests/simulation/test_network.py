"""The simulated network: what protocols may rely on, and how connections end."""

import asyncio

import pytest

from runnel.world.chance import Chance
from runnel.world.simulation.loop import run_simulated
from runnel.world.simulation.network import Network, Wire
from runnel.world.simulation.process import Process

WINDOW = Wire().window_bytes


class Recorder(asyncio.Protocol):
    """Writes down everything it is told."""

    def __init__(self):
        self.events = []
        self.got = bytearray()
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport
        self.events.append("made")

    def data_received(self, data):
        self.got += data

    def eof_received(self):
        self.events.append("end")

    def connection_lost(self, error):
        self.events.append("lost" if error is None else type(error).__name__)

    def pause_writing(self):
        self.events.append("pause")

    def resume_writing(self):
        self.events.append("resume")


class Buffered(Recorder, asyncio.BufferedProtocol):
    """As the Kafka door reads: into memory of its own."""

    def __init__(self, room):
        super().__init__()
        self.arena = bytearray(room)

    def get_buffer(self, _hint):
        return self.arena

    def buffer_updated(self, count):
        self.got += self.arena[:count]


class Pair:
    """A client on host `a` and a server on host `b`, joined."""

    def __init__(self, loop, seed=1, wire=None, far=Recorder):
        self.loop = loop
        self.network = Network(loop, Chance(seed), wire)
        self.a, self.b = Process("a"), Process("b")
        self.near, self.far = Recorder(), far()
        self.server = None

    def on(self, process, work):
        return self.loop.create_task(work, context=process.context())

    async def join(self):
        self.server = await self.on(self.b, self.network.listen(None, 9092, lambda: self.far))
        await self.on(self.a, self.network.connect("b", 9092, lambda: self.near))
        await asyncio.sleep(1)
        return self


def simulated(work, **options):
    async def main(loop):
        return await work(await Pair(loop, **options).join())

    return run_simulated(main)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("far", [Recorder, lambda: Buffered(7), lambda: Buffered(100_000)])
def test_bytes_arrive_whole_and_in_order_however_they_are_cut(seed, far):
    sent = b"".join(number.to_bytes(4) * 50 for number in range(300))

    async def work(pair):
        rest = memoryview(sent)
        while rest:
            size = pair.network.chance.randint(1, 5000)
            pair.near.transport.write(rest[:size])
            rest = rest[size:]
            await asyncio.sleep(pair.network.chance.choice((0, 0.001)))
        await asyncio.sleep(60)
        return bytes(pair.far.got)

    assert simulated(work, seed=seed, far=far) == sent


def test_what_was_written_may_be_changed_at_once():
    async def work(pair):
        memory = bytearray(b"before")
        pair.near.transport.write(memory)
        memory[:] = b"after!"
        await asyncio.sleep(5)
        return bytes(pair.far.got)

    assert simulated(work) == b"before"


def test_both_ends_know_their_addresses():
    async def work(pair):
        near, far = pair.near.transport, pair.far.transport
        assert near.get_extra_info("peername") == far.get_extra_info("sockname") == ("b", 9092)
        assert near.get_extra_info("sockname") == far.get_extra_info("peername")
        assert pair.server.sockets[0].getsockname() == ("b", 9092)

    simulated(work)


def test_closing_sends_what_was_written_and_then_the_end():
    async def work(pair):
        pair.near.transport.write(b"last words")
        pair.near.transport.close()
        pair.near.transport.write(b"too late")
        await asyncio.sleep(5)
        return pair.near.events, pair.far.events, bytes(pair.far.got), pair.network.connections()

    assert simulated(work) == (["made", "lost"], ["made", "end", "lost"], b"last words", [])


def test_closing_with_a_full_buffer_waits_until_it_is_written():
    async def work(pair):
        pair.far.transport.pause_reading()
        pair.near.transport.write(bytes(5 * WINDOW))
        pair.near.transport.close()
        await asyncio.sleep(5)
        assert pair.near.events == ["made", "pause"]
        pair.far.transport.resume_reading()
        await asyncio.sleep(5)
        return pair.near.events[-1], len(pair.far.got), pair.far.events

    assert simulated(work) == ("lost", 5 * WINDOW, ["made", "end", "lost"])


def test_an_aborted_connection_is_reset():
    async def work(pair):
        pair.near.transport.abort()
        await asyncio.sleep(5)
        return pair.near.events, pair.far.events

    assert simulated(work) == (["made", "lost"], ["made", "ConnectionResetError"])


def test_a_half_closed_connection_still_answers():
    async def work(pair):
        pair.far.eof_received = lambda: True
        pair.near.transport.write_eof()
        await asyncio.sleep(1)
        pair.far.transport.write(b"answer")
        await asyncio.sleep(1)
        with pytest.raises(RuntimeError):
            pair.near.transport.write(b"more")
        return bytes(pair.near.got)

    assert simulated(work) == b"answer"


def test_a_slow_reader_stops_its_writer_and_a_faster_one_lets_it_go_on():
    async def work(pair):
        pair.far.transport.pause_reading()
        written = 0
        while "pause" not in pair.near.events:
            pair.near.transport.write(bytes(10_000))
            written += 10_000
        await asyncio.sleep(5)
        high = pair.near.transport.get_write_buffer_limits()[1]
        assert WINDOW + high < written <= WINDOW + high + 10_000
        assert not pair.far.got
        pair.far.transport.resume_reading()
        await asyncio.sleep(5)
        return pair.near.events, len(pair.far.got) == written

    assert simulated(work) == (["made", "pause", "resume"], True)


def test_a_paused_process_reads_nothing_and_holds_back_its_writer():
    async def work(pair):
        pair.loop.pause(pair.b)
        for _ in range(30):
            pair.near.transport.write(bytes(10_000))
        await asyncio.sleep(30)
        assert not pair.far.got
        assert pair.near.events == ["made", "pause"]
        pair.loop.wake(pair.b)
        await asyncio.sleep(5)
        return len(pair.far.got), pair.near.events

    assert simulated(work) == (300_000, ["made", "pause", "resume"])


def test_a_killed_process_is_told_nothing_and_its_peer_reads_the_end():
    async def work(pair):
        pair.far.transport.write(b"so far")
        pair.loop.kill(pair.b)
        pair.far.transport.write(b"the dead write nothing")
        pair.far.transport.close()
        await asyncio.sleep(5)
        return pair.near.events, bytes(pair.near.got), pair.far.events

    assert simulated(work) == (["made", "end", "lost"], b"so far", ["made"])


def test_a_killed_process_that_left_bytes_unread_resets():
    async def work(pair):
        pair.far.transport.pause_reading()
        pair.near.transport.write(b"unread")
        await asyncio.sleep(1)
        pair.loop.kill(pair.b)
        await asyncio.sleep(5)
        return pair.near.events

    assert simulated(work) == ["made", "ConnectionResetError"]


def test_a_host_without_power_answers_nothing():
    async def work(pair):
        pair.network.lose_power("b")
        pair.loop.kill(pair.b)
        await asyncio.sleep(100)
        assert pair.near.events == ["made"], "an idle connection does not notice"
        pair.near.transport.write(b"anyone?")
        began = pair.loop.time()
        while len(pair.near.events) == 1:
            await asyncio.sleep(0.5)
        assert abs(pair.loop.time() - began - pair.network.wire.patience_s) < 2
        with pytest.raises(TimeoutError):
            await pair.on(pair.a, pair.network.connect("b", 9092, Recorder))
        return pair.near.events

    assert simulated(work) == ["made", "TimeoutError"]


def test_a_short_partition_only_delays():
    async def work(pair):
        pair.network.partition(["a"], ["b"])
        pair.near.transport.write(b"through ")
        await asyncio.sleep(5)
        assert not pair.far.got
        pair.near.transport.write(b"the wall")
        pair.network.heal()
        await asyncio.sleep(5)
        return bytes(pair.far.got), pair.near.events

    assert simulated(work) == (b"through the wall", ["made"])


def test_a_long_partition_breaks_the_senders_end_only():
    async def work(pair):
        pair.network.partition(["a"], ["b"])
        pair.near.transport.write(b"lost")
        await asyncio.sleep(100)
        pair.network.heal()
        assert (pair.near.events, pair.far.events) == (["made", "TimeoutError"], ["made"])
        pair.far.transport.write(b"hello?")
        await asyncio.sleep(5)
        return pair.far.events, bytes(pair.far.got)

    assert simulated(work) == (["made", "ConnectionResetError"], b"")


def test_a_one_way_cut_stops_one_way():
    async def work(pair):
        pair.network.cut("a", "b")
        pair.near.transport.write(b"to b")
        pair.far.transport.write(b"to a")
        await asyncio.sleep(5)
        assert (bytes(pair.near.got), bytes(pair.far.got)) == (b"to a", b"")
        pair.network.mend("a", "b")
        await asyncio.sleep(5)
        return bytes(pair.far.got)

    assert simulated(work) == b"to b"


def test_a_reset_breaks_both_sides():
    async def work(pair):
        pair.network.reset(pair.network.connections()[0])
        await asyncio.sleep(1)
        return pair.near.events, pair.far.events

    assert simulated(work) == (["made", "ConnectionResetError"],) * 2


def test_connecting_to_nobody_is_refused_and_over_a_cut_times_out():
    async def work(pair):
        with pytest.raises(ConnectionRefusedError, match="nobody listens at b:1"):
            await pair.on(pair.a, pair.network.connect("b", 1, Recorder))
        pair.server.close()
        with pytest.raises(ConnectionRefusedError):
            await pair.on(pair.a, pair.network.connect("b", 9092, Recorder))
        for source, target in ("ab", "ba"):
            pair.network.cut(source, target)
            with pytest.raises(TimeoutError):
                await pair.on(pair.a, pair.network.connect("b", 9092, Recorder))
            pair.network.heal()

    simulated(work)


def test_a_killed_servers_port_is_free_for_its_successor():
    async def work(pair):
        with pytest.raises(OSError, match="in use"):
            await pair.on(pair.b, pair.network.listen(None, 9092, Recorder))
        pair.loop.kill(pair.b)
        await asyncio.sleep(0)
        successor = Process("b#2", host="b")
        await pair.on(successor, pair.network.listen(None, 9092, Recorder))
        await pair.on(pair.a, pair.network.connect("b", 9092, Recorder))

    simulated(work)


def test_a_protocol_that_raises_loses_its_connection():
    async def work(pair):
        pair.far.data_received = lambda data: 1 / 0
        pair.near.transport.write(b"boom")
        await asyncio.sleep(5)
        assert [type(context["exception"]) for context in pair.loop.unhandled] == [ZeroDivisionError]
        return pair.far.events

    assert simulated(work) == ["made", "ZeroDivisionError"]


@pytest.mark.parametrize("seed", range(5))
def test_plain_asyncio_streams_run_over_it(seed):
    async def main(loop):
        Network(loop, Chance(seed))
        server, client = Process("server"), Process("client")

        async def serve(reader, writer):
            while line := await reader.readline():
                writer.write(line.upper())
                await writer.drain()
            writer.close()

        async def ask():
            reader, writer = await asyncio.open_connection("server", 5000)
            writer.write(b"hello\n" * 20_000)
            await writer.drain()
            writer.write_eof()
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

        await loop.create_task(asyncio.start_server(serve, "0.0.0.0", 5000), context=server.context())
        return await loop.create_task(ask(), context=client.context())

    assert run_simulated(main, seed=seed) == b"HELLO\n" * 20_000
