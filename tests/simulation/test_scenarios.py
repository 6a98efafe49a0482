"""Scenarios and the command: one seed one run, planted bugs found, failures replayed by the command that was printed."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.simulated.command import HOUSES, main, seeds_of
from runnel.world.simulation.harness import simulate
from runnel.world.simulation.scenario import scenario_named, scenarios

CORPUS = Path(__file__).parent / "corpus" / "seeds.txt"
SEEDS_TO_FIND_A_PLANTED_BUG = 200
SEEDS_EACH = 2
"""`make sim` runs twenty of each, `make soak` thousands."""

assert all(__import__(house) for house in HOUSES)
QUICK = [entry.name for entry in scenarios() if not entry.slow]


def in_a_process(*words, hash_seed="0"):
    """Run the command in an interpreter of its own."""
    code = "import sys; from runnel.simulated import main; raise SystemExit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert not done.stderr, done.stderr
    return done


@pytest.mark.parametrize("name", QUICK)
def test_a_few_seeds_of_each_scenario_pass_differ_and_repeat_themselves(name):
    outcomes = [simulate(scenario_named(name), seed) for seed in range(1, SEEDS_EACH + 1)]
    for outcome in outcomes:
        assert outcome.passed, f"{outcome.violation}; {outcome.replay}"
    assert len({outcome.trace_hash for outcome in outcomes}) == SEEDS_EACH
    assert simulate(scenario_named(name), SEEDS_EACH).trace_hash == outcomes[-1].trace_hash


def test_the_same_seed_gives_the_same_trace_in_processes_with_different_hash_seeds():
    names = [f"--scenario={name}" for name in QUICK if "everything" in name]
    runs = [in_a_process("--seed", "3..4", "--json", *names, hash_seed=hash_seed) for hash_seed in ("1", "random")]
    assert len(runs[0].stdout.splitlines()) == 2 * len(names) > 4
    assert len({run.stdout for run in runs}) == 1


def test_a_planted_bug_is_found_and_the_printed_command_replays_it():
    words = ("--scenario", "planted-hasty-store", "--seed", f"1..{SEEDS_TO_FIND_A_PLANTED_BUG}")
    found = in_a_process(*words)
    assert found.returncode == 1
    failure, replay = found.stdout.splitlines()[-2:]
    assert "acknowledged and is" in failure
    program, command, *rest = shlex.split(replay.removeprefix("replay"))
    assert (program, command) == ("runnel", "sim")
    again = in_a_process(*rest, hash_seed="7")
    assert again.returncode == 1
    assert failure in again.stdout
    assert replay in again.stdout


def test_the_idle_cluster_spends_a_hundred_hours_on_its_heartbeats_alone():
    outcome = simulate(scenario_named("idle"), 1)
    assert outcome.passed
    assert outcome.virtual_ms == 100 * 3_600_000
    heartbeats = 3 * 100 * 3600 // 5
    assert outcome.steps < 2.1 * heartbeats


def _corpus():
    lines = [line.split("#")[0].split() for line in CORPUS.read_text().splitlines()]
    return [(name, int(seed)) for name, seed in filter(None, lines)]


@pytest.mark.parametrize(("name", "seed"), _corpus())
def test_a_seed_that_once_failed_passes(name, seed):
    outcome = simulate(scenario_named(name), seed)
    assert outcome.passed, f"{outcome.violation}; {outcome.replay}"


# ---- the command ---------------------------------------------------------------------------------------------------


def test_the_list_shows_every_scenario_but_the_hidden(capsys):
    assert main(["--list"]) == 0
    shown = capsys.readouterr().out
    assert all(entry.name in shown and entry.about for entry in scenarios())
    assert "planted" not in shown


def test_watching_shows_a_line_for_each_note(capsys):
    assert main(["--scenario", "objects-under-kills", "--seed", "2", "--watch"]) == 0
    head, *lines, summary = capsys.readouterr().out.splitlines()
    assert head == "scenario objects-under-kills, seed 2; columns: client1 client2 client3"
    assert len(lines) == simulate(scenario_named("objects-under-kills"), 2).notes
    assert lines[0] == "00:00:00.000000  ▌      client1    starts           incarnation=1"
    # time, a column for each of three nodes, then the speaker: aligned
    assert {(line[15:17], line[22:24]) for line in lines} == {("  ", "  ")}
    assert {line[24:35].strip() for line in lines} >= {"client1", "client2", "client3", "world"}
    assert summary.startswith("passed  objects-under-kills")


def test_a_trace_file_holds_every_note(tmp_path, capsys):
    path = tmp_path / "trace.jsonl"
    assert main(["--scenario", "objects-under-kills", "--seed", "2", "--trace", str(path), "--json"]) == 0
    notes = [json.loads(line) for line in path.read_text().splitlines()]
    outcome = json.loads(capsys.readouterr().out)
    assert len(notes) == outcome["notes"]
    assert {"scenario", "seed", "at_us", "step", "node", "event"} <= notes[0].keys()
    assert [note["at_us"] for note in notes] == sorted(note["at_us"] for note in notes)


def test_several_scenarios_and_seeds_are_counted(capsys):
    words = ["--scenario", "objects-under-kills", "--scenario", "objects-on-a-faulty-store", "--seeds", "1..3"]
    assert main(words) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "6 runs, 0 failed"


def test_the_others_run_on_when_one_has_failed_if_asked(capsys):
    words = ["--scenario", "planted-hasty-store", "--seeds", "1..30", "--json"]
    assert main(words) == 1
    alone = capsys.readouterr().out.splitlines()
    assert json.loads(alone[-1])["violation"]
    assert main([*words, "--keep-going"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 30


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--scenario", "nothing"], "there is no scenario 'nothing'; there are: "),
        (["--seed", "x"], "'x' is neither a seed like 7 nor a range like 1..50"),
        (["--seed", "5..1"], "the range 5..1 is empty"),
        (["--trace", "/nowhere/at/all"], "cannot write the trace to /nowhere/at/all: No such file or directory"),
    ],
)
def test_nonsense_is_refused_with_a_word_of_help(words, complaint, capsys):
    assert main(words) == 2
    assert complaint in capsys.readouterr().err


def test_seeds_are_one_or_a_range():
    assert list(seeds_of("7")) == [7]
    assert list(seeds_of("3..5")) == [3, 4, 5]
