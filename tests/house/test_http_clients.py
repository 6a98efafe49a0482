"""Other people's clients of the HTTP door, from end to end against a node: published libraries, and a browser."""

import json
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Producer
from durable_streams import DurableStream, StreamExistsError, StreamNotFoundError

from runnel.client.streams import Patience, Stream
from runnel.errors import NotThere

CONFORMANCE = Path(__file__).parents[1] / "conformance" / "http"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60


@pytest.fixture
def node(start):
    return start("--http-long-poll-ms", 1500)


@pytest.mark.leaves("httpx keeps its pool until it is collected")
def test_the_published_python_client_makes_appends_reads_and_tails(node):
    url = f"{node.http}/v1/stream/pypi"
    stream = DurableStream.create(url, content_type="application/json")
    with stream:
        for number in range(5):
            stream.append({"number": number})
        with stream.stream(live=False) as response:
            assert [each["number"] for each in response.read_json()] == list(range(5))
            offset = response.offset
        assert stream.head().content_type == "application/json"
        for live in ("long-poll", "sse"):
            stream.append({"live": live})
            with stream.stream(offset=offset, live=live) as response:
                found = next(iter(response.iter_json()))
                offset = response.offset
            assert found == {"live": live}
        with pytest.raises(StreamExistsError):
            DurableStream.create(url, content_type="text/plain")
        stream.delete()
        with pytest.raises(StreamNotFoundError):
            stream.head()


@pytest.mark.skipif(
    shutil.which("node") is None or not (CONFORMANCE / "node_modules").exists(),
    reason="needs node and the packages of tests/conformance/http (its run.py installs them)",
)
def test_the_published_javascript_client_writes_as_an_idempotent_producer_and_tails(node):
    done = subprocess.run(
        ["node", "clients.mjs", f"{node.http}/v1/stream/npm"],
        cwd=CONFORMANCE,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    seen = json.loads(done.stdout)
    assert [each["number"] for each in seen["items"]] == list(range(50))
    assert [each["number"] for each in seen["sse"]] == [50, 51]
    assert [each["number"] for each in seen["long-poll"]] == [50, 51, 52]
    assert seen["closed"] is True


PAGE = """<!doctype html><script>
const seen = []
const tail = new EventSource("%(http)s/v1/topic/orders/0?offset=-1&live=sse")
tail.onmessage = event => {
  seen.push([event.lastEventId, JSON.parse(event.data).value])
  if (seen.length == %(count)d) fetch("%(http)s/v1/stream/report", {
    method: "PUT", headers: {"content-type": "application/json"}, body: JSON.stringify(seen.map(each => [each]).flat()),
  })
}
</script>"""


@pytest.mark.skipif(
    CHROMIUM is None, reason="NO BROWSER: chromium is not installed and could not be: apt-get install chromium"
)
def test_a_page_tails_a_topic_while_kafka_produces_to_it(node, tmp_path):
    count = 20
    producer = Producer({"bootstrap.servers": node.ready["ready"]["kafka"], "linger.ms": 0})

    def produce(numbers):
        for number in numbers:
            producer.produce("orders", f"order {number}".encode(), partition=0)
        assert producer.flush(PATIENCE) == 0

    produce(range(count // 2))
    page = tmp_path / "page.html"
    page.write_text(PAGE % {"http": node.http, "count": count})
    flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    with subprocess.Popen(
        [CHROMIUM, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--remote-debugging-port=0", page.as_uri()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as browser:
        try:
            for number in range(count // 2, count):
                produce([number])
                time.sleep(0.05)
            seen = reported(f"{node.http}/v1/stream/report")
        finally:
            browser.terminate()
            browser.wait(PATIENCE)
    assert seen == [[str(number), f"order {number}"] for number in range(count)]


def reported(url):
    give_up = time.monotonic() + PATIENCE  # noqa: TID251  a browser lives in real time
    with Stream(url) as stream:
        while True:
            try:
                return json.loads(stream.read().data)
            except NotThere:
                assert time.monotonic() < give_up, "the page has reported nothing"  # noqa: TID251  as above
                time.sleep(0.1)


def test_everything_in_the_openapi_document_is_there(node):
    with urllib.request.urlopen(f"{node.http}/v1/openapi.json", timeout=10) as answer:
        document = json.load(answer)
    seen = 0
    for path, operations in document["paths"].items():
        target = node.http + re.sub(r"\{\w+\}", "0", path)
        for method in operations.keys() & {"get", "put", "post", "delete", "head"}:
            request = urllib.request.Request(target, method=method.upper(), data=b"")
            try:
                with urllib.request.urlopen(request, timeout=10) as answer:
                    status, body = answer.status, answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    status, body = error.code, error.read()
            assert str(status) in operations[method]["responses"], (method, path, status, body)
            assert b"nothing is here" not in body
            seen += 1
    assert seen >= 19


def test_a_producer_of_ours_survives_nodes_that_are_killed(start, free_port):
    """Each append once and in order, though the node dies four times with requests under way."""
    address = f"127.0.0.1:{free_port}"
    done, total = [0], 240

    def write():
        patience = Patience(attempts_max=100, pause_seconds_max=0.5)
        with Stream(f"http://{address}/v1/stream/kept", content_type="application/json", patience=patience) as stream:
            stream.create()
            with stream.producer("survivor") as producer:
                for number in range(total):
                    producer.append_json(number)
                    done[0] = number + 1
                producer.close_stream()

    writer = threading.Thread(target=write)
    node = start("--http", address)
    writer.start()
    for kill in range(1, 5):
        while done[0] < kill * total // 6:
            assert writer.is_alive(), "the writer has given up"
            time.sleep(0.005)
        node.process.kill()
        node.process.communicate(timeout=PATIENCE)
        node = start("--http", address)
    writer.join(PATIENCE)
    assert not writer.is_alive()
    with Stream(f"http://{address}/v1/stream/kept") as stream:
        assert [message for chunk in stream.read_all() for message in chunk.messages()] == list(range(total))
        assert stream.about().closed
