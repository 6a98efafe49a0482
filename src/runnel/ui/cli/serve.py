"""Start a node and serve until SIGTERM or Ctrl-C.

Prints one line with the node's addresses once it is ready. Asked to stop, it finishes what is open and exits 0.
"""

import argparse
import json
import os
from pathlib import Path

from runnel.ui.cli.house import House
from runnel.ui.cli.options import add_json, add_knobs, loaded_from
from runnel.version import __version__


def register(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    add_knobs(parser)


def run(args: argparse.Namespace, house: House) -> int:
    loaded = loaded_from(args)

    def announce(addresses: dict[str, str]) -> None:
        facts = {"data_dir": str(Path(loaded.settings.data_dir).absolute()), "pid": os.getpid()}
        if args.json:
            print(json.dumps({"ready": addresses, "version": __version__, **facts}), flush=True)
        else:
            doors = "  ".join(f"{name} {address}" for name, address in addresses.items())
            print(f"runnel {__version__} is ready: {doors}  data {facts['data_dir']}  pid {facts['pid']}", flush=True)

    return house.serve(loaded, announce)
