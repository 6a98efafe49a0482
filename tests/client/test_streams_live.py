"""The client against the protocol's reference server, directly and through a network that breaks."""

import asyncio
import random  # noqa: TID251  which connection breaks is this test's own luck, from a seed
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runnel.client.streams import AsyncStream, Patience, Stream, StreamClosed
from runnel.errors import AlreadyThere, NotThere

HTTP = Path(__file__).parents[1] / "conformance" / "http"
pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (HTTP / "node_modules").exists(),
    reason="needs node and the packages of tests/conformance/http (its run.py installs them)",
)


@pytest.fixture(scope="module")
def reference() -> Iterator[str]:
    with subprocess.Popen(
        ["node", str(HTTP / "reference.mjs"), "0", "300"], cwd=HTTP, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        yield f"{url}/v1/stream"
        process.terminate()
        process.wait(10)


@pytest.fixture
def url(reference: str, request: Any) -> str:
    return f"{reference}/{request.node.name}"


def test_a_stream_from_its_making_to_its_end(url: str) -> None:
    with Stream(url, content_type="text/plain") as stream:
        assert stream.create(b"one ")
        assert not stream.create(b"one ")
        offset = stream.append(b"two")
        assert stream.about().next_offset == offset
        assert b"".join(chunk.data for chunk in stream.read_all()) == b"one two"
        with Stream(url, content_type="text/html") as other, pytest.raises(AlreadyThere):
            other.create()
        stream.append(b"!", close=True)
        with pytest.raises(StreamClosed):
            stream.append(b"late")
        assert stream.about().closed
        assert b"".join(chunk.data for chunk in stream.tail(offset)) == b"!"
        stream.delete()
        with pytest.raises(NotThere):
            stream.read()


def test_a_restarted_producer_goes_on_without_losing_anything(url: str) -> None:
    with Stream(url, content_type="application/json") as stream:
        stream.create()
        for run in range(3):
            with stream.producer("till") as producer:
                producer.append_json({"run": run}, [run])
                producer.append_json(run)
        messages = [message for chunk in stream.read_all() for message in chunk.messages()]
        assert messages == [message for run in range(3) for message in ({"run": run}, [run], run)]


def test_a_tail_follows_what_is_appended(url: str) -> None:
    with Stream(url, content_type="application/json") as writer, Stream(url) as reader:
        writer.create()

        def write() -> None:
            for number in range(20):
                writer.append_json(number)
                time.sleep(0.005)
            writer.close_stream()

        thread = threading.Thread(target=write)
        thread.start()
        assert [message for chunk in reader.tail() for message in chunk.messages()] == list(range(20))
        thread.join()


def test_async_words_do_the_same(url: str, run: Any) -> None:
    async def story() -> None:
        async with AsyncStream(url, content_type="application/json") as stream, AsyncStream(url) as reader:
            assert await stream.create()
            seen: list[Any] = []

            async def follow() -> None:
                async for chunk in reader.tail():
                    seen.extend(chunk.messages())

            following = asyncio.get_running_loop().create_task(follow())
            producer = stream.producer("p")
            for number in range(20):
                await producer.append_json(number)
            await producer.close_stream()
            await following
            assert seen == list(range(20))
            assert (await stream.about()).closed
            await stream.delete()

    run(story())


class Breaking:
    """A network to one server on which connections break: before a request, or after it but before its answer."""

    def __init__(self, port: int, seed: int) -> None:
        self.port, self.luck, self.breaks = port, random.Random(seed), 0
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        there, back = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            while request := await reader.read(1 << 16):
                if self.luck.random() < 0.1:
                    self.breaks += 1
                    break
                back.write(request)
                answer = await there.read(1 << 16)
                if not answer or self.luck.random() < 0.2:
                    self.breaks += 1
                    break
                writer.write(answer)
        finally:
            for each in (back, writer):
                each.close()
                try:
                    await each.wait_closed()
                except OSError:
                    continue
            self.open -= 1


def test_through_a_network_that_breaks_each_append_happens_once(reference: str, run: Any) -> None:
    async def story() -> None:
        network = Breaking(int(reference.split(":")[2].split("/", maxsplit=1)[0]), seed=7)
        server = await asyncio.start_server(network.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}/v1/stream/breaking"
        patience = Patience(pause_seconds=0.001, pause_seconds_max=0.01)
        async with AsyncStream(url, content_type="application/json", patience=patience) as stream:
            await stream.create()
            producer = stream.producer("p")
            for number in range(150):
                await producer.append_json(number)
            await producer.close_stream()
            messages = [message async for chunk in stream.tail() for message in chunk.messages()]
        assert network.breaks > 20
        assert messages == list(range(150))
        server.close()
        await server.wait_closed()
        while network.open:  # noqa: ASYNC110  the proxy's own tasks, ending
            await asyncio.sleep(0.001)

    run(story())
