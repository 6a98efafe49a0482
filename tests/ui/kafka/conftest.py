"""A node as people start it, and the commands as people call them."""

import json
import os
import subprocess
import sys

import pytest

PATIENCE = 40


def clean_environment(**more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RUNNEL_")}
    return clean | {"RUNNEL_TABLE_SERVICE": "false"} | more


class Node:
    """`runnel serve`, started and ended by the test; `call` runs another command against it."""

    def __init__(self, folder, *words):
        self.folder = folder
        command = [sys.executable, "-m", "runnel", "serve", "--json", "--log-level", "error", "--data-dir", str(folder)]
        command += ["--http", "127.0.0.1:0", "--kafka", "127.0.0.1:0", *words]
        self.command = command
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, env=clean_environment(), stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, "the node did not start"
        self.bootstrap = json.loads(line)["ready"]["kafka"]

    def call(self, *words, given="", code=0):
        """What a command printed, once it has ended with this exit code."""
        done = subprocess.run(
            [sys.executable, "-m", "runnel", *map(str, words)],
            input=given if isinstance(given, bytes) else given.encode(),
            env=clean_environment(RUNNEL_BOOTSTRAP=self.bootstrap),
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == code, (done.stdout[-2000:], done.stderr[-2000:])
        assert b"Traceback" not in done.stderr
        return done.stdout.decode() if code == 0 else done.stderr.decode()

    def json(self, *words, **more):
        return json.loads(self.call(*words, "--json", **more))

    def begin(self, *words):
        return subprocess.Popen(
            [sys.executable, "-m", "runnel", *map(str, words)],
            env=clean_environment(RUNNEL_BOOTSTRAP=self.bootstrap),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


@pytest.fixture
def mortal(tmp_path, free_port):
    """A node for one test, at a port that stays the same when it is killed and started again."""
    node = Node(tmp_path / "data", "--kafka", f"127.0.0.1:{free_port}")
    yield node
    node.end()


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("node") / "data", "--zone", "here")
    yield node
    node.end()
