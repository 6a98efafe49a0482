"""A node from its start to its end, as a supervisor sees it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from runnel import __version__


def get(url, **headers):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_node_says_when_it_is_ready_answers_and_leaves_in_order(start, tmp_path):
    node = start()
    assert node.ready["version"] == __version__
    assert node.ready["data_dir"] == str(tmp_path / "runnel-data")
    assert node.ready["pid"] == node.process.pid
    assert get(f"{node.http}/healthz") == (200, "ok\n")
    assert get(f"{node.http}/readyz") == (200, "ok\n")
    status, body = get(f"{node.http}/readyz", accept="application/json")
    assert (status, json.loads(body)) == (
        200,
        {"ok": True, "checks": dict.fromkeys(("node", "tasks", "root shard", "upgrade"))},
    )
    status, body = get(f"{node.http}/metrics")
    assert status == 200
    assert f'runnel_build{{version="{__version__}"}} 1\n' in body
    assert "# TYPE runnel_process_resident_bytes gauge\n" in body
    code, log = node.stop()
    assert code == 0
    assert "node_stopping why=SIGTERM" in log


def test_the_ready_line_for_people_names_the_doors(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "runnel", "serve", "--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    line = process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    assert process.stdout.read() == ""
    process.stdout.close()
    assert line.startswith(f"runnel {__version__} is ready: kafka 127.0.0.1:")
    assert "  http http://127.0.0.1:" in line
    assert f"data {tmp_path}/runnel-data" in line


def test_what_is_not_there_is_a_problem_in_json(start):
    node = start()
    status, body = get(f"{node.http}/nothing/here")
    assert status == 404
    assert json.loads(body)["status"] == 404


def test_a_node_finds_its_data_again(start, tmp_path):
    assert start().stop()[0] == 0
    marker = (tmp_path / "runnel-data/runnel.json").read_text()
    assert json.loads(marker) == {"format": 1, "made_by": __version__}
    again = start()
    assert get(f"{again.http}/readyz")[0] == 200
    assert again.stop()[0] == 0
    assert (tmp_path / "runnel-data/runnel.json").read_text() == marker


def test_a_node_that_was_killed_starts_again(start):
    node = start()
    node.stop(signal.SIGKILL)
    assert get(f"{start().http}/readyz")[0] == 200


def test_an_open_request_may_finish_and_a_second_signal_cuts_it_short(start):
    node = start("--drain-ms-max", "600000")
    host, port = node.http.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n")  # the end of the head does not come
        assert get(f"{node.http}/readyz")[0] == 200
        node.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        slow.sendall(b"\r\n")
        slow.settimeout(10)
        assert slow.recv(100).startswith(b"HTTP/1.1 ")
    assert node.process.wait(timeout=30) == 0

    node = start("--drain-ms-max", "600000")
    host, port = node.http.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall(b"POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n")
        assert get(f"{node.http}/readyz")[0] == 200
        node.process.send_signal(signal.SIGTERM)
        while "node_stopping" not in node.process.stderr.readline():
            pass
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(timeout=30) == 0


def test_everything_may_live_in_memory(start, tmp_path):
    node = start("--objects", "memory://", "--ledger", "memory:")
    assert get(f"{node.http}/readyz")[0] == 200
    assert sorted(file.name for file in (tmp_path / "runnel-data").iterdir()) == [
        "node.json",
        "node.lock",
        "runnel.json",
    ]


def test_an_idle_node_is_small_and_still(start):
    node = start()
    time.sleep(0.5)
    before = sum(os.times()[2:4]), _cpu(node.process.pid)
    time.sleep(2)
    assert _cpu(node.process.pid) - before[1] <= 0.1, "an idle node takes more than five hundredths of a core"
    resident = int(Path(f"/proc/{node.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    assert resident < 120e6


def _cpu(process):
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("module", ["pyspark", "pyarrow", "obstore", "asyncpg", "sqlite3", "asyncio"])
def test_help_waits_for_no_library(module):
    code = f"import sys; sys.argv = ['runnel', '--help']; import runnel.__main__ as m\ntry: m.main()\nexcept SystemExit: pass\nprint({module!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


def test_a_killed_node_comes_back_under_its_own_number_without_waiting_for_its_old_lease(start, tmp_path):
    node = start("--lease-ms", "600000")
    node.process.kill()
    node.process.wait(timeout=30)
    again = start("--lease-ms", "600000")  # it would be refused, or wait for ten minutes
    assert json.loads((tmp_path / "runnel-data" / "node.json").read_text())["node"] == 0
    assert get(f"{again.http}/readyz")[0] == 200
