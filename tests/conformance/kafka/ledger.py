"""What a case is, and the book that is kept of them.

A case is a function in `cases/CLIENT.py` whose first argument is a `Stage`; it passes unless it raises. Its name is
`CLIENT/function`. `allow.txt` names the cases that have passed before, and only grows; `FINDINGS.md` names, between
backquotes, every case that fails, ranked by harm. Nothing is skipped in silence: a case that cannot run here is counted
as not run, with the reason, and is a failure if it is in `allow.txt`.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ALLOWED = HERE / "allow.txt"
FINDINGS = HERE / "FINDINGS.md"
CLIENTS = ("confluent", "confluent_groups", "aiokafka", "kafka_python", "kcat", "java_tools", "new_user")
NAMED = re.compile(rf"`((?:{'|'.join(CLIENTS)})/\w+)`")


class CannotRun(Exception):
    """Something that this case needs is not on this machine."""


@dataclass(frozen=True)
class Case:
    client: str
    function: Callable[..., Any]
    seconds: float
    ends_brokers: bool

    @property
    def name(self) -> str:
        return f"{self.client}/{self.function.__name__}"

    @property
    def sentence(self) -> str:
        return (inspect.getdoc(self.function) or self.function.__name__.replace("_", " ")).partition("\n")[0]


def case(*, seconds: float = 60.0, ends_brokers: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Mark a case: how long it may take, and whether it ends brokers, which it starts itself."""

    def marked(function: Callable[..., Any]) -> Callable[..., Any]:
        function.case = (seconds, ends_brokers)  # type: ignore[attr-defined]
        return function

    return marked


def cases(client: str) -> Iterator[Case]:
    """The cases of one client in the order in which they are written."""
    module = importlib.import_module(f"tests.conformance.kafka.cases.{client}")
    for function in list(vars(module).values()):
        marks = getattr(function, "case", None)
        if marks is not None and function.__module__ == module.__name__:
            yield Case(client, function, *marks)


def allowed() -> set[str]:
    return set(ALLOWED.read_text(encoding="utf-8").split()) if ALLOWED.exists() else set()


def grow(passed: set[str]) -> None:
    ALLOWED.write_text("".join(f"{name}\n" for name in sorted(allowed() | passed)), encoding="utf-8")


def found() -> set[str]:
    """The cases that FINDINGS.md names as failing."""
    return set(NAMED.findall(FINDINGS.read_text(encoding="utf-8"))) if FINDINGS.exists() else set()


@dataclass(frozen=True)
class Verdict:
    """What is wrong with the book after a run."""

    lost: list[str]
    unnamed: list[str]
    mended: list[str]
    vanished: list[str]

    @property
    def good(self) -> bool:
        return not (self.lost or self.unnamed or self.mended or self.vanished)


def judged(results: dict[str, str], *, everything: bool) -> Verdict:
    """`results` says of each case `passed`, `failed` or `not run`; `everything` tells that none was left out."""
    passed = {name for name, result in results.items() if result == "passed"}
    failed = {name for name, result in results.items() if result == "failed"}
    return Verdict(
        lost=sorted((allowed() & set(results)) - passed),
        unnamed=sorted(failed - found() - allowed()),
        mended=sorted(found() & passed),
        vanished=sorted((allowed() | found()) - set(results)) if everything else [],
    )
