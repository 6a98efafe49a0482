"""Defaults, preset, TOML file, environment, command line: each may speak of every knob, the last to speak wins.

All that is read is handed in, so that a test needs no real environment.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from runnel.errors import Refused
from runnel.settings.knob import Described, described
from runnel.settings.knobs import Settings

PREFIX = "RUNNEL_"
# Kubernetes gives every container the addresses of a service called `runnel` under such names; and tests have theirs.
_NOT_OURS = re.compile(r"RUNNEL_(SERVICE_.*|PORT|PORT_[0-9].*|TEST_.*|CONFIG)")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, and for each knob who set it: `default`, `preset large`, `runnel.toml`, `RUNNEL_X`, `--x`."""

    settings: Settings
    origins: dict[str, str]


def load(
    flags: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Loaded:
    """Read all sources. `file` falls back to what RUNNEL_CONFIG names; without either there is none."""
    knobs = described(Settings)
    env = env or {}
    if file is None and env.get(f"{PREFIX}CONFIG"):
        file = Path(env[f"{PREFIX}CONFIG"])
    said: dict[str, tuple[Any, str]] = {}
    if file is not None:
        said |= _from_file(file, knobs)
    said |= _from_env(env, knobs)
    said |= {name: (value, knobs[name].flag) for name, value in (flags or {}).items()}

    values: dict[str, Any] = {}
    origins = dict.fromkeys(knobs, "default")
    for name, (value, origin) in said.items():
        try:
            values[name] = knobs[name].read(value)
        except Refused as error:
            raise Refused(f"setting {name!r} from {origin}: {error}") from None
        origins[name] = origin
    preset = values.get("preset", Settings.__dataclass_fields__["preset"].default)
    for name, knob in knobs.items():
        if name not in values and preset in knob.knob.presets:
            values[name] = knob.knob.presets[preset]
            origins[name] = f"preset {preset}"
    return Loaded(Settings(**values), origins)


def _from_file(file: Path, knobs: Mapping[str, Described]) -> dict[str, tuple[Any, str]]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Refused(f"config file '{file}' does not exist: create it, or name another with --config") from None
    except OSError as error:
        raise Refused(f"config file '{file}' cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        message = str(error)
        raise Refused(f"config file '{file}' is not valid TOML: {message[:1].lower()}{message[1:]}") from None
    for name in content:
        if name not in knobs:
            raise Refused(f"config file '{file}': there is no setting {name!r}{nearest(name, knobs)}")
    return {name: (value, str(file)) for name, value in content.items()}


def _from_env(env: Mapping[str, str], knobs: Mapping[str, Described]) -> dict[str, tuple[Any, str]]:
    by_env = {knob.env: name for name, knob in knobs.items()}
    said: dict[str, tuple[Any, str]] = {}
    for variable, value in env.items():
        if not variable.startswith(PREFIX) or _NOT_OURS.fullmatch(variable):
            continue
        if variable not in by_env:
            close = nearest(variable.removeprefix(PREFIX), [name.removeprefix(PREFIX) for name in by_env], PREFIX)
            raise Refused(f"environment: there is no setting {variable}{close}")
        said[by_env[variable]] = (value, variable)
    return said


def nearest(name: str, names: Iterable[str], prefix: str = "") -> str:
    """`: did you mean 'http'?`, or where to find the list."""
    close = get_close_matches(name, list(names), n=1, cutoff=0.6)
    return f": did you mean '{prefix}{close[0]}'?" if close else ": 'runnel config' lists what there is"
