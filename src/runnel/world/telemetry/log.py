"""Log lines are events: a name one can search, facts as keys, the same words as in the code.

    log = get_log("ingest")
    log.info("object_committed", object=name, extents=12, waited_ms=41)

A line is one line whatever its facts hold. Facts whose key speaks of a secret are masked, and so are passwords inside
URLs. The process has one sink, chosen once by `configure`; before that, warnings and errors go to standard error.
"""

import json
import logging
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

from runnel.world.clock import Clock, SystemClock

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
FACT_CHARACTERS_MAX = 4096
"""A longer fact is cut: a log line is for people."""

MASK = "***"
_SECRET_KEY = re.compile(r"password|passwd|secret|token|credential|authorization|api_?key|private_?key", re.IGNORECASE)
_URL_SECRET = re.compile(
    r"(?<=://)([^/\s:@]*):[^/\s@]+(?=@)|(?<=[?&])((?:[a-z_]*secret[a-z_]*|password|token)=)[^&\s]+"
)
_PLAIN = re.compile(r"[^\s\"=\\]+")

Write = Callable[[int, str, str, Mapping[str, Any]], None]


def mask_url(text: str) -> str:
    """The text with every password inside a URL replaced."""
    return _URL_SECRET.sub(lambda found: f"{found[1]}:{MASK}" if found[1] is not None else f"{found[2]}{MASK}", text)


def _shown(key: str, value: Any) -> Any:
    if _SECRET_KEY.search(key):
        return MASK
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, BaseException):
        value = f"{type(value).__name__}: {value}"
    elif isinstance(value, list | tuple | set | frozenset | dict):
        value = repr(value)
    text = mask_url(str(value))
    return text if len(text) <= FACT_CHARACTERS_MAX else text[:FACT_CHARACTERS_MAX] + "…"


def _moment(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"


def as_text(at_ms: int, level: str, name: str, event: str, facts: Mapping[str, Any]) -> str:
    """`2026-11-18T22:50:01.123Z info    ingest object_committed extents=12`."""
    words = [_moment(at_ms), f"{level:<7}", name, event]
    for key, value in facts.items():
        shown = _shown(key, value)
        if isinstance(shown, str) and not _PLAIN.fullmatch(shown):
            shown = json.dumps(shown, ensure_ascii=False)
        elif shown is None or isinstance(shown, bool):
            shown = json.dumps(shown)
        words.append(f"{key}={shown}")
    return " ".join(words)


def as_json(at_ms: int, level: str, name: str, event: str, facts: Mapping[str, Any]) -> str:
    shown = {key: _shown(key, value) for key, value in facts.items()}
    return json.dumps({"at": _moment(at_ms), "level": level, "log": name, "event": event, **shown}, ensure_ascii=False)


FORMATS = {"text": as_text, "json": as_json}


class _Sink:
    """Where the events of this process go."""

    def __init__(self) -> None:
        self.least = LEVELS["warning"]
        self.write: Write = self._to_stream
        self.clock: Clock = SystemClock()
        self.format = as_text
        self.stream: TextIO | None = None

    def _to_stream(self, level: int, name: str, event: str, facts: Mapping[str, Any]) -> None:
        word = next(word for word, number in LEVELS.items() if number >= level)
        line = self.format(self.clock.now_ms(), word, name, event, facts)
        stream = self.stream or sys.stderr
        try:
            stream.write(line + "\n")
            stream.flush()
        except (OSError, ValueError):
            return  # the reader of our log is gone: no reason to stop serving


_sink = _Sink()


class Log:
    """A named source of events. `bind` gives one that adds facts to every event."""

    __slots__ = ("_facts", "name")

    def __init__(self, name: str, facts: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self._facts = dict(facts or {})

    def bind(self, **facts: Any) -> "Log":
        return Log(self.name, {**self._facts, **facts})

    def debug(self, event: str, **facts: Any) -> None:
        if _sink.least <= LEVELS["debug"]:
            _sink.write(LEVELS["debug"], self.name, event, {**self._facts, **facts})

    def info(self, event: str, **facts: Any) -> None:
        if _sink.least <= LEVELS["info"]:
            _sink.write(LEVELS["info"], self.name, event, {**self._facts, **facts})

    def warning(self, event: str, **facts: Any) -> None:
        if _sink.least <= LEVELS["warning"]:
            _sink.write(LEVELS["warning"], self.name, event, {**self._facts, **facts})

    def error(self, event: str, **facts: Any) -> None:
        _sink.write(LEVELS["error"], self.name, event, {**self._facts, **facts})

    def crash(self, event: str, error: BaseException, **facts: Any) -> None:
        """An error that is our own mistake: its whole trace goes along, still on one line."""
        trace = "".join(traceback.format_exception(error))
        _sink.write(LEVELS["error"], self.name, event, {**self._facts, **facts, "error": error, "trace": trace})


def get_log(name: str) -> Log:
    return Log(name)


class _FromLibraries(logging.Handler):
    """Outside libraries speak through `logging`; what they say becomes an event like any other."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= _sink.least:
            facts: dict[str, Any] = {"says": record.getMessage()}
            if record.exc_info and record.exc_info[1] is not None:
                facts["trace"] = "".join(traceback.format_exception(record.exc_info[1]))
            _sink.write(min(record.levelno, LEVELS["error"]), record.name, "library_says", facts)


def configure(
    *, level: str = "info", form: str = "text", stream: TextIO | None = None, clock: Clock | None = None
) -> None:
    """Choose, once per process, what is logged and how; libraries are quiet below `warning` unless we debug."""
    _sink.least = LEVELS[level]
    _sink.format = FORMATS[form]
    _sink.stream = stream
    _sink.clock = clock or SystemClock()
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, _FromLibraries):
            root.removeHandler(handler)
    root.addHandler(_FromLibraries())
    root.setLevel(logging.DEBUG if level == "debug" else logging.WARNING)


Event = tuple[str, str, str, dict[str, Any]]
"""Level, name of the log, event, facts (as they were given, unmasked)."""


@contextmanager
def capture(least: str = "debug") -> Iterator[list[Event]]:
    """Collect events instead of printing them: for tests."""
    events: list[Event] = []
    words = {number: word for word, number in LEVELS.items()}

    def collect(level: int, name: str, event: str, facts: Mapping[str, Any]) -> None:
        events.append((words[level], name, event, dict(facts)))

    with divert(collect, least):
        yield events


@contextmanager
def divert(write: Write, least: str = "debug") -> Iterator[None]:
    """Let events go elsewhere for a while, as into the trace of a simulation."""
    before = _sink.least, _sink.write
    _sink.least, _sink.write = LEVELS[least], write
    try:
        yield
    finally:
        _sink.least, _sink.write = before
