"""Options that several commands share: every knob, `--config`, `--json`."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runnel.settings import Loaded, Settings, described, load


def actions_of(parser: argparse.ArgumentParser) -> Any:
    """Where a command that does several things registers each of them."""
    return parser.add_subparsers(metavar="ACTION", title="actions", required=True)


def add_action(
    actions: Any, name: str, sentence: str, do: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    """One of the things that a command does. The parsed words carry `do`, and the action's own parser."""
    action: argparse.ArgumentParser = actions.add_parser(
        name, help=sentence, description=f"{sentence[0].upper()}{sentence[1:]}."
    )
    action.set_defaults(do=do, parser=action)
    return action


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")


def add_knobs(parser: argparse.ArgumentParser) -> None:
    """Every knob as an option. Those that are left out keep what file, environment and preset say."""
    parser.add_argument("--config", metavar="FILE", help="a TOML file with settings; also RUNNEL_CONFIG")
    group = parser.add_argument_group("settings", "each also as RUNNEL_NAME in the environment, and in the TOML file")
    for knob in described(Settings).values():
        more: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": f"knob_{knob.name}"}
        if knob.kind is bool:
            more["action"] = argparse.BooleanOptionalAction
        else:
            more["metavar"] = (knob.knob.unit or knob.kind.__name__).upper()
        group.add_argument(knob.flag, help=knob.knob.sentence.replace("%", "%%"), **more)


def loaded_from(args: argparse.Namespace) -> Loaded:
    """The settings that options, environment and file make together."""
    flags = {name.removeprefix("knob_"): value for name, value in vars(args).items() if name.startswith("knob_")}
    return load(flags, os.environ, Path(args.config) if args.config else None)
