"""Print the version of Runnel; with --json also of what it runs on."""

import argparse
import platform
import sys

from runnel.ui.cli.house import House
from runnel.ui.cli.options import add_json
from runnel.ui.cli.output import print_json
from runnel.version import __version__


def register(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace, _house: House) -> int:
    if args.json:
        python = f"{platform.python_implementation()} {platform.python_version()}"
        facts = {"runnel": __version__, "python": python, "executable": sys.executable, "platform": platform.platform()}
        print_json(facts)
    else:
        print(f"runnel {__version__}")
    return 0
