"""`runnel table show` and `runnel table sql`, as people call them."""

import json
import subprocess
import sys

import pytest
from tests.lake.conftest import ORDER, avro, record


@pytest.fixture
def runnel(place):
    def call(*words, code=0):
        command = [sys.executable, "-m", "runnel", "table", *words]
        command += ["--objects", place.settings["objects"], "--ledger", place.settings["ledger"]]
        done = subprocess.run(command, cwd=place.folder, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stderr
        return done

    return call


@pytest.fixture
def orders(place):
    (schema_id,) = place.register("orders-value", ORDER)
    place.fill(
        "orders",
        [(n % 2, [record(avro(schema_id, n, f"note {n}"), timestamp=1_700_000_000_000 + 1000 * n)]) for n in range(30)],
        partitions=2,
    )
    place.compact("orders")
    place.fill("orders", [(0, [record(b"broken"), record(avro(schema_id, 99, "newest"), timestamp=1_800_000_000_000)])])


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_show_prints_the_newest_rows_or_the_oldest(runnel, orders):
    newest = lines(runnel("show", "orders", "-n", "3", "--json"))
    assert [row["id"] for row in newest] == [28, 29, 99]
    assert newest[0]["timestamp"] == "2023-11-14T22:13:48+00:00"
    assert [row["id"] for row in lines(runnel("show", "orders", "-n", "2", "--first", "--json"))] == [0, 1]
    assert lines(runnel("show", "orders", "-n", "1", "--columns", "note,offset", "--json")) == [
        {"note": "newest", "offset": 16}
    ]
    shown = runnel("show", "orders", "-n", "2").stdout.splitlines()
    assert shown[0].split()[:3] == ["id", "note", "partition"]
    assert shown[2].split()[:2] == ["99", "newest"]
    raw = lines(runnel("show", "orders", "-n", "40", "--values", "raw", "--columns", "value", "--json"))
    assert {"value": "broken"} in raw


def test_sql_asks_topics_as_of_now(runnel, orders):
    (row,) = lines(runnel("sql", "select count(*) n, sum(id) s, max(note) m from orders", "--json"))
    assert row == {"n": 31, "s": sum(range(30)) + 99, "m": "note 9"}
    twice = "with o as (select * from orders where partition = 0) select count(*) n from o, orders p where o.id = p.id"
    assert lines(runnel("sql", twice, "--json")) == [{"n": 16}]
    told = runnel("sql", "select id from orders order by id", "-n", "2")
    assert told.stdout.split() == ["id", "0", "1"]
    assert "only the first 2 rows" in told.stderr


def test_a_mistake_is_one_line_with_what_to_do(runnel, orders):
    assert "topic 'order' does not exist" in runnel("show", "order", code=2).stderr
    assert "(topics: orders)" in runnel("sql", "select * from order_s", code=2).stderr
    assert len(runnel("sql", "selec 1", code=2).stderr.splitlines()) == 1
    assert "has no column 'x'" in runnel("show", "orders", "--columns", "x", code=2).stderr


def test_whoever_takes_bytes_for_text_is_told_what_to_do(runnel, place):
    place.fill("plain", [(0, [record(b"7"), record(b"35")])])
    told = runnel("sql", "select sum(cast(value as int)) from plain", code=2).stderr
    assert "decode(value)" in told
    (row,) = lines(runnel("sql", "select sum(cast(decode(value) as int)) s from plain", "--json"))
    assert row == {"s": 42}
