"""The ledger of Kafka clients: its book names what exists, and notices what has changed."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.kafka import ledger
from tests.conformance.kafka.ledger import judged

RUN = Path(__file__).parents[1] / "conformance/kafka/run.py"


def test_the_book_names_cases_that_exist_and_each_in_one_place():
    listed = subprocess.run([sys.executable, RUN, "--list"], capture_output=True, text=True, check=True).stdout
    known = [line.partition(": ")[0] for line in listed.splitlines()]
    assert len(known) == len(set(known)) > 100
    assert ledger.allowed() <= set(known)
    assert ledger.found() <= set(known)
    assert not ledger.allowed() & ledger.found()


@pytest.fixture
def book(tmp_path, monkeypatch):
    (tmp_path / "allow.txt").write_text("kcat/good\nkcat/gone\n")
    (tmp_path / "FINDINGS.md").write_text("`kcat/bad` fails, `somebody/else` is no case\n")
    monkeypatch.setattr(ledger, "ALLOWED", tmp_path / "allow.txt")
    monkeypatch.setattr(ledger, "FINDINGS", tmp_path / "FINDINGS.md")
    return tmp_path


def test_a_run_as_the_book_says_is_in_order(book):
    assert judged({"kcat/good": "passed", "kcat/bad": "failed"}, everything=False).good
    assert judged({"kcat/new": "passed"}, everything=False).good


@pytest.mark.parametrize(
    ("results", "what"),
    [
        ({"kcat/good": "failed"}, "lost"),
        ({"kcat/good": "not run"}, "lost"),
        ({"kcat/new": "failed"}, "unnamed"),
        ({"kcat/bad": "passed"}, "mended"),
    ],
)
def test_what_differs_from_the_book_is_told(book, results, what):
    verdict = judged(results, everything=False)
    assert not verdict.good
    assert getattr(verdict, what) == list(results)


def test_a_case_that_has_vanished_is_told_by_a_whole_run(book):
    results = {"kcat/good": "passed", "kcat/bad": "failed"}
    assert judged(results, everything=True).vanished == ["kcat/gone"]


def test_the_list_of_what_passes_only_grows(book):
    ledger.grow({"kcat/new"})
    assert ledger.allowed() == {"kcat/good", "kcat/gone", "kcat/new"}
