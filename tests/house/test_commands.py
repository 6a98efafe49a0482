import asyncio
import json
import re
import tomllib
from pathlib import Path

import pytest

from runnel import Engine, Record, __version__
from runnel.errors import Corrupt, Fenced, Refused, Unavailable, Uncertain
from runnel.model import ROOT
from runnel.settings import Settings, described
from runnel.ui.cli import main
from runnel.ui.cli.commands import COMMANDS, Command


def test_without_words_the_commands_are_listed(runnel):
    done = runnel()
    assert done.returncode == 0
    assert done.stdout == runnel("--help").stdout
    for command in COMMANDS:
        assert f"  {command.name} " in done.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_explains_itself(runnel, command):
    done = runnel(command.name, "--help")
    assert done.returncode == 0
    assert done.stdout.startswith("usage: ")


def test_the_version_is_that_of_the_package(runnel):
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["version"] == __version__
    assert runnel("--version").stdout == runnel("version").stdout == f"runnel {__version__}\n"
    assert json.loads(runnel("version", "--json").stdout)["runnel"] == __version__


def test_config_tells_where_each_value_came_from(runnel, tmp_path):
    (tmp_path / "my.toml").write_text('log_level = "error"\npreset = "large"\n')
    done = runnel("config", "--config", "my.toml", "--http", ":9", RUNNEL_ZONE="here")
    rows = {line.split()[0]: re.split(r"  +", line) for line in done.stdout.splitlines()}
    assert rows["http"] == ["http", '":9"', "--http"]
    assert rows["zone"] == ["zone", '"here"', "RUNNEL_ZONE"]
    assert rows["log_level"] == ["log_level", '"error"', "my.toml"]
    assert rows["log_format"] == ["log_format", '"json"', "preset large"]
    assert rows["drain_ms_max"] == ["drain_ms_max", "10000 ms", "default"]
    facts = json.loads(runnel("config", "--json").stdout)
    assert facts["http"] == {"value": "127.0.0.1:8080", "origin": "default", "env": "RUNNEL_HTTP"}


def test_the_file_that_config_prints_can_be_read_back(runnel, tmp_path):
    text = runnel("config", "--toml", "--zone", 'a "b"').stdout
    (tmp_path / "my.toml").write_text(text)
    again = json.loads(runnel("config", "--json", "--config", "my.toml").stdout)
    assert again["zone"]["value"] == 'a "b"'
    everything = tomllib.loads(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE))
    assert set(everything) == set(described(Settings))


def test_doctor_finds_nothing_wrong_in_an_empty_folder_and_makes_nothing(runnel, tmp_path):
    done = runnel("doctor", "--json", "--http", "127.0.0.1:0")
    assert done.returncode == 0, done.stdout
    states = {finding["what"]: finding["state"] for finding in json.loads(done.stdout)}
    assert {"python", "data_dir", "objects", "ledger", "http"} <= set(states)
    assert "bad" not in states.values()
    assert list(tmp_path.iterdir()) == []


def test_doctor_names_what_is_wrong(runnel, tmp_path):
    (tmp_path / "file").write_text("")
    done = runnel("doctor", "--data-dir", "file", "--objects", "memory://", "--ledger", "nope:")
    assert done.returncode == 1
    assert re.search(r"data_dir +bad +'.*file' (is no folder|cannot be read)", done.stdout)
    assert re.search(r"ledger +bad +.*none of memory:", done.stdout)
    assert re.search(r"objects +good +answers", done.stdout)


@pytest.mark.parametrize(
    ("error", "code"),
    [(Refused, 2), (Unavailable, 3), (Uncertain, 4), (Fenced, 5), (Corrupt, 6), (KeyboardInterrupt, 130)],
)
def test_each_kind_of_error_has_an_exit_code(monkeypatch, capsys, error, code):
    class Failing:
        @staticmethod
        def run(_words, _house):
            raise error("it went wrong")

    monkeypatch.setattr(main, "COMMANDS", (Command("fail", "fails", hands_on=True),))
    monkeypatch.setattr(main.importlib, "import_module", lambda _: Failing)
    assert main.run(["fail"], None) == code
    assert capsys.readouterr().err == ("" if code == 130 else "runnel: it went wrong\n")


def test_doctor_brings_up_the_shards_and_names_what_is_damaged(runnel, tmp_path):
    places = {"objects": f"file://{tmp_path}/objects", "ledger": f"sqlite://{tmp_path}/ledger"}

    async def fill():
        async with Engine(**places, shards=2) as engine:
            topic = await engine.topics.create("orders", 2)
            await engine.append_records(topic.streams[0], [Record(None, b"x")])
            await engine.shards.follower(ROOT).checkpoint()

    def doctor():
        words = [word for name, url in places.items() for word in (f"--{name}", url)]
        done = runnel("doctor", "--json", "--whole", "--http", "127.0.0.1:0", *words)
        return done.returncode, {(each["what"], each["state"]): each["says"] for each in json.loads(done.stdout)}

    asyncio.run(fill())
    code, found = doctor()
    assert code == 0
    assert "2 and the root" in found["shards", "good"]
    assert "every byte of 1 checked" in found["objects", "good"]
    (checkpoint,) = (tmp_path / "objects" / "checkpoints" / "00000").iterdir()
    (wal,) = (tmp_path / "objects" / "wal").iterdir()
    for damaged in (checkpoint, wal):
        damaged.chmod(0o644)
        damaged.write_bytes(damaged.read_bytes()[:-1])
    code, found = doctor()
    assert code == 1
    assert f"checkpoints/00000/{checkpoint.name} fails its checksum" in found["shard 0", "note"]
    assert f"wal/{wal.name} does not end like a write-ahead object" in found["objects", "bad"]


def test_a_benchmarks_name_alone_runs_it(runnel):
    assert "there is no benchmark 'nope'" in runnel("bench", "nope").stderr
    assert "engine " in runnel("bench", "list").stdout
