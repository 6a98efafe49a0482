"""What a knob is, and how text becomes its value.

A knob is a field of `Settings`: `drain_ms_max: Annotated[int, Knob("…", unit="ms", low=0)] = 10_000`. Sizes and
durations may be written with a suffix wherever text is read: `4MiB`, `250ms`, `2s`, `1h`.
"""

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from runnel.errors import Refused
from runnel.settings.address import Address

PRESETS = ("laptop", "small", "large", "simulated")

_SUFFIXES: dict[str, dict[str, int]] = {
    "bytes": {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
    | {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40},
    "ms": {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000},
    "": {"": 1},
}
_QUANTITY = re.compile(r"(-?[0-9]{1,18}(?:_[0-9]{1,18}){0,6}(?:\.[0-9]{1,18})?)\s*([A-Za-z]*)")
_TRUTH = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


@dataclass(frozen=True, slots=True)
class Knob:
    """One sentence for people, and what values make sense. `presets` holds the values that differ from the default."""

    sentence: str
    _: KW_ONLY
    unit: Literal["", "bytes", "ms", "address", "url", "path"] = ""
    low: float = -math.inf
    high: float = math.inf
    secret: bool = False
    presets: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.sentence.endswith("."), (
            f"a knob is explained by a sentence, {self.sentence!r} does not end like one"
        )
        assert set(self.presets) <= set(PRESETS), f"{self.presets} names a preset that does not exist"


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A knob together with its name, type and default."""

    name: str
    kind: type
    choices: tuple[str, ...]
    default: Any
    knob: Knob

    @property
    def env(self) -> str:
        return f"RUNNEL_{self.name.upper()}"

    @property
    def flag(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def bounds(self) -> str:
        """`0 to 100`, `at least 1`, or nothing."""
        low, high = self.knob.low, self.knob.high
        if self.choices:
            return ", ".join(self.choices)
        if low > -math.inf and high < math.inf:
            return f"{low:,} to {high:,}"
        if low > -math.inf:
            return f"at least {low:,}"
        return f"at most {high:,}" if high < math.inf else ""

    def read(self, value: Any) -> Any:
        """The value that was meant, or `Refused` with what would be right."""
        if self.kind is bool:
            return self._truth(value)
        if self.kind in (int, float):
            return self._number(value)
        if not isinstance(value, str):
            raise Refused(f"{value!r} is not text: put it in quotes")
        if self.choices and value not in self.choices:
            raise Refused(f"{value!r} is none of {', '.join(self.choices)}")
        if self.knob.unit == "address":
            Address.parse(value)
        return value

    def _truth(self, value: Any) -> bool:
        truth = value if isinstance(value, bool) else _TRUTH.get(str(value).lower())
        if truth is None:
            raise Refused(f"{value!r} is neither true nor false")
        return truth

    def _number(self, value: Any) -> int | float:
        suffixes = _SUFFIXES.get(self.knob.unit, _SUFFIXES[""])
        if isinstance(value, str) and (found := _QUANTITY.fullmatch(value.strip())):
            factor = suffixes.get(found[2].lower())
            if factor is None:
                allowed = ", ".join(suffix for suffix in suffixes if suffix)
                raise Refused(f"{value!r} ends in no known unit" + (f": use one of {allowed}" if allowed else ""))
            amount: int | float = float(found[1]) if "." in found[1] else int(found[1])
            value = amount * factor
            if self.kind is int and value == int(value):
                value = int(value)
        if isinstance(value, bool) or not isinstance(value, self.kind if self.kind is int else (int, float)):
            what = "a whole number" if self.kind is int else "a number"
            raise Refused(f"{value!r} is not {what}" + (f" of {self.knob.unit}" if self.knob.unit else ""))
        if not self.knob.low <= value <= self.knob.high:
            raise Refused(f"{value!r} is out of bounds: {self.bounds()}")
        return int(value) if self.kind is int else float(value)


def described(settings: type) -> dict[str, Described]:
    """All knobs of a settings dataclass by name, in the order in which they are written."""
    hints = get_type_hints(settings, include_extras=True)
    knobs = {}
    for place in dataclasses.fields(settings):
        kind, knob = get_args(hints[place.name])
        assert isinstance(knob, Knob), f"{place.name} has no Knob"
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        knobs[place.name] = Described(
            name=place.name, kind=str if choices else kind, choices=choices, default=place.default, knob=knob
        )
    return knobs
