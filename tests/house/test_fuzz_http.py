"""A few seconds of bent requests to a node; `make fuzz-http` sends them for longer."""

import subprocess
import sys
from pathlib import Path

FUZZ = Path(__file__).parents[1] / "fuzz" / "http_fuzz.py"


def test_bent_requests_do_a_node_no_harm():
    done = subprocess.run(
        [sys.executable, str(FUZZ), "--seconds", "4"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
