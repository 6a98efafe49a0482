"""Every knob once: its name, type, unit, default, bounds and one sentence; and where its value came from.

    knob.py     what a knob is, and how text becomes its value
    knobs.py    the knobs themselves, one frozen dataclass: the place to add one
    load.py     defaults, preset, TOML file, environment, command line, in that order; the last one to speak wins
    address.py  HOST:PORT
    places.py   where objects and ledger are when nothing is said

One naming rule: `data_dir` in the TOML file is `RUNNEL_DATA_DIR` in the environment and `--data-dir` on the command
line. A name that does not exist is refused with the nearest one that does.
"""

from runnel.settings.address import Address
from runnel.settings.knob import Knob, described
from runnel.settings.knobs import Settings
from runnel.settings.load import Loaded, load, nearest

__all__ = ["Address", "Knob", "Loaded", "Settings", "described", "load", "nearest"]
