"""Counters, gauges and histograms in plain memory, rendered as Prometheus text.

    metrics = Metrics()
    flushed = metrics.counter("runnel_objects_written_total", "Objects made durable.")
    waited = metrics.histogram("runnel_append_wait_seconds", "From arrival to acknowledgement.", labels=("door",))
    metrics.gauge("runnel_cache_bytes", "Bytes in the read cache.", read=cache.size)

    flushed.add()
    waited.at("kafka").observe(0.012)

A node has one Metrics; asking twice for one name gives the same instrument. A family keeps at most
`LABELLED_MAX` labelled children: what comes later is counted together under the label `other`.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar, cast

LABELLED_MAX = 1000
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Buckets for durations, from half a millisecond to ten seconds."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Instrument(Protocol):
    """What a family needs of its children: their lines."""

    def lines(self, name: str, labels: str) -> Iterator[str]: ...


I = TypeVar("I", bound=Instrument)  # noqa: E741  an instrument


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        self.value += amount

    def lines(self, name: str, labels: str) -> Iterator[str]:
        yield f"{name}{_braced(labels)} {_number(self.value)}"


class Gauge:
    """A number that goes up and down; either set by hand or read when someone looks."""

    __slots__ = ("read", "value")

    def __init__(self, read: Callable[[], float] | None = None) -> None:
        self.value: float = 0
        self.read = read

    def set(self, value: float) -> None:
        self.value = value

    def add(self, amount: float = 1) -> None:
        self.value += amount

    def lines(self, name: str, labels: str) -> Iterator[str]:
        yield f"{name}{_braced(labels)} {_number(self.value if self.read is None else self.read())}"


class Histogram:
    """How often a value fell below each bound. Observing costs one bisect and three additions."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        total = 0
        comma = "," if labels else ""
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels}{comma}le="{_number(bound)}"}} {total}'
        yield f"{name}_sum{_braced(labels)} {_number(self.sum)}"
        yield f"{name}_count{_braced(labels)} {total}"


class Family(Generic[I]):
    """One name, with a child for every combination of label values."""

    def __init__(self, name: str, kind: str, sentence: str, labels: tuple[str, ...], make: Callable[[], I]) -> None:
        self.name = name
        self.kind = kind
        self.sentence = sentence
        self.labels = labels
        self._make = make
        self._children: dict[tuple[str, ...], I] = {}

    def at(self, *values: str) -> I:
        """The child for these label values. Keep it where it is used often."""
        child = self._children.get(values)
        if child is None:
            assert len(values) == len(self.labels), f"{self.name} has the labels {self.labels}, not {values}"
            if len(self._children) >= LABELLED_MAX:
                values = ("other",) * len(self.labels)
            child = self._children.setdefault(values, self._make())
        return child

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.sentence}"
        yield f"# TYPE {self.name} {self.kind}"
        for values, child in list(self._children.items()):
            labels = ",".join(f'{label}="{_escaped(value)}"' for label, value in zip(self.labels, values, strict=True))
            yield from child.lines(self.name, labels)


class Metrics:
    """All instruments of one node."""

    def __init__(self) -> None:
        self._families: dict[str, Family[Counter] | Family[Gauge] | Family[Histogram]] = {}

    def counter(self, name: str, sentence: str) -> Counter:
        return self.counters(name, sentence, ()).at()

    def counters(self, name: str, sentence: str, labels: tuple[str, ...]) -> Family[Counter]:
        assert name.endswith("_total"), f"a counter's name ends in _total, {name} does not"
        return cast("Family[Counter]", self._family(name, "counter", sentence, labels, Counter))

    def gauge(self, name: str, sentence: str, read: Callable[[], float] | None = None) -> Gauge:
        gauge = self.gauges(name, sentence, ()).at()
        gauge.read = read or gauge.read
        return gauge

    def gauges(self, name: str, sentence: str, labels: tuple[str, ...]) -> Family[Gauge]:
        return cast("Family[Gauge]", self._family(name, "gauge", sentence, labels, Gauge))

    def histogram(self, name: str, sentence: str, bounds: Sequence[float] = SECONDS) -> Histogram:
        return self.histograms(name, sentence, (), bounds).at()

    def histograms(
        self, name: str, sentence: str, labels: tuple[str, ...], bounds: Sequence[float] = SECONDS
    ) -> Family[Histogram]:
        family = self._family(name, "histogram", sentence, labels, lambda: Histogram(bounds))
        return cast("Family[Histogram]", family)

    def _family(
        self, name: str, kind: str, sentence: str, labels: tuple[str, ...], make: Callable[[], I]
    ) -> Family[Counter] | Family[Gauge] | Family[Histogram]:
        known = self._families.get(name)
        if known is None:
            assert _NAME.fullmatch(name), f"{name} is not a name for a metric"
            family = Family(name, kind, sentence, labels, make)
            known = self._families[name] = cast("Family[Counter]", family)
        assert (known.kind, known.labels) == (kind, labels), f"{name} is a {known.kind} with labels {known.labels}"
        return known

    def __iter__(self) -> Iterator[Family[Counter] | Family[Gauge] | Family[Histogram]]:
        return iter(sorted(self._families.values(), key=lambda family: family.name))

    def render(self) -> str:
        """All families in the Prometheus text format."""
        return "".join(f"{line}\n" for family in self for line in family.lines())


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(value)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
