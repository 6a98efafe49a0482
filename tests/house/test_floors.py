"""The floors hold, and the linter that says so would notice if they did not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]


def lint(tmp_path, planted):
    for file in (HERE / "src").rglob("*.py"):
        place = tmp_path / file.relative_to(HERE)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    shutil.copyfile(HERE / ".importlinter", tmp_path / ".importlinter")
    for name, text in planted.items():
        place = tmp_path / "src/runnel" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    broken = [line.partition(" BROKEN")[0] for line in done.stdout.splitlines() if " BROKEN" in line]
    return done.returncode, broken, done.stdout


def test_the_house_stands(tmp_path):
    code, broken, said = lint(tmp_path, {})
    assert (code, broken) == (0, []), said


@pytest.mark.parametrize(
    ("contract", "planted"),
    [
        ("Higher floors import lower ones", {"world/planted.py": "from runnel.metadata.ledger import seam\n"}),
        ("Higher floors import lower ones", {"world/planted.py": "def late():\n    import runnel.metadata.ledger\n"}),
        ("Higher floors import lower ones", {"errors.py": "import runnel.model\n"}),
        ("Higher floors import lower ones", {"cellar/__init__.py": "", "cellar/wine.py": ""}),
        ("Inside the world", {"world/objects/planted.py": "from runnel.world import simulation\n"}),
        ("What decides is pure", {"codec/planted.py": "import asyncio\n"}),
        (
            "What decides is pure",
            {"codec/planted.py": "import runnel.settings.planted\n", "settings/planted.py": "from time import time\n"},
        ),
        ("Each outside library has one home", {"world/planted.py": "import sqlite3\n"}),
        ("Each outside library has one home", {"metadata/planted.py": "def late():\n    import asyncpg\n"}),
    ],
)
def test_a_wrong_import_is_caught(tmp_path, contract, planted):
    code, broken, said = lint(tmp_path, planted)
    assert code == 1, said
    assert [name for name in broken if name.startswith(contract)], said
