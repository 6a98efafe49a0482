"""Nodes that share one store and one ledger, and nodes of several processes: what stock clients notice when some die."""

import json
import os
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.broker import stock
from tests.house.test_serve import get

from runnel.world.chance import Chance

PARTITIONS = 6


@pytest.fixture
def port():
    """A free one with a free one behind it, where the system gives none to those who ask for any."""
    for base in Chance().sample(range(15_000, 30_000), 100):
        with (
            suppress(OSError),
            socket.create_server(("127.0.0.1", base)),
            socket.create_server(("127.0.0.1", base + 1)),
        ):
            return base
    pytest.fail("no two ports are free")


def make_topic(address):
    stock.ended(stock.begin("confluent_create", address, topic="orders", partitions=PARTITIONS))


def children_of(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def until(there, seconds=30):
    end = time.monotonic() + seconds  # noqa: TID251  processes of the machine are watched, by its clock
    while not (found := there()):
        assert time.monotonic() < end, "it did not come to that"  # noqa: TID251  as above
        time.sleep(0.05)
    return found


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def check_exactly_once(told, found):
    """Everything acknowledged is there once, in order, and nothing is there twice."""
    assert not told["failed"], told["failed"][:3]
    assert told["left"] == 0
    for number in range(PARTITIONS):
        acknowledged, there = told["acknowledged"][str(number)], found[str(number)]
        assert there == sorted(set(there)), f"partition {number} holds doubles, or records out of order"
        assert there == acknowledged


def test_nodes_over_one_store_and_ledger_lose_one_and_an_idempotent_producer_loses_nothing(start, tmp_path):
    shared = ["--objects", f"file://{tmp_path}/objects", "--ledger", f"sqlite://{tmp_path}/ledger.sqlite"]
    shared += ["--lease-ms", "1500", "--object-age-ms-max", "50"]
    nodes = [start("--data-dir", tmp_path / f"node{number}", *shared) for number in range(3)]
    addresses = [node.ready["ready"]["kafka"] for node in nodes]
    make_topic(addresses[0])
    leaders = stock.ended(stock.begin("confluent_leaders", addresses[0], topic="orders"))
    assert len(set(leaders.values())) > 1, "the partitions have one leader: the test would show nothing"
    writing = stock.begin(
        "confluent_produce_for", ",".join(addresses), topic="orders", partitions=PARTITIONS, seconds=3.0
    )
    time.sleep(1.0)
    victim = next(number for number in (2, 1) if number in leaders.values())
    nodes[victim].stop(signal.SIGKILL)
    told = stock.ended(writing)
    found = stock.ended(stock.begin("confluent_read_all", addresses[0], topic="orders", partitions=PARTITIONS))
    check_exactly_once(told, found)
    assert victim not in stock.ended(stock.begin("confluent_leaders", addresses[0], topic="orders")).values()


def test_a_process_that_is_killed_comes_back_and_an_idempotent_producer_loses_nothing(start, port):
    node = start("--processes", "2", "--kafka", f"127.0.0.1:{port}", "--object-age-ms-max", "50")
    addresses = node.ready["ready"]["kafka"]
    first, second = addresses.split(",")
    assert [int(each.rpartition(":")[2]) for each in (first, second)] == [port, port + 1]
    make_topic(first)
    pids = children_of(node.process.pid)
    assert len(pids) == 2
    writing = stock.begin("confluent_produce_for", addresses, topic="orders", partitions=PARTITIONS, seconds=3.0)
    for victim in pids:
        time.sleep(0.8)
        os.kill(victim, signal.SIGKILL)
    told = stock.ended(writing)
    check_exactly_once(
        told, stock.ended(stock.begin("confluent_read_all", addresses, topic="orders", partitions=PARTITIONS))
    )
    again = until(lambda: len(children_of(node.process.pid)) == 2 and children_of(node.process.pid))
    assert not set(again) & set(pids)
    code, log = node.stop()
    assert code == 0
    assert log.count("process_died") == 2
    assert not any(map(alive, again))


def test_a_node_that_is_killed_and_started_again_has_every_acknowledged_record_once(start, port):
    words = ["--kafka", f"127.0.0.1:{port}", "--object-age-ms-max", "50"]
    node = start(*words)
    address = node.ready["ready"]["kafka"]
    make_topic(address)
    writing = stock.begin("confluent_produce_for", address, topic="orders", partitions=PARTITIONS, seconds=3.0)
    time.sleep(1.0)
    node.stop(signal.SIGKILL)
    node = start(*words)
    told = stock.ended(writing)
    found = stock.ended(stock.begin("confluent_read_all", address, topic="orders", partitions=PARTITIONS))
    check_exactly_once(told, found)


def test_each_process_is_a_node_of_its_own_and_finds_its_number_again(start):
    for _ in range(2):
        node = start("--processes", "3")
        assert len(set(node.ready["ready"]["kafka"].split(","))) == 3
        for address in node.ready["ready"]["http"].split(","):
            assert get(f"{address}/readyz")[0] == 200
        told = stock.ended(stock.begin("confluent_leaders", node.ready["ready"]["kafka"].split(",")[2], topic=""))
        assert told == {"brokers": [0, 1, 2]}
        assert node.stop()[0] == 0


def test_the_processes_end_when_nobody_looks_after_them(start):
    node = start("--processes", "2")
    pids = children_of(node.process.pid)
    node.process.kill()
    until(lambda: not any(map(alive, pids)))
    assert start("--processes", "2").stop()[0] == 0


def test_a_process_that_dies_again_and_again_takes_the_node_down(start, tmp_path):
    node = start("--processes", "2")
    killed = set()

    def is_over():
        if node.process.poll() is not None:
            return True
        for pid in set(children_of(node.process.pid)) - killed:
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)
        return False

    until(is_over, 60)
    _, log = node.process.communicate()
    assert node.process.returncode == 70
    assert "node_given_up" in log


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--objects", "memory://"], "several processes cannot share objects in memory"),
        (["--ledger", "memory:"], "several processes cannot share ledger in memory"),
        (["--kafka", "127.0.0.1:PORT"], "is in use"),
    ],
)
def test_a_node_that_cannot_be_is_refused_with_the_reason(runnel, words, says):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1] - 1  # the second process wants the one that is taken
        words = [word.replace("PORT", str(port)) for word in words]
        done = runnel("serve", "--http", "127.0.0.1:0", "--processes", "2", *words)
    assert done.returncode == 2
    assert says in done.stderr.splitlines()[-1]
    assert json.dumps(done.stdout) == '""'
