"""Starting `runnel` as people do: as a process of its own."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest

PATIENCE = 30


def clean_environment(**more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RUNNEL_")}
    return clean | {"RUNNEL_KAFKA": "127.0.0.1:0", "RUNNEL_TABLE_SERVICE": "false"} | more


@dataclass
class Started:
    process: subprocess.Popen
    ready: dict

    @property
    def http(self):
        return self.ready["ready"]["http"]

    def stop(self, number=signal.SIGTERM):
        """Exit code and what was logged."""
        self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


@pytest.fixture
def runnel(tmp_path):
    """Run a command to its end, in an empty folder."""

    def call(*words, **environment):
        return subprocess.run(
            [sys.executable, "-m", "runnel", *map(str, words)],
            cwd=tmp_path,
            env=clean_environment(**environment),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    return call


@pytest.fixture
def start(tmp_path):
    """Start a node and wait for its ready line; whatever happens, it is gone at the end."""
    started = []

    def begin(*words, **environment):
        process = subprocess.Popen(
            [sys.executable, "-m", "runnel", "serve", "--http", "127.0.0.1:0", "--json", *map(str, words)],
            cwd=tmp_path,
            env=clean_environment(**environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        line = process.stdout.readline()
        assert line, process.communicate(timeout=PATIENCE)[1]
        return Started(process, json.loads(line))

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE)
