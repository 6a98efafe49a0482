"""What people get wrong: one clear line that names the thing and the next step, an exit code, no stack trace."""

import errno
import http.server
import json
import os
import re
import socket
import threading

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
        (
            ["serve", "--objects", "ftp://x"],
            "object store address 'ftp://x' begins with none of memory://, file://, s3://",
        ),
        (["serve", "--objects", "file://x/y"], "names a host; write file:///x/y"),
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


def test_an_object_store_that_nobody_serves_is_named_with_its_address(runnel, free_port):
    endpoint = f"http://127.0.0.1:{free_port}"
    login = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "hunter2"}
    line = one_line(runnel("serve", "--objects", f"s3://bucket/x?endpoint={endpoint}", **login), code=3)
    assert f"s3://bucket/x at {endpoint}" in line
    assert "connection refused" in line
    assert "hunter2" not in line


class Refusing(http.server.BaseHTTPRequestHandler):
    """An S3 that knows nobody."""

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        body = b"<Error><Code>InvalidAccessKeyId</Code><Message>no</Message></Error>"
        self.send_response(403)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self):
        self.do_PUT()

    def log_message(self, *_):
        pass


def test_wrong_credentials_are_named_with_the_place_to_mend_them(runnel):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            url = f"s3://bucket/x?endpoint=http://127.0.0.1:{server.server_port}"
            login = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "hunter2"}
            line = one_line(runnel("serve", "--objects", url, **login))
        finally:
            server.shutdown()
            serving.join()
    assert "403 InvalidAccessKeyId" in line
    assert "AWS_" in line
    assert "hunter2" not in line


def test_a_database_that_nobody_serves_is_named(runnel, free_port):
    done = runnel("serve", "--ledger", f"postgresql://ann:hunter2@127.0.0.1:{free_port}/x")
    line = one_line(done, code=done.returncode)
    assert done.returncode in (2, 3)
    assert f"127.0.0.1:{free_port}" in line
    assert "hunter2" not in line


def test_a_folder_with_odd_characters_is_a_folder_like_any_other(start, tmp_path):
    node = start("--data-dir", "a b%20c?d#e")
    assert node.stop()[0] == 0
    assert (tmp_path / "a b%20c?d#e/ledger.sqlite").exists()
    assert (tmp_path / "a b%20c?d#e/objects").is_dir()
