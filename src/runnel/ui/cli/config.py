"""Print every setting with its value and where it came from.

The same options, environment and file as `runnel serve` are read, so this is what a node started that way would use.
Secrets are masked. `--toml` prints a file to start from.
"""

import argparse
import json
from typing import Any

from runnel.settings import Settings, described
from runnel.ui.cli.house import House
from runnel.ui.cli.options import add_json, add_knobs, loaded_from
from runnel.ui.cli.output import print_json, print_table
from runnel.world.telemetry.log import MASK, mask_url


def register(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument("--toml", action="store_true", help="print a commented TOML file with these values")
    add_knobs(parser)


def run(args: argparse.Namespace, _house: House) -> int:
    loaded = loaded_from(args)
    knobs = described(Settings)
    shown: dict[str, Any] = {}
    for name, knob in knobs.items():
        value = getattr(loaded.settings, name)
        if knob.knob.secret and value:
            value = MASK
        shown[name] = mask_url(value) if isinstance(value, str) else value
    if args.json:
        facts = {name: {"value": shown[name], "origin": loaded.origins[name], "env": knobs[name].env} for name in knobs}
        print_json(facts)
    elif args.toml:
        for name, knob in knobs.items():
            bounds = f" ({knob.bounds()})" if knob.bounds() else ""
            line = f"{name} = {json.dumps(shown[name], ensure_ascii=False)}"
            print(f"# {knob.knob.sentence}{bounds}\n{'# ' if loaded.origins[name] == 'default' else ''}{line}\n")
    else:
        units = {
            name: f" {knob.knob.unit}" if knob.knob.unit in ("ms", "bytes") else "" for name, knob in knobs.items()
        }
        rows = [(name, f"{json.dumps(shown[name])}{units[name]}", loaded.origins[name]) for name in knobs]
        print_table(("setting", "value", "from"), rows)
    return 0
