"""Run benchmarks and compare their results.

They are programs of the source tree (`bench/`), so this command works inside a checkout. `runnel bench engine` is short
for `runnel bench run engine`.
"""

import subprocess
import sys
from pathlib import Path

from runnel.errors import Refused
from runnel.ui.cli.house import House

WORDS = ("list", "run", "compare")


def run(words: list[str], _house: House) -> int:
    for folder in (Path.cwd(), *Path(__file__).parents):
        program = folder / "bench" / "run.py"
        if program.is_file():
            if words and words[0] not in WORDS and not words[0].startswith("-"):
                words = ["run", *words]
            return subprocess.run([sys.executable, str(program), *words], check=False).returncode
    if words in (["--help"], ["-h"]):
        print(f"usage: runnel bench list | [run] NAME | compare OLD.json NEW.json\n\n{__doc__.strip()}")
        return 0
    raise Refused("the benchmarks are part of the source tree: get a checkout and call this inside it, or 'make bench'")
