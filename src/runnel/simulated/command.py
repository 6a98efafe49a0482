"""`runnel sim`: run scenarios with seeds, watch them, replay a failure."""

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from runnel.errors import Refused
from runnel.simulated.watching import Watcher
from runnel.world.simulation.harness import Outcome, simulate
from runnel.world.simulation.scenario import Registered, scenario_named, scenarios
from runnel.world.simulation.trace import Note

HOUSES = (
    "runnel.simulated.objects",
    "runnel.simulated.messages",
    "runnel.simulated.idle",
    "runnel.simulated.planted",
    "runnel.simulated.engine",
    "runnel.simulated.engine_planted",
    "runnel.simulated.kafka",
    "runnel.simulated.kafka_planted",
    "runnel.simulated.http",
    "runnel.simulated.http_planted",
    "runnel.simulated.groups",
    "runnel.simulated.groups_planted",
    "runnel.simulated.schemas",
    "runnel.simulated.schemas_planted",
)
"""The modules whose import registers scenarios. A new one is added here."""

LAST_NOTES_SHOWN = 25


def seeds_of(text: str) -> range:
    """`7` is one seed, `1..50` are fifty."""
    first, dots, last = text.partition("..")
    try:
        seeds = range(int(first), int(last if dots else first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a seed like 7 nor a range like 1..50") from None
    if not seeds:
        raise argparse.ArgumentTypeError(f"the range {text} is empty; write the smaller seed first")
    return seeds


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="runnel sim", description="Run the simulated cluster: many nodes, one thread, virtual time, one seed."
    )
    parser.add_argument("--seed", "--seeds", dest="seeds", type=seeds_of, default=range(1, 2), metavar="N | A..B")
    parser.add_argument("--scenario", action="append", metavar="NAME", help="run only this one; may be given again")
    parser.add_argument("--watch", action="store_true", help="one line for each thing that happens")
    parser.add_argument("--json", action="store_true", help="one JSON object for each run")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    parser.add_argument("--trace", metavar="FILE", type=Path, help="write everything that happens as JSON lines")
    parser.add_argument("--keep-going", action="store_true", help="run the other seeds after one has failed")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Returns 0 when all runs passed, 1 when one failed, 2 when the command makes no sense."""
    try:
        given = _parser().parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    for house in HOUSES:
        importlib.import_module(house)
    out = _Out(sys.stdout)
    if given.list:
        _list(out, as_json=given.json)
        return 0
    try:
        chosen = [scenario_named(name) for name in given.scenario or ()]
    except Refused as error:
        sys.stderr.write(f"runnel sim: {error}\n")
        return 2
    chosen = chosen or [entry for entry in scenarios() if not entry.slow]
    if given.trace is None:
        return _run_all(chosen, given, out, None)
    try:
        with given.trace.open("w") as trace:
            return _run_all(chosen, given, out, trace)
    except OSError as error:
        sys.stderr.write(f"runnel sim: cannot write the trace to {given.trace}: {error.strerror}\n")
        return 2


def _run_all(chosen: list[Registered], given: Any, out: "_Out", trace: TextIO | None) -> int:
    failed = 0
    runs = 0
    for registered in chosen:
        progress = _Progress(registered.name, len(given.seeds), shown=not given.json and not given.watch)
        outcome = None
        for seed in given.seeds:
            outcome = _run_one(registered, seed, given, out, trace)
            runs += 1
            progress.step(seed)
            if not outcome.passed:
                failed += 1
                progress.clear()
                if not given.json:
                    _report(outcome, out, notes=not given.watch)
            if out.broken or (failed and not given.keep_going):
                break
        progress.clear()
        if out.broken:
            break
        if outcome is not None and outcome.passed and not given.json:
            out.write(_summary(registered, given.seeds, outcome))
    if not given.json and runs > 1:
        out.write(f"{runs} runs, {failed} failed\n")
    return 1 if failed or out.broken else 0


def _run_one(registered: Registered, seed: int, given: Any, out: "_Out", trace: TextIO | None) -> Outcome:
    listeners: list[Any] = []
    if given.watch:
        nodes = tuple(plan.name for plan in registered.build().nodes)
        out.write(f"scenario {registered.name}, seed {seed}; columns: {' '.join(nodes)}\n")
        listeners.append(Watcher(out.write, nodes))
    if trace is not None:
        listeners.append(lambda note: _write_note(trace, registered.name, seed, note))
    outcome = simulate(registered, seed, listeners)
    if given.json:
        out.write(json.dumps(as_dict(outcome)) + "\n")
    return outcome


def _write_note(trace: TextIO, name: str, seed: int, note: Note) -> None:
    trace.write(json.dumps({"scenario": name, "seed": seed, **note.as_dict()}) + "\n")


def as_dict(outcome: Outcome) -> dict[str, Any]:
    return {
        "scenario": outcome.scenario,
        "seed": outcome.seed,
        "passed": outcome.passed,
        "violation": outcome.violation,
        "trace_hash": outcome.trace_hash,
        "notes": outcome.notes,
        "steps": outcome.steps,
        "virtual_ms": outcome.virtual_ms,
        "replay": outcome.replay,
    }


def _report(outcome: Outcome, out: "_Out", *, notes: bool) -> None:
    if notes:
        nodes = tuple(sorted({note.node for note in outcome.last_notes}))
        watcher = Watcher(out.write, nodes)
        for note in outcome.last_notes[-LAST_NOTES_SHOWN:]:
            watcher(note)
    if outcome.blame:
        out.write(outcome.blame)
    out.write(f"FAILED  {outcome.scenario} seed {outcome.seed}: {outcome.violation}\n")
    out.write(f"replay  {outcome.replay}\n")


def _summary(registered: Registered, seeds: range, outcome: Outcome) -> str:
    which = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]}..{seeds[-1]}"
    return (
        f"passed  {registered.name:<32} {which:<16} last: {outcome.steps} steps, {outcome.notes} notes, "
        f"{outcome.virtual_ms / 1000:.1f} virtual s, trace {outcome.trace_hash}\n"
    )


def _list(out: "_Out", *, as_json: bool) -> None:
    for entry in scenarios():
        if as_json:
            out.write(json.dumps({"scenario": entry.name, "about": entry.about, "slow": entry.slow}) + "\n")
        else:
            out.write(f"{entry.name:<32} {entry.about}{' (runs only when named)' if entry.slow else ''}\n")


class _Out:
    """Standard output, which may be closed before we are done, as by `head`."""

    def __init__(self, stream: TextIO) -> None:
        self.broken = False
        self._stream = stream

    def write(self, text: str) -> None:
        if not self.broken:
            try:
                self._stream.write(text)
                self._stream.flush()
            except BrokenPipeError:
                self.broken = True
                sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - so that Python's own flush at exit is quiet


class _Progress:
    """A bar on standard error, if a person looks at it."""

    def __init__(self, name: str, total: int, *, shown: bool) -> None:
        self._name = name
        self._total = total
        self._done = 0
        self._shown = shown and total > 1 and sys.stderr.isatty()

    def step(self, seed: int) -> None:
        self._done += 1
        if self._shown:
            filled = 30 * self._done // self._total
            sys.stderr.write(
                f"\r{self._name} [{'#' * filled}{'.' * (30 - filled)}] {self._done}/{self._total} seed {seed}"
            )
            sys.stderr.flush()

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
