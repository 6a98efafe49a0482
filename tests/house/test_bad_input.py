"""What people get wrong: one clear line that names the thing and the next step, an exit code, no stack trace."""

import errno
import json
import os
import re
import socket

import pytest

from runnel import __version__
from runnel.errors import Refused
from runnel.world import data_dir


def one_line(done, *, code=2):
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    lines = [line for line in done.stderr.splitlines() if " info " not in line]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("runnel: ")
    assert "Traceback" not in done.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["srve"], "there is no command 'srve': did you mean 'serve'?"),
        (["serve", "--htpt", ":1"], "runnel serve: unknown option '--htpt': did you mean '--http'?"),
        (["serve", "--htpt=:1"], "did you mean '--http'?"),
        (["serve", "what"], "runnel serve: unknown word 'what': see --help"),
        (["serve", "--http"], "expected one argument: 'runnel serve --help' explains"),
        (["serve", "--http", "8080"], "'8080' is not an address: write HOST:PORT"),
        (
            ["serve", "--drain-ms-max", "soon"],
            "setting 'drain_ms_max' from --drain-ms-max: 'soon' is not a whole number",
        ),
        (["serve", "--config", "nope.toml"], "config file 'nope.toml' does not exist: create it, or name another"),
        (["serve", "--objects", "ftp://x"], "objects 'ftp://x' has an unknown scheme: write file:///folder, s3://"),
        (["serve", "--objects", "file://x"], "names no absolute path"),
        (["serve", "--ledger", "mysql://x"], "none of memory:, sqlite:///PATH, postgresql://"),
        (["serve", "--http", "192.0.2.1:80"], "http address 192.0.2.1:80 is no address of this machine"),
        (["log", "inspect", "wal/1"], "'wal/1'"),
    ],
)
def test_wrong_words_are_refused_by_name(runnel, words, says):
    assert says in one_line(runnel(*words))


def test_a_malformed_config_file_is_named_with_the_line(runnel, tmp_path):
    (tmp_path / "my.toml").write_text('zone = "a"\nhttp = \nledger = "memory:"\n')
    line = one_line(runnel("serve", "--config", "my.toml"))
    assert "config file 'my.toml' is not valid TOML: invalid value (at line 2" in line


def test_a_mistyped_setting_is_refused_wherever_it_stands(runnel, tmp_path):
    (tmp_path / "my.toml").write_text('htttp = ":1"\n')
    assert "there is no setting 'htttp': did you mean 'http'?" in one_line(runnel("config", "--config", "my.toml"))
    assert "did you mean 'RUNNEL_HTTP'?" in one_line(runnel("config", RUNNEL_HTTTP=":1"))


def test_a_port_in_use_is_named_with_its_option(runnel):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = one_line(runnel("serve", "--http", address))
    assert f"http address {address} is in use: stop what listens there, or choose another with --http" in line


def test_a_data_directory_that_is_a_file_is_named(runnel, tmp_path):
    (tmp_path / "file").write_text("")
    line = one_line(runnel("serve", "--data-dir", "file"))
    assert f"data directory '{tmp_path}/file' cannot be used" in line
    assert "choose another with --data-dir" in line
    assert "cannot be used" in one_line(runnel("serve", "--data-dir", "file/below"))


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "the file system is read-only"),
        (errno.ENOSPC, "the disk is full"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_data_directory_that_cannot_be_written_is_refused_with_the_reason(tmp_path, monkeypatch, number, says):
    def fail(*_args, **_more):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(data_dir.os, "open", fail)
    with pytest.raises(Refused, match=f"{says}: mend that, or choose another with --data-dir"):
        data_dir.DataDir.open(tmp_path / "data")


def test_a_data_directory_of_a_newer_version_is_left_alone(runnel, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/runnel.json").write_text(json.dumps({"format": 99, "made_by": "7.0"}))
    line = one_line(runnel("serve", "--data-dir", "data"))
    assert "belongs to a newer version (format 99, made by runnel 7.0" in line
    assert __version__ in line
    assert sorted(file.name for file in (tmp_path / "data").iterdir()) == ["runnel.json"]


def test_a_marker_that_is_not_readable_stops_the_node(runnel, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/runnel.json").write_text("{")
    assert "is not readable as a marker" in one_line(runnel("serve", "--data-dir", "data"), code=6)


def test_two_nodes_do_not_share_a_data_directory(runnel, start):
    node = start()
    line = one_line(runnel("serve", "--http", "127.0.0.1:0"))
    assert f"is in use by process {node.process.pid}: stop that node" in line


def test_a_password_in_a_url_is_not_repeated(runnel):
    done = runnel("serve", "--objects", "ftp://ann:hunter2@host/x")
    assert "hunter2" not in one_line(done)
    assert "hunter2" not in runnel("config", "--ledger", "postgresql://ann:hunter2@host/x").stdout


def test_a_reader_that_leaves_is_no_error(tmp_path):
    import subprocess
    import sys

    command = f"{sys.executable} -m runnel config --toml | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert re.fullmatch(r"# .+\n", done.stdout)
    assert done.stderr == ""
