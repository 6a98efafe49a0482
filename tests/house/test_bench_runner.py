import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / "bench/run.py"


@pytest.fixture(scope="module")
def runner():
    spec = importlib.util.spec_from_file_location("bench_run", RUN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def result(commit, *runs):
    return {"benchmark": "x", "commit": commit, "options": [], "runs": list(runs)}


def test_figures_are_named_by_their_path(runner):
    value = {"a": 1, "b": {"c": 2.5, "ok": True, "why": "text"}, "rows": [{"name": "s", "ms": 3}, 4]}
    assert dict(runner.figures(value)) == {"a": 1.0, "b.c": 2.5, "rows[s].ms": 3.0, "rows[1]": 4.0}


@pytest.mark.parametrize(
    ("name", "old", "new", "verdict"),
    [
        ("appends_per_second", [10, 11], [20, 21], "better"),
        ("appends_per_second", [20, 21], [10, 11], "worse"),
        ("p99_ms", [10, 11], [20, 21], "worse"),
        ("idle_rss_mb", [20, 21], [10, 11], "better"),
        ("seconds", [2, 3], [1, 1], "better"),
        ("write.mb_s", [1, 1], [2, 2], "better"),
        ("p99_ms", [10, 20], [15, 25], ""),
        ("apples", [1, 1], [2, 2], "differs"),
    ],
)
def test_a_difference_counts_only_where_the_runs_do_not_overlap(runner, name, old, new, verdict):
    rows = runner.compare(result("a", *({name: n} for n in old)), result("b", *({name: n} for n in new)))
    assert [row["verdict"] for row in rows] == [verdict]


def test_two_results_are_compared_by_one_command(tmp_path):
    for name, number in (("old", 4.0), ("new", 2.0)):
        (tmp_path / f"{name}.json").write_text(json.dumps(result(name, {"start": {"ready_seconds": number}})))
    words = [sys.executable, RUN, "compare", tmp_path / "old.json", tmp_path / "new.json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "x: old -> new"
    assert done.stdout.splitlines()[-1].split() == ["start.ready_seconds", "4", "2", "0.50", "0%", "better"]


def test_every_benchmark_says_what_it_measures(runner):
    found = runner.programs()
    assert "start" in found
    for name, file in found.items():
        assert runner.sentence(file), f"bench/{name}.py has no docstring"


def test_a_benchmark_that_is_not_there_is_named():
    done = subprocess.run([sys.executable, RUN, "run", "nope"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "there is no benchmark 'nope'" in done.stderr
