"""Makes the pages of docs/ that say what the code says: settings, command line, errors, metrics, the Kafka surface.

python tools/make_docs.py            write them
python tools/make_docs.py --check    exit 1 and name those that are stale
"""

import argparse
import asyncio
import importlib
import inspect
import json
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from runnel import errors, wiring
from runnel.api.problems import problem_of
from runnel.broker.broker import Broker
from runnel.broker.server import KafkaServer
from runnel.broker.versions import PRODUCE, PRODUCE_REFUSED_UP_TO
from runnel.codec.apis import APIS
from runnel.engine import Engine
from runnel.metadata.topic_settings import TOPIC_SETTINGS
from runnel.settings import Settings, described
from runnel.settings.knob import PRESETS
from runnel.ui.cli.commands import COMMANDS
from runnel.ui.cli.main import EXITS, parser_of

DOCS = Path(__file__).parents[1] / "docs"
NOTE = "<!-- Made by `make docs` from the code. Changes here are lost. -->\n"


def settings_page() -> str:
    lines = [
        "# Settings",
        "",
        "One name, three spellings: `data_dir` in a TOML file (`--config FILE` or `RUNNEL_CONFIG`), `RUNNEL_DATA_DIR`",
        "in the environment, `--data-dir` on the command line. The last to speak wins, in this order: default, preset,",
        "file, environment, command line. `runnel config` prints each value and where it came from;",
        "`runnel config --toml` prints a file to start from.",
        "",
        "Sizes may be written as `4MiB`, durations as `250ms`, `2s`, `1h`. A name that does not exist is refused with",
        "the nearest one that does.",
        "",
    ]
    for knob in described(Settings).values():
        kind = knob.knob.unit or {"str": "text", "int": "number", "bool": "true or false"}.get(
            knob.kind.__name__, "number"
        )
        facts = [("default", _code(knob.default)), ("kind", "choice" if knob.choices else kind)]
        if knob.bounds():
            facts.append(("allowed", knob.bounds()))
        facts += [(f"preset {name}", _code(knob.knob.presets[name])) for name in PRESETS if name in knob.knob.presets]
        lines += [f"## `{knob.name}`", "", knob.knob.sentence, ""]
        lines += [f"- {name}: {value}" for name, value in facts]
        lines += [f"- `{knob.env}`, `{knob.flag}`", ""]
    return "\n".join(lines)


def _code(value: object) -> str:
    return "empty" if value == "" else f"`{json.dumps(value)}`"


def _subparsers_of(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001  as below
    return [each for group in groups for each in group.choices.values()]


def _options_of(parser: argparse.ArgumentParser) -> list[str]:
    lines: list[str] = []
    every_knob = sum(action.dest.startswith("knob_") for action in parser._actions) > 1  # noqa: SLF001  as below
    for action in parser._actions:  # noqa: SLF001  argparse has no public list of its options
        if action.dest == "help" or isinstance(action, argparse._SubParsersAction):  # noqa: SLF001  as above
            continue
        name = (
            ", ".join(f"`{word}`" for word in action.option_strings)
            or f"`{action.metavar or ' | '.join(action.choices or [action.dest])}`"
        )
        if action.option_strings and action.metavar:
            name += f" *{action.metavar}*"
        elif action.option_strings and action.choices:
            name += f" *{' | '.join(action.choices)}*"
        if every_knob and action.dest.startswith("knob_"):
            if not lines or "and every setting" not in lines[-1]:
                lines.append("- and every setting, see [settings](settings.md)")
            continue
        lines.append(f"- {name}: {action.help}")
    return lines


def cli_page() -> str:
    lines = [
        "# The command line",
        "",
        "`runnel COMMAND --help` explains a command. Every error is one line on standard error: what failed, on what,",
        "and the next step. Commands that print facts print JSON with `--json`.",
        "",
    ]
    for command in COMMANDS:
        lines += [f"## `runnel {command.name}`", "", f"{command.sentence[0].upper()}{command.sentence[1:]}.", ""]
        if command.hands_on:
            lines += [f"Reads its own options: `runnel {command.name} --help`.", ""]
            continue
        parser = parser_of(command, importlib.import_module(command.place))
        _, _, more = (parser.description or "").partition("\n")
        lines += [more.strip(), ""] if more.strip() else []
        lines += _options_of(parser)
        for action in _subparsers_of(parser):
            lines += ["", f"### `{action.prog}`", "", f"{action.description}", "", *_options_of(action)]
        lines.append("")
    return "\n".join(lines)


def errors_page() -> str:
    lines = [
        "# Errors",
        "",
        "Every error that Runnel raises on purpose is of one of these kinds, named after what its reader should do next.",
        "",
        "| kind | means | HTTP | exit code |",
        "|---|---|---|---|",
    ]
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if kind is errors.RunnelError or not issubclass(kind, errors.RunnelError):
            continue
        parent = kind.__mro__[1]
        of = "" if parent is errors.RunnelError else f", a kind of `{parent.__name__}`"
        code = next(code for each, code in EXITS if issubclass(kind, each))
        lines.append(f"| `{name}`{of} | {inspect.getdoc(kind)} | {problem_of(kind('')).status} | {code} |")
    lines += [
        "",
        "On HTTP an error is a problem document (RFC 9457), `application/problem+json`, with the kind in lower case as",
        "`kind`. A mistake of our own is a 500 that says nothing about itself; its whole story is in the log as",
        "`request_failed` or `task_died`.",
        "",
    ]
    return "\n".join(lines)


def metrics_page() -> str:
    async def families() -> list[tuple[str, str, tuple[str, ...], str]]:
        settings = Settings(objects="memory://", ledger="memory:", http="127.0.0.1:0")
        async with AsyncExitStack() as parts:
            node = await wiring.build(settings, parts)
            return [(each.name, each.kind, each.labels, each.sentence) for each in node.world.metrics]

    lines = [
        "# Metrics",
        "",
        "A node serves these at `/metrics` in the Prometheus text format. A family keeps at most 1,000 combinations of",
        "labels; what comes later is counted under `other`.",
        "",
        "| name | kind | labels | says |",
        "|---|---|---|---|",
    ]
    for name, kind, labels, sentence in asyncio.run(families()):
        lines.append(f"| `{name}` | {kind} | {', '.join(labels)} | {sentence} |")
    return "\n".join([*lines, ""])


def kafka_page() -> str:
    async def offered() -> dict[int, tuple[int, int]]:
        async with Engine() as engine:
            broker = Broker.of(engine, Settings())
            KafkaServer(broker)
            return dict(broker.versions)

    versions = asyncio.run(offered())
    lines = [
        "# What Kafka clients find",
        "",
        "## APIs",
        "",
        'What ApiVersions offers. "Kafka" is Apache Kafka 4.2; an API or a version that is not offered closes the',
        "connection when it is used all the same, as in Kafka.",
        "",
        "| key | API | here | Kafka |",
        "|---|---|---|---|",
    ]
    for key, api in APIS.items():
        here = _span(*versions[key]) if key in versions else "not yet"
        if key == PRODUCE:
            here += f" (0 to {PRODUCE_REFUSED_UP_TO} are listed and refused, as in Kafka)"
        lines.append(f"| {key} | {api.name} | {here} | {_span(api.first, api.last)} |")
    lines += [
        "",
        "## Topic settings",
        "",
        "Every name that Apache Kafka knows is taken, checked, kept and given back. What is not honoured says why in its",
        "documentation, which DescribeConfigs and `runnel topic describe` tell.",
        "",
        "| setting | default | honoured | says |",
        "|---|---|---|---|",
    ]
    for setting in TOPIC_SETTINGS.values():
        default = f"`{setting.default}`" if setting.default else "empty"
        lines.append(
            f"| `{setting.name}` | {default} | {'yes' if setting.honoured else 'no'} | {setting.documentation} |"
        )
    return "\n".join([*lines, ""])


def _span(first: int, last: int) -> str:
    return f"{first}" if first == last else f"{first} to {last}"


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "cli.md": cli_page,
    "errors.md": errors_page,
    "metrics.md": metrics_page,
    "kafka.md": kafka_page,
}


def stale() -> list[str]:
    """The pages that say something else than the code."""
    return [
        name
        for name, page in PAGES.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text(encoding="utf-8") != NOTE + page()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        for name in (wrong := stale()):
            print(f"docs/{name} is stale: make docs")
        sys.exit(bool(wrong))
    for name, page in PAGES.items():
        (DOCS / name).write_text(NOTE + page(), encoding="utf-8")


if __name__ == "__main__":
    main()
