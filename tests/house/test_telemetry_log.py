import io
import json
import logging

import pytest

from runnel.world.clock import LoopClock
from runnel.world.telemetry import capture, configure, get_log
from runnel.world.telemetry.log import FACT_CHARACTERS_MAX, mask_url


class StillClock(LoopClock):
    def now_ms(self):
        return 1_763_506_201_123


@pytest.fixture
def lines():
    stream = io.StringIO()
    yield stream
    configure(level="warning")


def test_an_event_is_one_line_that_a_person_can_search(lines):
    configure(stream=lines, clock=StillClock())
    get_log("ingest").info("object_committed", object="wal/1", extents=12, waited_ms=41.5, whole=True, gone=None)
    assert lines.getvalue() == (
        "2025-11-18T22:50:01.123Z info    ingest object_committed"
        " object=wal/1 extents=12 waited_ms=41.5 whole=true gone=null\n"
    )


def test_a_fact_with_line_breaks_stays_on_its_line(lines):
    configure(stream=lines, clock=StillClock())
    get_log("api").warning("odd_header", value='a "b"\nc=d')
    assert lines.getvalue().count("\n") == 1
    assert r'value="a \"b\"\nc=d"' in lines.getvalue()


def test_json_lines_can_be_read_back(lines):
    configure(form="json", stream=lines, clock=StillClock())
    get_log("api").bind(node=3).error("request_failed", error=ValueError("no"), paths=["a"])
    assert json.loads(lines.getvalue()) == {
        "at": "2025-11-18T22:50:01.123Z",
        "level": "error",
        "log": "api",
        "event": "request_failed",
        "node": 3,
        "error": "ValueError: no",
        "paths": "['a']",
    }


def test_secrets_never_reach_the_log(lines):
    configure(stream=lines, clock=StillClock())
    get_log("ledger").info(
        "connecting",
        url="postgresql://ann:hunter2@db/x?sslpassword=a&password=hunter3",
        aws_secret_access_key="hunter4",
    )
    assert "hunter" not in lines.getvalue()
    assert "ann:***@db" in lines.getvalue()


def test_a_url_without_a_password_is_left_alone():
    assert mask_url("s3://bucket/a?region=x http://host:80/@b") == "s3://bucket/a?region=x http://host:80/@b"


def test_events_below_the_level_are_not_written(lines):
    configure(level="warning", stream=lines)
    get_log("x").info("quiet")
    get_log("x").debug("quieter")
    assert lines.getvalue() == ""


def test_a_very_long_fact_is_cut(lines):
    configure(stream=lines)
    get_log("x").info("long", value="a" * 100_000)
    assert len(lines.getvalue()) < FACT_CHARACTERS_MAX + 200


def test_a_crash_carries_its_trace_on_one_line(lines):
    configure(stream=lines)
    try:
        int("boom")
    except ValueError as error:
        get_log("node").crash("task_died", error, task="flush")
    assert lines.getvalue().count("\n") == 1
    assert "test_a_crash_carries_its_trace_on_one_line" in lines.getvalue()


def test_what_libraries_say_becomes_an_event(lines):
    configure(stream=lines)
    logging.getLogger("somelib").warning("careful with %s", "that")
    logging.getLogger("somelib").info("chatter")
    assert "warning somelib library_says" in lines.getvalue()
    assert 'says="careful with that"' in lines.getvalue()
    assert "chatter" not in lines.getvalue()


def test_captured_events_are_values():
    with capture() as events:
        get_log("a").debug("seen", n=1)
    assert events == [("debug", "a", "seen", {"n": 1})]


def test_a_log_whose_reader_is_gone_does_not_hurt(lines):
    configure(stream=lines)
    lines.close()
    get_log("x").info("nobody_listens")
