"""From words to a command, and from errors to one line and an exit code.

    2  Refused, and words that make no command      5  Fenced
    3  Unavailable                                  6  Corrupt
    4  Uncertain                                    130, 141  interrupted; nobody reads our output

`runnel --help` imports no command; a command's own help imports that command alone.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from types import ModuleType
from typing import NoReturn

from runnel.errors import Corrupt, Fenced, Refused, RunnelError, Unavailable, Uncertain
from runnel.ui.cli.commands import COMMANDS, Command
from runnel.ui.cli.house import House
from runnel.version import __version__

EXITS: tuple[tuple[type[RunnelError], int], ...] = (
    (Refused, 2),
    (Unavailable, 3),
    (Uncertain, 4),
    (Fenced, 5),
    (Corrupt, 6),
)


class Parser(argparse.ArgumentParser):
    """Refuses in our words, with the nearest right option."""

    def __init__(self, **options: object) -> None:
        super().__init__(**{"allow_abbrev": False, **options})  # type: ignore[arg-type]

    def error(self, message: str) -> NoReturn:
        raise Refused(f"{message}: '{self.prog} --help' explains")

    def options(self) -> list[str]:
        return [word for action in self._actions for word in action.option_strings]


def run(words: Sequence[str], house: House) -> int:
    """Do what the words say; the exit code."""
    try:
        return _run(words, house)
    except RunnelError as error:
        print(f"runnel: {error}", file=sys.stderr)
        return next(code for kind, code in EXITS if isinstance(error, kind))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has left. Python would complain once more while flushing: let it flush to nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _run(words: Sequence[str], house: House) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"runnel {__version__}")
        return 0
    command = next((command for command in COMMANDS if command.name == words[0]), None)
    if command is None:
        raise Refused(f"there is no command {words[0]!r}{_nearest(words[0], [known.name for known in COMMANDS])}")
    module = importlib.import_module(command.place)
    if command.hands_on:
        return int(module.run(list(words[1:]), house))
    parser = parser_of(command, module)
    args, rest = parser.parse_known_args(words[1:])
    if rest:
        known = getattr(args, "parser", parser)
        raise Refused(f"{known.prog}: unknown {_what(rest[0])} {rest[0]!r}{_nearest(rest[0], known.options())}")
    return int(module.run(args, house))


def parser_of(command: Command, module: ModuleType) -> Parser:
    """The parser of one command."""
    summary, _, more = (module.__doc__ or "").strip().partition("\n")
    parser = Parser(
        prog=f"runnel {command.name}",
        description=f"{summary}\n{more}".strip(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.register(parser)
    return parser


def overview() -> str:
    """What `runnel --help` prints."""
    width = max(len(command.name) for command in COMMANDS) + 2
    lines = ["A stream and a table, one set of data.", "", "usage: runnel COMMAND [OPTIONS]", ""]
    lines += [f"  {command.name:<{width}}{command.sentence}" for command in COMMANDS]
    lines += ["", "'runnel COMMAND --help' explains a command."]
    return "\n".join(lines)


def _what(word: str) -> str:
    return "option" if word.startswith("-") else "word"


def _nearest(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word.partition("=")[0], known, n=1, cutoff=0.6)
    return f": did you mean {close[0]!r}?" if close else ": see --help"
