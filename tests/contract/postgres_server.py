"""A real PostgreSQL server for the tests: an own directory, a free port of 127.0.0.1, ended by its process id.

PostgreSQL refuses to run as root, so root hands the server to the user `postgres` (or `nobody`). Syncing is off: these
tests are about order and errors, and the machine is shared.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

PASSWORD = "open-sesame"


def binaries() -> Path | None:
    """The directory with `initdb` and `postgres`, of the newest version that is installed."""
    candidates = sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name.split(".")[0]), reverse=True
    )
    if (on_path := shutil.which("initdb")) is not None:
        candidates.append(Path(on_path).resolve().parent)
    for candidate in candidates:
        if (candidate / "initdb").exists() and (candidate / "postgres").exists():
            return candidate
    return None


def _somebody() -> tuple[int, int] | None:
    """Whom root lets run the server."""
    if os.getuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return entry.pw_uid, entry.pw_gid
    raise RuntimeError("no user to run PostgreSQL as")


class PostgresServer:
    def __init__(self, bin_directory: Path, *, fsync: bool = False) -> None:
        self._bin = bin_directory
        self._fsync = "on" if fsync else "off"
        self._user = _somebody()
        # Not under pytest's tmp_path, whose parents only root may enter.
        self.directory = Path(tempfile.mkdtemp(prefix="runnel-postgres-"))
        if self._user is not None:
            os.chown(self.directory, *self._user)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        password_file = self.directory / "password"
        password_file.write_text(PASSWORD)
        if self._user is not None:
            os.chown(password_file, *self._user)
        self._run(
            "initdb", "-D", str(self.data), "-U", "runnel", "--auth=scram-sha-256", f"--pwfile={password_file}",
            "--no-sync", "--encoding=UTF8", "--locale=C",
        )  # fmt: skip
        self.process: subprocess.Popen | None = None
        self.start()

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def url(self, *, database: str = "postgres", password: str = PASSWORD, more: str = "") -> str:
        return f"postgresql://runnel:{password}@127.0.0.1:{self.port}/{database}{more}"

    def _as_somebody(self) -> dict:
        if self._user is None:
            return {"cwd": self.directory}
        uid, gid = self._user
        return {"cwd": self.directory, "user": uid, "group": gid, "extra_groups": []}

    def _run(self, program: str, *args: str) -> None:
        done = subprocess.run([self._bin / program, *args], capture_output=True, check=False, **self._as_somebody())
        assert done.returncode == 0, done.stderr.decode()

    def start(self) -> None:
        log = (self.directory / "log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [
                    self._bin / "postgres", "-D", self.data, "-p", str(self.port), "-c", "listen_addresses=127.0.0.1",
                    "-c", "unix_socket_directories=", "-c", f"fsync={self._fsync}", "-c", "shared_buffers=32MB",
                    "-c", "max_connections=60",
                ],
                stdout=log, stderr=log, **self._as_somebody(),
            )  # fmt: skip
        for _ in range(600):
            assert self.process.poll() is None, (self.directory / "log").read_text()
            pid_file = self.data / "postmaster.pid"
            if pid_file.exists() and pid_file.read_text().rstrip().endswith("ready"):
                return
            time.sleep(0.05)
        raise RuntimeError("PostgreSQL did not get ready")

    def stop(self, how: int = signal.SIGINT) -> None:
        """SIGINT ends it fast and cleanly, SIGQUIT at once as a crash would."""
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait(30)
            self.process = None

    def remove(self) -> None:
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)
