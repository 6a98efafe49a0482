"""The table service beside a node: there when there is something to do, gone when the node is."""

import json
import shutil
import subprocess
import sys
import time

import psutil
import pytest
from tests.house.conftest import clean_environment

from runnel.world.clock import SystemClock

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(shutil.which("java") is None, reason="without Java there is no table service"),
]


def status(folder):
    done = subprocess.run(
        [sys.executable, "-m", "runnel", "table", "status", "--json", "--no-table-service"],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return json.loads(done.stdout)


def planner(folder):
    """The process that keeps tables up to date, once there is one."""
    until = SystemClock().monotonic() + 60
    while SystemClock().monotonic() < until:
        found = status(folder)
        if found["planner_alive"]:
            pid = int(found["planner"].split(":")[-2])
            if psutil.pid_exists(pid):
                return pid
        time.sleep(0.2)
    raise AssertionError("nobody plans")


def test_the_service_comes_with_a_node_and_goes_with_it_however_it_goes(start, tmp_path):
    node = start(RUNNEL_TABLE_SERVICE="true", RUNNEL_PROCESSES="1")
    subprocess.run(
        [sys.executable, "-m", "runnel", "topic", "create", "t", "--bootstrap", node.ready["ready"]["kafka"]],
        env=clean_environment(),
        check=True,
        capture_output=True,
        timeout=60,
    )
    service = psutil.Process(planner(tmp_path))
    node.process.kill()
    node.process.wait(30)
    assert psutil.wait_procs([service], timeout=30) == ([service], [])


def test_a_node_whose_memory_nobody_can_reach_has_no_service_and_says_so(start):
    node = start("--ledger", "memory:", RUNNEL_TABLE_SERVICE="true", RUNNEL_PROCESSES="1")
    code, errors = node.stop()
    assert code == 0
    assert "table_service_off" in errors
