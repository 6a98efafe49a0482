"""The examples do what they say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAY = {
    "no_server.py": [
        r"order 2 is record 1 of partition 0",
        r"partition 0, offset 1: customer-2 wants one coffee",
        r"while waiting: customer-9 wants the bill",
        r"sent twice, there once: offset 1, then 1 \(duplicate\)",
    ],
}


@pytest.mark.parametrize("name", SAY)
def test_an_example_runs_by_itself(name, tmp_path):
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in SAY[name]:
        assert re.search(line, done.stdout), done.stdout
