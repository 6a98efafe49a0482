"""The folder of one node: made on first use, marked with the version of its layout, used by one process at a time.

    runnel.json   {"format": 1, "made_by": "0.1.0"}: a program that does not know the format leaves the folder alone
    node.lock     held (flock) as long as a node runs here; its text is the process id, for people
    node.json     {"node": 0, "incarnation": "…"}: who ran here last, so that its successor takes its place at once;
                  node-1.json and so on for the further processes of a node

What lies beside them belongs to the parts that were chosen: `ledger.sqlite`, `objects/`.
"""

import errno
import fcntl
import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from runnel.errors import Corrupt, Refused
from runnel.version import __version__

FORMAT = 1
MARKER = "runnel.json"
LOCK = "node.lock"
IDENTITY = "node.json"

_REASONS = {
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.ENOTDIR: "a part of the path is a file",
    errno.EEXIST: "it is a file",
}


class DataDir:
    """An opened data directory. `with DataDir.open(path) as data_dir:` lets go of it at the end."""

    def __init__(self, path: Path, lock: int, number: int = 0) -> None:
        self.path = path
        self._lock = lock
        self._identity = f"node-{number}.json" if number else IDENTITY

    @classmethod
    def open(cls, path: Path) -> Self:
        """Make or enter the folder; `Refused` where that cannot be, with what to do."""
        path = path.absolute()
        lock = -1
        try:
            path.mkdir(parents=True, exist_ok=True)
            check_marker(path)
            lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            _take(lock, path)
            if not (path / MARKER).exists():
                _write_marker(path)
        except OSError as error:
            if lock >= 0:
                os.close(lock)
            reason = _REASONS.get(error.errno or 0, error.strerror or str(error))
            raise Refused(
                f"data directory '{path}' cannot be used, {reason}: mend that, or choose another with --data-dir"
            ) from None
        except BaseException:
            if lock >= 0:
                os.close(lock)
            raise
        return cls(path, lock)

    def of_process(self, number: int) -> "DataDir":
        """The same folder for one process of a node that has several; its lock is held by the one that opened it."""
        return DataDir(self.path, -1, number)

    def identity(self) -> tuple[int, bytes] | None:
        """The number and incarnation of the node that ran here last; it is dead, for the folder is ours now."""
        try:
            facts = json.loads((self.path / self._identity).read_text(encoding="utf-8"))
            return int(facts["node"]), bytes.fromhex(facts["incarnation"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # without it, a node waits for the old lease to run out

    def remember(self, node: int, incarnation: bytes) -> None:
        """Who runs here now."""
        _write_whole(self.path, self._identity, {"node": node, "incarnation": incarnation.hex()})

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_marker(path: Path) -> None:
    """Nothing, if this program may work in the folder. A folder without a marker is new."""
    try:
        marker = json.loads((path / MARKER).read_text(encoding="utf-8"))
        found, made_by = int(marker["format"]), str(marker.get("made_by", "an unknown version"))
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError):
        raise Corrupt(
            f"'{path / MARKER}' is not readable as a marker: restore it, or choose another folder with --data-dir"
        ) from None
    if found > FORMAT:
        raise Refused(
            f"data directory '{path}' belongs to a newer version (format {found}, made by runnel {made_by}; "
            f"this is {__version__}, format {FORMAT}): upgrade, or choose another folder with --data-dir"
        )


def _take(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip()
        raise Refused(
            f"data directory '{path}' is in use by process {holder or 'unknown'}: "
            f"stop that node, or choose another folder with --data-dir"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _write_marker(path: Path) -> None:
    _write_whole(path, MARKER, {"format": FORMAT, "made_by": __version__})


def _write_whole(path: Path, name: str, facts: dict[str, Any]) -> None:
    """Whole or not at all, whatever happens to the machine."""
    fresh = path / f"{name}.new"
    with fresh.open("w", encoding="utf-8") as file:
        file.write(json.dumps(facts) + "\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path / name)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
